//! Turns that tasks wait for, and how many writers are counted.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task: its turn, and how often it was woken.
struct Task<'f, P: SyncPolicy> {
    turn: Turn<'f, P>,
    wakes: Arc<Wakes>,
}

impl<'f, P: SyncPolicy> Task<'f, P> {
    fn new(fence: &'f Fence<P>, claim: Claim) -> Self {
        Self {
            turn: Turn::new(fence, claim),
            wakes: Arc::default(),
        }
    }
    fn poll(&mut self) -> Poll<Result<(), Refusal>> {
        self.turn.poll(&Waker::from(self.wakes.clone()))
    }
    fn woken(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }
}

const READY: Poll<Result<(), Refusal>> = Poll::Ready(Ok(()));

fn pending<P: SyncPolicy>(fence: &Fence<P>) -> u32 {
    PENDING.get(fence.word.load())
}

#[test]
fn what_is_free_is_granted_at_once_and_leaves_no_waker() {
    let fence = Fence::<Unsync>::new();
    for claim in [
        Claim::HostRead,
        Claim::HostWrite,
        Claim::GuardRead,
        Claim::GuardWrite,
    ] {
        let mut task = Task::new(&fence, claim);
        assert_eq!(task.poll(), READY);
        assert_eq!(Arc::strong_count(&task.wakes), 1);
        drop(task);
        assert_ne!(fence.word.load(), 0, "what was granted is the caller's");
        fence.end(claim);
        assert_eq!(fence.word.load(), 0);
    }
}

#[test]
fn a_task_waits_where_a_thread_could_not() {
    let streams = Streams::claim();
    let write = Claim::DeviceWrite(streams.a());
    let fence = Fence::<Unsync>::new();
    fence.try_begin(write).unwrap();
    let mut task = Task::new(&fence, Claim::HostRead);
    assert_eq!(task.poll(), Poll::Pending);
    assert_eq!(task.poll(), Poll::Pending, "polled without need");
    assert_eq!((task.woken(), pending(&fence)), (0, 0));
    fence.end(write);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(), READY);
    fence.end(Claim::HostRead);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn three_writers_are_counted_and_a_fourth_is_served_all_the_same() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(read).unwrap();
    let mut writers = [0; 4].map(|_| Task::new(&fence, Claim::HostWrite));
    for (writer, counted) in writers.iter_mut().zip([1, 2, 3, 3]) {
        assert_eq!(writer.poll(), Poll::Pending);
        assert_eq!(pending(&fence), counted);
    }
    let [mut first, mut second, third, mut fourth] = writers;
    fence.end(read);
    // The fourth has no turn while others have.
    assert_eq!(fourth.poll(), Poll::Pending);
    assert_eq!(first.poll(), READY);
    assert_eq!(pending(&fence), 2);
    assert_eq!(fourth.poll(), Poll::Pending);
    assert_eq!(pending(&fence), 3, "there is room for it now");
    fence.end(Claim::HostWrite);
    assert_eq!(fence.try_begin(Claim::HostRead), Err(Refusal::Held));
    assert_eq!(fourth.poll(), READY);
    fence.end(Claim::HostWrite);
    drop(third);
    assert_eq!(pending(&fence), 1);
    assert_eq!(fence.try_begin(Claim::HostRead), Err(Refusal::Held));
    assert_eq!(second.poll(), READY);
    fence.end(Claim::HostWrite);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn a_reader_behind_a_writer_is_woken_when_the_writer_is_dropped() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(read).unwrap();
    let mut writer = Task::new(&fence, Claim::GuardWrite);
    let mut reader = Task::new(&fence, Claim::HostRead);
    assert_eq!(writer.poll(), Poll::Pending);
    assert_eq!(reader.poll(), Poll::Pending, "behind the writer");
    drop(writer);
    assert_eq!(reader.woken(), 1);
    assert_eq!(reader.poll(), READY);
    fence.end(Claim::HostRead);
    fence.end(read);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn a_writer_whose_turn_it_was_passes_it_on_when_it_is_dropped() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(read).unwrap();
    let mut first = Task::new(&fence, Claim::HostWrite);
    assert_eq!(first.poll(), Poll::Pending);
    fence.end(read);
    assert_eq!(first.woken(), 1);
    // Comes when all is free but for the turn of the first, and is told of no end.
    let mut second = Task::new(&fence, Claim::HostWrite);
    assert_eq!(second.poll(), Poll::Pending);
    drop(first);
    assert_eq!(second.woken(), 1);
    assert_eq!(second.poll(), READY);
    fence.end(Claim::HostWrite);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn a_writer_that_is_dropped_at_any_poll_leaves_no_mark() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    for polls in 0..3 {
        let fence = Fence::<Unsync>::new();
        fence.try_begin(read).unwrap();
        let alone = fence.word.load();
        let mut writer = Task::new(&fence, Claim::HostWrite);
        for _ in 0..polls {
            assert_eq!(writer.poll(), Poll::Pending);
        }
        assert_eq!(pending(&fence), u32::from(polls > 0));
        drop(writer);
        assert_eq!(fence.word.load(), alone);
    }
}

