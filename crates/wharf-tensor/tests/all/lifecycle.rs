//! Placeholders, parts, exchange of storages, and the way back to a segment.

use std::sync::Arc;

use crate::common::{Books, Device, UNTOUCHED};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, Header, Heap, MemBackend, Place, SegmentMut,
};
use wharf_engine::{Command, CpuEngine, Stream};
use wharf_sync::{Blocking, Unsync};
use wharf_tensor::{Access, Launch, LaunchError, Parts, Tensor, TensorError, Tickets};

type OnHeap = Parts<Heap<Unsync>, Arc<Books>>;
type OnDevice = Parts<Arc<Device<Blocking>>, Arc<Books>>;

fn books() -> Arc<Books> {
    Arc::new(Books::default())
}

fn bytes<T: wharf_tensor::Target, const N: usize>(tensor: &Tensor<T>) -> [u8; N] {
    let mut bytes = [UNTOUCHED; N];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_placeholder_checks_everything_and_moves_nothing() {
    let (books, stream) = (books(), Stream::claim().unwrap());
    let target = OnHeap::new(books.clone());
    let fake = Tensor::placeholder(&target, 16).unwrap();
    assert_eq!((fake.len(), fake.space(), fake.place()), (16, None, None));

    let mut there = [7; 4];
    assert_eq!(fake.read(12, &mut there), Ok(()));
    assert_eq!(there, [7; 4], "the destination is untouched");
    assert_eq!(fake.write(0, &[1; 16]), Ok(()));
    assert_eq!(fake.fill(1), Ok(()));
    let out = TensorError::OutOfBounds {
        offset: 13,
        len: 4,
        size: 16,
    };
    assert_eq!(fake.read(13, &mut there), Err(out));

    // Copies succeed both ways, and the real side keeps its bytes.
    let real = Tensor::alloc(&target, Heap::new(), 16).unwrap();
    real.fill(3).unwrap();
    assert_eq!(fake.copy_from(&real), Ok(()));
    assert_eq!(real.copy_from(&fake), Ok(()));
    assert_eq!(bytes(&real), [3; 16]);
    assert_eq!(
        fake.slice(8..)
            .unwrap()
            .copy_from(&fake.slice(..8).unwrap()),
        Ok(())
    );

    // No bytes: nothing to lend, nothing for a device; but a fence like any other.
    let storage = fake.storage_id().unwrap();
    let not_host = TensorError::NotHostAddressable { storage };
    assert_eq!(fake.lend().err(), Some(not_host));
    assert_eq!(fake.lend_mut().err(), Some(not_host));
    let engine = CpuEngine::<Unsync, Tickets<OnHeap>>::new(Stream::claim().unwrap());
    assert_eq!(
        engine.launch(Command::Fill(1), &[fake.output()]).err(),
        Some(LaunchError::Operand {
            operand: 0,
            error: TensorError::Placeholder { storage }
        })
    );
    let ticket = fake.begin(Access::Write, stream.id()).unwrap();
    assert_eq!(
        fake.try_read(0, &mut there),
        Err(TensorError::WouldBlock { storage })
    );
    drop(ticket);
    assert_eq!(fake.try_read(0, &mut there), Ok(()));

    drop((fake, real));
    assert_eq!((books.blocks(), books.foreign()), (0, 0));
}

#[test]
fn parts_are_fenced_apart_and_the_whole_comes_back_with_the_last() {
    let (books, stream) = (books(), Stream::claim().unwrap());
    let whole = Tensor::alloc(&OnHeap::new(books.clone()), Heap::new(), 8).unwrap();
    whole.write(0, b"abcdefgh").unwrap();
    let window = whole.slice(2..7).unwrap();
    let (first, second) = window.split(3).unwrap();
    assert_eq!((&bytes(&first), &bytes(&second)), (b"cde", b"fg"));
    assert_eq!((first.len(), second.len(), books.blocks()), (3, 2, 3));

    let split = TensorError::Split {
        storage: whole.storage_id().unwrap(),
    };
    assert_eq!(whole.try_write(0, b"z"), Err(split));
    assert_eq!(whole.write(0, b"z"), Err(split), "nor is it waited for");
    assert_eq!(whole.lend().err(), Some(split));
    assert_eq!(window.split(1).err(), Some(split));
    assert_eq!(whole.begin(Access::Read, stream.id()).err(), Some(split));

    // One is the device's, the other the host's.
    let ticket = first.begin(Access::Write, stream.id()).unwrap();
    let mut lent = second.lend_mut().unwrap();
    lent.copy_from_slice(b"FG");
    assert!(matches!(
        first.try_write(0, b"C"),
        Err(TensorError::WouldBlock { .. })
    ));
    drop(lent);
    drop(ticket);

    // Parts have parts.
    let (c, de) = first.split(1).unwrap();
    c.fill(b'C').unwrap();
    de.write(1, b"E").unwrap();
    assert_eq!(
        second.copy_from(&de),
        Ok(()),
        "siblings copy like strangers"
    );
    assert_eq!(&bytes(&second), b"dE");
    drop((c, first));
    assert_eq!(whole.try_fill(0), Err(split), "one part of a part is left");
    drop(de);
    drop(second);
    assert_eq!(&bytes(&whole), b"abCdEdEh");
    assert_eq!(books.blocks(), 1);
    let (nothing, all) = whole.split(0).unwrap();
    assert_eq!((nothing.len(), &bytes(&all)), (0, b"abCdEdEh"));
}

#[test]
fn the_parts_and_their_tickets_outlive_the_whole() {
    let (books, stream) = (books(), Stream::claim().unwrap());
    let device = Arc::new(Device::<Blocking>::new());
    let whole = Tensor::alloc(&OnDevice::new(books.clone()), device.clone(), 8).unwrap();
    let (first, second) = whole.split(4).unwrap();
    drop(whole);
    first.fill(1).unwrap();
    second.fill(2).unwrap();
    assert_eq!((bytes(&first), bytes(&second)), ([1; 4], [2; 4]));
    let ticket = second.begin(Access::Read, stream.id()).unwrap();
    drop((first, second));
    assert_eq!(
        (device.segments(), books.blocks()),
        (1, 2),
        "the ticket's part, and the whole"
    );
    drop(ticket);
    assert_eq!((device.segments(), books.blocks()), (0, 0));
}

#[test]
fn parts_of_parts_go_deeper_than_the_stack() {
    const PAGES: usize = 3000;
    let carve = || {
        let books = books();
        let target = OnHeap::new(books.clone());
        let mut rest = Tensor::alloc(&target, Heap::new(), PAGES).unwrap();
        for page in 1..PAGES {
            let (first, others) = rest.split(1).unwrap();
            first.fill(7).unwrap();
            rest = others;
            // Its part, and every whole above it.
            assert_eq!(books.blocks(), page + 2);
            drop(first);
        }
        drop(rest);
        assert_eq!(books.blocks(), 0);
        // The same, with a device as the last holder.
        let stream = Stream::claim().unwrap();
        let mut rest = Tensor::alloc(&target, Heap::new(), PAGES).unwrap();
        for _ in 1..PAGES {
            rest = rest.split(1).unwrap().1;
        }
        let ticket = rest.begin(Access::Write, stream.id()).unwrap();
        drop(rest);
        assert_eq!(books.blocks(), PAGES);
        drop(ticket);
        assert_eq!(books.blocks(), 0);
    };
    // A small stack: what overflows one ends the program.
    let thread = std::thread::Builder::new().stack_size(128 << 10);
    thread.spawn(carve).unwrap().join().unwrap();
}

#[test]
fn splitting_is_all_or_nothing() {
    let (books, stream) = (books(), Stream::claim().unwrap());
    let target = OnHeap::new(books.clone());
    let tensor = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    let storage = tensor.storage_id().unwrap();
    let out = TensorError::OutOfBounds {
        offset: 9,
        len: 0,
        size: 8,
    };
    assert_eq!(tensor.split(9).err(), Some(out));
    assert_eq!(
        Tensor::<OnHeap>::empty().split(0).err(),
        Some(TensorError::NoStorage)
    );
    for nth in 1..=2 {
        books.refuse_nth(nth);
        assert!(matches!(tensor.split(4), Err(TensorError::Alloc(_))));
        assert_eq!(tensor.try_fill(7), Ok(()), "whole as before");
        assert_eq!(books.blocks(), 1);
    }
    books.refuse_nth(0);
    let guard = tensor.lend().unwrap();
    assert_eq!(
        tensor.split(4).err(),
        Some(TensorError::Guarded { storage })
    );
    drop(guard);
    let ticket = tensor.begin(Access::Read, stream.id()).unwrap();
    assert_eq!(
        tensor.split(4).err(),
        Some(TensorError::WouldBlock { storage })
    );
    drop(ticket);
    assert!(tensor.split(4).is_ok());
}

#[test]
fn a_device_with_the_whole_keeps_the_parts_waiting_for_nobody() {
    // `split` takes the storage at once or not at all; afterwards a part is as free as a fresh storage.
    let stream = Stream::claim().unwrap();
    let target = OnHeap::new(books());
    let tensor = Tensor::alloc(&target, Heap::new(), 2).unwrap();
    let (first, second) = tensor.split(1).unwrap();
    for _ in 0..40 {
        drop(first.begin(Access::Write, stream.id()).unwrap());
    }
    assert_eq!((first.in_flight(), second.in_flight()), ((0, 0), (0, 0)));
}

/// The heap, which says that it maintains caches and that its segments are on lines of 32 bytes.
struct Lines(Heap<Unsync>);

// SAFETY: the heap's own segments; it promises 32 bytes of alignment, and they are asked for in vain only of the test.
unsafe impl MemBackend for Lines {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<std::ptr::NonNull<Header<Unsync>>> {
        self.0.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.0.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: std::ptr::NonNull<Header<Unsync>>) {
        // SAFETY: as the caller promises.
        unsafe { self.0.reclaim(header) }
    }
    unsafe fn place(&self, header: std::ptr::NonNull<Header<Unsync>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.0.place(header) }
    }
    fn may_own(&self, header: std::ptr::NonNull<Header<Unsync>>) -> bool {
        self.0.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.0.caps() | Caps::NEEDS_CACHE_OPS
    }
    fn alignment(&self) -> usize {
        32
    }
    fn max_segment_size(&self) -> usize {
        self.0.max_segment_size()
    }
    fn census(&self) -> Census {
        self.0.census()
    }
    fn name(&self) -> &'static str {
        "lines"
    }
}

