//! Frames of unknown length: the writer against a `Vec<u8>`, and segments that become shorter in every backend that can.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use proptest::prelude::*;
use wharf_backend::wrap::{BackendEvent, BackendEventKind, BackendEventPhase};
use wharf_backend::{
    Align32, BackendExt, BorrowedExclusive, CacheOps, Caps, FaultInject, Header, Heap, IoDirection,
    Maintained, MemBackend, NoRoom, PoolBackend, Quota, ReadFromError, Scrub, SegmentMut,
    SegmentWriter, ShardedPool, Shared, Shortens, SlotControl, StaticPool, Traced, TransferError,
    Uninit, Waitable,
};
use wharf_sync::{Blocking, Unsync};

const SIZE: usize = 24;
type Pool = StaticPool<Unsync, SIZE, 2>;

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<u8>),
    AppendSome(Vec<u8>),
    Push(u8),
    Extend(Vec<u8>),
    /// What the reader puts there, and what it claims.
    Read(Vec<u8>, usize),
    ReadFails,
    Advance(Vec<u8>),
    /// More than there is room for, without a byte.
    AdvanceTooFar,
    Text(String),
    Truncate(usize),
    Change(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..10);
    prop::collection::vec(
        prop_oneof![
            bytes().prop_map(Op::Append),
            bytes().prop_map(Op::AppendSome),
            any::<u8>().prop_map(Op::Push),
            bytes().prop_map(Op::Extend),
            (bytes(), 0_usize..40).prop_map(|(bytes, claim)| Op::Read(bytes, claim)),
            Just(Op::ReadFails),
            bytes().prop_map(Op::Advance),
            Just(Op::AdvanceTooFar),
            "[a-zé]{0,6}".prop_map(Op::Text),
            (0..=SIZE).prop_map(Op::Truncate),
            any::<u8>().prop_map(Op::Change),
        ],
        0..24,
    )
}

type Writer<'p> = SegmentWriter<&'p Pool>;

/// Does `op` to both, and checks what the writer answers.
fn step(writer: &mut Writer<'_>, model: &mut Vec<u8>, op: &Op) {
    let room = SIZE - model.len();
    let fits = |asked| {
        if asked <= room {
            Ok(())
        } else {
            Err(NoRoom { asked, room })
        }
    };
    match op {
        Op::Append(bytes) => {
            assert_eq!(writer.append(bytes), fits(bytes.len()));
            if bytes.len() <= room {
                model.extend(bytes);
            }
        }
        Op::AppendSome(bytes) => {
            let some = bytes.len().min(room);
            assert_eq!(writer.append_some(bytes), some);
            model.extend(&bytes[..some]);
        }
        Op::Push(byte) => {
            assert_eq!(writer.push(*byte), fits(1));
            model.extend((room > 0).then_some(byte));
        }
        Op::Extend(bytes) => {
            let expected = fits(bytes.len().min(room + 1));
            assert_eq!(writer.extend(bytes.iter().copied()), expected);
            model.extend(&bytes[..bytes.len().min(room)]);
        }
        Op::Read(bytes, claim) => {
            let mut lent = usize::MAX;
            let answer = writer.read_from(|to| {
                lent = to.len();
                let some = bytes.len().min(to.len());
                to[..some].copy_from_slice(&bytes[..some]);
                // What is neither ours nor zero is what an earlier reader or write has left.
                to[some..].fill(0);
                Ok::<_, ()>(*claim)
            });
            assert_eq!(lent, room);
            if *claim > room {
                let asked = *claim;
                let claimed = NoRoom { asked, room };
                assert_eq!(answer, Err(ReadFromError::Claimed(claimed)));
            } else {
                assert_eq!(answer, Ok(*claim));
                let mut read = bytes.clone();
                read.resize(bytes.len().max(*claim), 0);
                model.extend(&read[..*claim]);
            }
        }
        Op::ReadFails => {
            let answer = writer.read_from(|to| {
                to.fill(0xEE);
                Err::<usize, _>("noise")
            });
            assert_eq!(answer, Err(ReadFromError::Reader("noise")));
        }
        Op::Advance(bytes) => {
            let some = bytes.len().min(room);
            writer.unwritten()[..some].write_copy_of_slice(&bytes[..some]);
            // SAFETY: so many were written.
            assert_eq!(unsafe { writer.advance(some) }, Ok(()));
            model.extend(&bytes[..some]);
        }
        Op::AdvanceTooFar => {
            // What had values has none now, and the next reader is lent zeros again.
            writer.unwritten().fill(MaybeUninit::uninit());
            // SAFETY: it is refused.
            let answer = unsafe { writer.advance(room + 1) };
            assert_eq!(answer, fits(room + 1));
        }
        Op::Text(text) => {
            assert_eq!(writer.write_str(text).is_ok(), text.len() <= room);
            if text.len() <= room {
                model.extend(text.as_bytes());
            }
        }
        Op::Truncate(len) => {
            writer.truncate(*len);
            model.truncate(*len);
        }
        Op::Change(byte) => {
            writer.written_mut().fill(*byte);
            model.fill(*byte);
        }
    }
    assert_eq!(writer.written(), model.as_slice());
    assert_eq!((writer.len(), writer.capacity()), (model.len(), SIZE));
    assert_eq!(writer.room(), SIZE - model.len());
    assert_eq!(writer.is_empty(), model.is_empty());
}

