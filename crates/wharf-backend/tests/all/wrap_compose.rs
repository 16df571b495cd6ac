//! Compositions against one plain model, step by step; and who may cross threads.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::mem::MaybeUninit;

use proptest::prelude::*;
use wharf_backend::wrap::{
    AllocAsync, BackendEvent, BackendEventPhase as Phase, BackendSink, Finding,
};
use wharf_backend::{
    AllocError, AllocHint, BackendRef, Checked, FaultInject, MemBackend, Quota, Scrub, SegmentMut,
    ShardedPool, Share, Shared, SlotControl, StaticPool, Traced, Waitable,
};
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

const PAYLOAD: usize = 40;
const SLOTS: usize = 4;
/// Every so manieth call is refused on order.
const KTH: u64 = 5;

type Pool<P> = StaticPool<P, PAYLOAD, SLOTS>;

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    Drop(usize),
    RoundTrip(usize),
    Write(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![6 => 0..=PAYLOAD, 1 => PAYLOAD + 1..100, 1 => Just(usize::MAX)];
    let step = prop_oneof![
        5 => size.prop_map(Step::Alloc),
        4 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::RoundTrip),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(index, byte)| Step::Write(index, byte)),
    ];
    prop::collection::vec(step, 0..60)
}

/// Vends, refuses on order and takes back as the model says, whatever is around it.
fn run<R: BackendRef + Copy>(backend: R, steps: &[Step]) {
    let pool = backend.backend();
    let (mut calls, mut refused, mut largest) = (0, 0, 0);
    let mut held: Vec<(SegmentMut<R>, Vec<u8>)> = Vec::new();
    for (turn, step) in steps.iter().enumerate() {
        match *step {
            Step::Alloc(size) => {
                let answer = SegmentMut::alloc_with(backend, size, AllocHint(7));
                calls += 1;
                let expected = if calls % KTH == 0 {
                    Some(AllocError::Injected { call: calls })
                } else if size > PAYLOAD {
                    let (requested, max) = (size, PAYLOAD);
                    Some(AllocError::TooLarge { requested, max })
                } else if held.len() == SLOTS {
                    Some(AllocError::Exhausted {
                        requested: size,
                        in_use: SLOTS * PAYLOAD,
                        capacity: SLOTS * PAYLOAD,
                    })
                } else {
                    None
                };
                assert_eq!(answer.as_ref().err(), expected.as_ref(), "{step:?}");
                match answer {
                    Ok(segment) => {
                        let byte = turn.to_le_bytes()[0];
                        held.push((segment.filled(byte).unwrap(), vec![byte; size]));
                    }
                    Err(_) => {
                        refused += 1;
                        largest = largest.max(size);
                    }
                }
            }
            Step::Drop(index) if !held.is_empty() => drop(held.remove(index % held.len())),
            Step::RoundTrip(index) if !held.is_empty() => {
                let (segment, bytes) = held.remove(index % held.len());
                let (header, reference) = segment.into_raw();
                // SAFETY: from `into_raw` of an initialised handle just above.
                held.push((
                    unsafe { SegmentMut::from_raw(header, reference) }.unwrap(),
                    bytes,
                ));
            }
            Step::Write(index, byte) if !held.is_empty() => {
                let place = index % held.len();
                let (segment, bytes) = &mut held[place];
                if let Some(last) = bytes.last_mut() {
                    *last = byte;
                    segment.write(bytes.len() - 1, &[byte]).unwrap();
                }
            }
            _ => {}
        }
        for (segment, bytes) in &held {
            assert_eq!(segment.host().unwrap(), bytes);
            assert_eq!(
                segment.host().unwrap().as_ptr().addr() % pool.alignment(),
                0
            );
        }
        let census = pool.census();
        let found = (
            census.capacity,
            census.in_use,
            census.refused,
            census.largest_refused,
        );
        assert_eq!(
            found,
            (SLOTS, held.len(), refused, largest),
            "after {step:?}"
        );
        assert!(census.peak >= census.in_use && census.peak <= SLOTS);
    }
    drop(held);
    assert_eq!(pool.census().in_use, 0);
}

fn nothing(finding: Finding) {
    panic!("{finding}");
}

/// Starts without an end.
#[derive(Default)]
struct Balance<P: SyncPolicy>(core::cell::Cell<i64>, core::marker::PhantomData<P>);
impl<P: SyncPolicy> BackendSink for &Balance<P> {
    fn record(&self, event: BackendEvent) {
        let step = match event.phase {
            Phase::Start => 1,
            Phase::Why(_) => 0,
            _ => -1,
        };
        self.0.set(self.0.get() + step);
    }
}