#[test]
fn a_cut_through_a_cache_line_is_refused() {
    type OnLines = Parts<Arc<Lines>, Arc<Books>>;
    let target = OnLines::new(books());
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "counted, not shared between threads"
    )]
    let lines = Arc::new(Lines(Heap::new()));
    let tensor = Tensor::alloc(&target, lines, 128).unwrap();
    let cut = |tensor: &Tensor<OnLines>, at| tensor.split(at).map(drop);
    assert_eq!(cut(&tensor, 64), Ok(()));
    let unaligned = |at| Err(TensorError::Unaligned { at, alignment: 32 });
    assert_eq!(cut(&tensor, 63), unaligned(63));
    let window = tensor.slice(16..).unwrap();
    assert_eq!(cut(&window, 16), Ok(()), "it is the segment that has lines");
    assert_eq!(cut(&window, 32), unaligned(48));
    assert_eq!(cut(&window, 0), Ok(()), "nothing has no line");
    let inner = window.slice(..24).unwrap();
    assert_eq!(cut(&inner, 24), Ok(()));
    let (_, upper) = tensor.split(32).unwrap();
    assert_eq!(cut(&upper, 32), Ok(()));
    assert_eq!(cut(&upper, 8), unaligned(40), "also of a part");
}

#[test]
fn another_segment_is_attached_to_one_handle_alone() {
    let (books, stream) = (books(), Stream::claim().unwrap());
    let target = OnHeap::new(books.clone());
    let mut tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    tensor.fill(1).unwrap();
    let old = tensor.clone();
    let segment = |byte| {
        SegmentMut::alloc(Heap::new(), 6)
            .unwrap()
            .filled(byte)
            .unwrap()
    };

    let ticket = tensor.begin(Access::Read, stream.id()).unwrap();
    let refused = tensor.attach(&target, segment(2)).unwrap_err();
    let in_flight = TensorError::InFlight {
        storage: old.storage_id().unwrap(),
        reads: 1,
        writes: 0,
    };
    assert_eq!(refused.error, in_flight);
    assert_eq!(&*refused.value, [2; 6]);
    drop(ticket);

    books.refuse_nth(1);
    let refused = tensor.attach(&target, segment(3)).unwrap_err();
    assert!(matches!(refused.error, TensorError::Alloc(_)));
    assert_eq!(bytes(&tensor), [1; 4], "as it was");

    tensor.attach(&target, segment(4)).unwrap();
    assert_eq!((tensor.len(), bytes(&tensor)), (6, [4; 6]));
    assert_eq!(bytes(&old), [1; 4]);
    let mut empty = Tensor::empty();
    empty.attach(&target, segment(5)).unwrap();
    assert_eq!(bytes(&empty), [5; 6]);
    drop((tensor, old, empty));
    assert_eq!(books.blocks(), 0);
}

