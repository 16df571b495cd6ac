//! The identities of a directory, in the order in which they came: a list without blocks of its own.
//!
//! Invariants:
//! 1. a chain and the links of the identities in it are reached in the section of one lock alone, the directory's;
//! 2. an identity in the chain is alive, and so is its storage: it is added by its tensor, which takes it out before it lets go of
//!    either;
//! 3. serial numbers ascend along the chain, start at one and are never given twice; an identity that is in no chain has zero.
#![allow(unsafe_code, reason = "links by pointers; the invariants above")]

use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use wharf_source::BlockSource;
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use crate::identity::{Identity, Keep};

type Pointer<P, S> = Option<NonNull<Identity<P, S>>>;

/// What an identity has for it.
pub(crate) struct Links<P: SyncPolicy, S: BlockSource> {
    before: Cell<Pointer<P, S>>,
    after: Cell<Pointer<P, S>>,
    serial: Cell<u64>,
}

impl<P: SyncPolicy, S: BlockSource> Links<P, S> {
    /// In no chain.
    pub(crate) const fn new() -> Self {
        Self {
            before: Cell::new(None),
            after: Cell::new(None),
            serial: Cell::new(0),
        }
    }
}

/// An identity that was in the chain, with what its storage was like.
pub(crate) struct Found<P: SyncPolicy, S: BlockSource> {
    pub(crate) identity: Keep<P, S>,
    pub(crate) serial: u64,
    pub(crate) holders: u32,
    pub(crate) in_flight: (u32, u32),
}

/// The list. Its name appears in a bound of [`Directory::new`](crate::Directory::new), and nowhere else outside.
pub struct Chain<P: SyncPolicy, S: BlockSource> {
    first: Cell<Pointer<P, S>>,
    last: Cell<Pointer<P, S>>,
    /// The last serial number that was given.
    serial: Cell<u64>,
}

// SAFETY: whoever has the chain reaches the links of its identities, keeps identities and frees them: what may be done with a
// `Keep` that was sent there.
unsafe impl<P: SyncPolicy, S: BlockSource> Send for Chain<P, S> where Keep<P, S>: Send {}

impl<P: SyncPolicy, S: BlockSource> ConstInit for Chain<P, S> {
    const INIT: Self = Self {
        first: Cell::new(None),
        last: Cell::new(None),
        serial: Cell::new(0),
    };
}

impl<P: SyncPolicy, S: BlockSource> fmt::Debug for Chain<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

/// A chain and its lock.
pub(crate) struct Roll<P: SyncPolicy, S: BlockSource>(P::Lock<Chain<P, S>>);

impl<P: SyncPolicy, S: BlockSource> Roll<P, S> {
    pub(crate) const fn new() -> Self
    where
        P::Lock<Chain<P, S>>: ConstInit,
    {
        Self(ConstInit::INIT)
    }

    pub(crate) fn fresh() -> Self {
        Self(Lock::new(Chain::INIT))
    }

    /// Adds an identity at the end.
    ///
    /// # Safety
    /// It is in no chain, and until it has left this one it and its storage live.
    pub(crate) unsafe fn enter(&self, identity: &Keep<P, S>) {
        // SAFETY: this is the section; and the caller's promise.
        self.0.with(|chain| unsafe { chain.add(identity) });
    }

    /// Takes an identity out.
    ///
    /// # Safety
    /// It is in this chain.
    pub(crate) unsafe fn leave(&self, identity: &Keep<P, S>) {
        // SAFETY: this is the section; and the caller's promise.
        self.0.with(|chain| unsafe { chain.remove(identity) });
    }

    /// The first identity that came after number `serial`. `last` is the one that had it, if anything is known: one step from
    /// there, or, if it has left meanwhile, a walk from the start.
    pub(crate) fn next(&self, serial: u64, last: Option<&Keep<P, S>>) -> Option<Found<P, S>> {
        // SAFETY: this is the section. What it finds is kept, and let go of outside.
        self.0.with(|chain| unsafe { chain.next(serial, last) })
    }
}

impl<P: SyncPolicy, S: BlockSource> Chain<P, S> {
    /// Adds an identity at the end.
    ///
    /// # Safety
    /// In the section of the lock. It is in no chain, and until it is removed it and its storage live.
    unsafe fn add(&self, identity: &Keep<P, S>) {
        let links = identity.get().links();
        let serial = self.serial.get() + 1;
        self.serial.set(serial);
        links.serial.set(serial);
        let pointer = Some(identity.pointer());
        let last = self.last.replace(pointer);
        links.before.set(last);
        // SAFETY: invariant 2.
        unsafe { self.after(last) }.set(pointer);
    }

    /// Takes an identity out.
    ///
    /// # Safety
    /// In the section of the lock; it is in this chain.
    unsafe fn remove(&self, identity: &Keep<P, S>) {
        let links = identity.get().links();
        links.serial.set(0);
        let (before, after) = (links.before.take(), links.after.take());
        // SAFETY: invariant 2, for both neighbours.
        unsafe {
            self.after(before).set(after);
            self.before(after).set(before);
        }
    }

    /// See [`Roll::next`]. A number that `last` has, and no longer, is zero.
    ///
    /// # Safety
    /// In the section of the lock.
    unsafe fn next(&self, serial: u64, last: Option<&Keep<P, S>>) -> Option<Found<P, S>> {
        let last = last.map(|last| last.get().links());
        let last = last.filter(|links| links.serial.get() == serial);
        let mut pointer = last.map_or(&self.first, |links| &links.after).get();
        loop {
            // SAFETY: invariant 2.
            let identity = unsafe { pointer?.as_ref() };
            let links = identity.links();
            if links.serial.get() > serial {
                // SAFETY: invariant 2; it cannot leave, because of the section.
                let (holders, in_flight) = unsafe { identity.occupancy() };
                return Some(Found {
                    // SAFETY: invariant 2.
                    identity: unsafe { Keep::new(pointer?) },
                    serial: links.serial.get(),
                    holders,
                    in_flight,
                });
            }
            pointer = links.after.get();
        }
    }

    /// The cell that says what comes after `identity`, or, without one, first.
    ///
    /// # Safety
    /// As for [`next`](Self::next); `identity` is in the chain.
    unsafe fn after(&self, identity: Pointer<P, S>) -> &Cell<Pointer<P, S>> {
        match identity {
            // SAFETY: invariant 2.
            Some(identity) => unsafe { &identity.as_ref().links().after },
            None => &self.first,
        }
    }

    /// The cell that says what comes before `identity`, or, without one, last.
    ///
    /// # Safety
    /// As for [`after`](Self::after).
    unsafe fn before(&self, identity: Pointer<P, S>) -> &Cell<Pointer<P, S>> {
        match identity {
            // SAFETY: invariant 2.
            Some(identity) => unsafe { &identity.as_ref().links().before },
            None => &self.last,
        }
    }
}
