//! Memory that somebody lends: what may be done with it, on which route, and that it is out once.
#![cfg(feature = "std")]

use core::ptr::NonNull;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wharf_backend::{
    AllocError, AllocHint, BackendExt, BackendRef, BorrowedBackend, BorrowedDevice,
    BorrowedExclusive, BorrowedMmio, BorrowedShared, Caps, Census, DeviceAddress, DeviceRange,
    DeviceTransfer, ExclusiveBytes, IoDirection, MemBackend, MemSpace, NotHostAddressable, Place,
    RangeError, ReadOnly, Registers, SegmentMut, SharedBytes, TransferError, Uninit,
};
use wharf_sync::{Blocking, Unsync};

type Erased<'e> = dyn MemBackend<Policy = Unsync> + 'e;

fn exhausted(requested: usize, capacity: usize) -> AllocError {
    AllocError::Exhausted {
        requested,
        in_use: capacity,
        capacity,
    }
}

#[test]
fn shared_bytes_are_lent_whole_and_once() {
    let memory = BorrowedShared::<Unsync>::shared(b"in flash");
    let segment = memory.lend().unwrap();
    assert_eq!(&*segment, b"in flash");
    assert_eq!(segment.host().unwrap(), b"in flash");
    let mut bytes = [0; 3];
    segment.read(3, &mut bytes).unwrap();
    assert_eq!(&bytes, b"fla");
    let out = TransferError::OutOfBounds {
        offset: 6,
        len: 3,
        size: 8,
    };
    assert_eq!(segment.read(6, &mut bytes), Err(out));

    assert_eq!(memory.lend().unwrap_err(), exhausted(8, 8));
    let census = Census {
        unit: 8,
        capacity: 1,
        in_use: 1,
        peak: 1,
        refused: 1,
        largest_refused: 8,
        ..Census::NOTHING
    };
    assert_eq!(memory.census(), census);
    drop(segment);
    assert_eq!(
        memory.census(),
        Census {
            in_use: 0,
            ..census
        }
    );
    assert_eq!(&*memory.lend().unwrap(), b"in flash");
}

#[test]
fn shared_bytes_vend_nothing_that_could_be_written() {
    let memory = BorrowedShared::<Unsync>::shared(b"in flash");
    for size in [0, 1, 8, 9] {
        assert_eq!(memory.alloc(size).unwrap_err(), AllocError::Unsupported);
    }
    assert_eq!(memory.max_segment_size(), 0);
    assert_eq!(memory.census().refused, 4);
    assert_eq!(memory.census().largest_refused, 9);
    assert_eq!(
        memory.caps(),
        Caps::READ_ONLY | Caps::NONBLOCKING | Caps::VENDS_INITIALISED | Caps::PLAIN_COPIES
    );
}

/// What read-only memory answers where nobody knows its type.
fn refuses_to_be_written<R: BackendRef>(segment: SegmentMut<R, ReadOnly>, bytes: &[u8]) {
    let backend = segment.backend();
    assert!(backend.caps().contains(Caps::READ_ONLY));
    assert_eq!(segment.host().unwrap(), bytes);
    let header = segment.header_ptr();
    // SAFETY: a live header, ranges in it, and a source of as many bytes. That they may not be written is what is
    // asked.
    unsafe {
        let source = NonNull::from(b"xx").cast();
        let written = backend.copy_in(header, 1, source, 2);
        assert_eq!(written, Err(TransferError::ReadOnly));
        assert_eq!(backend.fill(header, 0, 3, 9), Err(TransferError::ReadOnly));
    }
    let refused = segment
        .hand_over(0, 1, IoDirection::DeviceToCpu)
        .unwrap_err();
    assert_eq!(refused.error, TransferError::ReadOnly);
    assert_eq!(
        TransferError::ReadOnly.to_string(),
        "the memory is read-only"
    );
    // A device may read it.
    let lent = refused.value.hand_over(1, 2, IoDirection::CpuToDevice);
    let segment = lent.unwrap().land();
    assert_eq!(segment.host().unwrap(), bytes);
}

