//! A bounce in memory whose cache lines are maintained: where it is cut, and which ways its lines go.

use super::*;

/// The heap, whose lines of eight bytes are maintained if it says so, and which ways so far.
struct Lines(Heap<Critical>, Mutex<Vec<IoDirection>>, bool);

impl Lines {
    fn new() -> Self {
        Self(Heap::new(), Mutex::default(), true)
    }
}

// SAFETY: the heap's segments, whatever is claimed of their lines.
unsafe impl MemBackend for Lines {
    type Policy = Critical;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Critical>>> {
        self.0.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.0.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Critical>>) {
        // SAFETY: as the caller promises.
        unsafe { self.0.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Critical>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.0.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<Critical>>) -> bool {
        self.0.may_own(header)
    }
    fn caps(&self) -> Caps {
        let mut caps = self.0.caps();
        caps.set(Caps::NEEDS_CACHE_OPS, self.2);
        caps
    }
    unsafe fn before_io(
        &self,
        _: NonNull<Header<Critical>>,
        _: usize,
        _: usize,
        direction: IoDirection,
    ) {
        self.1.lock().unwrap().push(direction);
    }
    fn alignment(&self) -> usize {
        8
    }
    fn max_segment_size(&self) -> usize {
        self.0.max_segment_size()
    }
    fn census(&self) -> Census {
        self.0.census()
    }
    fn name(&self) -> &'static str {
        "lines"
    }
}

#[test]
fn a_bounce_is_cut_between_cache_lines_or_not_at_all() {
    // From, length, and the pieces of 12 bytes: the first half ends with a line, and the smaller half counts.
    for (from, size, pieces) in [(4, 20, 3), (0, 32, 1), (0, 16, 2), (1, 7, 2), (3, 10, 3)] {
        let bench = Bench::new(12);
        let memory: Memory = Arc::new(Lines::new());
        let segment = Tensor::alloc(&bench.target, memory.clone(), 64).unwrap();
        let bounce = segment.slice(from..from + size).unwrap();
        bench.run();
        assert_eq!(bench.copy(&bounce), Ok(()), "{size} from {from}");
        bench.assert_arrived(12);
        let jobs = bench.engines.each_ref().map(|engine| engine.jobs.get());
        assert_eq!(jobs, [pieces; 2], "{size} from {from}");
    }
}

#[test]
fn the_one_engine_writes_the_bounce_and_the_other_reads_it() {
    use IoDirection::{CpuToDevice, DeviceToCpu};
    let bench = Bench::new(12);
    let lines = Arc::new(Lines::new());
    let memory: Memory = lines.clone();
    let bounce = Tensor::alloc(&bench.target, memory.clone(), 16).unwrap();
    bench.run();
    assert_eq!(bench.copy(&bounce), Ok(()));
    // Before a device writes, lines go both ways; before it reads, they go to it. Two pieces, of eight bytes and of four.
    let piece = [CpuToDevice, DeviceToCpu, CpuToDevice];
    assert_eq!(*lines.1.lock().unwrap(), [piece, piece].concat());

    // Where the backend does not ask for it, there is none.
    let bench = Bench::new(12);
    let lines = Arc::new(Lines(Heap::new(), Mutex::default(), false));
    let memory: Memory = lines.clone();
    let bounce = Tensor::alloc(&bench.target, memory.clone(), 16).unwrap();
    bench.run();
    assert_eq!(bench.copy(&bounce), Ok(()));
    assert_eq!(*lines.1.lock().unwrap(), []);
}
