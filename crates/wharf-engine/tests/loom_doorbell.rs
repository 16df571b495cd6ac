//! The doorbell under the model checker: a thread stands for the device, and sees whole descriptors.
//!
//! Doorbell and status are relaxed: all order comes from the barrier, as with a register. loom reports a race if it is missing.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use wharf_engine::{Barrier, Doorbell};

/// What the barrier of the architecture does between threads.
struct Modelled;
// SAFETY: a fence that is visible to the model.
unsafe impl Barrier for Modelled {
    fn order(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Memory that driver and device share, and the device's two registers.
struct Board {
    descriptor: UnsafeCell<u32>,
    result: UnsafeCell<u32>,
    doorbell: AtomicU32,
    status: AtomicU32,
}

// SAFETY: the cells are what is under test; loom checks every access to them.
unsafe impl Sync for Board {}
// SAFETY: as above.
unsafe impl Send for Board {}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        thread::yield_now();
    }
}

fn set(register: &AtomicU32) -> Option<()> {
    (register.load(Ordering::Relaxed) != 0).then_some(())
}

#[test]
fn a_device_sees_the_descriptor_and_the_driver_its_result() {
    loom::model(|| {
        let board = Arc::new(Board {
            descriptor: UnsafeCell::new(0),
            result: UnsafeCell::new(0),
            doorbell: AtomicU32::new(0),
            status: AtomicU32::new(0),
        });
        let there = Arc::clone(&board);
        let device = thread::spawn(move || {
            let status =
                Doorbell::with_barrier(|| there.status.store(1, Ordering::Relaxed), Modelled);
            until(|| status.observe(|| set(&there.doorbell)));
            // SAFETY: the driver has published it; loom checks.
            let descriptor = there.descriptor.with(|descriptor| unsafe { *descriptor });
            status.publish(|| {
                // SAFETY: the driver does not look before the status says so; loom checks.
                there
                    .result
                    .with_mut(|result| unsafe { *result = descriptor + 1 });
            });
        });
        let doorbell =
            Doorbell::with_barrier(|| board.doorbell.store(1, Ordering::Relaxed), Modelled);
        doorbell.publish(|| {
            // SAFETY: the device does not look before the doorbell rings; loom checks.
            board
                .descriptor
                .with_mut(|descriptor| unsafe { *descriptor = 41 });
        });
        until(|| doorbell.observe(|| set(&board.status)));
        // SAFETY: the device has published it; loom checks.
        let result = board.result.with(|result| unsafe { *result });
        assert_eq!(result, 42);
        device.join().unwrap();
    });
}