#[test]
fn writing_shared_bytes_is_an_error_on_every_erased_route() {
    let bytes = *b"constant";
    let memory = BorrowedShared::<Unsync>::shared(&bytes);
    refuses_to_be_written(memory.lend().unwrap(), b"constant");
    refuses_to_be_written(memory.lend().unwrap().erase::<&Erased<'_>>(), b"constant");
    let memory = Arc::new(BorrowedShared::<Blocking>::shared(b"constant"));
    let segment = BorrowedShared::lend_by(Arc::clone(&memory)).unwrap();
    let segment = segment.erase::<Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>>();
    refuses_to_be_written(segment, b"constant");
    assert_eq!(memory.census().in_use, 0);
}

#[test]
fn exclusive_bytes_are_written_where_they_are() {
    let mut bytes = [1, 2, 3, 4, 5];
    let at = bytes.as_ptr();
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
    let mut segment = memory.lend().unwrap();
    assert_eq!(segment.as_ptr(), at);
    segment[0] = 9;
    segment.write(1, &[8, 7]).unwrap();
    segment.fill(3, 1, 6).unwrap();
    assert_eq!(memory.lend().unwrap_err(), exhausted(5, 5));
    assert_eq!(memory.alloc(0).unwrap_err(), exhausted(0, 5));
    drop(segment);
    let slice = memory.into_lent().into_slice();
    assert_eq!(slice, [9, 8, 7, 6, 5]);
    slice[4] = 0;
    assert_eq!(bytes, [9, 8, 7, 6, 0]);
}

#[test]
fn exclusive_bytes_vend_a_part() {
    let mut bytes = [1, 2, 3, 4, 5];
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
    let part = memory.alloc(3).unwrap();
    // Initialised for nothing: the bytes have values.
    let mut part = part.initialised().unwrap();
    assert_eq!(*part, [1, 2, 3]);
    part[2] = 9;
    assert_eq!(
        part.write(3, &[1]),
        Err(TransferError::OutOfBounds {
            offset: 3,
            len: 1,
            size: 3
        })
    );
    drop(part);
    let large = AllocError::TooLarge {
        requested: 6,
        max: 5,
    };
    assert_eq!(memory.alloc(6).unwrap_err(), large);
    assert_eq!(*memory.lend().unwrap(), [1, 2, 9, 4, 5]);
    let census = Census {
        unit: 5,
        capacity: 1,
        peak: 1,
        refused: 1,
        largest_refused: 6,
        ..Census::NOTHING
    };
    assert_eq!(memory.census(), census);
}

#[test]
fn no_bytes_are_lent_too() {
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut []);
    let segment = memory.lend().unwrap();
    assert!(segment.is_empty());
    assert!(memory.lend().is_err());
    drop(segment);
    assert_eq!(memory.alloc(0).unwrap().len(), 0);
    assert_eq!(memory.census().unit, 1, "it does count");
    let memory = BorrowedShared::<Unsync>::fresh(SharedBytes::new(&[]));
    assert_eq!(*memory.lend().unwrap(), []);
}

#[test]
fn a_stale_or_foreign_header_is_refused() {
    let (mut one, mut two) = ([0; 4], [0; 4]);
    let one = BorrowedExclusive::<Unsync>::exclusive(&mut one);
    let two = BorrowedExclusive::<Unsync>::exclusive(&mut two);
    let (header, _) = one.lend().unwrap().into_raw();
    assert!(one.may_own(header));
    assert!(!two.may_own(header), "another's");
    let _out = two.lend().unwrap();
    assert!(!two.may_own(header), "another's, while one is out");
    // SAFETY: from `into_raw` above, put together once.
    drop(unsafe { SegmentMut::<_>::from_raw(header, &one) }.unwrap());
    assert!(!one.may_own(header), "it was given back");
    assert_eq!(one.census().in_use, 0);
}

#[test]
fn a_forgotten_segment_is_out_for_ever_and_the_bytes_come_back_with_the_backend() {
    let mut bytes = [7; 4];
    let memory = BorrowedBackend::<_, Unsync>::new(ExclusiveBytes::new(&mut bytes));
    core::mem::forget(memory.lend().unwrap());
    assert!(memory.lend().is_err());
    assert_eq!(memory.into_lent().into_slice(), [7; 4]);
}

#[test]
fn the_alignment_is_that_of_the_address_up_to_a_page() {
    #[repr(align(8192))]
    struct Aligned([u8; 64]);
    let bytes = Aligned([0; 64]);
    for (offset, align) in [(0, 4096), (1, 1), (2, 2), (12, 4), (16, 16), (48, 16)] {
        let memory = BorrowedShared::<Unsync>::shared(&bytes.0[offset..]);
        assert_eq!(memory.alignment(), align, "at {offset}");
    }
    for (address, align) in [(0, 4096), (0x10, 16), (0x3000, 4096), (u64::MAX - 15, 16)] {
        let range = DeviceRange::new(DeviceAddress::new(address), 4, Ram::default()).unwrap();
        let memory = BorrowedDevice::<_, Unsync>::new(range);
        assert_eq!(memory.alignment(), align, "at {address:#x}");
    }
}

