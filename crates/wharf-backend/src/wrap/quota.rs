//! One backend in shares, of which none can starve another.
//!
//! Invariants of a [`Book`] under its lock, where a share's *surplus* is what it holds beyond its reserve:
//! 1. the reserves and `common` add up to the inner capacity;
//! 2. the surpluses add up to `surplus`, which is at most `common`.
//!
//! So what all shares hold, plus what all could still take of their reserves, is at most the capacity; and a share
//! counts a segment before it asks the inner backend for it and until after it has given it back.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits over the inner backend"
)]

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::hand_on::hand_on;
use super::queue::WaitList;
use super::{Slotted, WaitQueue, Waits};
use crate::{AllocError, AllocHint, BackendRef, Header, MemBackend};

/// Why a share was not issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QuotaError {
    /// More is promised than there is.
    Overbooked {
        /// Segments to be reserved.
        asked: usize,
        /// Segments that are reserved for other shares.
        reserved: usize,
        /// Segments there are.
        capacity: usize,
    },
    /// There would be enough, but other shares hold too much of it just now.
    InUse {
        /// Segments to be reserved.
        asked: usize,
        /// Segments that nobody has or was promised.
        free: usize,
    },
    /// A share must be allowed what is reserved for it.
    BelowReserve {
        /// Segments to be reserved.
        reserved: usize,
        /// Segments that it may hold at most.
        limit: usize,
    },
    /// No further share: make the quota's `N` larger.
    TooMany {
        /// Shares there are.
        shares: usize,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overbooked {
                asked,
                reserved,
                capacity,
            } => write!(
                f,
                "{asked} segments to be reserved, {reserved} of {capacity} are reserved already"
            ),
            Self::InUse { asked, free } => write!(
                f,
                "{asked} segments to be reserved, {free} are free at present"
            ),
            Self::BelowReserve { reserved, limit } => {
                write!(f, "{reserved} segments to be reserved, {limit} allowed")
            }
            Self::TooMany { shares } => write!(f, "all {shares} shares are issued"),
        }
    }
}

impl core::error::Error for QuotaError {}

/// A wrapper around a backend that divides it into up to `N` [`Share`]s, each a backend of its own.
///
/// A share can always have what is *reserved* for it, whatever the others do. What nobody reserved is common, and a share
/// may take of it up to its *limit*, as long as there is some. So a receiver that hoards can never starve the transmitter:
///
/// ```
/// use wharf_backend::{BackendExt, MemBackend, Quota, StaticPool};
/// use wharf_sync::Unsync;
///
/// let frames = Quota::<_, 2>::new(StaticPool::<Unsync, 64, 4>::new());
/// let transmit = frames.share(1, 2)?;
/// let receive = frames.share(0, usize::MAX)?;
///
/// let hoard: Vec<_> = std::iter::from_fn(|| receive.alloc(64).ok()).collect();
/// assert_eq!(hoard.len(), 3);
/// let reply = transmit.alloc(64)?;
/// assert_eq!(transmit.census().in_use, 1);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It counts segments, not bytes: over a pool ([`Slotted`]) that is the same, and where memory is cut to measure a promise of
/// bytes could not be kept, because the free ones may lie in pieces. The promise is about memory: a backend inside that refuses
/// for another reason (a [`FaultInject`](super::FaultInject)) still does.
///
/// There is no way to the inner backend, because what was taken there would not be counted.
pub struct Quota<B: Slotted, const N: usize> {
    inner: B,
    book: <B::Policy as SyncPolicy>::Lock<Book<N>>,
    waiters: [WaitQueue<B::Policy>; N],
}

/// Who holds how much. Opaque; public because it is behind the policy's lock.
#[derive(Debug)]
pub struct Book<const N: usize> {
    issued: Cell<usize>,
    reserved: Cell<usize>,
    /// What nobody reserved.
    common: Cell<usize>,
    surplus: Cell<usize>,
    accounts: [Account; N],
}

#[derive(Debug)]
struct Account {
    reserved: Cell<usize>,
    limit: Cell<usize>,
    in_use: Cell<usize>,
    peak: Cell<usize>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
}

impl<const N: usize> ConstInit for Book<N> {
    const INIT: Self = Self {
        issued: Cell::new(0),
        reserved: Cell::new(0),
        common: Cell::new(0),
        surplus: Cell::new(0),
        accounts: [const {
            Account {
                reserved: Cell::new(0),
                limit: Cell::new(0),
                in_use: Cell::new(0),
                peak: Cell::new(0),
                refused: Cell::new(0),
                largest_refused: Cell::new(0),
            }
        }; N],
    };
}

