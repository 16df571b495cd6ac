//! Device accesses that a driver begins by itself: in all four forms, and what the ticket says of them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{Books, Device};
use wharf_backend::{DeviceAddress, Heap, MemBackend, Place};
use wharf_engine::Stream;
use wharf_source::HeapSource;
use wharf_sync::{Blocking, StdClock, Unsync};
use wharf_tensor::{Access, NoTrace, Parts, Tensor, TensorError};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Timed = Parts<Memory, Arc<Books>, StdClock>;

fn host(target: &Timed, len: usize) -> Tensor<Timed> {
    Tensor::alloc(target, Arc::new(Heap::new()), len).unwrap()
}

fn target() -> Timed {
    Timed::with(Arc::default(), StdClock::new(), NoTrace)
}

#[test]
fn the_plain_form_waits_for_another_stream() {
    let (target, one, other) = (target(), Stream::claim().unwrap(), Stream::claim().unwrap());
    for (held, asked) in [
        (Access::Write, Access::Read),
        (Access::Write, Access::Write),
        (Access::Read, Access::Write),
    ] {
        let tensor = host(&target, 4);
        let storage = tensor.storage_id().unwrap();
        let ticket = tensor.begin(held, one.id()).unwrap();
        let tried = tensor.try_begin(asked, other.id());
        assert_eq!(tried.err(), Some(TensorError::WouldBlock { storage }));
        let limited = tensor.within(Duration::ZERO).begin(asked, other.id());
        assert_eq!(limited.err(), Some(TensorError::TimedOut { storage }));
        let mut context = Context::from_waker(Waker::noop());
        {
            // Dropped, so that nobody queues behind it.
            let mut task = pin!(tensor.when_ready().begin(asked, other.id()));
            assert!(task.as_mut().poll(&mut context).is_pending());
        }

        thread::scope(|threads| {
            let (begun, begins) = channel();
            let (tensor, id) = (&tensor, other.id());
            threads.spawn(move || {
                let ticket = tensor.begin(asked, id).unwrap();
                begun.send((ticket.access(), ticket.stream())).unwrap();
            });
            assert!(begins.try_recv().is_err(), "it waits");
            drop(ticket);
            assert_eq!(begins.recv().unwrap(), (asked, id));
        });
        let task = pin!(tensor.when_ready().begin(asked, other.id()));
        assert!(matches!(task.poll(&mut context), Poll::Ready(Ok(_))));
    }
}

/// What could never come is an error in the waiting form, too.
#[test]
fn the_plain_form_does_not_wait_for_itself_nor_for_a_guard() {
    type Sole = Parts<Heap<Unsync>, HeapSource>;
    let (one, other) = (Stream::claim().unwrap(), Stream::claim().unwrap());
    let tensor = Tensor::alloc(&Sole::new(HeapSource), Heap::new(), 4).unwrap();
    let storage = tensor.storage_id().unwrap();
    let ticket = tensor.begin(Access::Write, one.id()).unwrap();
    assert_eq!(
        tensor.begin(Access::Read, other.id()).err(),
        Some(TensorError::WouldDeadlock { storage })
    );
    let same = tensor.begin(Access::Write, one.id()).unwrap();
    drop((ticket, same));
    let guard = tensor.lend().unwrap();
    assert_eq!(
        tensor.begin(Access::Write, one.id()).err(),
        Some(TensorError::Guarded { storage })
    );
    assert!(tensor.begin(Access::Read, one.id()).is_ok());
    drop(guard);
    assert_eq!(
        Tensor::<Sole>::empty().begin(Access::Read, one.id()).err(),
        Some(TensorError::NoStorage)
    );
}

#[test]
fn a_ticket_says_where_the_device_is_to_go() {
    let (target, stream) = (target(), Stream::claim().unwrap());
    let tensor = host(&target, 32);
    let base = tensor.host_ptr().unwrap().addr().get();
    let at = |tensor: &Tensor<Timed>| {
        let ticket = tensor.begin(Access::Read, stream.id()).unwrap();
        assert_eq!(ticket.place(), tensor.place());
        assert_eq!(ticket.is_empty(), tensor.is_empty());
        match ticket.place() {
            Some(Place::Host(base)) => (base.addr().get(), ticket.len()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(at(&tensor), (base, 32));
    assert_eq!(at(&tensor.slice(8..12).unwrap()), (base + 8, 4));
    assert_eq!(at(&tensor.slice(32..).unwrap()), (base + 32, 0));
    let (_, second) = tensor.split(16).unwrap();
    assert_eq!(at(&second), (base + 16, 16));
    assert_eq!(at(&second.slice(1..3).unwrap()), (base + 17, 2));

    let device = Arc::new(Device::<Blocking>::new());
    let far = Tensor::alloc(&target, device, 8).unwrap();
    let Some(Place::Device(start)) = far.place() else {
        panic!("a device's")
    };
    let part = far.slice(3..5).unwrap();
    let ticket = part.begin(Access::Write, stream.id()).unwrap();
    let address = DeviceAddress::new(start.get() + 3);
    assert_eq!(
        (ticket.place(), ticket.len(), ticket.storage_id()),
        (Some(Place::Device(address)), 2, far.storage_id().unwrap())
    );
    let said = format!("{ticket:?}");
    assert!(said.contains("range: (3, 2)"), "{said}");
    let fake = Tensor::placeholder(&target, 8).unwrap();
    let ticket = fake.begin(Access::Write, stream.id()).unwrap();
    assert_eq!((ticket.place(), ticket.len()), (None, 8));
}
