//! Who may cross threads: decided by the policy, and checked when this is compiled.

use core::cell::Cell;

use wharf_source::{
    ArrayIntoIter, ArraySlot, Block, BlockArray, BumpSource, FaultSource, NullSource, Owned,
    PoolSource, StaticPoolSource,
};
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

// An array, and what it is taken apart into, are what their elements and their handle are.
const _: () = {
    send::<BlockArray<Cell<u8>, NullSource>>();
    sync::<BlockArray<u8, NullSource>>();
    send::<ArrayIntoIter<Cell<u8>, NullSource>>();
    sync::<ArrayIntoIter<u8, NullSource>>();
    send::<ArraySlot<'static, Cell<u8>>>();
    sync::<ArraySlot<'static, u8>>();
};
not!(Send: BlockArray<*const u8, NullSource>, BlockArray<u8, &'static UnsyncPool>);
not!(Sync: BlockArray<Cell<u8>, NullSource>, BlockArray<u8, &'static UnsyncPool>);
not!(Send: ArrayIntoIter<*const u8, NullSource>, ArraySlot<'static, *const u8>);
not!(Sync: ArrayIntoIter<Cell<u8>, NullSource>, ArraySlot<'static, Cell<u8>>);

// A bump source has one context; its upstream may have reasons of its own to stay there.
type Bump = BumpSource<'static>;
const _: () = {
    send::<Bump>();
    send::<Block<Bump>>();
};
not!(Sync: Bump, Block<Bump>);
not!(Send: Block<&'static Bump>, BlockArray<u8, &'static Bump>);
not!(Send: BumpSource<'static, &'static UnsyncPool>);

// A faulty source is shared as its policy says, if what it wraps is.
const _: () = send::<FaultSource<NullSource>>();
not!(Sync: FaultSource<NullSource>);
not!(Send: FaultSource<&'static UnsyncPool>);

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
        send::<BlockArray<u8, &'static Static>>();
        sync::<FaultSource<&'static Static, Critical>>();
    };
    not!(Sync: FaultSource<&'static UnsyncPool, Critical>);
    not!(Send: BlockArray<*const u8, &'static Static>);
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