/// A segment may be taken.
#[derive(Clone, Copy)]
struct Granted {
    /// Whether it is one more than ever before.
    highest: bool,
}

impl Account {
    fn refuse(&self, size: usize) {
        self.refused.set(self.refused.get().saturating_add(1));
        self.largest_refused
            .set(self.largest_refused.get().max(size));
    }
}

impl<const N: usize> Book<N> {
    /// Issues a share of a backend of `capacity` segments.
    fn issue(&self, capacity: usize, asked: usize, limit: usize) -> Result<usize, QuotaError> {
        if limit < asked {
            let reserved = asked;
            return Err(QuotaError::BelowReserve { reserved, limit });
        }
        let reserved = self.reserved.get();
        let Some(account) = self.accounts.get(self.issued.get()) else {
            return Err(QuotaError::TooMany { shares: N });
        };
        let common = (capacity.checked_sub(reserved)).and_then(|free| free.checked_sub(asked));
        let Some(common) = common else {
            return Err(QuotaError::Overbooked {
                asked,
                reserved,
                capacity,
            });
        };
        if self.surplus.get() > common {
            // No wrap: the first share finds no surplus, and later ones invariant 1.
            let free = common + asked - self.surplus.get();
            return Err(QuotaError::InUse { asked, free });
        }
        self.reserved.set(reserved + asked);
        self.common.set(common);
        account.reserved.set(asked);
        account.limit.set(limit);
        Ok(self.issued.replace(self.issued.get() + 1))
    }

    /// Whether a share may hold one more.
    fn may(&self, account: &Account) -> bool {
        let in_use = account.in_use.get();
        in_use < account.reserved.get()
            || (in_use < account.limit.get() && self.surplus.get() < self.common.get())
    }

    fn take(&self, account: &Account) -> Option<Granted> {
        if !self.may(account) {
            return None;
        }
        let in_use = account.in_use.get();
        if in_use >= account.reserved.get() {
            self.surplus.set(self.surplus.get() + 1);
        }
        account.in_use.set(in_use + 1);
        let highest = in_use + 1 > account.peak.get();
        if highest {
            account.peak.set(in_use + 1);
        }
        Some(Granted { highest })
    }

    /// What was granted did not come about. Whether it was of the common part.
    fn undo(&self, account: &Account, granted: Granted) -> bool {
        // A peak is of segments that there were. (If others came meanwhile, it stays where they left it.)
        if granted.highest && account.peak.get() == account.in_use.get() {
            account.peak.set(account.peak.get() - 1);
        }
        self.put(account)
    }

    /// Whether what is given back is of the common part, which others may want.
    fn put(&self, account: &Account) -> bool {
        let in_use = account.in_use.get() - 1;
        account.in_use.set(in_use);
        let common = in_use >= account.reserved.get();
        if common {
            self.surplus.set(self.surplus.get() - 1);
        }
        common
    }

    /// The most that a share could ever hold.
    fn most(&self, account: &Account) -> usize {
        // No wrap: both are parts of the capacity.
        let most = account.reserved.get() + self.common.get();
        most.min(account.limit.get())
    }
}

