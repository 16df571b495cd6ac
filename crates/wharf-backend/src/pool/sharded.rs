//! A pool in shards, for contexts that run at the same time and should not meet on one free list.
//!
//! A shard is a run of the slots with two lists. The *near* list is that of any pool: what was recycled, and the mark up to
//! which slots were carved. Whoever belongs to the shard takes from it and gives back to it. The *far* list takes
//! what all others give back, and goes over to the near one as a whole, once that has nothing recycled left. So the
//! two ends of a pipeline meet once per batch, and contexts that give back what they took never do.
//!
//! Invariants, beside those of [`Headers`]:
//! 1. a slot has one home for ever, the shard whose run it lies in. Only its home's lists ever hold it, whoever had it;
//! 2. the locks of the home's two lists guard its header. It becomes live under the near one; it is parked under either.
//!    Inside of both it does not change;
//! 3. whoever enters a lock inside of others enters them in one order: shard by shard from the first, near before far.
//!    So no two contexts wait for each other.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits over the pool's core"
)]

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{Lock, SyncPolicy};

use super::FreeList;
use super::borrowed::Carving;
use super::core::{Headers, refusal};
use crate::{
    AllocError, AllocHint, Caps, Header, HostBackend, MemBackend, OwnLines, Place, PoolError,
    SlotControl,
};

/// Keeps what different contexts write on different cache lines. Two lines of a host, because some prefetch in pairs.
#[cfg_attr(target_pointer_width = "64", repr(align(128)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(align(32)))]
struct OwnLine<T>(T);

struct Shard<P: SyncPolicy> {
    near: OwnLine<Near<P>>,
    far: OwnLine<P::Lock<FreeList>>,
}

/// What the contexts of a shard use, and the run of headers that is theirs, in bytes.
struct Near<P: SyncPolicy> {
    list: P::Lock<FreeList>,
    start: usize,
    end: usize,
}

impl<P: SyncPolicy> Shard<P> {
    fn new(start: usize, end: usize) -> Self {
        Self {
            near: OwnLine(Near {
                list: Lock::new(FreeList::starting_at(start)),
                start,
                end,
            }),
            far: OwnLine(Lock::new(FreeList::fresh())),
        }
    }

    fn is_home(&self, offset: usize) -> bool {
        (self.near.0.start..self.near.0.end).contains(&offset)
    }

    /// Runs `section` with both lists, so that nothing of the shard changes meanwhile.
    fn with_both<R>(&self, section: impl FnOnce(&FreeList, &FreeList) -> R) -> R {
        // In the order of invariant 3.
        self.near
            .0
            .list
            .with(|near| self.far.0.with(|far| section(near, far)))
    }
}

/// Fixed slots over a slab given to it, in `SHARDS` shards: for threads or cores that allocate at the same time.
///
/// As [`PoolBackend`](crate::PoolBackend), except for who meets whom. A context takes from its own shard, which
/// [`SyncPolicy::who`] names, and from the others only when that is empty. A segment may be dropped anywhere: it goes
/// back to the shard that its slot lies in. With as many shards as contexts that allocate, none waits for another.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use core::mem::MaybeUninit;
/// use wharf_backend::{BackendExt, MemBackend, ShardedPool, SlotControl};
/// use wharf_sync::Blocking;
///
/// // A `Vec` of bytes may begin anywhere, and what lies before the first multiple of 64 is lost: room for that, too.
/// let mut slab = vec![MaybeUninit::uninit(); 1024 * 64 + 63];
/// let mut control: Vec<_> = (0..1024).map(|_| SlotControl::<Blocking>::new()).collect();
/// let pool = ShardedPool::<_, 4>::new(&mut slab, &mut control, 64, 64).unwrap();
/// assert_eq!(pool.slots(), 1024);
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for _ in 0..1000 {
///                 drop(pool.alloc(64).unwrap());
///             }
///         });
///     }
/// });
/// assert_eq!(pool.census().in_use, 0);
/// # }
/// ```
///
/// # What differs from one list
/// * Every shard has a lock and a list for its own contexts, and one of each for slots that others give back; each on a cache
///   line of its own: 256 bytes a shard on a 64-bit host, 64 on a small core.
/// * A refusal is as true as that of one list: at one moment no slot was free. For that the last attempt enters the locks of
///   all shards, one inside the other, and everybody waits for it. Where exhaustion is the rule and not the
///   exception, one list is cheaper. (A policy of your own whose locks are one lock must let sections nest.)
/// * `peak` is the sum of what the shards have carved: enough slots, though fewer may have been out at any one time.
/// * Under a policy that cannot tell its contexts apart ([`Who::SOLE`](wharf_sync::Who::SOLE)) all of them use the
///   first shard until it is empty. That is correct, and no faster than one list.
/// * Slots are dealt out evenly, rounded up, so the last shards may have fewer, and with fewer slots than shards none.
/// * A drop by another shard's context divides once.
pub struct ShardedPool<'s, P: SyncPolicy, const SHARDS: usize> {
    shards: [Shard<P>; SHARDS],
    headers: NonNull<Header<P>>,
    base: NonNull<u8>,
    count: u32,
    /// Bytes of headers of one shard: not zero.
    span: usize,
    payload: usize,
    stride: usize,
    align: usize,
    lent: PhantomData<&'s mut [MaybeUninit<u8>]>,
}