/// A device with 64 bytes at 0x100, and a record of what it was asked.
struct Ram {
    bytes: RefCell<[u8; 64]>,
    calls: Cell<usize>,
    failing: Cell<Option<TransferError>>,
}

impl Default for Ram {
    fn default() -> Self {
        Self {
            bytes: RefCell::new([0; 64]),
            calls: Cell::new(0),
            failing: Cell::new(None),
        }
    }
}

const BASE: u64 = 0x100;

impl Ram {
    fn at(&self, at: DeviceAddress) -> Result<usize, TransferError> {
        self.calls.set(self.calls.get() + 1);
        match self.failing.get() {
            None => Ok(usize::try_from(at.get() - BASE).unwrap()),
            Some(error) => Err(error),
        }
    }
}

impl DeviceTransfer for Ram {
    fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError> {
        let at = self.at(at)?;
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }
    fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> {
        let at = self.at(at)?;
        to.copy_from_slice(&self.bytes.borrow()[at..at + to.len()]);
        Ok(())
    }
}

fn device<H: DeviceTransfer>(offset: u64, len: usize, hook: H) -> BorrowedDevice<H, Unsync> {
    let range = DeviceRange::new(DeviceAddress::new(BASE + offset), len, hook);
    BorrowedDevice::new(range.unwrap())
}

/// What a range of a device answers, whatever the route.
fn is_reached_by_transfers<R: BackendRef>(mut segment: SegmentMut<R>) {
    assert_eq!(segment.host(), Err(NotHostAddressable));
    assert_eq!(segment.host_mut(), Err(NotHostAddressable));
    let base = DeviceAddress::new(BASE + 8);
    assert_eq!(segment.place(), Place::Device(base));
    segment.write(1, b"abc").unwrap();
    segment.fill(4, 36, 7).unwrap();
    let mut bytes = [0; 5];
    segment.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0abc\x07");
    // The core checks sizes for the hook.
    for (offset, len) in [(40, 1), (0, 41), (usize::MAX, 2), (41, 0)] {
        let out = TransferError::OutOfBounds {
            offset,
            len,
            size: 40,
        };
        assert_eq!(segment.write(offset, &vec![0; len]), Err(out));
        assert_eq!(segment.read(offset, &mut vec![0; len]), Err(out));
        assert_eq!(segment.fill(offset, len, 0), Err(out));
    }
    let flying = segment.hand_over(4, 2, IoDirection::DeviceToCpu).unwrap();
    let place = Place::Device(DeviceAddress::new(BASE + 12));
    assert_eq!(flying.place(), place);
}

#[test]
fn a_device_range_is_reached_through_its_hook_on_every_route() {
    let ram = Ram::default();
    let memory = device(8, 40, &ram);
    assert_eq!(memory.space(), MemSpace::Device);
    is_reached_by_transfers(memory.lend().unwrap());
    assert_eq!(ram.calls.get(), 1 + 2 + 1, "a fill in pieces of 32");
    let mut bytes = [0; 64];
    bytes[9..12].copy_from_slice(b"abc");
    bytes[12..48].fill(7);
    assert_eq!(*ram.bytes.borrow(), bytes, "and nothing beyond the range");

    *ram.bytes.borrow_mut() = [0; 64];
    is_reached_by_transfers(memory.lend().unwrap().erase::<&Erased<'_>>());
    assert_eq!(*ram.bytes.borrow(), bytes);
    assert_eq!(ram.calls.get(), 8);
    let vended: SegmentMut<_, Uninit> = memory.alloc(4).unwrap();
    let segment = vended.init_from(b"wxyz").unwrap();
    assert_eq!(&ram.bytes.borrow()[8..13], b"wxyz\x07");
    drop(segment);
    assert_eq!(memory.census().in_use, 0);
}

#[test]
fn what_the_hook_says_is_what_the_caller_hears() {
    let memory = device(0, 64, Ram::default());
    let mut segment = memory.lend().unwrap();
    segment.fill(0, 64, 3).unwrap();
    let failing = &memory.lent().hook().failing;
    failing.set(Some(TransferError::Closed));
    assert_eq!(segment.write(0, &[1]), Err(TransferError::Closed));
    assert_eq!(segment.read(0, &mut [1]), Err(TransferError::Closed));
    assert_eq!(segment.fill(0, 1, 1), Err(TransferError::Closed));
    failing.set(None);
    let mut bytes = [0; 64];
    segment.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 64]);
}