impl<B: Slotted, const N: usize> Quota<B, N> {
    /// Around `inner`, which must be unused; no share is issued yet.
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            book: Lock::new(Book::INIT),
            waiters: core::array::from_fn(|_| WaitQueue::new()),
        }
    }

    /// [`new`](Self::new) for a `static`.
    pub const fn new_const(inner: B) -> Self
    where
        <B::Policy as SyncPolicy>::Lock<Book<N>>: ConstInit,
        <B::Policy as SyncPolicy>::Lock<WaitList>: ConstInit,
        <B::Policy as SyncPolicy>::Event: ConstInit,
    {
        Self {
            inner,
            book: ConstInit::INIT,
            waiters: [const { ConstInit::INIT }; N],
        }
    }

    /// Issues a share: `reserved` segments that it can always have, and at most `limit` ([`usize::MAX`] for no limit of its own).
    ///
    /// It lasts as long as the quota does, and may be copied.
    ///
    /// # Errors
    /// More would be promised than there is, or than is free now; the limit is below the reserve; or all shares are issued.
    pub fn share(&self, reserved: usize, limit: usize) -> Result<Share<'_, B, N>, QuotaError> {
        let capacity = self.inner.census().capacity;
        let issue = |book: &Book<N>| book.issue(capacity, reserved, limit);
        // Nobody need be woken who waits for what is not common any more: it can be promised only once it is free, and
        // when it became free they were.
        let index = self.book.with(issue)?;
        Ok(QuotaShare::new(self, index))
    }

    /// [`share`](Self::share), of a quota that lives on the heap: the share, and every segment of it, keeps the quota. So it may be
    /// stored for as long as one likes.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wharf_backend::{MemBackend, Quota, SegmentMut, StaticPool, Uninit};
    /// use wharf_backend::wrap::CountedShare;
    /// use wharf_sync::Unsync;
    ///
    /// type Pool = StaticPool<Unsync, 64, 4>;
    /// struct Stored(SegmentMut<CountedShare<Pool, 2>, Uninit>);
    ///
    /// let frames = Arc::new(Quota::<Pool, 2>::new(StaticPool::new()));
    /// let transmit = frames.share_counted(1, 2)?;
    /// drop(frames);
    /// let stored = Stored(SegmentMut::alloc(transmit.clone(), 64)?);
    /// assert_eq!(transmit.census().in_use, 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for `share`.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn share_counted(
        self: &Arc<Self>,
        reserved: usize,
        limit: usize,
    ) -> Result<CountedShare<B, N>, QuotaError> {
        let index = self.share(reserved, limit)?.index;
        Ok(QuotaShare::new(Arc::clone(self), index))
    }

    /// The census of the whole.
    #[must_use]
    pub fn census(&self) -> Census {
        self.inner.census()
    }
}

impl<B: Slotted, const N: usize> fmt::Debug for Quota<B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota")
            .field("backend", &self.inner.name())
            .field("shares", &self.book.with(|book| book.issued.get()))
            .finish_non_exhaustive()
    }
}

mod sealed {
    pub trait Sealed {}
    impl<B: super::Slotted, const N: usize> Sealed for &super::Quota<B, N> {}
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    impl<B: super::Slotted, const N: usize> Sealed for super::Arc<super::Quota<B, N>> {}
}

/// How a share keeps its quota: `&Quota`, or `Arc<Quota>`. Both refer to one quota, wherever they are moved or copied to, and keep
/// it where it is; so nobody else may implement it.
pub trait QuotaRef<B: Slotted, const N: usize>: Clone + sealed::Sealed {
    /// The quota.
    fn quota(&self) -> &Quota<B, N>;
}

impl<B: Slotted, const N: usize> QuotaRef<B, N> for &Quota<B, N> {
    #[inline]
    fn quota(&self) -> &Quota<B, N> {
        self
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<B: Slotted, const N: usize> QuotaRef<B, N> for Arc<Quota<B, N>> {
    #[inline]
    fn quota(&self) -> &Quota<B, N> {
        self
    }
}

/// A [`QuotaShare`] that borrows its quota: what [`Quota::share`] issues.
pub type Share<'q, B, const N: usize> = QuotaShare<&'q Quota<B, N>, B, N>;

/// A [`QuotaShare`] that keeps its quota by a count: what [`Quota::share_counted`] issues.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub type CountedShare<B, const N: usize> = QuotaShare<Arc<Quota<B, N>>, B, N>;

/// A part of a backend: see [`Quota`]. It is a backend, and a reference to itself: handles keep it by value, and that is how a
/// segment knows its share when it is dropped, on whatever context, without a word in its header.
///
/// Its census is the share's: `capacity` is what it could hold if the others held nothing beyond their reserves.
///
/// Its memory can be waited for ([`Waits`]), each share with a queue of its own.
pub struct QuotaShare<Q, B, const N: usize> {
    quota: Q,
    index: usize,
    of: PhantomData<fn() -> B>,
}

impl<Q: Clone, B, const N: usize> Clone for QuotaShare<Q, B, N> {
    fn clone(&self) -> Self {
        Self::new(self.quota.clone(), self.index)
    }
}

impl<Q: Copy, B, const N: usize> Copy for QuotaShare<Q, B, N> {}

impl<Q, B, const N: usize> QuotaShare<Q, B, N> {
    const fn new(quota: Q, index: usize) -> Self {
        let of = PhantomData;
        Self { quota, index, of }
    }
}

impl<Q: QuotaRef<B, N>, B: Slotted, const N: usize> QuotaShare<Q, B, N> {
    #[inline]
    fn quota(&self) -> &Quota<B, N> {
        self.quota.quota()
    }

    /// Not for users: what they took there would not be counted.
    #[inline]
    pub(crate) fn inner(&self) -> &B {
        &self.quota().inner
    }

    fn account<T>(&self, section: impl FnOnce(&Book<N>, &Account) -> T) -> T {
        self.quota()
            .book
            .with(|book| section(book, &book.accounts[self.index]))
    }

    /// Segments that are reserved for it.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.account(|_, account| account.reserved.get())
    }
}

impl<Q: QuotaRef<B, N>, B: Slotted, const N: usize> fmt::Debug for QuotaShare<Q, B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("index", &self.index)
            .field("reserved", &self.reserved())
            .field("census", &self.census())
            .finish()
    }
}

