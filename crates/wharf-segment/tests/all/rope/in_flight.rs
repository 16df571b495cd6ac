//! What a device is to read is cleaned, link by link, and no more than that; and the other half of the hooks runs once.

use core::ptr::NonNull;
use std::cell::RefCell;

use wharf_backend::{
    AllocError, AllocHint, BackendExt, Caps, Census, Header, IoDirection, MemBackend, Place,
};
use wharf_engine::{
    Cargo, Command, CpuEngine, EngineExt, Freight, Lent, Manifest, Operand, Operands, Stream,
};
use wharf_segment::{Rope, RopeInFlight, View};
use wharf_sync::{NoClock, Unsync};

use super::{Erased, Pool, erased};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Before(usize, usize),
    After(usize, usize),
}
use Hook::{After, Before};

/// A pool that notes which ranges its hooks were called for.
struct Noted {
    pool: Pool,
    hooks: RefCell<Vec<Hook>>,
    caps: Caps,
}

// SAFETY: everything is the pool's, which moves only with it; the hooks touch no bytes.
unsafe impl MemBackend for Noted {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Unsync>>> {
        self.pool.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.pool.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Unsync>>) {
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Unsync>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.pool.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<Unsync>>) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.pool.caps() | self.caps
    }
    fn alignment(&self) -> usize {
        self.pool.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.pool.max_segment_size()
    }
    fn census(&self) -> Census {
        self.pool.census()
    }
    fn name(&self) -> &'static str {
        "noted"
    }
    unsafe fn before_io(
        &self,
        header: NonNull<Header<Unsync>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        assert!(self.may_own(header));
        assert_eq!(direction, IoDirection::CpuToDevice);
        self.hooks.borrow_mut().push(Before(offset, len));
    }
    unsafe fn after_io(
        &self,
        header: NonNull<Header<Unsync>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        assert!(self.may_own(header));
        assert_eq!(direction, IoDirection::CpuToDevice);
        self.hooks.borrow_mut().push(After(offset, len));
    }
}

#[test]
fn hooks_run_for_what_shows_and_are_paired() {
    let plain = Pool::new();
    let noted = Noted {
        pool: Pool::new(),
        hooks: RefCell::default(),
        caps: Caps::NEEDS_CACHE_OPS,
    };
    let hooks = || noted.hooks.take();
    let link = |bytes: &[u8]| {
        let unique = noted.alloc(bytes.len()).unwrap().init_from(bytes).unwrap();
        View::from(unique.erase::<Erased<'_>>())
    };
    let mut rope = Rope::<_, _, 3>::default();
    rope.push(link(b"abcdef").slice(1..4).unwrap()).unwrap();
    rope.push(erased(&plain, b"no hooks")).unwrap();
    rope.push(link(b"gh")).unwrap();
    let clone: Rope<_, wharf_source::NullSource, 3> = rope.clone();
    assert_eq!(hooks(), [], "reading and sharing are the CPU's own affair");

    let flight = rope.hand_over();
    assert_eq!(hooks(), [Before(1, 3), Before(0, 2)]);
    // It is read meanwhile, as any shared bytes are.
    assert_eq!(flight.cursor().read_array(), Ok(*b"bcdno hooksgh"));
    assert!(flight.places().eq(clone.places()));
    assert!(format!("{flight:?}").starts_with("RopeInFlight(Rope { len: 13"));
    let rope = flight.land();
    assert_eq!(hooks(), [After(1, 3), After(0, 2)]);
    assert_eq!(rope.len(), 13);

    drop(rope.hand_over());
    assert_eq!(
        hooks(),
        [Before(1, 3), Before(0, 2), After(1, 3), After(0, 2)]
    );
    assert_eq!(noted.census().in_use, 2, "the clone has them");
    drop(clone);
    assert_eq!((noted.census().in_use, plain.census().in_use), (0, 0));
}

#[test]
fn who_needs_no_hooks_is_not_asked() {
    let noted = Noted {
        pool: Pool::new(),
        hooks: RefCell::default(),
        caps: Caps::empty(),
    };
    let mut rope = Rope::new();
    rope.push(noted.alloc(2).unwrap().init_from(b"ab").unwrap())
        .unwrap();
    drop(rope.hand_over().land());
    assert_eq!(noted.hooks.take(), []);
}

/// A rope as the cargo of an engine, which reads it. Others read it meanwhile.
struct Sent(RopeInFlight<&'static Pool>);

impl Cargo for Sent {}

// SAFETY: the rope keeps its segments, wherever it is moved. They are shared, so nobody writes them, and they are listed to be read.
unsafe impl Manifest for Sent {
    fn list(&self, operands: &mut Operands) {
        for (place, len) in self.0.places() {
            operands.add(Operand::read(place, len));
        }
    }
    // The hooks ran when it was handed over, and run again when it lands.
    fn depart(&mut self) {}
}

#[test]
fn what_is_shared_is_shipped_to_be_read() {
    type Cargoes = (Sent, Freight<&'static Pool>);
    let leaked = Box::into_raw(Box::new(Pool::new()));
    // SAFETY: given back below, when nothing refers to it any more.
    let pool: &'static Pool = unsafe { &*leaked };
    let engine = CpuEngine::<Unsync, Cargoes>::new(Stream::claim().unwrap());
    let kept = super::piece(pool, b"abc");
    let mut rope = Rope::new();
    rope.push(kept.clone()).unwrap();
    rope.push(super::piece(pool, b"de")).unwrap();
    let sums = Freight::write(pool.alloc(2).unwrap().filled(0).unwrap());

    let sum = Command::Kernel(|operands| {
        let [Lent::Read(a), Lent::Read(b), Lent::Write(to)] = operands else {
            return Err(wharf_engine::KernelFault::OPERANDS);
        };
        to.copy_from_slice(&[a[2], b[0]]);
        Ok(())
    });
    let shipped = engine.ship(sum, (Sent(rope.hand_over()), sums));
    let shipped = shipped.unwrap_or_else(|refused| panic!("{}", refused.error));
    assert_eq!(kept, b"abc", "it is read by two");
    let (sent, sums) = shipped.wait(&NoClock, None).unwrap().unwrap();
    assert_eq!(*sums.into_segment(), *b"cd");
    assert_eq!(sent.0.land(), b"abcde");
    drop((engine, kept));
    // SAFETY: from `into_raw`, and all segments and the engine that knew them are gone.
    drop(unsafe { Box::from_raw(leaked) });
}