proptest! {
    #[test]
    fn a_writer_is_a_vec_that_is_full_at_its_segments_end(ops in ops(), padded: bool) {
        let pool = Pool::new();
        let mut writer = pool.alloc(SIZE).unwrap().writer();
        let mut model = Vec::new();
        for op in &ops {
            step(&mut writer, &mut model, op);
        }
        if padded {
            let written = model.len();
            model.resize(SIZE, 0);
            let (segment, len) = writer.finish_padded();
            prop_assert_eq!((&*segment, len), (&model[..], written));
        } else {
            let segment = writer.finish();
            prop_assert_eq!(&*segment, &model[..]);
        }
        prop_assert_eq!(pool.census().in_use, 0);
        // The whole slot is there again.
        let again = pool.alloc(SIZE).unwrap();
        prop_assert_eq!(again.len(), SIZE);
    }
}

#[test]
fn a_reader_is_lent_zeros_and_what_it_left() {
    let pool = Pool::new();
    let mut writer = pool.alloc(8).unwrap().writer();
    let read = |writer: &mut Writer<'_>, expected: &[u8], put: &[u8], claim: usize| {
        let answer = writer.read_from(|to| {
            assert_eq!(to, expected);
            to[..put.len()].copy_from_slice(put);
            Ok::<_, ()>(claim)
        });
        assert_eq!(answer, Ok(claim));
    };
    read(&mut writer, &[0; 8], b"abcd", 2);
    writer.append(b"!").unwrap();
    // `c` was overwritten, `d` is left: no second fill.
    read(&mut writer, b"d\0\0\0\0", b"", 0);
    writer.unwritten()[1].write(7);
    read(&mut writer, &[0; 5], b"xyz", 3);
    writer.truncate(4);
    read(&mut writer, b"yz\0\0", b"", 1);
    assert_eq!(*writer.finish(), *b"ab!xy");
}

#[test]
fn a_writer_given_up_gives_its_memory_back() {
    let pool = Pool::new();
    let mut writer = pool.alloc(3).unwrap().writer();
    writer.append(b"abc").unwrap();
    assert_eq!(writer.push(b'd'), Err(NoRoom { asked: 1, room: 0 }));
    assert!(format!("{writer:?}").contains("written: 3"));
    assert_eq!(writer.into_uninit().len(), 3);
    drop(pool.alloc(3).unwrap().writer());
    assert_eq!(pool.census().in_use, 0);
    // Blocks of the heap keep their length.
    let heap = Heap::<Unsync>::new();
    let mut writer = SegmentMut::alloc(heap, 5).unwrap().writer();
    write!(writer, "{}", 42).unwrap();
    let (padded, written) = writer.finish_padded();
    assert_eq!((&*padded, written), (&b"42\0\0\0"[..], 2));
}

