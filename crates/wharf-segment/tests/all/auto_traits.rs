//! Which shared handles cross threads, for every policy, reference and route. All of it is decided by the
//! compiler: a wrong line here does not build.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::sync::Arc;

use wharf_backend::{Heap, MemBackend, PoolBackend, StaticPool};
use wharf_segment::{Cursor, Rope, Segment, View, ViewMut};
use wharf_source::{BumpSource, HeapSource, NullSource, StaticPoolSource};
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
{
    send::<Segment<&Pool<P>>>();
    sync::<Segment<&Pool<P>>>();
    send::<Segment<&Lent<P>>>();
    sync::<Segment<&Lent<P>>>();
    send::<Segment<&ErasedSync<P>>>();
    sync::<Segment<&ErasedSync<P>>>();
    send::<Segment<Arc<Pool<P>>>>();
    sync::<Segment<Arc<Pool<P>>>>();
    send::<Segment<Arc<ErasedBoth<P>>>>();
    sync::<Segment<Arc<ErasedBoth<P>>>>();
    send::<Segment<Heap<P>>>();
    sync::<Segment<Heap<P>>>();
    send::<View<&Pool<P>>>();
    sync::<View<&Pool<P>>>();
    send::<View<Arc<ErasedBoth<P>>>>();
    sync::<View<Arc<ErasedBoth<P>>>>();
    send::<ViewMut<&Pool<P>>>();
    sync::<ViewMut<Arc<ErasedBoth<P>>>>();
    send::<Rope<&Pool<P>>>();
    sync::<Rope<&Pool<P>>>();
    send::<Rope<&ErasedSync<P>, HeapSource, 8>>();
    sync::<Rope<Arc<ErasedBoth<P>>, NullSource, 0>>();
    send::<Cursor<'_, &Pool<P>>>();
    sync::<Cursor<'_, Arc<ErasedBoth<P>>>>();
}

/// A rope goes where its links and its source go.
const _: () = {
    send::<Rope<&Pool<Critical>, &StaticPoolSource<Critical, 64, 1>>>();
    sync::<Rope<&Pool<Critical>, &StaticPoolSource<Critical, 64, 1>>>();
};
not!(Send: Rope<&'static Pool<Critical>, &'static StaticPoolSource<Unsync, 64, 1>>);
not!(Sync: Rope<&'static Pool<Critical>, &'static BumpSource<'static>>);

const _: () = {
    shared::<Critical>();
    shared::<Blocking>();
};

// Counted by a cell, nothing crosses: typed, counted, on the heap or erased, and even where the backend itself
// claims that it may be shared.
not!(Send:
    Segment<&'static Pool<Unsync>>,
    Segment<&'static Lent<Unsync>>,
    Segment<&'static Erased<Unsync>>,
    Segment<&'static ErasedSync<Unsync>>,
    Segment<Arc<Pool<Unsync>>>,
    Segment<Arc<Erased<Unsync>>>,
    Segment<Arc<ErasedBoth<Unsync>>>,
    Segment<Heap<Unsync>>,
    View<&'static Pool<Unsync>>,
    View<Arc<ErasedBoth<Unsync>>>,
    Rope<&'static Pool<Unsync>>,
    Rope<&'static ErasedSync<Unsync>, HeapSource>,
    Rope<Arc<ErasedBoth<Unsync>>>,
    Cursor<'static, &'static Pool<Unsync>>,
);
not!(Sync:
    Segment<&'static Pool<Unsync>>,
    Segment<&'static Lent<Unsync>>,
    Segment<&'static Erased<Unsync>>,
    Segment<&'static ErasedSync<Unsync>>,
    Segment<Arc<Pool<Unsync>>>,
    Segment<Arc<Erased<Unsync>>>,
    Segment<Arc<ErasedBoth<Unsync>>>,
    Segment<Heap<Unsync>>,
    View<&'static Pool<Unsync>>,
    View<Arc<ErasedBoth<Unsync>>>,
    Rope<&'static Pool<Unsync>>,
    Rope<&'static ErasedSync<Unsync>, HeapSource>,
    Rope<Arc<ErasedBoth<Unsync>>>,
    Cursor<'static, &'static Pool<Unsync>>,
);

// Erased without a word about threads, a backend is taken for one that must not cross.
not!(Send:
    Segment<&'static Erased<Blocking>>,
    Segment<Arc<Erased<Blocking>>>,
    Segment<Arc<ErasedSync<Blocking>>>,
    View<&'static Erased<Blocking>>,
    ViewMut<&'static Erased<Blocking>>,
    Rope<&'static Erased<Blocking>>,
);
not!(Sync: Segment<&'static Erased<Blocking>>, Segment<Arc<ErasedSync<Blocking>>>);

#[test]
fn the_compiler_has_checked_it() {
    // The constants above are the test; this makes it show in the count.
    assert_eq!(Unsync::NAME, "Unsync");
}
