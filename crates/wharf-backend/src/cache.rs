//! Cache maintenance for memory that the CPU sees through a cache and the device does not.
//!
//! Invariant of a [`Maintained`]: the inner backend's granule is a multiple of the hook's line. So a line of a segment holds
//! nothing but that segment's bytes, and others that the CPU leaves alone while the segment lives (padding, canaries).
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits by handing on, and calls the hooks"
)]

use core::fmt;
use core::ptr::NonNull;

use crate::wrap::hand_on::hand_on;
use crate::{
    Caps, ConstOwnLines, Header, HostBackend, IoDirection, MemBackend, OwnLines, Place, Returned,
    Shortens,
};

/// A board's way to maintain its data cache. Over `cortex_m::peripheral::SCB` these are `clean_dcache_by_address` and the two
/// beside it.
///
/// Every range given is whole lines: it starts at a multiple of [`LINE`](Self::LINE) and is one long.
///
/// # Safety
/// * `LINE` is a multiple of the line of every cache between the CPU and the memory.
/// * Each operation has happened, also as seen by a device, when it returns: it ends in the barriers that the core needs.
/// * No other line is touched.
/// * If the value is `Sync`, all of this holds between threads.
pub unsafe trait CacheOps {
    /// Bytes of a line; a power of two.
    const LINE: usize;

    /// Writes dirty lines back to memory.
    ///
    /// # Safety
    /// The lines are in memory of the caller's.
    unsafe fn clean(&self, start: NonNull<u8>, len: usize);

    /// Throws lines away, dirty ones too: the next read comes from memory.
    ///
    /// # Safety
    /// As for [`clean`](Self::clean), and nobody needs what the CPU wrote there.
    unsafe fn invalidate(&self, start: NonNull<u8>, len: usize);

    /// Writes dirty lines back, and throws them away.
    ///
    /// # Safety
    /// As for [`clean`](Self::clean).
    unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize);
}

// SAFETY: the operations are the same.
unsafe impl<H: CacheOps> CacheOps for &H {
    const LINE: usize = H::LINE;
    unsafe fn clean(&self, start: NonNull<u8>, len: usize) {
        // SAFETY: as the caller promises.
        unsafe { (**self).clean(start, len) }
    }
    unsafe fn invalidate(&self, start: NonNull<u8>, len: usize) {
        // SAFETY: as the caller promises.
        unsafe { (**self).invalidate(start, len) }
    }
    unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) {
        // SAFETY: as the caller promises.
        unsafe { (**self).clean_invalidate(start, len) }
    }
}

/// Segments that would share cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LineError {
    /// What the backend keeps apart, in bytes.
    pub granule: usize,
    /// Bytes of a line.
    pub line: usize,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "segments {} bytes apart share lines of {} bytes",
            self.granule, self.line
        )
    }
}

impl core::error::Error for LineError {}

