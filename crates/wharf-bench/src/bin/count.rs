//! Runs one case a given number of times, for an instruction counter outside: `count CASE TIMES`.
//!
//! Two runs that differ in TIMES alone differ by that many times the case; everything else cancels. What
//! remains of the harness is the loop and that somebody looks at the result (`floor/nothing`), in every
//! case alike. Operands lie in memory of which the optimiser knows nothing.
//!
//! `count sizes` prints the sizes of types on this host.

use std::cell::Cell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_backend::{BackendExt, MemBackend, SegmentMut, ShardedPool, SlotControl, StaticPool};
use wharf_bench::{Lifo, Run, SpinLifo, Window, types};
use wharf_engine::Access;
use wharf_segment::{Segment, View};
use wharf_source::HeapSource;
use wharf_sync::{Critical, NoClock, Spin, SyncPolicy, Unsync};
use wharf_tensor::{Parts, Tensor, TraceRing};

type Pool<P> = StaticPool<P, 64, 16>;
type Case = (&'static str, fn(u64));

/// Interrupts off and on again, as two instructions of a core would: the floor of a critical section.
struct Masked;
critical_section::set_impl!(Masked);
static MASK: AtomicBool = AtomicBool::new(false);
// SAFETY: this program has one thread and no interrupts, so there is nothing to exclude.
unsafe impl critical_section::Impl for Masked {
    #[inline]
    unsafe fn acquire() -> bool {
        let before = MASK.load(Ordering::Relaxed);
        MASK.store(true, Ordering::Relaxed);
        before
    }
    #[inline]
    unsafe fn release(before: bool) {
        MASK.store(before, Ordering::Relaxed);
    }
}

const CASES: &[Case] = &[
    ("floor/nothing", |times| {
        let two_words = black_box((1usize, 2usize));
        for _ in 0..times {
            hold(two_words);
        }
    }),
    ("floor/lifo", |times| {
        let pool = Lifo::<64, 16>::default();
        let pool = black_box(&pool);
        for _ in 0..times {
            hold(pool.alloc());
        }
    }),
    ("floor/lifo-critical", |times| {
        let pool = Lifo::<64, 16>::default();
        let pool = black_box(&pool);
        for _ in 0..times {
            let handle = critical_section::with(|_| pool.alloc());
            black_box(&handle);
            critical_section::with(|_| drop(handle));
        }
    }),
    ("floor/lifo-spin", |times| {
        let pool = SpinLifo::<64, 16>::default();
        let pool = black_box(&pool);
        for _ in 0..times {
            hold(pool.alloc());
        }
    }),
    ("unique/unsync", |times| unique::<Unsync>(times)),
    ("unique/critical", |times| unique::<Critical>(times)),
    ("shared/unsync", |times| {
        shared(&Pool::<Unsync>::fresh(), times);
    }),
    ("shared/unsync-erased", |times| {
        let pool = Pool::<Unsync>::fresh();
        let pool: &dyn MemBackend<Policy = Unsync> = &pool;
        shared(pool, times);
    }),
    ("shared/spin", |times| shared(&Pool::<Spin>::fresh(), times)),
    ("shared/spin-sharded", |times| {
        let mut slab = [MaybeUninit::uninit(); 16 * 64];
        let mut control = [const { SlotControl::<Spin>::NEW }; 16];
        let pool = ShardedPool::<_, 2>::new(&mut slab, &mut control, 64, 8);
        shared(&pool.expect("16 slots"), times);
    }),
    ("clone+drop/unsync", |times| clone_drop::<Unsync>(times)),
    ("clone+drop/critical", |times| clone_drop::<Critical>(times)),
    ("clone+drop/arc", |times| {
        let arc = black_box(std::sync::Arc::new([0u8; 64]));
        for _ in 0..times {
            hold(arc.clone());
        }
    }),
    ("clone+drop/rc", |times| {
        let rc = black_box(std::rc::Rc::new([0u8; 64]));
        for _ in 0..times {
            hold(rc.clone());
        }
    }),
    ("floor/window", |times| {
        let (run, owner) = (Run::default(), Cell::new(0));
        let window = black_box(Window::new(&run, &owner, 64));
        let range = black_box(&RANGE);
        for _ in 0..times {
            hold(window.slice(range.0..range.1));
        }
    }),
    ("view-slice+drop/unsync", |times| view::<Unsync>(times)),
    ("view-slice+drop/critical", |times| view::<Critical>(times)),
    ("ticket/critical", |times| {
        type Target = Parts<&'static Pool<Critical>, HeapSource>;
        static POOL: Pool<Critical> = StaticPool::new();
        let target = Target::new(HeapSource);
        let tensor = Tensor::alloc(&target, &POOL, 64).expect("a slot");
        let stream = wharf_engine::Stream::claim().expect("a stream");
        let tensor = black_box(&tensor);
        for _ in 0..times {
            hold(tensor.begin(Access::Write, stream.id()).ok());
        }
    }),
    ("tensor-write-64/critical", |times| {
        type Target = Parts<&'static Pool<Critical>, HeapSource>;
        static POOL: Pool<Critical> = StaticPool::new();
        let target = Target::new(HeapSource);
        let tensor = Tensor::alloc(&target, &POOL, 64).expect("a slot");
        let tensor = black_box(&tensor);
        for _ in 0..times {
            let _ = black_box(tensor.write(0, black_box(&[1; 64])));
        }
    }),
    ("tensor-read-64/critical", |times| {
        type Target = Parts<&'static Pool<Critical>, HeapSource>;
        static POOL: Pool<Critical> = StaticPool::new();
        let target = Target::new(HeapSource);
        let tensor = Tensor::alloc(&target, &POOL, 64).expect("a slot");
        let (tensor, mut to) = (black_box(&tensor), [0; 64]);
        for _ in 0..times {
            let _ = black_box(tensor.read(0, black_box(&mut to)));
        }
    }),
    ("tensor-write-64/critical-erased", |times| {
        type Erased = &'static (dyn MemBackend<Policy = Critical> + Sync);
        type Target = Parts<Erased, HeapSource>;
        static POOL: Pool<Critical> = StaticPool::new();
        let target = Target::new(HeapSource);
        let tensor = Tensor::alloc(&target, &POOL, 64).expect("a slot");
        let tensor = black_box(&tensor);
        for _ in 0..times {
            let _ = black_box(tensor.write(0, black_box(&[1; 64])));
        }
    }),
    ("tensor-write-64/critical-ring", |times| {
        type Ring = TraceRing<Critical, 64>;
        type Target = Parts<&'static Pool<Critical>, HeapSource, NoClock, &'static Ring>;
        static POOL: Pool<Critical> = StaticPool::new();
        static RING: Ring = TraceRing::empty();
        let target = Target::with(HeapSource, NoClock, &RING);
        let tensor = Tensor::alloc(&target, &POOL, 64).expect("a slot");
        let tensor = black_box(&tensor);
        for _ in 0..times {
            let _ = black_box(tensor.write(0, black_box(&[1; 64])));
        }
    }),
    ("floor/memcpy-64", |times| {
        let mut to = [0u8; 64];
        for _ in 0..times {
            black_box(&mut to[..]).copy_from_slice(black_box(&[1; 64]));
        }
    }),
];

/// What is sliced out of 64 bytes.
const RANGE: (usize, usize) = (8, 24);

/// Lets the optimiser believe that somebody looks at `value`, and drops it.
#[inline]
fn hold<T>(value: T) {
    black_box(&value);
}

fn unique<P: SyncPolicy>(times: u64) {
    let pool = Pool::<P>::fresh();
    let pool = black_box(&pool);
    for _ in 0..times {
        hold(pool.alloc(64).ok());
    }
}

fn shared<B: MemBackend + ?Sized>(pool: &B, times: u64) {
    let pool = black_box(pool);
    for _ in 0..times {
        // SAFETY: 64 bytes nobody reads; a value is assumed so that freezing costs nothing but itself.
        let segment =
            SegmentMut::alloc(pool, 64).map(|s| Segment::from(unsafe { s.assume_init() }));
        hold(segment.ok());
    }
}

fn segment<P: SyncPolicy>(pool: &Pool<P>) -> Segment<&Pool<P>> {
    let unique = pool.alloc(64).expect("a slot");
    Segment::from(unique.filled(0).expect("host memory"))
}

fn clone_drop<P: SyncPolicy>(times: u64) {
    let pool = Pool::<P>::fresh();
    let segment = black_box(segment(&pool));
    for _ in 0..times {
        hold(segment.clone());
    }
}

fn view<P: SyncPolicy>(times: u64) {
    let pool = Pool::<P>::fresh();
    let view = black_box(View::from(segment(&pool)));
    let range = black_box(&RANGE);
    for _ in 0..times {
        hold(view.slice(range.0..range.1).ok());
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (case, times) = (arguments.next(), arguments.next());
    if case.as_deref() == Some("list") {
        for (name, _) in CASES {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    if case.as_deref() == Some("sizes") {
        for (name, bytes) in types::ALL {
            println!("{name} {bytes}");
        }
        return ExitCode::SUCCESS;
    }
    let found = CASES
        .iter()
        .find(|(name, _)| Some(*name) == case.as_deref());
    let times = times.and_then(|times| times.parse().ok());
    let (Some((_, run)), Some(times)) = (found, times) else {
        eprintln!("usage: count list | count sizes | count CASE TIMES");
        return ExitCode::from(2);
    };
    run(times);
    ExitCode::SUCCESS
}
