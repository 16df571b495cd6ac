//! Who may cross threads: decided by the policy, and checked when this is compiled.

use core::cell::Cell;

use wharf_source::{Block, NullSource, Owned, PoolSource, StaticPoolSource};
use wharf_sync::Unsync;

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}

/// Fails to compile, as ambiguous, where the type has the trait.
macro_rules! not {
    ($trait:ident: $($type:ty),+ $(,)?) => {
        $(const _: () = {
            trait Either<A> {
                const HERE: () = ();
            }
            struct Has;
            impl<T: ?Sized> Either<()> for T {}
            impl<T: ?Sized + $trait> Either<Has> for T {}
            <$type as Either<_>>::HERE
        };)+
    };
}

type UnsyncPool = PoolSource<'static, Unsync>;
type UnsyncStatic = StaticPoolSource<Unsync, 64, 2>;

// One owner may take a pool elsewhere, but not share it, nor send what it hands out.
const _: () = {
    send::<UnsyncPool>();
    send::<UnsyncStatic>();
};
not!(Sync: UnsyncPool, UnsyncStatic);
not!(Send: Block<&'static UnsyncPool>, Block<&'static UnsyncStatic>);
not!(Sync: Block<&'static UnsyncPool>, Block<&'static UnsyncStatic>);
not!(Send: Owned<u8, &'static UnsyncPool>);
not!(Sync: Owned<u8, &'static UnsyncPool>);

// A value adds its own restrictions to those of the handle.
const _: () = {
    send::<Block<NullSource>>();
    sync::<Block<NullSource>>();
    send::<Owned<Cell<u8>, NullSource>>();
};
not!(Sync: Owned<Cell<u8>, NullSource>);
not!(Send: Owned<*const u8, NullSource>);

#[cfg(feature = "critical-section")]
mod critical {
    use super::*;
    use wharf_sync::Critical;

    type Pool = PoolSource<'static, Critical>;
    type Static = StaticPoolSource<Critical, 64, 2>;

    const _: () = {
        send::<Pool>();
        sync::<Pool>();
        send::<Static>();
        sync::<Static>();
        send::<Block<&'static Pool>>();
        send::<Block<&'static Static>>();
        sync::<Block<&'static Static>>();
        send::<Owned<u8, &'static Static>>();
    };
    not!(Send: Owned<*const u8, &'static Static>);
}

#[cfg(feature = "std")]
mod blocking {
    use super::*;
    use std::sync::Arc;
    use wharf_source::HeapSource;
    use wharf_sync::Blocking;

    const _: () = {
        sync::<PoolSource<'static, Blocking>>();
        sync::<StaticPoolSource<Blocking, 64, 2>>();
        send::<Block<Arc<PoolSource<'static, Blocking>>>>();
        send::<Block<HeapSource>>();
    };
    not!(Send: Block<std::rc::Rc<HeapSource>>);
}

#[test]
fn it_compiled() {}
