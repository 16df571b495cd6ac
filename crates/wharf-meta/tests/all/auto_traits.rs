//! Who may cross threads: what a tensor of the same target may, and everything that is plain data.

use wharf_backend::Heap;
use wharf_meta::{
    Adler32, BindError, DType, F8E4M3, ModelTensors, Name, SetError, SetIter, Shape, Strided,
    TensorInfo, TensorSet, Typed, TypedError,
};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Unsync};
use wharf_tensor::{Hosted, Parts};

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

type Here = Parts<Heap<Unsync>, HeapSource>;
type Across = Parts<Heap<Blocking>, HeapSource>;

macro_rules! crosses {
    ($($type:ty),+ $(,)?) => {
        $(const _: () = {
            send::<$type>();
            sync::<$type>();
        };)+
    };
}

crosses!(
    DType,
    F8E4M3,
    Name,
    Shape,
    Strided,
    TensorInfo,
    ModelTensors<'static>,
    Adler32,
    SetError,
    BindError,
    TypedError,
    TensorSet<Hosted>,
    TensorSet<Across>,
    SetIter<'static, Across>,
    Typed<Hosted>,
    Typed<Across>,
    wharf_meta::dump::Dump,
    wharf_meta::dump::DumpError,
);
not!(Send: TensorSet<Here>, Typed<Here>, SetIter<'static, Here>);
not!(Sync: TensorSet<Here>, Typed<Here>, SetIter<'static, Here>);

#[cfg(feature = "zerocopy")]
mod guards {
    use super::*;
    use wharf_meta::{TypedReadGuard, TypedWriteGuard};

    crosses!(
        TypedReadGuard<'static, Across, u32>,
        TypedWriteGuard<'static, Across, u32>
    );
    not!(Send: TypedReadGuard<'static, Here, u32>, TypedWriteGuard<'static, Here, u32>);
    not!(Sync: TypedReadGuard<'static, Here, u32>, TypedWriteGuard<'static, Here, u32>);
}

#[cfg(feature = "safetensors")]
crosses!(
    wharf_meta::archive::Archive<'static>,
    wharf_meta::archive::ArchiveError
);

#[test]
fn errors_are_small_enough_to_be_returned() {
    assert!(size_of::<SetError>() <= 48, "{}", size_of::<SetError>());
    assert!(size_of::<BindError>() <= 128, "{}", size_of::<BindError>());
    assert!(
        size_of::<TypedError>() <= 128,
        "{}",
        size_of::<TypedError>()
    );
}
