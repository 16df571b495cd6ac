//! Beside `lent_*`, `read_only_*`, `registers_as_slice`, `bump_reset_with_live_block`: lent memory goes first, what is to be written
//! is lent so, and words move whole.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use wharf::backend::{
    BorrowedExclusive, BorrowedMmio, BorrowedShared, OwnerBackend, ReadOnly, Registers,
};
use wharf::prelude::*;
use wharf::source::{BlockArray, BumpSource};

use critical_section as _;

static TABLE: BorrowedShared<'static, Critical> = BorrowedShared::shared(b"in flash");

struct Tables(Vec<SegmentMut<&'static BorrowedShared<'static, Critical>, ReadOnly>>);

fn main() {
    let mut tables = Tables(Vec::new());
    tables.0.push(TABLE.lend().unwrap());
    assert_eq!(*tables.0[0], *b"in flash");

    let mut bytes = vec![1, 2, 3];
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
    memory.lend().unwrap()[0] = 9;
    drop(memory);
    let owners = OwnerBackend::<Vec<u8>, Unsync, _>::new(HeapSource);
    let kept = owners.adopt(bytes).unwrap();
    assert_eq!(*kept, [9, 2, 3]);

    let mut words = [0_u32; 2];
    // SAFETY: two words of ours, used by nobody else meanwhile.
    let registers = unsafe { Registers::new(NonNull::from(&mut words).cast(), 2) };
    let registers = BorrowedMmio::<u32, Unsync>::new(registers);
    let mut segment = registers.lend().unwrap();
    segment.write(4, &7_u32.to_ne_bytes()).unwrap();
    drop(segment);
    assert_eq!(words, [0, 7]);

    let mut scratch = [MaybeUninit::uninit(); 64];
    let mut source = BumpSource::new(&mut scratch);
    for round in 0_u8..8 {
        let mut bytes = BlockArray::with_capacity(&source, 40).unwrap();
        bytes.extend_from_slice(&[round; 40]).unwrap();
        drop(bytes);
        source.reset();
    }
    assert_eq!(source.used(), 0);
}
