//! A pool over a slab and a control block that somebody lends.
//!
//! Invariant: the pool holds both exclusively for `'s`, and its fields are what the constructor has measured.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits over the pool's core"
)]

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::FreeList;
use super::core::{Headers, Slots};
use crate::{AllocError, AllocHint, Caps, Header, HostBackend, MemBackend, OwnLines, Place};

/// The control block of one slot. Make an array of them, as many as slots are wanted.
///
/// ```
/// # use wharf_backend::SlotControl;
/// # use wharf_sync::Unsync;
/// let mut control = [const { SlotControl::<Unsync>::NEW }; 32];
/// ```
#[repr(transparent)]
pub struct SlotControl<P: SyncPolicy>(Header<P>);

impl<P: SyncPolicy> SlotControl<P>
where
    P::Count: ConstInit,
{
    /// A slot that was never used: all zero bytes.
    pub const NEW: Self = Self(Header::INIT);
}

impl<P: SyncPolicy> SlotControl<P> {
    /// [`NEW`](Self::NEW) for policies without constants.
    #[must_use]
    pub fn new() -> Self {
        Self(Header::parked(0))
    }
}

impl<P: SyncPolicy> Default for SlotControl<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: SyncPolicy> fmt::Debug for SlotControl<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a slab makes no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PoolError {
    /// An alignment is a power of two.
    Alignment {
        /// What was asked.
        align: usize,
    },
    /// The payload, rounded up to the alignment, is larger than memory.
    StrideOverflow {
        /// Bytes per payload.
        payload: usize,
        /// The alignment.
        align: usize,
    },
    /// Not one slot fits.
    NoSlot {
        /// Bytes of the slab.
        slab: usize,
        /// Bytes lost at its start to the alignment.
        lost: usize,
        /// Bytes per slot.
        stride: usize,
        /// Control blocks.
        control: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alignment { align } => write!(f, "alignment {align} is no power of two"),
            Self::StrideOverflow { payload, align } => {
                write!(
                    f,
                    "a payload of {payload} bytes aligned to {align} is larger than memory"
                )
            }
            Self::NoSlot {
                slab,
                lost,
                stride,
                control,
            } => write!(
                f,
                "no slot: {slab} bytes of slab, of which {lost} are lost to alignment, {stride} bytes per slot, {control} control blocks"
            ),
        }
    }
}

impl core::error::Error for PoolError {}

/// How a slab falls into slots.
pub(super) struct Carving {
    /// Bytes at its start that are skipped; no more than there are.
    pub(super) lost: usize,
    /// At least one, and `lost + count * stride` is no more than the slab has.
    pub(super) count: u32,
    /// Not zero, and a whole number of alignments.
    pub(super) stride: usize,
}

impl Carving {
    #[inline]
    pub(super) fn of(
        slab: &[MaybeUninit<u8>],
        control: usize,
        payload: usize,
        align: usize,
    ) -> Result<Self, PoolError> {
        if !align.is_power_of_two() {
            return Err(PoolError::Alignment { align });
        }
        // At least one alignment per slot: with a stride of zero all slots would be one.
        let stride = payload
            .max(1)
            .checked_next_multiple_of(align)
            .ok_or(PoolError::StrideOverflow { payload, align })?;
        // Never more than there are, so that an error does not report more lost than lent.
        let lost = (slab.as_ptr().addr().wrapping_neg() & (align - 1)).min(slab.len());
        let fitting = (slab.len() - lost) / stride;
        let count = fitting.min(control).min(u32::MAX as usize - 1);
        if count == 0 {
            return Err(PoolError::NoSlot {
                slab: slab.len(),
                lost,
                stride,
                control,
            });
        }
        #[expect(clippy::cast_possible_truncation, reason = "limited just above")]
        let count = count as u32;
        Ok(Self {
            lost,
            count,
            stride,
        })
    }
}

/// Fixed slots over a slab given to it.
///
/// ```
/// use core::mem::MaybeUninit;
/// use wharf_backend::{BackendExt, PoolBackend, SlotControl};
/// use wharf_sync::Unsync;
///
/// let mut slab = [MaybeUninit::<u8>::uninit(); 1024];
/// let mut control = [const { SlotControl::<Unsync>::NEW }; 8];
/// let pool = PoolBackend::new(&mut slab, &mut control, 100, 8)?;
/// let segment = pool.alloc(100)?.filled(0)?;
/// assert_eq!(segment.as_ptr().addr() % 8, 0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct PoolBackend<'s, P: SyncPolicy> {
    free: P::Lock<FreeList>,
    headers: NonNull<Header<P>>,
    base: NonNull<u8>,
    count: u32,
    payload: usize,
    stride: usize,
    align: usize,
    lent: PhantomData<&'s mut [MaybeUninit<u8>]>,
}