#[test]
fn a_turn_that_meets_a_guard_is_over_and_leaves_no_mark() {
    let streams = Streams::claim();
    let write = Claim::DeviceWrite(streams.a());
    let fence = Fence::<Unsync>::new();
    fence.try_begin(write).unwrap();
    let mut reader = Task::new(&fence, Claim::HostRead);
    assert_eq!(reader.poll(), Poll::Pending);
    fence.end(write);
    fence.try_begin(Claim::GuardWrite).unwrap();
    assert_eq!(reader.poll(), Poll::Ready(Err(Refusal::Guarded)));
    fence.end(Claim::GuardWrite);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn a_forgotten_writer_keeps_its_place_and_no_more() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let fence = Fence::<Unsync>::new();
    fence.try_begin(read).unwrap();
    let mut writer = Task::new(&fence, Claim::HostWrite);
    assert_eq!(writer.poll(), Poll::Pending);
    core::mem::forget(writer.turn);
    assert_eq!(end_unless_waited(&fence.word, read), End::Waited);
    fence.end(read);
    assert!(fence.idle().is_ok(), "so the bytes can be had back");
    assert_eq!(fence.try_begin(Claim::HostRead), Err(Refusal::Held));
    assert_eq!(desert(&fence.word), End::Last);
}

#[test]
fn only_a_wait_that_sleeps_is_announced() {
    let streams = Streams::claim();
    let write = Claim::DeviceWrite(streams.a());
    let fence = Fence::<Unsync>::new();
    fence.try_begin(write).unwrap();
    let (outcome, slept) = Turn::new(&fence, Claim::HostRead).wait(&NoClock, None, || ());
    assert_eq!((outcome, slept), (Err(Refusal::Never), None));

    let fence = Fence::<Critical>::new();
    fence.try_begin(write).unwrap();
    let announced = Cell::new(0);
    let clock = Script::new(|step| {
        assert_eq!(announced.get(), 1, "before the first step, and once");
        if step == 2 {
            fence.end(write);
        }
    });
    let announce = || announced.set(announced.get() + 1);
    let (outcome, slept) = Turn::new(&fence, Claim::HostRead).wait(&clock, None, announce);
    assert_eq!((outcome, slept), (Ok(()), Some(())));
}

/// One more of what is granted passes who waits for it, and nothing else; and it is counted like any other.
#[test]
fn what_is_granted_is_granted_again_before_those_who_wait() {
    let streams = Streams::claim();
    for claim in [
        Claim::DeviceRead(streams.a()),
        Claim::DeviceWrite(streams.a()),
    ] {
        let fence = Fence::<Critical>::new();
        fence.try_begin(claim).unwrap();
        let mut writer = Task::new(&fence, Claim::HostWrite);
        assert_eq!(writer.poll(), Poll::Pending);
        assert_eq!(fence.try_begin(claim), Err(Refusal::Held));
        for _ in 1..63 {
            fence.again(claim).unwrap();
        }
        let full = fence.word.load();
        assert_eq!(fence.again(claim), Err(Refusal::Full(63)));
        assert_eq!(fence.word.load(), full);
        for _ in 0..63 {
            assert_eq!(writer.poll(), Poll::Pending);
            fence.end(claim);
        }
        assert_eq!(writer.poll(), READY);
        fence.end(Claim::HostWrite);
        assert_eq!(fence.idle(), Ok(()));
    }
}
