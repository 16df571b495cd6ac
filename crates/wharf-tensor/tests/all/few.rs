//! A policy whose counts stick early, so that a test may reach the end of one: under the policies of `wharf-sync` that takes 2^31
//! handles at a time.
#![allow(unsafe_code, reason = "implements a policy")]

use std::cell::Cell;
use std::sync::Arc;

use wharf_backend::Heap;
use wharf_source::HeapSource;
use wharf_sync::{Count, NoClock, SyncPolicy, Unsync, Who};
use wharf_tensor::{Directory, NoTrace, Parts, Tensor};

#[derive(Debug)]
enum Few {}

#[derive(Debug)]
struct FewCount(Cell<u32>);

// SAFETY: `Unsync`'s parts, and a count that is not `Sync`.
unsafe impl SyncPolicy for Few {
    type Lock<T> = <Unsync as SyncPolicy>::Lock<T>;
    type Count = FewCount;
    type Word = <Unsync as SyncPolicy>::Word;
    type Event = <Unsync as SyncPolicy>::Event;
    const NAME: &'static str = "Few";
    fn who() -> Who {
        Who::SOLE
    }
}

// SAFETY: one is the last only of a count that has not stuck.
unsafe impl Count for FewCount {
    const LIMIT: u32 = 8;
    fn new(count: u32) -> Self {
        Self(Cell::new(count.min(Self::LIMIT)))
    }
    fn increment(&self) {
        self.0.set((self.0.get() + 1).min(Self::LIMIT));
    }
    fn decrement(&self) -> bool {
        match self.0.get() {
            Self::LIMIT => false,
            1 => true,
            more => {
                self.0.set(more - 1);
                false
            }
        }
    }
    fn is_unique(&self) -> bool {
        self.0.get() == 1
    }
    fn get(&self) -> u32 {
        self.0.get()
    }
}

type Names = Arc<Directory<Few, HeapSource>>;
type Counted = Parts<Heap<Few>, HeapSource, NoClock, NoTrace, Names>;

/// A name that stayed in the directory without its storage would be read there after the storage was freed.
#[test]
fn a_name_goes_with_its_storage_whatever_its_policy_counts_to() {
    let names = Names::default();
    let target = Counted::with_directory(HeapSource, NoClock, NoTrace, names.clone());
    let tensor = Tensor::alloc(&target, Heap::new(), 64).unwrap();
    let tensor = tensor.named(&target, "x").map_err(|refused| refused.error);
    let tensor = tensor.unwrap();
    let clones: Vec<_> = (0..20).map(|_| tensor.clone()).collect();
    assert_eq!(names.iter().count(), 1);
    drop((clones, tensor));
    assert_eq!(names.iter().count(), 0);
}
