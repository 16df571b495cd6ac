//! Wrappers around what is not a plain pool: maintained memory, block sources, and backends that others use, too.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::pin;
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;
use std::sync::Arc;

use wharf_backend::wrap::{
    BackendEvent, BackendEventKind, BackendEventPhase, CountedShare, Finding, QuotaError, Waits,
    alloc_wait,
};
use wharf_backend::{
    Align16, Align32, Align64, AllocError, AllocHint, BackendExt, BackendRef, CacheOps, Caps,
    Checked, ConstOwnLines, FaultInject, HostBackend, InFlight, IoDirection, Maintained,
    MemBackend, OwnLines, Place, PoolBackend, Quota, Scrub, SegmentMut, Shared, SlotControl,
    SourceBackend, State, StaticPool, Traced, Uninit, Waitable,
};
use wharf_source::{FaultSource, PoolSource, SizeClass, SourceError};
use wharf_sync::{Blocking, Critical, NoClock, Unsync};

use IoDirection::{CpuToDevice, DeviceToCpu};

const LINE: usize = 32;

/// A cache that never writes back or reads ahead by itself: the CPU has the slab, and a device what was cleaned.
#[derive(Default)]
struct Cache {
    /// By the address of the line. What was never written there is `EE`.
    memory: RefCell<HashMap<usize, [u8; LINE]>>,
    /// Leaves out the maintenance of what is freed.
    careless: Cell<bool>,
}

impl Cache {
    fn lines(start: NonNull<u8>, len: usize) -> impl Iterator<Item = *mut [u8; LINE]> {
        assert!(start.addr().get().is_multiple_of(LINE) && len.is_multiple_of(LINE));
        (0..len).step_by(LINE).map(move |at| {
            // SAFETY: the lines are in the slab, which is initialised.
            unsafe { start.add(at) }.as_ptr().cast()
        })
    }

    /// The device's byte at an address.
    fn byte(&self, address: usize) -> u8 {
        let memory = self.memory.borrow();
        memory
            .get(&(address / LINE * LINE))
            .map_or(0xEE, |line| line[address % LINE])
    }

    fn device_reads<R: BackendRef, S: State>(&self, lent: &InFlight<R, S>) -> Vec<u8> {
        let start = first(lent.place()).addr().get();
        (start..start + lent.len())
            .map(|at| self.byte(at))
            .collect()
    }

    fn device_writes<R: BackendRef, S: State>(&self, lent: &InFlight<R, S>, byte: u8) {
        let start = first(lent.place()).addr().get();
        let mut memory = self.memory.borrow_mut();
        for at in start..start + lent.len() {
            memory.entry(at / LINE * LINE).or_insert([0xEE; LINE])[at % LINE] = byte;
        }
    }
}

fn first(place: Place) -> NonNull<u8> {
    let Place::Host(first) = place else {
        panic!("a slab is host memory")
    };
    first
}

// SAFETY: the lines that it is called for, and no others.
unsafe impl CacheOps for Cache {
    const LINE: usize = LINE;
    unsafe fn clean(&self, start: NonNull<u8>, len: usize) {
        for line in Self::lines(start, len) {
            // SAFETY: called between the CPU's accesses.
            let bytes = unsafe { line.read() };
            self.memory.borrow_mut().insert(line.addr(), bytes);
        }
    }
    unsafe fn invalidate(&self, start: NonNull<u8>, len: usize) {
        for line in Self::lines(start, len) {
            let memory = self.memory.borrow();
            let bytes = memory.get(&line.addr()).copied().unwrap_or([0xEE; LINE]);
            // SAFETY: called between the CPU's accesses.
            unsafe { line.write(bytes) };
        }
    }
    unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) {
        if !self.careless.get() {
            // SAFETY: as the caller promises.
            unsafe { self.clean(start, len) };
        }
    }
}

#[repr(align(64))]
struct Slab([MaybeUninit<u8>; 512]);

