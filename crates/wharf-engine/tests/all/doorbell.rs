//! Descriptor, barrier, doorbell: in this order, or not at all.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_engine::{Barrier, DataBarrier, Doorbell};

#[derive(Default)]
struct Log(RefCell<Vec<&'static str>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.borrow_mut().push(what);
    }
    fn take(&self) -> Vec<&'static str> {
        self.0.take()
    }
}

struct Noted<'l>(&'l Log);
// SAFETY: nothing here shares memory with a device.
unsafe impl Barrier for Noted<'_> {
    fn order(&self) {
        self.0.note("barrier");
    }
}

#[test]
fn the_barrier_is_between_the_descriptor_and_the_doorbell() {
    let log = Log::default();
    let doorbell = Doorbell::with_barrier(|| log.note("ring"), Noted(&log));
    let slot = doorbell.publish(|| {
        log.note("write");
        3
    });
    assert_eq!(slot, 3);
    assert_eq!(log.take(), ["write", "barrier", "ring"]);
    doorbell.ring();
    assert_eq!(log.take(), ["barrier", "ring"]);
    assert_eq!(doorbell.try_publish(|| Ok::<_, ()>(4)), Ok(4));
    assert_eq!(log.take(), ["barrier", "ring"]);
}

#[test]
fn what_was_not_written_is_not_announced() {
    let log = Log::default();
    let doorbell = Doorbell::with_barrier(|| log.note("ring"), Noted(&log));
    assert_eq!(
        doorbell.try_publish(|| Err::<(), _>("no room")),
        Err("no room")
    );
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        doorbell.publish(|| panic!("half written, for a test"));
    }));
    assert!(panicked.is_err());
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn what_the_device_says_is_ordered_before_what_it_wrote() {
    let log = Log::default();
    let doorbell = Doorbell::with_barrier(|| log.note("ring"), Noted(&log));
    let looked = doorbell.observe(|| {
        log.note("look");
        Some(5)
    });
    assert_eq!(looked, Some(5));
    assert_eq!(log.take(), ["look", "barrier"]);
    assert_eq!(doorbell.observe(|| None::<()>), None);
    assert_eq!(log.take(), [""; 0], "nothing to order");
}

#[test]
fn a_doorbell_can_be_a_constant() {
    const DOORBELL: Doorbell<fn()> = Doorbell::new(|| ());
    DOORBELL.ring();
    DataBarrier.order();
    assert_eq!(format!("{DOORBELL:?}"), "Doorbell { .. }");
}
