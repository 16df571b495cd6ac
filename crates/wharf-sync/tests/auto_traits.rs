//! What may be sent to another thread and what may be shared with it, for every part of every policy. Everything in
//! the layers above derives its own answer from these.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

use wharf_sync::{SyncPolicy, Unsync};

struct Probe<T>(PhantomData<T>);

/// The answer where the better one below does not apply.
trait Otherwise {
    const SEND: bool = false;
    const SYNC: bool = false;
}
impl<T> Otherwise for Probe<T> {}

struct SendProbe<T>(PhantomData<T>);
impl<T> Otherwise for SendProbe<T> {}
impl<T: Send> SendProbe<T> {
    const SEND: bool = true;
}
impl<T: Sync> Probe<T> {
    const SYNC: bool = true;
}

/// Whether the type is `Send`, and whether it is `Sync`.
macro_rules! send_sync {
    ($ty:ty) => {
        (SendProbe::<$ty>::SEND, Probe::<$ty>::SYNC)
    };
}

/// `Send`, and not `Sync`.
type Sent = Cell<u32>;
/// Neither.
type Kept = Rc<u32>;

const NEITHER: (bool, bool) = (false, false);
const SENT: (bool, bool) = (true, false);
const BOTH: (bool, bool) = (true, true);

#[test]
fn the_probes_tell() {
    assert_eq!(send_sync!(u32), BOTH);
    assert_eq!(send_sync!(Sent), SENT);
    assert_eq!(send_sync!(Kept), NEITHER);
}

/// Under a policy whose contexts share: everything is shared, except a lock whose value must stay where it is.
#[cfg(any(feature = "critical-section", feature = "spin", feature = "std"))]
macro_rules! shared {
    ($policy:ty) => {
        assert_eq!(send_sync!(<$policy as SyncPolicy>::Lock<Sent>), BOTH);
        assert_eq!(send_sync!(<$policy as SyncPolicy>::Lock<Kept>), NEITHER);
        assert_eq!(send_sync!(<$policy as SyncPolicy>::Count), BOTH);
        assert_eq!(send_sync!(<$policy as SyncPolicy>::Word), BOTH);
        assert_eq!(send_sync!(<$policy as SyncPolicy>::Event), BOTH);
    };
}

#[test]
fn unsync() {
    assert_eq!(send_sync!(<Unsync as SyncPolicy>::Lock<Sent>), SENT);
    assert_eq!(send_sync!(<Unsync as SyncPolicy>::Lock<u32>), SENT);
    assert_eq!(send_sync!(<Unsync as SyncPolicy>::Lock<Kept>), NEITHER);
    assert_eq!(send_sync!(<Unsync as SyncPolicy>::Count), SENT);
    assert_eq!(send_sync!(<Unsync as SyncPolicy>::Word), SENT);
    assert_eq!(send_sync!(<Unsync as SyncPolicy>::Event), SENT);
}

#[cfg(feature = "critical-section")]
#[test]
fn critical() {
    shared!(wharf_sync::Critical);
}

#[cfg(feature = "spin")]
#[test]
fn spin() {
    shared!(wharf_sync::Spin);
}

#[cfg(feature = "std")]
#[test]
fn blocking() {
    shared!(wharf_sync::Blocking);
}

#[cfg(feature = "loom")]
#[test]
fn loom() {
    shared!(wharf_sync::Loom);
}

/// [`IsrSafe`](wharf_sync::IsrSafe), which none but `Critical` is.
#[cfg(all(feature = "critical-section", feature = "spin", feature = "std"))]
#[test]
fn only_critical_is_isr_safe() {
    use wharf_sync::{Blocking, Critical, IsrSafe, Spin};

    struct IsrProbe<P>(PhantomData<P>);
    trait Otherwise {
        const SAFE: bool = false;
    }
    impl<P> Otherwise for IsrProbe<P> {}
    impl<P: IsrSafe> IsrProbe<P> {
        const SAFE: bool = true;
    }
    let safe = [
        IsrProbe::<Unsync>::SAFE,
        IsrProbe::<Spin>::SAFE,
        IsrProbe::<Blocking>::SAFE,
        IsrProbe::<Critical>::SAFE,
    ];
    assert_eq!(safe, [false, false, false, true]);
}
