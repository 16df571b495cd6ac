//! Who frees a storage, when the end of a device access and the way back to a segment meet.
//!
//! Under a policy that stops a thread where the test wants it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use wharf_backend::Heap;
use wharf_engine::{Access, Stream};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Clock, Epoch, Event, SyncPolicy, Wake, Who, Word};
use wharf_tensor::{Parts, Tensor, TensorError};

type Step = Box<dyn FnOnce() + Send>;

/// What the next load of a word runs after it, and what the next notification runs before it.
static AFTER_LOAD: Mutex<Option<Step>> = Mutex::new(None);
static BEFORE_NOTIFY: Mutex<Option<Step>> = Mutex::new(None);

fn run(step: &Mutex<Option<Step>>) {
    let taken = step.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(step) = taken {
        step();
    }
}

/// [`Blocking`], with those steps in between, and without the patience to wait.
#[derive(Debug)]
enum Staged {}

#[derive(Debug)]
struct StagedWord(<Blocking as SyncPolicy>::Word);

#[derive(Debug)]
struct StagedEvent;

// SAFETY: all but the steps is `Blocking`'s.
unsafe impl SyncPolicy for Staged {
    type Lock<T> = <Blocking as SyncPolicy>::Lock<T>;
    type Count = <Blocking as SyncPolicy>::Count;
    type Word = StagedWord;
    type Event = StagedEvent;
    const NAME: &'static str = "Staged";
    fn who() -> Who {
        Who::SOLE
    }
}

// SAFETY: that of `Blocking`.
unsafe impl Word for StagedWord {
    fn new(value: u32) -> Self {
        Self(Word::new(value))
    }
    fn load(&self) -> u32 {
        let value = self.0.load();
        run(&AFTER_LOAD);
        value
    }
    fn update(&self, step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        self.0.update(step)
    }
}

// SAFETY: without state.
unsafe impl Event for StagedEvent {
    fn new() -> Self {
        Self
    }
    fn epoch(&self) -> Epoch {
        Epoch::new(0)
    }
    fn wait<C: Clock + ?Sized>(&self, _: Epoch, _: &C, _: Option<Duration>) -> Wake {
        Wake::Never
    }
    fn notify(&self) {
        run(&BEFORE_NOTIFY);
    }
    fn register(&self, _: &Waker) {}
}

fn gate() -> (Sender<()>, Receiver<()>) {
    channel()
}

#[test]
fn a_storage_is_not_taken_from_under_the_end_of_a_device_access() {
    let stream = Stream::claim().unwrap();
    let target = Parts::<Heap<Staged>, HeapSource>::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    let ticket = tensor.begin(Access::Write, stream.id()).unwrap();
    // A wait that was given up leaves its mark: the end of the access will have somebody to wake.
    let given_up = tensor.read(0, &mut [0]).unwrap_err();
    assert!(matches!(given_up, TensorError::WouldDeadlock { .. }));

    let (at_the_wake, wakes) = gate();
    let (go_on, goes_on) = gate();
    *BEFORE_NOTIFY.lock().unwrap() = Some(Box::new(move || {
        at_the_wake.send(()).unwrap();
        goes_on.recv().unwrap();
    }));
    let (ended, device) = channel();
    *AFTER_LOAD.lock().unwrap() = Some(Box::new(move || {
        // As soon as `into_segment` has looked for the first time.
        ended.send(thread::spawn(move || drop(ticket))).unwrap();
        wakes.recv().unwrap();
    }));
    // The device has let go of the bytes, but not of the control block.
    let refused = tensor.into_segment().expect_err("somebody is at the wake");
    assert!(matches!(refused.error, TensorError::Held { others: 1, .. }));
    let tensor = refused.value;

    go_on.send(()).unwrap();
    device.recv().unwrap().join().unwrap();
    assert_eq!(tensor.into_segment().unwrap().len(), 8);
}
