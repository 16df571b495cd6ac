//! Nobody is woken where nobody waits: a wake costs every sleeper of the event a look.

use core::task::Poll;

use super::*;

#[test]
fn the_last_part_wakes_nobody_where_nobody_waits() {
    let fence = Fence::<Critical>::new();
    let before = fence.event.epoch();
    fence.split().unwrap();
    fence.rejoin();
    fence.rejoin();
    assert_eq!(fence.word.load(), 0);
    assert_eq!(fence.event.epoch(), before);
}

#[test]
fn who_gives_its_place_up_wakes_only_those_who_wait() {
    let streams = Streams::claim();
    let (read, write) = (
        Claim::DeviceRead(streams.a()),
        Claim::DeviceWrite(streams.b()),
    );
    let fence = Fence::<Critical>::new();
    let waker = core::task::Waker::noop();
    fence.try_begin(read).unwrap();
    let mut leaving = Turn::new(&fence, write);
    assert!(leaving.poll(waker).is_pending());
    // The end takes the mark of those who wait away with it; the place in the queue stays.
    fence.end(read);
    assert_eq!(fence.word.load(), 0x4000_0000);
    let woken = fence.event.epoch();
    drop(leaving);
    assert_eq!(fence.word.load(), 0);
    assert_eq!(fence.event.epoch(), woken, "nobody waits behind it");

    // With a reader behind it that does.
    fence.try_begin(read).unwrap();
    let mut leaving = Turn::new(&fence, write);
    assert!(leaving.poll(waker).is_pending());
    let mut reader = Turn::new(&fence, Claim::HostRead);
    assert!(reader.poll(waker).is_pending());
    let before = fence.event.epoch();
    drop(leaving);
    assert_ne!(fence.event.epoch(), before);
    assert_eq!(reader.poll(waker), Poll::Ready(Ok(())));
}