// SAFETY: as for `PoolBackend`: exclusive borrows of plain bytes and of headers, which go with the pool.
unsafe impl<P: SyncPolicy, const SHARDS: usize> Send for ShardedPool<'_, P, SHARDS>
where
    P::Lock<FreeList>: Send,
    P::Count: Send,
{
}
// SAFETY: through `&self` headers and slots change owner only under the locks of their home (invariant 2).
unsafe impl<P: SyncPolicy, const SHARDS: usize> Sync for ShardedPool<'_, P, SHARDS>
where
    P::Lock<FreeList>: Sync,
    P::Count: Sync,
{
}

/// One shard, as the pool's core sees it: the slots up to its end, of which it vends those from its start on.
struct Part<'p, P: SyncPolicy> {
    near: &'p Near<P>,
    headers: NonNull<Header<P>>,
}

// SAFETY: the constructor established the invariants, over memory borrowed exclusively; the carve mark begins at
// the shard's start, and what comes back comes home, so the list only ever names slots of the shard.
unsafe impl<P: SyncPolicy> Headers for Part<'_, P> {
    type Policy = P;

    #[inline]
    fn free(&self) -> &P::Lock<FreeList> {
        &self.near.list
    }
    #[inline]
    fn headers(&self) -> NonNull<Header<P>> {
        self.headers
    }
    #[inline]
    fn count(&self) -> usize {
        self.near.end / Self::HEADER
    }
}

impl<'s, P: SyncPolicy, const SHARDS: usize> ShardedPool<'s, P, SHARDS> {
    const HEADER: usize = size_of::<Header<P>>();

    /// Carves `slab` as [`PoolBackend::new`](crate::PoolBackend::new) does, and deals the slots out to the shards.
    ///
    /// # Errors
    /// The alignment is no power of two, a sum wraps, or not one slot fits; each with the numbers.
    pub fn new(
        slab: &'s mut [MaybeUninit<u8>],
        control: &'s mut [SlotControl<P>],
        payload: usize,
        align: usize,
    ) -> Result<Self, PoolError> {
        const {
            assert!(SHARDS > 0, "a pool has at least one shard");
            assert!(SHARDS <= 64, "a refusal enters the locks of all shards");
        }
        let Carving {
            lost,
            count,
            stride,
        } = Carving::of(slab, control.len(), payload, align)?;
        // No wrap, here and below: the headers are an array. (Multiples of a span past its end are cut to it.)
        let total = count as usize * Self::HEADER;
        let span = (count as usize).div_ceil(SHARDS) * Self::HEADER;
        let edge = |shard: usize| shard.saturating_mul(span).min(total);
        let base = NonNull::from(slab).cast::<u8>();
        Ok(Self {
            shards: core::array::from_fn(|shard| Shard::new(edge(shard), edge(shard + 1))),
            headers: NonNull::from(control).cast(),
            // SAFETY: a slot fits after `lost` bytes, so the offset is within the slab.
            base: unsafe { base.add(lost) },
            count,
            span,
            payload,
            stride,
            align,
            lent: PhantomData,
        })
    }