/// A backend whose segments are maintained when a device gets at them.
///
/// | when | direction | what |
/// |---|---|---|
/// | before | CPU to device | clean |
/// | after | CPU to device | nothing |
/// | before | device to CPU | invalidate; the lines at the edges that the range only covers in part are cleaned, too |
/// | after | device to CPU | invalidate: a speculative read may have filled a line meanwhile |
/// | reclaim | | clean and invalidate: no line of the old owner is written back over what a device puts there later |
///
/// The hooks run where [`SegmentMut::hand_over`](crate::SegmentMut::hand_over) and the tickets of tensors call them. The CPU's own
/// reads and writes, through slices or transfers, go through its cache and run none.
///
/// ```
/// # use core::ptr::NonNull;
/// use wharf_backend::{Align32, CacheOps, Maintained, StaticPool};
/// # #[cfg(feature = "critical-section")] {
/// use wharf_sync::Critical;
///
/// /// The data cache of a Cortex-M7.
/// struct DataCache;
/// // SAFETY: (on the board: what the reference manual says)
/// unsafe impl CacheOps for DataCache {
///     const LINE: usize = 32;
///     unsafe fn clean(&self, start: NonNull<u8>, len: usize) {
///         // SCB::clean_dcache_by_address(start.addr().get(), len)
///     }
///     unsafe fn invalidate(&self, start: NonNull<u8>, len: usize) { /* … */ }
///     unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) { /* … */ }
/// }
///
/// type Frames = Maintained<StaticPool<Critical, 1536, 4, Align32>, DataCache>;
/// static FRAMES: Frames = Frames::fixed(StaticPool::new(), DataCache);
/// # }
/// ```
///
/// A pool whose slots share lines does not compile, where its alignment is a type, and is an error elsewhere:
///
/// ```compile_fail,E0080
/// # use core::ptr::NonNull;
/// # use wharf_backend::{Align8, CacheOps, Maintained, StaticPool};
/// # use wharf_sync::Unsync;
/// # struct DataCache;
/// # unsafe impl CacheOps for DataCache {
/// #     const LINE: usize = 32;
/// #     unsafe fn clean(&self, start: NonNull<u8>, len: usize) {}
/// #     unsafe fn invalidate(&self, start: NonNull<u8>, len: usize) {}
/// #     unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) {}
/// # }
/// let pool = StaticPool::<Unsync, 1536, 4, Align8>::new();
/// let frames = Maintained::fixed(pool, DataCache); // error: segments share cache lines
/// ```
pub struct Maintained<B, H> {
    inner: B,
    ops: H,
}

impl<B, H: CacheOps> Maintained<B, H> {
    /// Around `inner`, whose alignment is known to the compiler: for a `static`.
    pub const fn fixed(inner: B, ops: H) -> Self
    where
        B: ConstOwnLines,
    {
        const {
            assert!(H::LINE.is_power_of_two(), "a line is a power of two");
            assert!(B::GRANULE >= H::LINE, "segments share cache lines");
        }
        Self { inner, ops }
    }

    /// Around `inner`.
    ///
    /// # Errors
    /// Its segments share lines; it comes back.
    pub fn new(inner: B, ops: H) -> Result<Self, Returned<B, LineError>>
    where
        B: OwnLines,
    {
        const { assert!(H::LINE.is_power_of_two(), "a line is a power of two") };
        let granule = inner.granule();
        if granule < H::LINE {
            let line = H::LINE;
            return Err(Returned::new(LineError { granule, line }, inner));
        }
        Ok(Self { inner, ops })
    }
}

impl<B, H> Maintained<B, H> {
    /// What is inside.
    pub const fn inner(&self) -> &B {
        &self.inner
    }

    /// The board's operations.
    pub const fn ops(&self) -> &H {
        &self.ops
    }
}

impl<B: MemBackend, H> fmt::Debug for Maintained<B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintained")
            .field("backend", &self.inner.name())
            .finish_non_exhaustive()
    }
}

/// The lines of a range: whole ones from `first` to `last`, in offsets from the segment's start, which is one of a line.
struct Lines {
    base: NonNull<u8>,
    first: usize,
    last: usize,
    /// The first line has bytes before the range.
    head: bool,
    /// The last line has bytes after the range.
    tail: bool,
}

impl Lines {
    fn of(base: NonNull<u8>, offset: usize, len: usize, line: usize) -> Self {
        // No wrap: the range is in memory, and what it is rounded up to is padding of the segment's.
        let end = offset + len;
        let (first, last) = (offset & !(line - 1), end.next_multiple_of(line));
        Self {
            base,
            first,
            last,
            head: first != offset,
            tail: last != end,
        }
    }

    /// Calls `op` on lines `from..to`, unless there are none.
    fn run(&self, from: usize, to: usize, op: impl FnOnce(NonNull<u8>, usize)) {
        if from < to {
            // SAFETY: lines of the segment and its padding lie in the backend's memory.
            op(unsafe { self.base.add(from) }, to - from);
        }
    }
}

