//! The backends of wharf that bind memory which exists already.
#![allow(unsafe_code, reason = "takes ordinary memory for registers")]

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_backend::{
    BorrowedBackend, DeviceAddress, DeviceRange, DeviceTransfer, ExclusiveBytes, OwnerBackend,
    Registers, Returned, SharedBytes, TransferError,
};
use wharf_source::{PoolSource, SizeClass};
use wharf_sync::SyncPolicy;

use super::missing;
use crate::{LentClaims, Report, Tally, backend, lent};

pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut tally = shared::<P>(report);
    tally.add(exclusive::<P>(report));
    tally.add(device::<P>(report));
    tally.add(registers::<P>(report));
    tally.add(owner::<P>(report));
    tally
}

const LEN: usize = 40;
const BYTES: [u8; LEN] = *b"what was there before anybody lent it...";

#[inline(never)]
fn shared<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let memory = BorrowedBackend::<_, P>::fresh(SharedBytes::new(&BYTES));
    let lend = || memory.lend();
    let mut tally = lent("BorrowedShared", lend, &BYTES, LentClaims::BYTES, report);
    tally.add(backend("BorrowedShared", &memory, report));
    tally
}

#[inline(never)]
fn exclusive<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut bytes = BYTES;
    let memory = BorrowedBackend::<_, P>::fresh(ExclusiveBytes::new(&mut bytes));
    let (lend, claims) = (|| memory.lend(), LentClaims::BYTES);
    let mut tally = lent("BorrowedExclusive", lend, &BYTES, claims, report);
    tally.add(backend("BorrowedExclusive", &memory, report));
    tally
}

/// A device whose memory begins at [`START`](Self::START).
struct Device([Cell<u8>; LEN]);

impl Device {
    const START: DeviceAddress = DeviceAddress::new(0x100);

    fn cells(&self, at: DeviceAddress) -> impl Iterator<Item = &Cell<u8>> {
        let offset = at.get().saturating_sub(Self::START.get());
        let offset = usize::try_from(offset).unwrap_or(LEN);
        self.0.iter().skip(offset)
    }
}

impl DeviceTransfer for Device {
    fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError> {
        self.cells(at)
            .zip(from)
            .for_each(|(cell, &byte)| cell.set(byte));
        Ok(())
    }
    fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> {
        self.cells(at)
            .zip(to)
            .for_each(|(cell, byte)| *byte = cell.get());
        Ok(())
    }
}

#[inline(never)]
fn device<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "BorrowedDevice";
    let device = Device(BYTES.map(Cell::new));
    let Ok(range) = DeviceRange::new(Device::START, LEN, &device) else {
        return missing::<P>(NAME, "a range of addresses", report);
    };
    let memory = BorrowedBackend::<_, P>::fresh(range);
    let (lend, claims) = (|| memory.lend(), LentClaims::BYTES);
    let mut tally = lent("BorrowedDevice", lend, &BYTES, claims, report);
    tally.add(backend(NAME, &memory, report));
    tally
}

#[inline(never)]
fn registers<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const WORD: usize = size_of::<u32>();
    let mut words = [0_u32; LEN / WORD];
    for (word, bytes) in words.iter_mut().zip(BYTES.chunks_exact(WORD)) {
        *word = u32::from_ne_bytes(bytes.try_into().unwrap_or_default());
    }
    let base = NonNull::from(&mut words).cast::<u32>();
    // SAFETY: memory of ours, aligned, for longer than the backend, and not named again; any value may be written there.
    let registers = unsafe { Registers::new(base, LEN / WORD) };
    let memory = BorrowedBackend::<_, P>::fresh(registers);
    let claims = LentClaims {
        once: true,
        word: WORD,
    };
    let lend = || memory.lend();
    let mut tally = lent("BorrowedMmio", lend, &BYTES, claims, report);
    tally.add(backend("BorrowedMmio", &memory, report));
    tally
}

#[inline(never)]
fn owner<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut slab = [MaybeUninit::uninit(); 256];
    let mut classes = [SizeClass::EMPTY; 2];
    let source = PoolSource::<P>::new(&mut slab, &mut classes);
    let claims = LentClaims::OWNER;

    let owners = OwnerBackend::<[u8; LEN], P, _>::new(&source);
    let adopt = || owners.adopt(BYTES).map_err(error);
    let mut tally = lent("OwnerBackend", adopt, &BYTES, claims, report);
    tally.add(backend("OwnerBackend", &owners, report));

    let sharers = OwnerBackend::<_, P, _, _>::new(&source);
    let adopt = || sharers.adopt_shared(&BYTES).map_err(error);
    let name = "OwnerBackend, shared";
    tally.add(lent(name, adopt, &BYTES, claims, report));
    tally
}

fn error<T, E>(returned: Returned<T, E>) -> E {
    returned.error
}