// SAFETY: the quota stays where it is while a reference to it lives (`QuotaRef`, which is sealed: a borrow or an `Arc`, of which
// a bit copy is as good), and every value with the same index is the same share.
unsafe impl<Q: QuotaRef<B, N>, B: Slotted, const N: usize> BackendRef for QuotaShare<Q, B, N> {
    type Policy = B::Policy;
    type Backend = Self;
    #[inline]
    fn backend(&self) -> &Self {
        self
    }
}

// SAFETY: every header comes from the inner backend and goes back to it, and the quota does not move while it is referred to.
unsafe impl<Q: QuotaRef<B, N>, B: Slotted, const N: usize> MemBackend for QuotaShare<Q, B, N> {
    type Policy = B::Policy;

    hand_on! { [inner()]; except vend refusal reclaim max_segment_size census }

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<B::Policy>>> {
        let fits = size <= self.inner().max_segment_size();
        let granted = self.account(|book, account| {
            let granted = if fits { book.take(account) } else { None };
            if granted.is_none() {
                account.refuse(size);
            }
            granted
        })?;
        let vended = self.inner().vend(size, hint);
        if vended.is_none() {
            let common = self.account(|book, account| {
                account.refuse(size);
                book.undo(account, granted)
            });
            // Another share may have found the last common one granted to this one.
            if common {
                self.wake(common);
            }
        }
        vended
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        let inner = self.inner();
        let max = self.max_segment_size();
        let (may, most, in_use) = self
            .account(|book, account| (book.may(account), book.most(account), account.in_use.get()));
        if most == 0 {
            return AllocError::Unsupported;
        }
        if size > max {
            return AllocError::TooLarge {
                requested: size,
                max,
            };
        }
        if may {
            // It was not the share that refused.
            return inner.refusal(size, hint);
        }
        let unit = inner.census().unit;
        AllocError::Exhausted {
            requested: size,
            in_use: in_use.saturating_mul(unit),
            capacity: most.saturating_mul(unit),
        }
    }

    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        // SAFETY: as the caller promises.
        unsafe { self.inner().reclaim(header) };
        let common = self.account(Book::put);
        self.wake(common);
    }

    /// That of the inner backend; none where the share can never have a segment.
    fn max_segment_size(&self) -> usize {
        if self.account(Book::most) == 0 {
            return 0;
        }
        self.inner().max_segment_size()
    }

    fn census(&self) -> Census {
        let unit = self.inner().census().unit;
        let untold = self.waiters().untold();
        self.account(|book, account| Census {
            unit,
            capacity: book.most(account),
            in_use: account.in_use.get(),
            peak: account.peak.get(),
            refused: account.refused.get().wrapping_sub(untold),
            largest_refused: account.largest_refused.get(),
            ..Census::NOTHING
        })
    }
}

impl<Q: QuotaRef<B, N>, B: Slotted, const N: usize> QuotaShare<Q, B, N> {
    /// Something was given back to this share, and to the others too if it is `common`.
    fn wake(&self, common: bool) {
        if common {
            // This one first: it has the freshest claim.
            let (before, from) = self.quota().waiters.split_at(self.index);
            from.iter().chain(before).for_each(WaitQueue::wake);
        } else {
            self.waiters().wake();
        }
    }
}

impl<Q: QuotaRef<B, N>, B: Slotted, const N: usize> Waits for QuotaShare<Q, B, N> {
    fn waiters(&self) -> &WaitQueue<B::Policy> {
        &self.quota().waiters[self.index]
    }
}
