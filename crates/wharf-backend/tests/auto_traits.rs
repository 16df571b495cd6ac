//! Who may cross threads, for every policy, reference and route. All of it is decided by the compiler:
//! a wrong line here does not build.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::sync::Arc;

use wharf_backend::{
    FaultInject, Header, HeapBackend, Init, MemBackend, PoolBackend, SegmentMut, SlotControl,
    StaticPool, Uninit,
};
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