// SAFETY: the raw pointers stand for exclusive borrows of plain bytes and of headers, which may go to
// another thread with the pool; no segment is alive when the pool moves.
unsafe impl<P: SyncPolicy> Send for PoolBackend<'_, P>
where
    P::Lock<FreeList>: Send,
    P::Count: Send,
{
}
// SAFETY: through `&self` headers and slots change owner only under the lock.
unsafe impl<P: SyncPolicy> Sync for PoolBackend<'_, P>
where
    P::Lock<FreeList>: Sync,
    P::Count: Sync,
{
}

impl<'s, P: SyncPolicy> PoolBackend<'s, P> {
    /// Carves `slab` into slots of `payload` bytes aligned to `align`: as many as fit and as
    /// `control` has blocks for.
    ///
    /// The slab's own alignment does not matter; up to `align - 1` bytes at its start are skipped. What a
    /// control block held before does not matter either: it is written before it is read.
    ///
    /// # Errors
    /// The alignment is no power of two, a sum wraps, or not one slot fits; each with the numbers.
    pub fn new(
        slab: &'s mut [MaybeUninit<u8>],
        control: &'s mut [SlotControl<P>],
        payload: usize,
        align: usize,
    ) -> Result<Self, PoolError> {
        let Carving {
            lost,
            count,
            stride,
        } = Carving::of(slab, control.len(), payload, align)?;
        let base = NonNull::from(slab).cast::<u8>();
        Ok(Self {
            free: Lock::new(FreeList::fresh()),
            headers: NonNull::from(control).cast(),
            // SAFETY: a slot fits after `lost` bytes, so the offset is within the slab.
            base: unsafe { base.add(lost) },
            count,
            payload,
            stride,
            align,
            lent: PhantomData,
        })
    }

    /// Slots there are.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.count
    }
}

// SAFETY: the constructor established the invariants, over memory borrowed exclusively.
unsafe impl<P: SyncPolicy> Headers for PoolBackend<'_, P> {
    type Policy = P;

    #[inline]
    fn free(&self) -> &P::Lock<FreeList> {
        &self.free
    }
    #[inline]
    fn headers(&self) -> NonNull<Header<P>> {
        self.headers
    }
    #[inline]
    fn count(&self) -> usize {
        self.count as usize
    }
}

// SAFETY: as above.
unsafe impl<P: SyncPolicy> Slots for PoolBackend<'_, P> {
    #[inline]
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    #[inline]
    fn payload(&self) -> usize {
        self.payload
    }
    #[inline]
    fn stride(&self) -> usize {
        self.stride
    }
}

impl<P: SyncPolicy> fmt::Debug for PoolBackend<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBackend")
            .field("policy", &P::NAME)
            .field("payload", &self.payload)
            .field("align", &self.align)
            .field("census", &MemBackend::census(self))
            .finish()
    }
}

// SAFETY: the constructor established the invariants of `Slots`, over memory borrowed exclusively.
unsafe impl<P: SyncPolicy> MemBackend for PoolBackend<'_, P> {
    type Policy = P;

    #[inline]
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        Slots::vend(self, size)
    }
    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        Slots::refusal(self, size)
    }
    #[inline]
    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        // SAFETY: as the caller promises.
        unsafe { Headers::reclaim(self, header) }
    }
    #[inline]
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        // SAFETY: as the caller promises.
        Place::Host(unsafe { self.bytes(header) })
    }
    fn may_own(&self, header: NonNull<Header<P>>) -> bool {
        self.owns(header)
    }
    fn caps(&self) -> Caps {
        super::caps::<P>()
    }
    fn alignment(&self) -> usize {
        self.align
    }
    fn max_segment_size(&self) -> usize {
        self.payload
    }
    fn census(&self) -> Census {
        Slots::census(self)
    }
    fn name(&self) -> &'static str {
        "pool"
    }
}

// SAFETY: the slab is host memory.
unsafe impl<P: SyncPolicy> HostBackend for PoolBackend<'_, P> {}

// SAFETY: a stride is a whole number of alignments, the first slot starts at one and the last ends inside the slab; the control
// blocks are elsewhere.
unsafe impl<P: SyncPolicy> OwnLines for PoolBackend<'_, P> {
    fn granule(&self) -> usize {
        self.align
    }
}