#[test]
fn a_range_that_wraps_is_none() {
    let base = DeviceAddress::new(u64::MAX - 3);
    let error = DeviceRange::new(base, 4, ()).unwrap_err();
    assert_eq!(error, RangeError { base, len: 4 });
    assert_eq!(error.to_string(), "4 bytes at 0xfffffffffffffffc wrap");
    assert!(DeviceRange::new(base, 3, ()).is_ok());
}

/// Eight registers of 32 bits.
fn registers(words: &Cell<[u32; 8]>) -> BorrowedMmio<'_, u32, Unsync> {
    let base = NonNull::from(words).cast();
    // SAFETY: eight aligned words in a cell, which only this thread and the backend reach, never at once; and any
    // value may be written to them.
    BorrowedMmio::new(unsafe { Registers::new(base, 8) })
}

#[test]
fn registers_are_moved_in_whole_words() {
    let words = Cell::new([0; 8]);
    let memory = registers(&words);
    let mut segment = memory.lend().unwrap();
    assert_eq!(segment.len(), 32);
    // Host bytes need no alignment.
    let mut host = [0_u8; 9];
    host[1..5].copy_from_slice(&0xAABB_CCDD_u32.to_ne_bytes());
    host[5..9].copy_from_slice(&0x1122_3344_u32.to_ne_bytes());
    segment.write(4, &host[1..]).unwrap();
    segment.fill(24, 8, 0x5A).unwrap();
    let expected = [
        0,
        0xAABB_CCDD,
        0x1122_3344,
        0,
        0,
        0,
        0x5A5A_5A5A,
        0x5A5A_5A5A,
    ];
    assert_eq!(words.get(), expected);
    let mut back = [0_u8; 5];
    segment.read(8, &mut back[1..]).unwrap();
    assert_eq!(back[1..], 0x1122_3344_u32.to_ne_bytes());
    // Half a register is not written, nor the whole ones before it.
    for (offset, len) in [(1, 4), (2, 2), (0, 6), (4, 1), (31, 1), (3, 0)] {
        let cut = Err(TransferError::Unaligned {
            offset,
            len,
            word: 4,
        });
        assert_eq!(segment.write(offset, &vec![0; len]), cut);
        assert_eq!(segment.read(offset, &mut vec![0; len]), cut);
        assert_eq!(segment.fill(offset, len, 0), cut);
    }
    assert_eq!(words.get(), expected);
    let out = TransferError::OutOfBounds {
        offset: 32,
        len: 4,
        size: 32,
    };
    assert_eq!(segment.write(32, &[0; 4]), Err(out));
    let cut = TransferError::Unaligned {
        offset: 2,
        len: 2,
        word: 4,
    };
    assert_eq!(
        cut.to_string(),
        "2 bytes at 2 are no whole words of 4 bytes"
    );
}

#[test]
fn registers_are_no_slice_on_any_route_and_vend_nothing() {
    let words = Cell::new([3; 8]);
    let memory = registers(&words);
    let segment = memory.lend().unwrap();
    assert_eq!(segment.host(), Err(NotHostAddressable));
    let address = DeviceAddress::new(words.as_ptr().addr() as u64);
    assert_eq!(segment.place(), Place::Device(address));
    let mut erased = segment.erase::<&Erased<'_>>();
    assert_eq!(erased.host(), Err(NotHostAddressable));
    assert_eq!(erased.host_mut(), Err(NotHostAddressable));
    erased.write(28, &9_u32.to_ne_bytes()).unwrap();
    drop(erased);
    assert_eq!(words.get(), [3, 3, 3, 3, 3, 3, 3, 9]);
    let hint = AllocHint::NONE;
    assert!(memory.vend(4, hint).is_none());
    assert_eq!(memory.refusal(4, hint), AllocError::Unsupported);
    assert_eq!(memory.census().refused, 1);
}

#[cfg(feature = "critical-section")]
mod shared {
    use super::*;
    use wharf_sync::Critical;

    static TABLE: BorrowedShared<'static, Critical> = BorrowedShared::shared(b"table");

    #[test]
    fn a_table_is_a_static_and_its_segment_may_be_stored_and_sent() {
        struct Stored(SegmentMut<&'static BorrowedShared<'static, Critical>, ReadOnly>);
        let stored = Stored(TABLE.lend().unwrap());
        let read = std::thread::spawn(move || stored.0.to_vec());
        assert_eq!(read.join().unwrap(), b"table");
        assert_eq!(TABLE.census().in_use, 0);
    }
}
