//! The channel's memory waited for, wrapped and shared by users who do not know of each other.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::Wake;

use wharf_backend::wrap::{AllocAsync, AllocWaitError, Finding, OwnsBytes, Waits, alloc_wait};
use wharf_backend::{
    AllocError, AllocHint, BackendExt, Caps, Checked, FaultInject, MemBackend, MemSpace, Scrub,
    SegmentMut, Shared,
};
use wharf_softdma::{Channel, Config, SoftDma};
use wharf_sync::{Clock, NoClock};

type Device = SoftDma<SegmentMut<Arc<Channel>>, 4>;

const MEMORY: usize = 1024;

fn device() -> Device {
    SoftDma::open(Config::new(MEMORY)).expect("a small device")
}

/// A task that counts its wakes.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn poll<F: Future>(self: &Arc<Self>, future: core::pin::Pin<&mut F>) -> Poll<F::Output> {
        let waker = Arc::clone(self).into();
        future.poll(&mut Context::from_waker(&waker))
    }
    fn wakes(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn any_user_of_the_channel_wakes_who_waits_for_its_memory() {
    let device = device();
    let channel = device.channel();
    // Three users: plainly, through a wrapper, and a tensor's kind of handle, erased.
    let scrubbed = Scrub::new(Shared::new(device.channel()));
    let plain = SegmentMut::alloc(device.channel(), 512).unwrap();
    let wrapped = scrubbed.alloc(256).unwrap();
    let erased: SegmentMut<Arc<dyn MemBackend<Policy = _> + Send + Sync>, _> =
        SegmentMut::alloc(device.channel(), 256).unwrap().erase();

    let task = Arc::new(Task::default());
    let mut waiter = pin!(AllocAsync::new(device.channel(), MEMORY, AllocHint::NONE));
    assert!(task.poll(waiter.as_mut()).is_pending());
    drop(plain);
    assert_eq!(task.wakes(), 1);
    assert!(task.poll(waiter.as_mut()).is_pending(), "half is in use");
    drop(wrapped);
    assert_eq!(task.wakes(), 2);
    assert!(task.poll(waiter.as_mut()).is_pending());
    drop(erased);
    assert_eq!(task.wakes(), 3);
    let Poll::Ready(Ok(all)) = task.poll(waiter.as_mut()) else {
        panic!("all of it is free")
    };
    assert_eq!(all.len(), MEMORY);
    assert_eq!(channel.census().refused, 0, "nobody was told of a refusal");
    assert_eq!(channel.ledger().census, channel.census());
    // Who does not wait is told, and counted.
    assert!(channel.alloc(1).is_err());
    assert_eq!(
        (channel.census().refused, channel.census().largest_refused),
        (1, MEMORY)
    );
}

#[test]
fn a_thread_waits_through_a_wrapper_for_what_others_have() {
    let device = device();
    let theirs = SegmentMut::alloc(device.channel(), MEMORY).unwrap();
    let mine = Arc::new(FaultInject::new(Shared::new(device.channel())));
    let waiter = {
        let mine = Arc::clone(&mine);
        std::thread::spawn(move || {
            alloc_wait(mine, 100, AllocHint::NONE, &NoClock, None).map(|memory| memory.len())
        })
    };
    drop(theirs);
    assert_eq!(waiter.join().unwrap(), Ok(100));
    assert_eq!(mine.census().in_use, 0);
}

/// A clock that has stopped.
struct Late;
impl Clock for Late {
    fn now(&self) -> Duration {
        Duration::from_secs(9)
    }
}

#[test]
fn closing_ends_every_wait_and_a_deadline_one() {
    let device = device();
    let held = SegmentMut::alloc(device.channel(), MEMORY).unwrap();
    let late = device
        .channel()
        .alloc_wait(64, &Late, Some(Duration::from_secs(1)))
        .map(drop);
    assert_eq!(late, Err(AllocWaitError::TimedOut { requested: 64 }));

    let task = Arc::new(Task::default());
    let mut first = pin!(AllocAsync::new(device.channel(), 64, AllocHint::NONE));
    let mut second = pin!(AllocAsync::new(device.channel(), 64, AllocHint::NONE));
    assert!(task.poll(first.as_mut()).is_pending());
    assert!(task.poll(second.as_mut()).is_pending());
    let (started, thread) = mpsc::channel();
    let channel = device.channel();
    let third = std::thread::spawn(move || {
        started.send(()).unwrap();
        channel.alloc_wait(64, &NoClock, None).map(drop)
    });
    thread.recv().unwrap();

    device.close();
    assert_eq!(
        task.wakes(),
        1,
        "the first looks, and wakes the next when it goes"
    );
    let closed =
        |answer: Poll<Result<(), AllocError>>| answer == Poll::Ready(Err(AllocError::Closed));
    assert!(closed(task.poll(first.as_mut()).map_ok(drop)));
    assert_eq!(task.wakes(), 2);
    assert!(closed(task.poll(second.as_mut()).map_ok(drop)));
    assert_eq!(
        third.join().unwrap(),
        Err(AllocWaitError::Refused(AllocError::Closed))
    );
    drop(held);
}

#[test]
fn device_memory_is_checked_and_scrubbed_without_the_other_users() {
    const fn owns<B: OwnsBytes>() {}
    owns::<Channel>();
    owns::<Shared<Arc<Channel>>>();

    let device = device();
    let theirs = SegmentMut::alloc(device.channel(), 64)
        .unwrap()
        .filled(1)
        .unwrap();
    {
        let (told, found) = mpsc::channel();
        let checked = Checked::<_, _, 2>::new(Shared::new(device.channel()), move |finding| {
            told.send(finding).unwrap();
        });
        assert_eq!(checked.space(), MemSpace::Device);
        assert!(
            checked
                .caps()
                .contains(Caps::OWNS_BYTES | Caps::VENDS_INITIALISED)
        );
        let mine = checked.alloc(10).unwrap().init_from(b"0123456789").unwrap();
        // A canary of the alignment in front, eight bytes behind: 82 bytes, two granules.
        assert_eq!(device.channel().ledger().census.in_use, 64 + 128);
        let mut bytes = [0; 10];
        mine.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"0123456789");
        drop(mine);
        assert_eq!(found.try_recv().ok(), None::<Finding>);
    }
    {
        let scrubbed = Scrub::with_byte(Shared::new(device.channel()), 0x5A);
        drop(scrubbed.alloc(64).unwrap().filled(7).unwrap());
        assert_eq!(scrubbed.missed(), 0);
    }
    // Device memory has values from the start: those that the last owner left.
    let after = SegmentMut::alloc(device.channel(), 64)
        .unwrap()
        .initialised()
        .unwrap();
    let mut bytes = [0; 64];
    after.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0x5A; 64]);
    theirs.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64]);
}