/// Runs `test` on a pool of four slots of 128 bytes.
fn with(test: impl FnOnce(PoolBackend<'_, Unsync>, &Cache)) {
    let mut slab = Slab([MaybeUninit::new(0); 512]);
    let mut control = [const { SlotControl::<Unsync>::NEW }; 4];
    let pool = PoolBackend::new(&mut slab.0, &mut control, 128, 64).unwrap();
    test(pool, &Cache::default());
}

/// Frames go to the device and come back, whole and in part.
fn exchange<R: BackendRef + Copy>(memory: R, cache: &Cache) {
    let ramp: Vec<u8> = (1..=40).collect();
    let frame = SegmentMut::alloc(memory, 40).unwrap();
    let frame = frame.init_from(&ramp).unwrap();
    let lent = frame.hand_over(0, 40, CpuToDevice).unwrap();
    assert_eq!(cache.device_reads(&lent), ramp);
    let lent = lent.land().hand_over(5, 20, DeviceToCpu).unwrap();
    cache.device_writes(&lent, 0x77);
    let frame = lent.land();
    let written = [&ramp[..5], &[0x77; 20], &ramp[25..]].concat();
    assert_eq!(frame.host().unwrap(), written);

    for len in [1, 31, 32, 33, 40, 56] {
        let frame = SegmentMut::alloc(memory, len).unwrap();
        let lent = frame.hand_over(0, len, DeviceToCpu).unwrap();
        cache.device_writes(&lent, 0x99);
        // SAFETY: the device has written all of it.
        let frame = unsafe { lent.land().assume_init() };
        assert_eq!(frame.host().unwrap(), vec![0x99; len]);
    }
}

/// Writes one byte too far.
fn overrun<R: BackendRef>(memory: R) {
    let frame = SegmentMut::alloc_with(memory, 40, AllocHint(3)).unwrap();
    let end = first(frame.place()).as_ptr().wrapping_add(40);
    // SAFETY: in the slab; it is the canary's, and wrong on purpose.
    unsafe { end.write(1) };
}

#[test]
fn canaries_live_through_maintenance_whichever_is_outside() {
    let found = RefCell::new(Vec::new());
    let tell = |finding| found.borrow_mut().push(finding);
    let one = [Finding::Overrun { tag: 3, size: 40 }];
    with(|pool, cache| {
        let pool = Checked::<_, _, 4>::new(Maintained::new(pool, cache).unwrap(), tell);
        exchange(&pool, cache);
        assert_eq!(*found.borrow(), []);
        overrun(&pool);
        assert_eq!(found.take(), one);
    });
    with(|pool, cache| {
        let checked = Checked::<_, _, 4>::new(pool, tell);
        assert_eq!(checked.granule(), 64);
        let pool = Maintained::new(checked, cache).unwrap();
        exchange(&pool, cache);
        assert_eq!(*found.borrow(), []);
        overrun(&pool);
        assert_eq!(found.take(), one);
    });
}

/// Of a granule smaller than the canary, and of one that is larger: a segment starts at a multiple.
#[test]
fn what_is_checked_has_the_lines_of_what_is_inside() {
    fn starts<B: wharf_backend::wrap::OwnsBytes + ConstOwnLines>(pool: B) {
        let pool = Checked::<_, _, 2>::new(pool, |finding| panic!("{finding}"));
        assert_eq!(pool.granule(), B::GRANULE);
        assert!(pool.granule() <= pool.alignment());
        for size in [1, 16, 96] {
            let segment = pool.alloc(size).unwrap();
            assert_eq!(first(segment.place()).addr().get() % B::GRANULE, 0);
        }
    }
    starts(StaticPool::<Unsync, 96, 2, wharf_backend::Align4>::new());
    starts(StaticPool::<Unsync, 96, 2, Align64>::new());
    let mut slab = [MaybeUninit::uninit(); 2048];
    let mut classes = [SizeClass::EMPTY; 4];
    let source = PoolSource::<Unsync>::new(&mut slab, &mut classes);
    starts(SourceBackend::<_, Unsync, Align32>::new(&source));
}

#[test]
fn what_is_scrubbed_is_gone_from_the_memory_too() {
    for careless in [false, true] {
        with(|pool, cache| {
            cache.careless.set(careless);
            let keys = Scrub::new(Maintained::new(pool, cache).unwrap());
            let key = keys.alloc(40).unwrap().filled(0x55).unwrap();
            let lent = key.hand_over(0, 40, CpuToDevice).unwrap();
            assert_eq!(cache.device_reads(&lent), [0x55; 40]);
            let start = first(lent.place()).addr().get();
            drop(lent);
            let left: Vec<u8> = (start..start + 40).map(|at| cache.byte(at)).collect();
            assert_eq!(left, [0; 40], "careless {careless}");
        });
    }
}

/// A cache that needs nothing done.
struct Coherent;
// SAFETY: nothing is to be done.
unsafe impl CacheOps for Coherent {
    const LINE: usize = LINE;
    unsafe fn clean(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn clean_invalidate(&self, _: NonNull<u8>, _: usize) {}
}

type Lined = StaticPool<Critical, 64, 2, Align32>;

fn poll<F: Future>(future: core::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Two slots, one of them held: who waits for the second one gets it when it comes back.
fn waits<B: Waits + HostBackend>(pool: &B) {
    assert!(pool.caps().contains(Caps::NEEDS_CACHE_OPS));
    let held = [pool.alloc(64).unwrap(), pool.alloc(64).unwrap()];
    let mut waiter = pin!(pool.alloc_async(64));
    assert!(poll(waiter.as_mut()).is_pending());
    drop(held);
    let Poll::Ready(answer) = poll(waiter.as_mut()) else {
        panic!("there is memory")
    };
    assert_eq!(answer.unwrap().filled(2).unwrap()[63], 2);
    assert_eq!((pool.census().in_use, pool.census().refused), (0, 0));
}

#[test]
fn maintained_memory_is_waited_for_and_shared_out() {
    type Inside = Traced<FaultInject<Waitable<Lined>>, fn(BackendEvent)>;
    static FIXED: Maintained<Inside, Coherent> = Maintained::fixed(
        Traced::new(
            FaultInject::new_const(Waitable::new_const(Lined::new())),
            |_| (),
        ),
        Coherent,
    );
    waits(&FIXED);
    waits(&Waitable::new(Maintained::fixed(Lined::new(), Coherent)));
    waits(&Maintained::fixed(Waitable::new(Lined::new()), Coherent));

    let quota = Quota::<_, 2>::new(Maintained::fixed(Lined::new(), Coherent));
    waits(&quota.share(0, usize::MAX).unwrap());
    let quota = Quota::<_, 2>::new(Lined::new());
    let share = quota.share(1, 1).unwrap();
    let maintained = Maintained::fixed(share, Coherent);
    let _held = maintained.alloc(1).unwrap();
    assert!(maintained.alloc(1).is_err());
    assert_eq!(maintained.inner().granule(), 32);

    // Lines that are too short stay so through the wrappers.
    let short = Traced::new(
        FaultInject::new(StaticPool::<Unsync, 64, 2, Align16>::new()),
        |_: BackendEvent| (),
    );
    let refused = Maintained::new(short, Coherent).unwrap_err();
    assert_eq!((refused.error.granule, refused.error.line), (16, 32));
}

#[test]
fn blocks_of_a_source_are_scrubbed_and_checked() {
    let mut slab = [MaybeUninit::uninit(); 512];
    let mut classes = [SizeClass::EMPTY; 4];
    let source = PoolSource::<Unsync>::new(&mut slab, &mut classes);
    let found = RefCell::new(Vec::new());

    let memory = SourceBackend::<_, Unsync>::new(&source);
    let memory = Checked::<_, _, 2>::new(Scrub::new(memory), |finding| {
        found.borrow_mut().push(finding);
    });
    let secret = memory.alloc(6).unwrap().init_from(b"secret").unwrap();
    let start = first(secret.place());
    drop(secret);
    assert_eq!(*found.borrow(), []);
    // SAFETY: in the slab, initialised, and nobody's. (The block's first bytes are the source's again.)
    assert_eq!(unsafe { start.cast::<[u8; 6]>().read() }, [0; 6]);

    let mut segment = memory.alloc(6).unwrap().init_from(b"secret").unwrap();
    assert_eq!(first(segment.place()), start, "the block, used again");
    // SAFETY: in the slab; it is the canary's, and wrong on purpose.
    unsafe { segment.as_mut_ptr().wrapping_sub(1).write(0) };
    drop(segment);
    assert_eq!(found.take(), [Finding::Underrun { tag: 0, size: 6 }]);

    // In the bytes that were asked for, whoever was asked for more.
    let census = memory.census();
    assert_eq!((census.unit, census.capacity, census.in_use), (1, 512, 0));
    let held = memory.alloc(300).unwrap();
    let refused = memory.alloc(200).unwrap_err();
    assert!(
        matches!(
            refused,
            AllocError::Exhausted {
                requested: 200,
                capacity: 512,
                ..
            }
        ),
        "{refused:?}"
    );
    drop(held);
}

#[test]
fn an_injected_refusal_of_a_source_names_what_was_asked_of_the_outermost() {
    let source = FaultSource::<_, Unsync>::new(wharf_source::HeapSource);
    source.fail_every(1);
    let memory = SourceBackend::<_, Unsync>::new(&source);
    let injected = |call| {
        AllocError::Source(SourceError::Injected {
            requested: 10,
            call,
        })
    };
    assert_eq!(memory.alloc(10).unwrap_err(), injected(1));
    let memory = Checked::<_, _, 1>::new(memory, |finding| panic!("{finding}"));
    assert_eq!(memory.alloc(10).unwrap_err(), injected(2));
}

#[test]
fn a_shared_backend_is_the_backend() {
    let pool = StaticPool::<Unsync, 64, 2>::new();
    let shared = Shared::new(&pool);
    let (mine, theirs) = (
        shared.alloc(5).unwrap().init_from(b"hello").unwrap(),
        pool.alloc(64).unwrap(),
    );
    assert_eq!(&*mine, b"hello");
    assert_eq!(shared.census(), pool.census());
    assert_eq!((shared.name(), shared.space()), (pool.name(), pool.space()));
    assert_eq!(shared.caps(), pool.caps());
    assert_eq!(shared.alignment(), pool.alignment());
    assert_eq!(shared.max_segment_size(), 64);
    assert!(shared.may_own(theirs.header_ptr()));
    let why = AllocError::Exhausted {
        requested: 1,
        in_use: 2 * pool.census().unit,
        capacity: 2 * pool.census().unit,
    };
    assert_eq!(shared.alloc(1).unwrap_err(), why);
    // What was vended here may go back there: it is one backend.
    let (header, _) = mine.into_raw();
    // SAFETY: from `into_raw` just above.
    let mine = unsafe { SegmentMut::<_>::from_raw(header, shared.into_reference()) }.unwrap();
    assert_eq!(&*mine, b"hello");
    drop((mine, theirs));
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn a_wrapper_around_a_shared_backend_leaves_the_others_alone() {
    let pool = Arc::new(StaticPool::<Blocking, 64, 4>::new());
    let told = Cell::new(0);
    let mine = Traced::new(
        Scrub::with_byte(Shared::new(Arc::clone(&pool)), 0x5A),
        |event: BackendEvent| {
            let vended =
                event.kind == BackendEventKind::Vend && event.phase == BackendEventPhase::Done;
            told.set(told.get() + u32::from(vended));
        },
    );
    let theirs = SegmentMut::alloc(Arc::clone(&pool), 16)
        .unwrap()
        .filled(1)
        .unwrap();
    let secret = mine.alloc(16).unwrap().filled(2).unwrap();
    assert_eq!(told.get(), 1);
    let places = [first(theirs.place()), first(secret.place())];
    drop((theirs, secret));
    let left = places.map(|place| {
        // SAFETY: the slots are the pool's, which lives, and were initialised.
        unsafe { place.cast::<[u8; 16]>().read() }
    });
    assert_eq!(left, [[1; 16], [0x5A; 16]]);

    // Erased, and on another thread.
    let erased: Arc<dyn MemBackend<Policy = Blocking> + Send + Sync> = pool;
    let flaky = Arc::new(FaultInject::new(Shared::new(Arc::clone(&erased))));
    flaky.fail_nth(2);
    let segment = SegmentMut::alloc(Arc::clone(&flaky), 7).unwrap();
    let refused = SegmentMut::alloc(flaky, 7).unwrap_err();
    assert_eq!(refused, AllocError::Injected { call: 2 });
    assert_eq!(erased.census().in_use, 1);
    std::thread::spawn(move || drop(segment)).join().unwrap();
    assert_eq!(erased.census().in_use, 0);
}

/// The pool is waited for by all of its users, because the `Waitable` is inside of what they share.
#[test]
fn whoever_gives_back_wakes_who_waits_through_a_wrapper() {
    let pool = Arc::new(Waitable::new(StaticPool::<Blocking, 64, 1>::new()));
    let mine = Scrub::new(Shared::new(Arc::clone(&pool)));
    let theirs = SegmentMut::alloc(Arc::clone(&pool), 64).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| mine.alloc_wait(64, &NoClock, None).map(|got| got.len()));
        drop(theirs);
        assert_eq!(waiter.join().unwrap(), Ok(64));
    });
    let held = mine.alloc(1).unwrap();
    let mut task = pin!(mine.alloc_async(1));
    assert!(poll(task.as_mut()).is_pending());
    drop(held);
    assert!(poll(task.as_mut()).is_ready());
}

#[test]
fn a_counted_share_keeps_its_promise_and_its_quota() {
    type Pool = StaticPool<Blocking, 16, 3>;
    struct Stored(SegmentMut<CountedShare<Pool, 2>, Uninit>);
    const fn sent<T: Send + 'static>() {}
    sent::<Stored>();
    sent::<CountedShare<Pool, 2>>();

    let quota = Arc::new(Quota::<Pool, 2>::new(Pool::new()));
    let transmit = quota.share_counted(1, 2).unwrap();
    let receive = quota.share_counted(0, usize::MAX).unwrap();
    assert_eq!(
        quota.share_counted(0, 0).unwrap_err(),
        QuotaError::TooMany { shares: 2 }
    );
    let weak = Arc::downgrade(&quota);
    drop(quota);

    let hoard: Vec<_> =
        std::iter::from_fn(|| SegmentMut::alloc(receive.clone(), 16).ok()).collect();
    assert_eq!(hoard.len(), 2, "one is reserved");
    let stored = Stored(SegmentMut::alloc(transmit.clone(), 16).unwrap());
    assert_eq!((transmit.census().in_use, receive.census().in_use), (1, 2));
    // It wants one of the common ones.
    let waiter = {
        let transmit = transmit.clone();
        std::thread::spawn(move || {
            alloc_wait(transmit, 16, AllocHint::NONE, &NoClock, None).map(Stored)
        })
    };
    drop(hoard);
    let second = waiter.join().unwrap().unwrap();
    assert_eq!(transmit.census().in_use, 2);
    drop((transmit, receive, second));
    assert!(weak.upgrade().is_some(), "a segment keeps it");
    drop(stored.0);
    assert!(weak.upgrade().is_none(), "and the last one lets it go");
}

/// Does not build if one of the types has the trait: then two impls fit, and `_` is ambiguous.
macro_rules! not {
    ($marker:ident: $($ty:ty),* $(,)?) => {$(
        const _: fn() = || {
            trait Ambiguous<A> { fn found() {} }
            struct HasIt;
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + $marker> Ambiguous<HasIt> for T {}
            let _ = <$ty as Ambiguous<_>>::found;
        };
    )*};
}

type Small<P> = StaticPool<P, 16, 2>;
type Counted<P> = Scrub<Shared<Arc<Small<P>>>>;

// A reference crosses where what is behind it may be shared.
const _: () = {
    const fn both<T: Send + Sync>() {}
    both::<Shared<&'static Small<Critical>>>();
    both::<Counted<Blocking>>();
    both::<SegmentMut<Arc<Counted<Blocking>>>>();
    both::<CountedShare<Small<Critical>, 1>>();
};
not!(Send:
    Shared<&'static Small<Unsync>>,
    Shared<Arc<Small<Unsync>>>,
    SegmentMut<&'static Shared<&'static Small<Unsync>>>,
    CountedShare<Small<Unsync>, 1>,
    SegmentMut<CountedShare<Small<Unsync>, 1>>,
);
not!(Sync:
    Shared<&'static Small<Unsync>>,
    Counted<Unsync>,
    CountedShare<Small<Unsync>, 1>,
);
