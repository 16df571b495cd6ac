//! Completions and names under every interleaving (within the bounds below) of the threads that meet there.
//!
//! A wait that nobody ends is a deadlock, and fails the model. Blocks that are released are overwritten and kept until the model is
//! over, so that whoever still uses one finds rubbish.

use std::alloc::Layout;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use wharf_backend::Heap;
use wharf_engine::{Command, DescriptorQueue, Engine, Stream, StreamId};
use wharf_source::{BlockSource, HeapSource, SourceError};
use wharf_sync::{Loom, NoClock, SyncPolicy};
use wharf_tensor::{Directory, Launch, NoTrace, Parts, Tensor, Tickets};

/// The heap, whose blocks go back to it at the end.
#[derive(Clone)]
struct Kept(Arc<Books>);

/// Blocks that are out, and those that were released. Nothing is ordered by this lock that loom does not see: it is not loom's.
#[derive(Default)]
struct Books(Mutex<(usize, Vec<(usize, Layout)>)>);

impl Drop for Books {
    fn drop(&mut self) {
        for (block, layout) in self.0.lock().unwrap().1.drain(..) {
            let block = NonNull::new(std::ptr::with_exposed_provenance_mut(block)).unwrap();
            // SAFETY: it came from there, was released, and nobody looks any more.
            unsafe { HeapSource.release(block, layout) };
        }
    }
}

// SAFETY: every block is the heap's, and is vended once.
unsafe impl BlockSource for Kept {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.0.lock().unwrap().0 += 1;
        HeapSource.try_alloc(layout)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's block, which it does not use any more.
        unsafe { block.write_bytes(0xDD, layout.size()) };
        let mut books = self.0.0.lock().unwrap();
        books.0 -= 1;
        books.1.push((block.as_ptr().expose_provenance(), layout));
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        HeapSource.refusal(layout)
    }
    fn name(&self) -> &'static str {
        "kept"
    }
}

type Names = Arc<Directory<Loom, Kept>>;
type Model = Parts<Heap<Loom>, Kept, NoClock, NoTrace, Names>;

fn fresh() -> (Model, Names, Kept) {
    let (books, names) = (Kept(Arc::default()), Names::default());
    let target = Model::with_directory(books.clone(), NoClock, NoTrace, names.clone());
    (target, names, books)
}

impl Kept {
    fn out(&self) -> usize {
        self.0.0.lock().unwrap().0
    }
}