#[test]
fn what_does_not_fit_is_told_with_numbers() {
    let none = NoRoom { asked: 9, room: 4 };
    let texts = [
        (
            none.to_string(),
            "9 bytes do not fit into the 4 that are left",
        ),
        (
            ReadFromError::<NoRoom>::Claimed(none).to_string(),
            "the reader claims 9 bytes, and was lent 4",
        ),
        (
            ReadFromError::Reader(none).to_string(),
            "9 bytes do not fit into the 4 that are left",
        ),
    ];
    for (text, expected) in texts {
        assert_eq!(text, expected);
    }
}

/// What was lent keeps its values, whatever is done with a fresh segment of it.
#[test]
fn what_is_lent_is_written_as_far_as_it_goes() {
    let mut lent = *b"........";
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut lent);
    let mut writer = memory.alloc(8).unwrap().writer();
    writer.append(b"head").unwrap();
    // SAFETY: lent bytes have values, written or not.
    unsafe { writer.advance(2) }.unwrap();
    assert_eq!(*writer.finish(), *b"head..");
    assert_eq!(&lent, b"head....");
}

/// A segment of 20 bytes of `backend` is shortened twice, and its memory is whole again when it has gone back.
fn shortens<B: MemBackend + Shortens>(backend: &B) {
    let before = backend.census().in_use;
    for _ in 0..3 {
        let mut segment = backend.alloc(20).unwrap().filled(0xA5).unwrap();
        segment.truncate(20).unwrap();
        segment.truncate(13).unwrap();
        assert_eq!(
            (segment.len(), segment.host().unwrap()),
            (13, &[0xA5; 13][..])
        );
        assert!(backend.may_own(segment.header_ptr()));
        let refused = TransferError::OutOfBounds {
            offset: 0,
            len: 14,
            size: 13,
        };
        assert_eq!(segment.truncate(14), Err(refused), "it does not grow");
        let behind = TransferError::OutOfBounds {
            offset: 12,
            len: 2,
            size: 13,
        };
        assert_eq!(segment.write(12, &[0; 2]), Err(behind));
        segment.truncate(0).unwrap();
        assert!(segment.is_empty());
        drop(segment);
        assert_eq!(backend.census().in_use, before);
    }
}

#[test]
fn what_has_slots_shortens_and_so_do_its_wrappers() {
    type Slots = StaticPool<Unsync, 32, 2, Align32>;
    shortens(&Slots::new());
    let mut slab = [MaybeUninit::uninit(); 64];
    let mut control = [const { SlotControl::<Unsync>::NEW }; 2];
    shortens(&PoolBackend::new(&mut slab, &mut control, 32, 1).unwrap());
    let mut control = [const { SlotControl::<Unsync>::NEW }; 2];
    shortens(&ShardedPool::<_, 2>::new(&mut slab, &mut control, 32, 1).unwrap());
    let mut lent = [0; 24];
    shortens(&BorrowedExclusive::<Unsync>::exclusive(&mut lent));
    shortens(&FaultInject::new(Slots::new()));
    shortens(&Waitable::new(Slots::new()));
    shortens(&Quota::<_, 1>::new(Slots::new()).share(1, 1).unwrap());
    let slots = Slots::new();
    shortens(&Shared::new(&slots));
    shortens(&Scrub::new(Waitable::new(Slots::new())));

    // Of what comes back the sink is told what it was by then.
    let told = RefCell::new(Vec::new());
    let traced = Traced::new(Slots::new(), |event: BackendEvent| {
        if (event.kind, event.phase) == (BackendEventKind::Reclaim, BackendEventPhase::Done) {
            told.borrow_mut().push(event.bytes);
        }
    });
    shortens(&traced);
    assert_eq!(*told.borrow(), [0; 3]);
}

