//! Who may cross threads, for every policy, reference and route. All of it is decided by the compiler:
//! a wrong line here does not build.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::sync::Arc;

use wharf_backend::{
    BorrowedExclusive, BorrowedMmio, BorrowedShared, DeviceRegistry, FaultInject, Group, Header,
    HeapBackend, InFlight, Init, Loan, MemBackend, OwnerBackend, PoolBackend, ReadOnly, SegmentMut,
    SegmentWriter, SlotControl, SourceBackend, StaticPool, Uninit,
};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

const fn send<T: ?Sized + Send>() {}
const fn sync<T: ?Sized + Sync>() {}

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

type Pool<P> = StaticPool<P, 16, 2>;
type Lent<P> = PoolBackend<'static, P>;
type Faulty<P> = FaultInject<Pool<P>>;
type Erased<P> = dyn MemBackend<Policy = P>;
type ErasedSync<P> = dyn MemBackend<Policy = P> + Sync;
type ErasedBoth<P> = dyn MemBackend<Policy = P> + Send + Sync;

type Lend<P> = BorrowedExclusive<'static, P>;
type Table<P> = BorrowedShared<'static, P>;
type Registers<P> = BorrowedMmio<'static, u32, P>;
type Sourced<P> = SourceBackend<HeapSource, P>;
type Owned<O, P, M> = OwnerBackend<O, P, HeapSource, M>;

/// The same for what is lent and owned.
const fn lent<P: SyncPolicy>()
where
    P::Count: Send + Sync,
    P::Lock<()>: Send + Sync,
    P::Lock<Loan>: Send + Sync,
    Sourced<P>: Send + Sync,
{
    send::<Lend<P>>();
    sync::<Lend<P>>();
    send::<SegmentMut<&Lend<P>>>();
    send::<SegmentWriter<&Lend<P>>>();
    sync::<SegmentWriter<&Lend<P>>>();
    sync::<SegmentMut<&Table<P>, ReadOnly>>();
    send::<SegmentMut<&Registers<P>>>();
    send::<InFlight<&Lend<P>>>();
    send::<SegmentMut<&Sourced<P>>>();
    send::<SegmentMut<Owned<Vec<u8>, P, Init>>>();
    sync::<SegmentMut<Owned<Arc<[u8]>, P, ReadOnly>, ReadOnly>>();
}

const _: () = {
    lent::<Critical>();
    lent::<Blocking>();
    sync::<DeviceRegistry<&'static ErasedSync<Critical>, 4>>();
    sync::<DeviceRegistry<Arc<ErasedBoth<Blocking>>, 4>>();
};

// What is lent to one owner may move to another thread, while nothing of it is out.
const _: () = {
    send::<Lend<Unsync>>();
    send::<Table<Unsync>>();
    send::<Sourced<Unsync>>();
};

not!(Sync: Lend<Unsync>, Table<Unsync>, Sourced<Unsync>, DeviceRegistry<&'static Erased<Unsync>, 4>);
not!(Send:
    SegmentMut<&'static Lend<Unsync>>,
    SegmentWriter<&'static Lend<Unsync>>,
    SegmentMut<&'static Table<Unsync>, ReadOnly>,
    InFlight<&'static Lend<Unsync>>,
    SegmentMut<&'static Sourced<Unsync>>,
    SegmentMut<Owned<Vec<u8>, Unsync, Init>>,
    // The last handle drops the owner, wherever that is.
    SegmentMut<Owned<std::rc::Rc<[u8]>, Blocking, ReadOnly>, ReadOnly>,
);

/// Everything that may be shared under a policy that shares.
const fn shared<P: SyncPolicy>()
where
    P::Count: Send + Sync,
    P::Lock<()>: Send + Sync,
    Pool<P>: Send + Sync,
    Lent<P>: Send + Sync,
    Faulty<P>: Send + Sync,
{
    sync::<Header<P>>();
    send::<SegmentMut<&Pool<P>>>();
    sync::<SegmentMut<&Pool<P>>>();
    send::<SegmentMut<&Pool<P>, Uninit>>();
    sync::<SegmentMut<&Pool<P>, Uninit>>();
    send::<SegmentMut<&Lent<P>>>();
    send::<SegmentMut<&Faulty<P>>>();
    send::<SegmentMut<&ErasedSync<P>>>();
    sync::<SegmentMut<&ErasedSync<P>>>();
    send::<SegmentMut<Arc<Pool<P>>>>();
    sync::<SegmentMut<Arc<Pool<P>>, Init>>();
    send::<SegmentMut<Arc<ErasedBoth<P>>>>();
    sync::<SegmentMut<Arc<ErasedBoth<P>>>>();
    send::<SegmentMut<HeapBackend<P>>>();
    sync::<SegmentMut<HeapBackend<P>>>();
}

const _: () = {
    shared::<Critical>();
    shared::<Blocking>();
};

// A pool that nobody shares may still move to another thread, as long as nothing of it is vended.
const _: () = {
    send::<Pool<Unsync>>();
    send::<Lent<Unsync>>();
    send::<Faulty<Unsync>>();
    send::<SlotControl<Unsync>>();
};

// Under `Unsync` nothing is shared, and nothing that was vended crosses, typed, counted or erased.
not!(Sync: Pool<Unsync>, Lent<Unsync>, Faulty<Unsync>, Header<Unsync>, HeapBackend<Unsync>);
not!(Send:
    HeapBackend<Unsync>,
    SegmentMut<&'static Pool<Unsync>>,
    SegmentMut<&'static Pool<Unsync>, Uninit>,
    SegmentMut<&'static Lent<Unsync>>,
    SegmentMut<&'static Faulty<Unsync>>,
    SegmentMut<Arc<Pool<Unsync>>>,
    SegmentMut<&'static Erased<Unsync>>,
    SegmentMut<Arc<Erased<Unsync>>>,
    SegmentMut<HeapBackend<Unsync>>,
);
not!(Sync:
    SegmentMut<&'static Pool<Unsync>>,
    SegmentMut<&'static Pool<Unsync>, Uninit>,
    SegmentMut<&'static Lent<Unsync>>,
    SegmentMut<Arc<Pool<Unsync>>>,
    SegmentMut<&'static Erased<Unsync>>,
    SegmentMut<HeapBackend<Unsync>>,
);

// Erased without a word about threads, a backend is taken for one that must not cross.
not!(Send:
    SegmentMut<&'static Erased<Blocking>>,
    SegmentMut<Arc<Erased<Blocking>>>,
    SegmentMut<Arc<ErasedSync<Blocking>>>,
);
not!(Sync: SegmentMut<&'static Erased<Blocking>>, SegmentMut<Arc<ErasedSync<Blocking>>>);

#[test]
fn the_compiler_has_checked_it() {
    // The constants above are the test; this makes it show in the count.
    assert_eq!(Unsync::NAME, "Unsync");
}

/// A group crosses threads where its segments and its list do.
const _: fn() = || {
    send::<Group<Arc<Pool<Blocking>>, HeapSource>>();
    sync::<Group<Arc<Pool<Blocking>>, HeapSource>>();
    send::<Group<&Pool<Critical>, HeapSource>>();
};
not!(Send: Group<&'static Pool<Unsync>, HeapSource>);