fn named(target: &Model, name: &str) -> Tensor<Model> {
    Tensor::alloc_named(target, Heap::new(), 1, name).unwrap()
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn completions_wake_whoever_waits_for_the_last_of_them() {
    explore(2, || {
        let (target, _, books) = fresh();
        let tensor = named(&target, "t");
        let (waits, completes) = (tensor.clone(), tensor.clone());
        let waiter = thread::spawn(move || waits.completions().unwrap().wait_for(2).unwrap());
        let completer = thread::spawn(move || completes.completions().unwrap().complete());
        tensor.completions().unwrap().complete();
        drop(tensor);
        waiter.join().unwrap();
        completer.join().unwrap();
        assert_eq!(books.out(), 0);
    });
}

/// Remembers that it was woken.
#[derive(Default)]
struct Task(AtomicBool);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_task_is_woken_or_sees_it() {
    explore(3, || {
        let (target, ..) = fresh();
        let tensor = named(&target, "t");
        let other = tensor.clone();
        let completer = thread::spawn(move || other.completions().unwrap().complete());
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        let mut context = Context::from_waker(&waker);
        let mut reached = pin!(tensor.completions().unwrap().reached(1));
        let mut polled = reached.as_mut().poll(&mut context);
        completer.join().unwrap();
        if polled.is_pending() {
            assert!(task.0.load(Ordering::Relaxed), "asleep for ever");
            polled = reached.as_mut().poll(&mut context);
        }
        assert_eq!(polled, Poll::Ready(1));
    });
}

#[test]
fn a_wait_for_a_count_goes_by_the_fence() {
    explore(3, || {
        let (target, ..) = fresh();
        let tensor = named(&target, "t");
        let other = tensor.clone();
        // If the wait took the storage, this would be refused; if the completion did, there would be none.
        let guard = tensor.lend_mut().unwrap();
        let completer = thread::spawn(move || other.completions().unwrap().complete());
        tensor.completions().unwrap().wait_for(1).unwrap();
        drop(guard);
        completer.join().unwrap();
    });
}

#[test]
fn a_reset_takes_what_it_answers() {
    explore(3, || {
        let (target, ..) = fresh();
        let tensor = named(&target, "t");
        let other = tensor.clone();
        let completer = thread::spawn(move || {
            let completions = other.completions().unwrap();
            completions.complete();
            completions.complete();
        });
        let completions = tensor.completions().unwrap();
        let before = completions.reset();
        completer.join().unwrap();
        assert_eq!(before + completions.count(), 2);
    });
}

/// A queue that another thread serves.
struct Served {
    queue: DescriptorQueue<Loom, Tickets<Model>, 1>,
    stream: StreamId,
}

// SAFETY: nobody touches the bytes; the stream is the test's own.
unsafe impl Engine for Served {
    type Policy = Loom;
    type Cargo = Tickets<Model>;
    fn stream(&self) -> StreamId {
        self.stream
    }
    unsafe fn submit(
        &self,
        descriptor: wharf_engine::Descriptor,
        cargo: Tickets<Model>,
    ) -> Result<
        wharf_engine::Sequence,
        wharf_engine::Returned<Tickets<Model>, wharf_engine::SubmitError>,
    > {
        self.queue.push(descriptor, cargo)
    }
    fn poll(
        &self,
        sequence: wharf_engine::Sequence,
        waker: Option<&Waker>,
    ) -> Poll<Option<wharf_engine::Completion<Tickets<Model>>>> {
        self.queue.poll(sequence, waker)
    }
    fn detach(&self, sequence: wharf_engine::Sequence) {
        self.queue.detach(sequence);
    }
    fn abort(&self, sequence: wharf_engine::Sequence) {
        self.queue.abort(sequence);
    }
    fn outstanding(&self) -> Option<std::ops::RangeInclusive<wharf_engine::Sequence>> {
        self.queue.outstanding()
    }
    fn completed(&self) -> &<Loom as SyncPolicy>::Event {
        self.queue.completed()
    }
}

#[test]
fn whoever_has_seen_the_count_finds_the_bytes_free_and_the_last_one_cleans_up() {
    let stream = Stream::claim().unwrap();
    let id = stream.id();
    explore(2, move || {
        let (target, names, books) = fresh();
        let engine = loom::sync::Arc::new(Served {
            queue: DescriptorQueue::new(),
            stream: id,
        });
        let tensor = named(&target, "out");
        drop(engine.launch(Command::Fill(1), &[tensor.output()]).unwrap());
        let served = engine.clone();
        let worker = thread::spawn(move || served.queue.next().unwrap().finish(Ok(())));
        tensor.completions().unwrap().wait_for(1).unwrap();
        tensor.try_write(0, &[2]).unwrap();
        drop(tensor);
        assert_eq!(names.iter().count(), 0);
        worker.join().unwrap();
        assert_eq!(books.out(), 0);
    });
}

#[test]
fn a_launch_and_the_last_tensor_go_in_any_order() {
    let stream = Stream::claim().unwrap();
    let id = stream.id();
    explore(2, move || {
        let (target, _, books) = fresh();
        let engine = loom::sync::Arc::new(Served {
            queue: DescriptorQueue::new(),
            stream: id,
        });
        let tensor = named(&target, "out");
        drop(engine.launch(Command::Fill(1), &[tensor.output()]).unwrap());
        let served = engine.clone();
        let worker = thread::spawn(move || served.queue.next().unwrap().finish(Ok(())));
        drop(tensor);
        worker.join().unwrap();
        assert_eq!(books.out(), 0);
    });
}

#[test]
fn a_name_that_is_found_is_whole_while_its_tensor_goes() {
    explore(3, || {
        let (target, names, books) = fresh();
        let stays = named(&target, "stays");
        let goes = stays.slice(..).unwrap().named(&target, "goes").unwrap();
        let leaver = thread::spawn(move || drop(goes));
        let id = stays.storage_id().unwrap();
        let found: Vec<_> = names.find(id).collect();
        let told: Vec<_> = found.iter().map(|entry| entry.name()).collect();
        assert!(told == ["stays", "goes"] || told == ["stays"], "{told:?}");
        for entry in &found {
            assert!((1..=2).contains(&entry.holders()));
        }
        leaver.join().unwrap();
        // The entries alone keep the name of the one that has gone.
        assert_eq!(books.out(), 2 + found.len().saturating_sub(1));
        assert_eq!(names.iter().count(), 1);
        drop((found, stays));
        assert_eq!(books.out(), 0);
    });
}

#[test]
fn neighbours_leave_and_come_at_once() {
    explore(2, || {
        let (target, names, books) = fresh();
        let first = named(&target, "first");
        let second = first.slice(..).unwrap().named(&target, "second").unwrap();
        let last = first.slice(..).unwrap().named(&target, "last").unwrap();
        let leaver = thread::spawn(move || drop(first));
        let comes = last.slice(..).unwrap();
        let comer = thread::spawn(move || comes.named(&target, "comes").unwrap());
        drop(second);
        leaver.join().unwrap();
        let come = comer.join().unwrap();
        let told: Vec<_> = names.iter().map(|entry| entry.name().to_owned()).collect();
        assert_eq!(told, ["last", "comes"]);
        drop((last, come));
        assert_eq!((names.iter().count(), books.out()), (0, 0));
    });
}

#[test]
fn a_storage_lives_while_its_name_is_looked_at() {
    explore(3, || {
        let (target, names, books) = fresh();
        let only = named(&target, "only");
        let leaver = thread::spawn(move || drop(only));
        for entry in &*names {
            assert_eq!(
                (entry.name(), entry.holders(), entry.in_flight()),
                ("only", 1, (0, 0))
            );
        }
        leaver.join().unwrap();
        assert_eq!((names.iter().count(), books.out()), (0, 0));
    });
}