/// The tensor, which no segment was taken out of, because of `error`.
fn refused(tensor: Tensor<OnHeap>, error: TensorError) -> Tensor<OnHeap> {
    let (storage, offset, len) = (tensor.storage_id(), tensor.offset(), tensor.len());
    let refused = tensor.into_segment().unwrap_err();
    assert_eq!(refused.error, error);
    let tensor = refused.value;
    let now = (tensor.storage_id(), tensor.offset(), tensor.len());
    assert_eq!(now, (storage, offset, len), "as it was");
    tensor
}

#[test]
fn the_segment_comes_back_from_the_only_handle() {
    let (books, stream) = (books(), Stream::claim().unwrap());
    let target = OnHeap::new(books.clone());
    let tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    tensor.write(0, b"once").unwrap();

    let storage = tensor.storage_id().unwrap();
    let others = (tensor.clone(), tensor.slice(1..2).unwrap());
    let ticket = tensor.begin(Access::Read, stream.id()).unwrap();
    let tensor = refused(tensor, TensorError::Held { storage, others: 2 });
    drop(others.1);
    let tensor = refused(tensor, TensorError::Held { storage, others: 1 });
    drop(others.0);
    let (reads, writes) = (1, 0);
    let in_flight = TensorError::InFlight {
        storage,
        reads,
        writes,
    };
    let tensor = refused(tensor, in_flight);
    drop(ticket);
    let (first, second) = tensor.split(2).unwrap();
    let tensor = refused(tensor, TensorError::Split { storage });
    let part = TensorError::Part {
        storage: second.storage_id().unwrap(),
        whole: storage,
        at: 2,
    };
    let second = refused(second, part);
    assert_eq!(&bytes(&second), b"ce");
    drop((first, second));
    std::mem::forget(tensor.lend().unwrap());
    refused(tensor.clone(), TensorError::Held { storage, others: 1 });
    let tensor = refused(tensor, TensorError::Guarded { storage });
    drop(tensor);

    let tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    tensor.write(0, b"once").unwrap();

    let slice = tensor.slice(1..3).unwrap();
    drop(tensor);
    let segment = slice.into_segment().expect("nobody else");
    assert_eq!(&*segment, b"once", "all of it");
    assert_eq!(books.blocks(), 0);

    let fake = Tensor::placeholder(&target, 4).unwrap();
    let storage = fake.storage_id().unwrap();
    let fake = refused(fake, TensorError::Placeholder { storage });
    assert_eq!(fake.len(), 4);
    drop(fake);
    refused(Tensor::<OnHeap>::empty(), TensorError::NoStorage);
    assert_eq!((books.blocks(), books.foreign()), (0, 0));
}
