//! A segment is taken out of a tensor while others come and go between the steps of it. Every step that reads a state word
//! is a place where something may happen, and each is tried: under a policy whose words say when they are read.
//!
//! (A model checker finds the half of this where somebody wakes: see `loom_fronts`.)

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::common::Books;
use wharf_backend::Heap;
use wharf_engine::Stream;
use wharf_sync::{NoClock, SyncPolicy, Unsync, Who, Word};
use wharf_tensor::{Access, NoTrace, Parts, Target, Tensor, Ticket};

type Interrupt = Box<dyn FnOnce()>;

thread_local! {
    /// After so many reads something happens.
    static AFTER: RefCell<Option<(usize, Interrupt)>> = const { RefCell::new(None) };
    static HAND: RefCell<Option<Ticket<Sketch>>> = const { RefCell::new(None) };
}

/// One context, which is interrupted.
enum Interrupted {}

// SAFETY: nothing is `Sync`: words are cells, and the rest is `Unsync`'s.
unsafe impl SyncPolicy for Interrupted {
    type Lock<T> = <Unsync as SyncPolicy>::Lock<T>;
    type Count = <Unsync as SyncPolicy>::Count;
    type Word = ReadWord;
    type Event = <Unsync as SyncPolicy>::Event;
    const NAME: &'static str = "Interrupted";
    fn who() -> Who {
        Who::SOLE
    }
}

struct ReadWord(Cell<u32>);

// SAFETY: a cell. An interruption comes after the value was read.
unsafe impl Word for ReadWord {
    fn new(value: u32) -> Self {
        Self(Cell::new(value))
    }
    fn load(&self) -> u32 {
        let value = self.0.get();
        let due = AFTER.with_borrow_mut(|after| match after {
            Some((1, _)) => after.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        });
        if let Some((_, interrupt)) = due {
            interrupt();
        }
        value
    }
    fn update(&self, mut step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        let before = self.0.get();
        step(before).map(|after| self.0.set(after)).ok_or(before)?;
        Ok(before)
    }
}

type Sketch = Parts<Heap<Interrupted>, Arc<Books>>;

#[test]
fn a_device_that_comes_between_two_steps_keeps_its_bytes() {
    let stream = Stream::claim().unwrap();
    let target = Sketch::with(Arc::default(), NoClock, NoTrace);
    for reads in 1..5 {
        let tensor = Tensor::alloc(&target, Heap::new(), 2).unwrap();
        let (other, id) = (tensor.clone(), stream.id());
        // The other tensor gives a device access, and goes.
        let interrupt = move || {
            HAND.set(Some(other.begin(Access::Write, id).unwrap()));
            drop(other);
        };
        AFTER.set(Some((reads, Box::new(interrupt))));
        let taken = tensor.into_segment();
        assert!(
            taken.is_err(),
            "after {reads} reads, and the device is at it"
        );
        AFTER.take();
        HAND.take();
        // Nobody else is left: now it can be had.
        assert_eq!(&*taken.unwrap_err().value.into_segment().unwrap(), [0; 2]);
    }
    assert_eq!(
        (target.source().blocks(), target.source().foreign()),
        (0, 0)
    );
}
