//! Values that exist before the program runs.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;

/// Has a value that is a constant, so that a `static` generic over a policy needs no start-up code.
///
/// A `const fn` cannot call the functions of a trait, but it can name an associated constant. Every
/// initial value in this workspace is all zero bytes, so that such statics land in `.bss`.
///
/// ```
/// use core::cell::Cell;
/// use wharf_sync::{ConstInit, Lock, SyncPolicy, Unsync};
///
/// struct Tally<P: SyncPolicy>(P::Lock<Cell<u32>>);
/// impl<P: SyncPolicy> Tally<P>
/// where
///     P::Lock<Cell<u32>>: ConstInit,
/// {
///     const fn new() -> Self {
///         Self(ConstInit::INIT)
///     }
/// }
/// const TALLY: Tally<Unsync> = Tally::new();
/// assert_eq!(TALLY.0.with(Cell::get), 0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no constant to start from",
    note = "a policy need not have constants: in code for any policy demand this `ConstInit` of the caller, or construct at run time (`Lock::new`, `StaticPool::fresh`, `SlotControl::new`)"
)]
pub trait ConstInit {
    /// The initial value.
    const INIT: Self;
}

macro_rules! zero {
    ($($ty:ty = $zero:expr),* $(,)?) => {$(
        impl ConstInit for $ty {
            const INIT: Self = $zero;
        }
    )*};
}
zero!(
    u8 = 0,
    u16 = 0,
    u32 = 0,
    u64 = 0,
    usize = 0,
    bool = false,
    () = ()
);

impl<T: ConstInit> ConstInit for Cell<T> {
    const INIT: Self = Self::new(T::INIT);
}

impl<T: ConstInit> ConstInit for RefCell<T> {
    const INIT: Self = Self::new(T::INIT);
}

impl<T> ConstInit for Option<T> {
    const INIT: Self = None;
}

impl<T: ?Sized> ConstInit for PhantomData<T> {
    const INIT: Self = Self;
}
