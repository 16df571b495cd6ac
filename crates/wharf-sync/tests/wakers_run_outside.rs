//! A waker is foreign code, when it is woken and when it is dropped. No event does either inside its lock, so a
//! waker may come back to the event that called it.

use core::cell::Cell;
use std::task::{RawWaker, RawWakerVTable, Waker};

use wharf_sync::{Event, SyncPolicy, Unsync, WakerPlace};

/// What every end of a waker does, by a wake or without, and how many there were.
struct Hook<'e> {
    run: &'e dyn Fn(),
    calls: Cell<u32>,
}

static CALLS_BACK: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &CALLS_BACK), call, call, call);

fn call(data: *const ()) {
    // SAFETY: every waker with this table is made by `waker`, which says what its pointer is.
    let hook = unsafe { &*data.cast::<Hook<'_>>() };
    hook.calls.set(hook.calls.get() + 1);
    (hook.run)();
}

/// # Safety
/// The hook outlives the waker and all its clones, and none of them leaves this thread.
unsafe fn waker(hook: &Hook<'_>) -> Waker {
    let data = core::ptr::from_ref(hook).cast();
    // SAFETY: the functions of the table only call the hook, which is there, on this thread.
    unsafe { Waker::from_raw(RawWaker::new(data, &CALLS_BACK)) }
}

fn wakers_come_back<P: SyncPolicy>() {
    wakers_come_back_to::<P>(P::Event::notify);
    wakers_come_back_to::<P>(P::Event::notify_one);
}

fn wakers_come_back_to<P: SyncPolicy>(notify: fn(&P::Event)) {
    let event = P::Event::new();
    let come_back = || {
        let _ = event.epoch();
        event.register(Waker::noop());
        let mut place = WakerPlace::new();
        event.queue(&mut place, Waker::noop());
        let _ = event.withdraw(&mut place);
    };
    let hooks = [(); 16].map(|()| Hook {
        run: &come_back,
        calls: Cell::new(0),
    });
    let mut places = [(); 8].map(|()| WakerPlace::new());
    // More than any event has places for, so that some are displaced, and each twice, so that some are known.
    for (index, hook) in hooks.iter().enumerate() {
        // SAFETY: the hooks live to the end of this function, and the last `notify` lets go of all wakers.
        let waker = unsafe { waker(hook) };
        // Every other one queues, and takes back what it gave.
        if index % 2 == 0 {
            event.register(&waker);
            event.register(&waker);
        } else {
            event.queue(&mut places[index / 2], &waker);
            event.queue(&mut places[index / 2], &waker);
            if index % 4 == 1 {
                let _ = event.withdraw(&mut places[index / 2]);
            }
        }
    }
    notify(&event);
    event.notify();
    for hook in &hooks {
        assert!(
            hook.calls.get() >= 3,
            "ours, and the two that the event cloned"
        );
    }
}

#[test]
fn wakers_come_back_to_an_event_of_one_owner() {
    wakers_come_back::<Unsync>();
}

#[cfg(feature = "critical-section")]
#[test]
fn wakers_come_back_to_an_event_of_interrupts() {
    wakers_come_back::<wharf_sync::Critical>();
}

#[cfg(feature = "spin")]
#[test]
fn wakers_come_back_to_an_event_that_spins() {
    wakers_come_back::<wharf_sync::Spin>();
}

#[cfg(feature = "std")]
#[test]
fn wakers_come_back_to_an_event_of_threads() {
    wakers_come_back::<wharf_sync::Blocking>();
}
