//! Split and deserted storages, and the ends that tell who is the last. The words are worked out by hand:
//! a device reader is `0x0800`, a device writer `0x2_0000`, stream n is n times `0x80_0000`.

use super::*;

const READER: u32 = 0x0800;
const WRITER: u32 = 0x2_0000;
const WAITED: u32 = 0x2000_0000;
const GONE: u32 = 0x600;

fn stream(id: StreamId) -> u32 {
    u32::from(id.get()) * 0x80_0000
}

#[test]
fn a_split_fence_grants_nothing_until_both_parts_are_back() {
    let streams = Streams::claim();
    let fence = Fence::<Unsync>::new();
    fence.split().unwrap();
    // The guard writer, and two parts.
    assert_eq!(fence.word.load(), 0x0440);
    for claim in streams.newcomers() {
        assert_eq!(fence.try_begin(claim), Err(Refusal::Split));
        let waited = fence.begin(claim, &NoClock, None);
        assert_eq!(waited, Err(Refusal::Split), "it is not waited for");
    }
    assert_eq!(fence.split(), Err(Refusal::Split));
    assert_eq!(fence.word.load(), 0x0440);
    assert!(fence.idle().is_err());
    fence.rejoin();
    assert_eq!(fence.word.load(), 0x0420);
    assert_eq!(fence.try_begin(Claim::HostRead), Err(Refusal::Split));
    fence.rejoin();
    assert_eq!(fence.word.load(), 0);
    assert!(fence.idle().is_ok());
}

#[test]
fn only_an_idle_fence_is_split() {
    let streams = Streams::claim();
    for (row, &holder) in streams.newcomers().iter().enumerate() {
        let fence = Fence::<Unsync>::new();
        fence.try_begin(holder).unwrap();
        let before = fence.word.load();
        // As a guard that writes.
        assert_eq!(fence.split(), beside(row, 3));
        assert_eq!(fence.word.load(), before);
    }
}

#[test]
fn the_last_part_wakes_who_waited_before_the_split() {
    let fence = Fence::<Critical>::new();
    // Nobody leaves this mark on an idle fence today; if somebody does, it is heeded.
    fence.word.update(|_| Some(WAITED)).unwrap();
    fence.split().unwrap();
    let before = fence.event.epoch();
    fence.rejoin();
    assert_eq!(fence.word.load(), WAITED | 0x0420);
    assert_eq!(fence.event.epoch(), before);
    fence.rejoin();
    assert_eq!(fence.word.load(), 0);
    assert_ne!(fence.event.epoch(), before);
}

#[test]
fn the_last_of_tensors_and_devices_is_told() {
    let streams = Streams::claim();
    let [read, write] = [
        Claim::DeviceRead(streams.a()),
        Claim::DeviceWrite(streams.a()),
    ];
    let a = stream(streams.a());

    // Without a device: the tensors.
    let fence = Fence::<Unsync>::new();
    assert_eq!(desert(&fence.word), End::Last);
    assert_eq!(fence.word.load(), GONE);

    // The device first: the tensors again.
    let fence = Fence::<Unsync>::new();
    fence.try_begin(read).unwrap();
    assert_eq!(end_unless_waited(&fence.word, read), End::Kept);
    assert_eq!(fence.word.load(), 0);
    assert_eq!(desert(&fence.word), End::Last);

    // The tensors first: the last device.
    let fence = Fence::<Unsync>::new();
    fence.try_begin(write).unwrap();
    fence.try_begin(read).unwrap();
    assert_eq!(fence.word.load(), a | WRITER | READER);
    assert_eq!(desert(&fence.word), End::Kept);
    assert_eq!(fence.word.load(), a | WRITER | READER | GONE);
    assert_eq!(end_unless_waited(&fence.word, write), End::Kept);
    assert_eq!(fence.word.load(), a | READER | GONE);
    assert_eq!(end_unless_waited(&fence.word, read), End::Last);
}

#[test]
fn a_host_that_writes_is_no_desert() {
    let streams = Streams::claim();
    for host in [
        Claim::HostWrite,
        Claim::GuardWrite,
        Claim::HostRead,
        Claim::GuardRead,
    ] {
        let fence = Fence::<Unsync>::new();
        fence.try_begin(host).unwrap();
        assert_eq!(End::after(fence.word.load()), End::Kept, "{host:?}");
        // A guard that was forgotten does not keep the storage from the last to go.
        assert_eq!(desert(&fence.word), End::Last, "{host:?}");
    }
    let fence = Fence::<Unsync>::new();
    fence.try_begin(Claim::GuardRead).unwrap();
    let read = Claim::DeviceRead(streams.b());
    fence.try_begin(read).unwrap();
    assert_eq!(desert(&fence.word), End::Kept);
    assert_eq!(end_unless_waited(&fence.word, read), End::Last);
}

#[test]
fn an_access_that_is_waited_for_does_not_end_unseen() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let a = stream(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(read).unwrap();
    let before = fence.event.epoch();
    let mut turn = Turn::new(&fence, Claim::HostWrite);
    assert!(turn.poll(core::task::Waker::noop()).is_pending());
    let marked = a | READER | WAITED | 0x4000_0000;
    assert_eq!(fence.word.load(), marked);
    assert_eq!(end_unless_waited(&fence.word, read), End::Waited);
    assert_eq!(fence.word.load(), marked, "nothing has ended");
    assert_eq!(fence.event.epoch(), before);
    fence.end(read);
    assert_eq!(fence.word.load(), 0x4000_0000);
    assert_ne!(fence.event.epoch(), before);
    drop(turn);
    assert_eq!(fence.word.load(), 0);

    // A waiter that has left with the last tensor leaves its mark and nobody to see it.
    let write = Claim::DeviceWrite(streams.b());
    for deserted_first in [false, true] {
        let fence = Fence::<Critical>::new();
        fence.try_begin(write).unwrap();
        let hurried = fence.begin(Claim::HostRead, &NoClock, Some(Duration::ZERO));
        assert_eq!(hurried, Err(Refusal::TimedOut));
        assert_eq!(fence.word.load(), stream(streams.b()) | WRITER | WAITED);
        if deserted_first {
            assert_eq!(desert(&fence.word), End::Kept);
            assert_eq!(end_unless_waited(&fence.word, write), End::Waited);
            assert_eq!(end_unseen(&fence.word, write), End::Last);
            assert_eq!(fence.word.load(), GONE);
        } else {
            assert_eq!(end_unless_waited(&fence.word, write), End::Waited);
            assert_eq!(end_unseen(&fence.word, write), End::Kept);
            assert_eq!(desert(&fence.word), End::Last);
        }
    }
}
