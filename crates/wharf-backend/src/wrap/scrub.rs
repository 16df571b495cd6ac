//! A backend that leaves nothing behind in what it takes back.
#![allow(
    unsafe_code,
    reason = "overwrites a segment that has no handle any more"
)]

use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::hand_on::hand_on;
use super::{OwnsBytes, raw};
use crate::{Header, MemBackend, Place, Shortens};

/// A wrapper around a backend that overwrites every segment when it is freed, before anybody else can get it.
///
/// ```
/// use wharf_backend::{BackendExt, Scrub, StaticPool};
/// use wharf_sync::Unsync;
///
/// let keys = Scrub::new(StaticPool::<Unsync, 32, 4>::new());
/// let key = keys.alloc(6)?.init_from(b"secret")?;
/// drop(key); // six zeros
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # What it promises
/// * In memory that the CPU addresses, every byte of the segment is written by a *volatile* store, which a compiler may
///   neither leave out nor move behind the release. (A `memset` it may leave out: it sees that nobody reads freed memory.
///   A fence would not keep it from that, because there is nobody whom the fence could be for.)
/// * In memory of a device, the bytes are set through the backend's own [`fill`](MemBackend::fill).
/// * Either way with the cache hooks where the backend has any, so the new bytes reach the memory itself. (Which is why it goes
///   around a [`Maintained`](crate::Maintained) and not into one.)
/// * A fill that the device refuses (it is closed) is counted by [`missed`](Self::missed).
///
/// Copies that were made of the bytes elsewhere (registers, the stack, the device's own) are out of its reach, and so is a
/// segment that is forgotten instead of dropped.
///
/// # What it costs
/// One store per machine word when a segment is freed, on whatever context drops it, outside of any critical section;
/// nothing when one is vended. Scrubbing 1.5 KiB takes a Cortex-M some 400 stores.
pub struct Scrub<B: OwnsBytes> {
    inner: B,
    byte: u8,
    missed: <B::Policy as SyncPolicy>::Lock<Cell<usize>>,
}

impl<B: OwnsBytes> Scrub<B> {
    /// Around `inner`; freed bytes become zero.
    pub fn new(inner: B) -> Self {
        Self::with_byte(inner, 0)
    }

    /// Around `inner`; freed bytes become `byte`.
    pub fn with_byte(inner: B, byte: u8) -> Self {
        Self {
            inner,
            byte,
            missed: Lock::new(Cell::new(0)),
        }
    }

    /// [`new`](Self::new) for a `static`.
    pub const fn new_const(inner: B) -> Self
    where
        <B::Policy as SyncPolicy>::Lock<Cell<usize>>: ConstInit,
    {
        Self::with_byte_const(inner, 0)
    }

    /// [`with_byte`](Self::with_byte) for a `static`.
    pub const fn with_byte_const(inner: B, byte: u8) -> Self
    where
        <B::Policy as SyncPolicy>::Lock<Cell<usize>>: ConstInit,
    {
        Self {
            inner,
            byte,
            missed: ConstInit::INIT,
        }
    }

    /// Segments that went back as they were, because the device refused the fill.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.missed.with(Cell::get)
    }

    /// What is inside.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: OwnsBytes> fmt::Debug for Scrub<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrub")
            .field("backend", &self.inner.name())
            .field("byte", &self.byte)
            .field("missed", &self.missed())
            .finish()
    }
}

/// Sets `len` bytes by stores that are not left out: words where the address is that of a word.
///
/// # Safety
/// They are ours, and valid for writes.
unsafe fn wipe(base: NonNull<u8>, len: usize, byte: u8) {
    const WORD: usize = size_of::<usize>();
    let head = base.align_offset(align_of::<usize>()).min(len);
    let words = (len - head) / WORD;
    let word = usize::from_ne_bytes([byte; WORD]);
    let start = base.as_ptr();
    // SAFETY: all three ranges lie within the `len` bytes: `head <= len`, and the words fit into what is left. The
    // words begin at an address that is aligned for them: if none is within reach, `head` is `len` and there are none.
    unsafe {
        for index in 0..head {
            start.add(index).write_volatile(byte);
        }
        let middle = start.add(head).cast::<usize>();
        for index in 0..words {
            middle.add(index).write_volatile(word);
        }
        for index in head + words * WORD..len {
            start.add(index).write_volatile(byte);
        }
    }
}

impl<B: OwnsBytes> Scrub<B> {
    /// # Safety
    /// `header` is live, and the range one of its segment, which is ours.
    unsafe fn scrub(&self, header: NonNull<Header<B::Policy>>, (offset, len): (usize, usize)) {
        // SAFETY: as the caller promises.
        let wiped = match unsafe { self.inner.place(header) } {
            // SAFETY: as the caller promises.
            Place::Host(base) => unsafe {
                wipe(base.add(offset), len, self.byte);
                raw::write_back(&self.inner, header, (offset, len));
                Ok(())
            },
            // SAFETY: as the caller promises.
            Place::Device(_) => unsafe { raw::fill(&self.inner, header, (offset, len), self.byte) },
        };
        if wiped.is_err() {
            self.missed
                .with(|missed| missed.set(missed.get().saturating_add(1)));
        }
    }
}

// SAFETY: every header comes from `inner` and goes back to it, and the wrapper moves only with it. It writes to a segment
// only inside `reclaim`, when no handle is left.
unsafe impl<B: OwnsBytes> MemBackend for Scrub<B> {
    type Policy = B::Policy;

    hand_on! { [inner]; except reclaim }

    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        // SAFETY: as the caller promises: live until we hand it on, no handle is left, and the range is all of it.
        unsafe {
            let len = header.as_ref().len();
            self.scrub(header, (0, len));
            self.inner.reclaim(header);
        }
    }
}

// SAFETY: the laws of the inner backend, whose header it is; what is given up is scrubbed first, while its length is known.
unsafe impl<B: OwnsBytes + Shortens> Shortens for Scrub<B> {
    unsafe fn shorten(&self, header: NonNull<Header<B::Policy>>, len: usize) {
        // SAFETY: live, and the caller's alone.
        unsafe {
            let size = header.as_ref().len();
            self.scrub(header, (len, size - len));
            self.inner.shorten(header, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_the_range_and_no_other() {
        for start in 0..9 {
            for len in 0..40 {
                let mut bytes = [0xEE_u8; 64];
                let base = NonNull::from(&mut bytes).cast::<u8>();
                // SAFETY: 9 + 40 bytes are less than 64.
                unsafe { wipe(base.add(start), len, 0x5A) };
                for (index, &byte) in bytes.iter().enumerate() {
                    let inside = (start..start + len).contains(&index);
                    let expected = if inside { 0x5A } else { 0xEE };
                    assert_eq!(byte, expected, "{len} bytes at {start}: byte {index}");
                }
            }
        }
    }
}