#[test]
fn what_is_given_up_is_scrubbed_at_once() {
    let pool = Scrub::new(Pool::new());
    let mut segment = pool.alloc(8).unwrap().init_from(b"password").unwrap();
    let wharf_backend::Place::Host(base) = segment.place() else {
        unreachable!()
    };
    segment.truncate(4).unwrap();
    assert_eq!(*segment, *b"pass");
    // SAFETY: the slot is held, and nobody else has the bytes behind the end.
    let behind = unsafe { std::slice::from_raw_parts(base.as_ptr().add(4), 4) };
    assert!(
        !behind.iter().any(|byte| b"word".contains(byte)),
        "{behind:?}"
    );
}

/// What was maintained: from where, relative to the first, and how long.
#[derive(Default)]
struct Lines(RefCell<Vec<(usize, usize)>>);

// SAFETY: the memory of this test has no cache.
unsafe impl CacheOps for &Lines {
    const LINE: usize = 32;
    unsafe fn clean(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) {
        self.0.borrow_mut().push((start.addr().get(), len));
    }
}

#[test]
fn the_lines_of_what_is_given_up_are_written_back_and_let_go() {
    let lines = Lines::default();
    let pool = Maintained::fixed(StaticPool::<Unsync, 128, 2, Align32>::new(), &lines);
    let mut segment = pool.alloc(120).unwrap().filled(1).unwrap();
    let wharf_backend::Place::Host(base) = segment.place() else {
        unreachable!()
    };
    lines.0.borrow_mut().clear();
    segment.truncate(120).unwrap();
    assert_eq!(*lines.0.borrow(), [], "nothing is given up");
    segment.truncate(40).unwrap();
    let start = base.addr().get();
    // Also the line that the segment now ends in: behind its end it may be dirty.
    assert_eq!(*lines.0.borrow(), [(start + 32, 96)]);
    lines.0.borrow_mut().clear();
    drop(segment);
    assert_eq!(*lines.0.borrow(), [(start, 64)], "what it still had");
}

/// A pool tells live slots from others while a holder changes a length on another thread.
#[test]
fn who_asks_for_a_live_slot_does_not_look_at_its_length() {
    static POOL: StaticPool<Blocking, 64, 2> = StaticPool::new();
    let mut segment = POOL.alloc(64).unwrap();
    let header = SendHeader(segment.header_ptr());
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let header = header;
            for _ in 0..100 {
                assert!(POOL.may_own(header.0));
            }
        });
        for len in (0..64).rev() {
            segment.truncate(len).unwrap();
        }
    });
}

struct SendHeader(NonNull<Header<Blocking>>);
// SAFETY: an address.
unsafe impl Send for SendHeader {}

/// A frame that a device puts there, from the ring to the segment.
#[test]
fn a_device_tells_how_much_it_was() {
    let pool = Pool::new();
    let frame = pool.alloc(SIZE).unwrap();
    let flight = frame.hand_over(0, SIZE, IoDirection::DeviceToCpu).unwrap();
    let wharf_backend::Place::Host(base) = flight.place() else {
        unreachable!()
    };
    // SAFETY: the device has the bytes.
    unsafe { base.copy_from_nonoverlapping(NonNull::from(b"frame").cast(), 5) };
    let landed: SegmentMut<_, Uninit> = flight.land();
    let mut frame = landed.writer();
    // SAFETY: so many were written.
    unsafe { frame.advance(5) }.unwrap();
    assert_eq!(*frame.finish(), *b"frame");
    assert!(!pool.caps().contains(Caps::NEEDS_CACHE_OPS));
}