/// A `FaultInject` somewhere, and the others around and inside it.
fn compositions<P: SyncPolicy>(steps: &[Step]) {
    let faulty = || {
        let pool = FaultInject::new(Pool::<P>::fresh());
        pool.fail_every(KTH);
        pool
    };
    let balance = Balance::<P>(core::cell::Cell::new(0), core::marker::PhantomData);

    run(&Waitable::new(faulty()), steps);
    run(&Traced::new(Scrub::new(faulty()), &balance), steps);
    run(
        &Scrub::new(Traced::new(Waitable::new(faulty()), &balance)),
        steps,
    );

    let checked = Checked::<_, _, SLOTS>::new(Scrub::new(Pool::<P>::fresh()), nothing);
    let outside = FaultInject::new(Scrub::new(Traced::new(checked, &balance)));
    outside.fail_every(KTH);
    run(&Waitable::new(outside), steps);
    let outside = FaultInject::new(Waitable::new(Pool::<P>::fresh()));
    outside.fail_every(KTH);
    let outside = Traced::new(outside, &balance);
    run(&outside, steps);
    let erased = FaultInject::new(Scrub::new(Pool::<P>::fresh()));
    erased.fail_every(KTH);
    run::<&dyn MemBackend<Policy = P>>(&erased, steps);

    let quota = Quota::<_, 2>::new(Checked::<_, _, SLOTS>::new(Pool::<P>::fresh(), nothing));
    let share = FaultInject::new(quota.share(1, usize::MAX).unwrap());
    share.fail_every(KTH);
    run(&Scrub::new(Traced::new(share, &balance)), steps);

    let mut slab = [MaybeUninit::uninit(); SLOTS * PAYLOAD];
    let mut control: [SlotControl<P>; SLOTS] = core::array::from_fn(|_| SlotControl::new());
    let shards = ShardedPool::<P, 3>::new(&mut slab, &mut control, PAYLOAD, 1).unwrap();
    let shards = Waitable::new(FaultInject::new(Scrub::new(shards)));
    shards.inner().fail_every(KTH);
    run(&shards, steps);
    assert_eq!(balance.0.get(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn compositions_do_what_the_model_does(steps in steps()) {
        compositions::<Unsync>(&steps);
        compositions::<Critical>(&steps);
    }
}

/// In `.bss`, and shared.
#[test]
fn they_are_constants() {
    static POOL: Waitable<Scrub<FaultInject<StaticPool<Critical, 16, 2>>>> =
        Waitable::new_const(Scrub::new_const(FaultInject::new_const(StaticPool::new())));
    static CHECKED: Checked<StaticPool<Critical, 64, 2>, fn(Finding), 2> =
        Checked::new_const(StaticPool::new(), nothing);
    static TRACED: Traced<StaticPool<Critical, 16, 2>, fn(BackendEvent)> =
        Traced::new(StaticPool::new(), |_| ());
    for pool in [
        &POOL as &(dyn MemBackend<Policy = Critical> + Sync),
        &CHECKED,
        &TRACED,
    ] {
        let segment = SegmentMut::alloc(pool, 3).unwrap();
        std::thread::spawn(move || drop(segment)).join().unwrap();
        assert_eq!(pool.census().in_use, 0);
    }
}

/// Shown by the name of what is inside, which may be a backend that cannot be shown itself.
#[test]
fn wrappers_are_shown_around_any_backend() {
    let pool = Pool::<Unsync>::fresh();
    let erased: &dyn MemBackend<Policy = Unsync> = &pool;
    let around = Traced::new(Scrub::new(Shared::new(&pool)), |_: BackendEvent| ());
    assert_eq!(format!("{around:?}"), "Traced { backend: \"pool\", .. }");
    assert_eq!(
        format!("{:?}", around.inner()),
        "Scrub { backend: \"pool\", byte: 0, missed: 0 }"
    );
    let faulty = FaultInject::new(Shared::new(erased));
    assert_eq!(
        format!("{faulty:?}"),
        "FaultInject { backend: \"pool\", calls: 0 }"
    );
    let quota = Quota::<_, 2>::new(Pool::<Unsync>::fresh());
    quota.share(1, 1).unwrap();
    assert_eq!(
        format!("{quota:?}"),
        "Quota { backend: \"pool\", shares: 1, .. }"
    );
    let checked = Checked::<_, _, SLOTS>::new(Shared::new(&pool), nothing);
    assert_eq!(
        format!("{checked:?}"),
        "Checked { backend: \"pool\", segments: 0, most: 4, .. }"
    );
}

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}

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

type Local = std::rc::Rc<()>;
struct LocalSink(#[expect(dead_code, reason = "its type matters")] Local);
impl BackendSink for LocalSink {
    fn record(&self, _: BackendEvent) {}
}
type Found = fn(Finding);
type Told = fn(BackendEvent);

const fn shared<P: SyncPolicy>()
where
    Waitable<Pool<P>>: Send + Sync,
    Quota<Pool<P>, 2>: Send + Sync,
    Checked<Pool<P>, Found, 2>: Send + Sync,
    Scrub<Pool<P>>: Send + Sync,
    Traced<Pool<P>, Told>: Send + Sync,
    Share<'static, Pool<P>, 2>: Send + Sync,
{
    send::<SegmentMut<&Waitable<Pool<P>>>>();
    send::<SegmentMut<Share<'static, Pool<P>, 2>>>();
    sync::<SegmentMut<Share<'static, Pool<P>, 2>>>();
    send::<SegmentMut<&Checked<Pool<P>, Found, 2>>>();
    send::<AllocAsync<&'static Waitable<Pool<P>>>>();
    send::<AllocAsync<Share<'static, Pool<P>, 2>>>();
}

const _: () = {
    shared::<Critical>();
    shared::<Blocking>();
    send::<Waitable<Pool<Unsync>>>();
    send::<Quota<Pool<Unsync>, 2>>();
    send::<Checked<Pool<Unsync>, Found, 2>>();
};

not!(Sync:
    Waitable<Pool<Unsync>>,
    Quota<Pool<Unsync>, 2>,
    Checked<Pool<Unsync>, Found, 2>,
    Scrub<Pool<Unsync>>,
    Traced<Pool<Unsync>, Told>,
    Traced<Pool<Blocking>, LocalSink>,
    Share<'static, Pool<Unsync>, 2>,
);
not!(Send:
    SegmentMut<&'static Waitable<Pool<Unsync>>>,
    SegmentMut<Share<'static, Pool<Unsync>, 2>>,
    SegmentMut<&'static Traced<Pool<Blocking>, LocalSink>>,
    AllocAsync<&'static Waitable<Pool<Unsync>>>,
    AllocAsync<Share<'static, Pool<Unsync>, 2>>,
);
// Others point to it once it was polled.
not!(Unpin: AllocAsync<&'static Waitable<Pool<Blocking>>>);