impl<B: OwnLines, H: CacheOps> Maintained<B, H> {
    /// # Safety
    /// `header` is live, and the range lies in the segment.
    unsafe fn lines(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
    ) -> Option<Lines> {
        // SAFETY: as the caller promises.
        match unsafe { self.inner.place(header) } {
            Place::Host(base) if len != 0 => Some(Lines::of(base, offset, len, H::LINE)),
            _ => None,
        }
    }
}

// SAFETY: every header comes from `inner` and goes back to it, and the wrapper moves only with it. What the hooks throw away is,
// by the invariant, the segment's own, and never more than the caller has given to the device.
unsafe impl<B: OwnLines, H: CacheOps> MemBackend for Maintained<B, H> {
    type Policy = B::Policy;

    hand_on! { [inner]; except reclaim caps before_io after_io }

    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        // SAFETY: still live, and nobody else holds it.
        let len = unsafe { header.as_ref() }.len();
        // SAFETY: live, and all of it.
        if let Some(lines) = unsafe { self.lines(header, 0, len) } {
            lines.run(lines.first, lines.last, |start, len| {
                // SAFETY: lines of the segment's.
                unsafe { self.ops.clean_invalidate(start, len) };
            });
        }
        // SAFETY: as the caller promises.
        unsafe { self.inner.reclaim(header) }
    }
    fn caps(&self) -> Caps {
        self.inner.caps() | Caps::NEEDS_CACHE_OPS
    }
    unsafe fn before_io(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises.
        let Some(lines) = (unsafe { self.lines(header, offset, len) }) else {
            return;
        };
        let (first, last) = (lines.first, lines.last);
        match direction {
            IoDirection::CpuToDevice => lines.run(first, last, |start, len| {
                // SAFETY: lines of the segment's.
                unsafe { self.ops.clean(start, len) };
            }),
            IoDirection::DeviceToCpu => {
                let head = if lines.head { first + H::LINE } else { first };
                // In one line, the head's maintenance is the tail's.
                let tail = if lines.tail { last - H::LINE } else { last }.max(head);
                let keep = |start, len| {
                    // SAFETY: lines of the segment's.
                    unsafe { self.ops.clean_invalidate(start, len) };
                };
                lines.run(first, head, keep);
                lines.run(head, tail, |start, len| {
                    // SAFETY: lines of the segment's, all of whose bytes the device is given.
                    unsafe { self.ops.invalidate(start, len) };
                });
                lines.run(tail, last, keep);
            }
        }
    }
    unsafe fn after_io(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        if direction == IoDirection::CpuToDevice {
            return;
        }
        // SAFETY: as the caller promises.
        if let Some(lines) = unsafe { self.lines(header, offset, len) } {
            lines.run(lines.first, lines.last, |start, len| {
                // SAFETY: lines of the segment's; those at the edges were cleaned before, and the CPU has not had the segment since.
                unsafe { self.ops.invalidate(start, len) };
            });
        }
    }
}

// SAFETY: the laws of the inner backend, whose header it is. The lines of what is given up are written back and let go while their
// length is known: the one in which the segment now ends is its own still, and is maintained with it.
unsafe impl<B: OwnLines + Shortens, H: CacheOps> Shortens for Maintained<B, H> {
    unsafe fn shorten(&self, header: NonNull<Header<B::Policy>>, len: usize) {
        // SAFETY: live, and the caller's alone.
        let size = unsafe { header.as_ref() }.len();
        // SAFETY: live, and a range of it.
        if let Some(lines) = unsafe { self.lines(header, len, size - len) } {
            lines.run(lines.first, lines.last, |start, len| {
                // SAFETY: lines of the segment's.
                unsafe { self.ops.clean_invalidate(start, len) };
            });
        }
        // SAFETY: as the caller promises.
        unsafe { self.inner.shorten(header, len) }
    }
}

// SAFETY: the places are the inner ones.
unsafe impl<B: OwnLines, H: CacheOps> HostBackend for Maintained<B, H> {}