    /// Slots there are, in all shards.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.count
    }

    /// The number of the caller's shard. A hint: a wrong one costs time.
    #[inline]
    fn mine() -> usize {
        P::who().id() % SHARDS
    }

    #[inline]
    fn part<'p>(&'p self, shard: &'p Shard<P>) -> Part<'p, P> {
        Part {
            near: &shard.near.0,
            headers: self.headers,
        }
    }

    #[inline]
    fn offset(&self, header: NonNull<Header<P>>) -> usize {
        header.addr().get().wrapping_sub(self.headers.addr().get())
    }

    /// A slot of `shard`, if it has one.
    #[inline]
    fn take(&self, shard: &Shard<P>, size: usize) -> Option<NonNull<Header<P>>> {
        shard.near.0.list.with(|near| {
            if !near.has_recycled(Self::HEADER) {
                shard.far.0.with(|far| near.adopt(far));
            }
            self.part(shard).take(near, size)
        })
    }

    /// A slot of any shard but `mine`, which has none.
    #[cold]
    fn take_elsewhere(&self, mine: usize, size: usize) -> Option<NonNull<Header<P>>> {
        let (before, from) = self.shards.split_at(mine);
        let others = from.iter().skip(1).chain(before);
        others
            .into_iter()
            .find_map(|shard| self.take(shard, size))
            .or_else(|| self.take_or_refuse(0, size))
    }

    /// A slot of the shards from `index` on, or a refusal that is counted. The shards before are empty, and stay so while this
    /// runs, because the caller is inside of their locks. One after the other without that might all be found empty although
    /// there was a free slot at every moment: somebody may free one behind our back, and then take the last one before us.
    #[cold]
    fn take_or_refuse(&self, index: usize, size: usize) -> Option<NonNull<Header<P>>> {
        let shard = self.shards.get(index)?;
        shard.with_both(|near, far| {
            if !near.has_recycled(Self::HEADER) {
                near.adopt(far);
            }
            let taken = self.part(shard).take(near, size);
            if taken.is_some() {
                return taken;
            }
            if index + 1 == SHARDS {
                near.refuse(size);
            }
            self.take_or_refuse(index + 1, size)
        })
    }
}

impl<P: SyncPolicy, const SHARDS: usize> fmt::Debug for ShardedPool<'_, P, SHARDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedPool")
            .field("policy", &P::NAME)
            .field("shards", &SHARDS)
            .field("payload", &self.payload)
            .field("align", &self.align)
            .field("census", &self.census())
            .finish()
    }
}

// SAFETY: the constructor established the invariants of this module, over memory borrowed exclusively.
unsafe impl<P: SyncPolicy, const SHARDS: usize> MemBackend for ShardedPool<'_, P, SHARDS> {
    type Policy = P;

    #[inline]
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        let mine = Self::mine();
        let shard = &self.shards[mine];
        if size > self.payload {
            shard.near.0.list.with(|near| near.refuse(size));
            return None;
        }
        self.take(shard, size)
            .or_else(|| self.take_elsewhere(mine, size))
    }
    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        refusal(size, self.payload, || self.count as usize * self.stride)
    }
    #[inline]
    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        let offset = self.offset(header);
        let shard = &self.shards[Self::mine()];
        if shard.is_home(offset) {
            // SAFETY: as the caller promises; the slot is at home here.
            return unsafe { self.part(shard).reclaim(header) };
        }
        // In bounds: the offset is that of a header, and the spans of all shards cover them.
        self.shards[offset / self.span].far.0.with(|far| {
            let link = far.give_back(offset, Self::HEADER);
            // SAFETY: live and without handles, so the header is ours, inside of a lock of its home (invariant 2).
            unsafe { header.write(Header::parked(link)) };
        });
    }
    #[inline]
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        let slot = self.offset(header) / Self::HEADER;
        // SAFETY: the header is one of `count`, so the product is within the slab.
        Place::Host(unsafe { self.base.add(slot * self.stride) })
    }
    fn may_own(&self, header: NonNull<Header<P>>) -> bool {
        let offset = self.offset(header);
        // A shard beyond the last: a foreign pointer.
        let Some(shard) = self.shards.get(offset / self.span) else {
            return false;
        };
        shard.with_both(|near, _| {
            offset.is_multiple_of(Self::HEADER)
                && offset < near.carved()
                // SAFETY: below the carve mark of its home and on a boundary, hence a header; read inside of both
                // locks (invariant 2), and the count of a live one is only ever changed by its own atomic operations.
                && unsafe { Header::is_held(self.headers.byte_add(offset)) }
        })
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
        let mut sum = Census {
            unit: self.stride,
            capacity: self.count as usize,
            ..Census::NOTHING
        };
        for shard in &self.shards {
            shard.with_both(|near, far| {
                sum.in_use += near.in_use() - far.in_use();
                sum.peak += (near.carved() - shard.near.0.start) / Self::HEADER;
                sum.refused = sum.refused.saturating_add(near.refused());
                sum.largest_refused = sum.largest_refused.max(near.largest_refused());
            });
        }
        sum
    }
    fn name(&self) -> &'static str {
        "sharded pool"
    }
}

// SAFETY: the slab is host memory.
unsafe impl<P: SyncPolicy, const SHARDS: usize> HostBackend for ShardedPool<'_, P, SHARDS> {}

// SAFETY: as for `PoolBackend`.
unsafe impl<P: SyncPolicy, const SHARDS: usize> OwnLines for ShardedPool<'_, P, SHARDS> {
    fn granule(&self) -> usize {
        self.align
    }
}
