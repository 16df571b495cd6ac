//! A name and a completion count that the clones of a tensor share.
//!
//! One block holds both, the way back to the directory, and behind them the bytes of a copied name. It is counted twice, as an
//! `Arc` with weak references is: by the tensors, and by whatever else needs it (a launch under way, a report).
//!
//! Invariants:
//! 1. the block lives while a [`Keep`] exists, each of which is counted in `keeps`. Whoever drops the last one frees it;
//! 2. all [`IdentityRef`]s of a block are counted in `tensors`, and are one `Keep` together. Whoever drops the last one takes the
//!    handle of the directory, leaves the directory, and then drops that `Keep`;
//! 3. an `IdentityRef` lies in a tensor, and is dropped before the reference to the storage beside it, which is the storage that
//!    `window` describes. So that storage lives while the identity is in a directory;
//! 4. `name` points to bytes that are static, or to bytes in the block that are not written any more;
//! 5. the block came from the source handle that lies in it, with `layout`, and goes back through that very handle;
//! 6. `links` are reached in the section of the directory's lock alone.
#![allow(unsafe_code, reason = "owns the identity block; the invariants above")]

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use wharf_backend::MemSpace;
use wharf_source::{Block, BlockSource, SourceError};
use wharf_sync::{Count, SyncPolicy};

use crate::chain::Links;
use crate::completion::Completed;
use crate::directory::DirectoryRef;
use crate::error::StorageId;
use crate::fence::Fence;
use crate::holders::Holders;
use crate::storage::StorageRef;
use crate::{Target, TensorError};

/// What a tensor is to be called.
#[derive(Clone, Copy)]
pub(crate) enum Name<'n> {
    /// Bytes that are copied into the block.
    Copied(&'n str),
    /// Bytes that stay where they are.
    Static(&'static str),
}

/// Which bytes a name is the name of, as they were when it was given.
pub(crate) struct Window<P: SyncPolicy> {
    pub(crate) storage: StorageId,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) storage_len: usize,
    pub(crate) space: Option<MemSpace>,
    /// Which segment is under it and how long that is; a placeholder has none. A number to compare, and no more.
    pub(crate) memory: Option<(usize, usize)>,
    /// Parts of the storage, which outlive what is here only as invariant 3 says.
    pub(crate) holders: NonNull<Holders<P>>,
    pub(crate) fence: NonNull<Fence<P>>,
}

/// The part of the block that does not depend on the target.
pub(crate) struct Identity<P: SyncPolicy, S: BlockSource> {
    tensors: Holders<P>,
    keeps: P::Count,
    completed: Completed<P>,
    name: NonNull<str>,
    window: Window<P>,
    links: Links<P, S>,
    source: S,
    layout: Layout,
}

impl<P: SyncPolicy, S: BlockSource> Identity<P, S> {
    pub(crate) const fn name(&self) -> &str {
        // SAFETY: invariant 4; and the block lives while it is borrowed.
        unsafe { self.name.as_ref() }
    }

    pub(crate) const fn completed(&self) -> &Completed<P> {
        &self.completed
    }

    pub(crate) const fn window(&self) -> &Window<P> {
        &self.window
    }

    /// To be reached in the section of the directory's lock alone.
    pub(crate) const fn links(&self) -> &Links<P, S> {
        &self.links
    }

    /// How many tensors keep the storage, and the device reads and writes under way on it.
    ///
    /// # Safety
    /// The identity is in a directory, and stays there during the call.
    pub(crate) unsafe fn occupancy(&self) -> (u32, (u32, u32)) {
        let Window { holders, fence, .. } = self.window;
        // SAFETY: invariant 3, and the caller's promise. Both are only ever used by shared reference while the storage lives.
        unsafe { (holders.as_ref().get(), fence.as_ref().in_flight()) }
    }
}

/// Keeps an identity block: its name and its count, and neither the storage nor the place in the directory.
pub(crate) struct Keep<P: SyncPolicy, S: BlockSource>(NonNull<Identity<P, S>>);

// SAFETY: another thread may count, complete, wait, read the name, and free: so the counts, the word and the event must be usable from
// there, and the source, which whoever frees reaches alone, is sent. The links are reached under a lock, the window's pointers only by
// invariant 3.
unsafe impl<P: SyncPolicy, S: BlockSource + Send> Send for Keep<P, S>
where
    P::Count: Send + Sync,
    P::Word: Send + Sync,
    P::Event: Send + Sync,
{
}
// SAFETY: `&Keep` can be cloned, so as above.
unsafe impl<P: SyncPolicy, S: BlockSource + Send> Sync for Keep<P, S>
where
    P::Count: Send + Sync,
    P::Word: Send + Sync,
    P::Event: Send + Sync,
{
}

impl<P: SyncPolicy, S: BlockSource> Keep<P, S> {
    /// One more, of an identity that is kept.
    ///
    /// # Safety
    /// The block lives.
    pub(crate) unsafe fn new(identity: NonNull<Identity<P, S>>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { identity.as_ref() }.keeps.increment();
        Self(identity)
    }

    #[inline]
    pub(crate) const fn get(&self) -> &Identity<P, S> {
        // SAFETY: invariant 1. Nothing in it is written after `IdentityRef::new` but through cells.
        unsafe { self.0.as_ref() }
    }

    pub(crate) const fn pointer(&self) -> NonNull<Identity<P, S>> {
        self.0
    }
}

impl<P: SyncPolicy, S: BlockSource> Clone for Keep<P, S> {
    fn clone(&self) -> Self {
        // SAFETY: this one keeps it.
        unsafe { Self::new(self.0) }
    }
}

impl<P: SyncPolicy, S: BlockSource> Drop for Keep<P, S> {
    fn drop(&mut self) {
        if self.get().keeps.decrement() {
            // SAFETY: invariant 1: nobody keeps it any more. The block is moved out of and not touched again but to be released.
            let identity = unsafe { self.0.read() };
            let Identity { source, layout, .. } = identity;
            // SAFETY: invariant 5. What is left of the identity was moved here, and drops after the block.
            drop(unsafe { Block::from_raw(self.0.cast(), layout, source) });
        }
    }
}

/// The block of a target: `repr(C)`, so that a pointer to it points to the identity, too.
#[repr(C)]
struct Whole<T: Target> {
    identity: Identity<T::Policy, T::Source>,
    directory: ManuallyDrop<T::Directory>,
}

/// A tensor's share of its identity.
pub(crate) struct IdentityRef<T: Target>(NonNull<Whole<T>>);

// SAFETY: as for `Keep`; and whoever is the last takes the handle of the directory, which is sent there.
unsafe impl<T: Target> Send for IdentityRef<T>
where
    Keep<T::Policy, T::Source>: Send,
    T::Directory: Send,
{
}
// SAFETY: `&IdentityRef` can be cloned, so as above.
unsafe impl<T: Target> Sync for IdentityRef<T>
where
    Keep<T::Policy, T::Source>: Sync,
    T::Directory: Send,
{
}

impl<T: Target> IdentityRef<T> {
    /// The block of an identity whose name is not copied.
    pub(crate) const BLOCK: Layout = Layout::new::<Whole<T>>();

    /// An identity for a window on `storage`, to be put into a tensor beside it (invariant 3).
    pub(crate) fn new(
        target: &T,
        storage: &StorageRef<T>,
        (offset, len): (usize, usize),
        name: Name<'_>,
    ) -> Result<Self, TensorError> {
        let (layout, behind) =
            Self::layout(name).map_err(|error| TensorError::Alloc(error.into()))?;
        // Cloned first: a clone may answer for another source than the original, but never for another than itself.
        let (source, directory) = (target.source().clone(), target.directory().clone());
        let block = Block::new(source, layout).map_err(|error| TensorError::Alloc(error.into()))?;
        let (block, layout, source) = block.into_raw();
        let name = match name {
            Name::Static(name) => NonNull::from(name),
            Name::Copied(name) => {
                // SAFETY: `layout` has room for the bytes at `behind`; the block is fresh, so nothing overlaps.
                let copy = unsafe {
                    let copy = block.add(behind);
                    copy.copy_from_nonoverlapping(NonNull::from(name).cast(), name.len());
                    copy
                };
                let bytes = NonNull::slice_from_raw_parts(copy, name.len());
                // SAFETY: not null; a `str` is laid out as its bytes, which are those of one.
                unsafe { NonNull::new_unchecked(bytes.as_ptr() as *mut str) }
            }
        };
        let identity = Identity {
            tensors: Holders::one(),
            keeps: Count::new(1),
            completed: Completed::new(),
            name,
            window: storage.window(offset, len),
            links: Links::new(),
            source,
            layout,
        };
        let block = block.cast::<Whole<T>>();
        let whole = Whole {
            identity,
            directory: ManuallyDrop::new(directory),
        };
        // SAFETY: a fresh block, which is ours, with room for it and its alignment.
        unsafe { block.write(whole) };
        let this = Self(block);
        if let Some(directory) = this.directory() {
            // SAFETY: it is new; its tensors leave before they let go of it (invariant 2) and of the storage (invariant 3).
            unsafe { directory.roll().enter(&this.keep()) };
        }
        Ok(this)
    }

    /// The layout of a block, and where the bytes of the name begin in it.
    fn layout(name: Name<'_>) -> Result<(Layout, usize), SourceError> {
        let Name::Copied(name) = name else {
            return Ok((Self::BLOCK, Self::BLOCK.size()));
        };
        let bytes = Layout::for_value(name.as_bytes());
        let overflow = |_| SourceError::Overflow {
            count: name.len(),
            size: 1,
        };
        let (layout, behind) = Self::BLOCK.extend(bytes).map_err(overflow)?;
        Ok((layout.pad_to_align(), behind))
    }

    fn directory(&self) -> Option<&crate::Directory<T::Policy, T::Source>> {
        // SAFETY: invariants 1 and 2: the block lives, and the handle is there.
        unsafe { &(*self.0.as_ptr()).directory }.directory()
    }

    #[inline]
    pub(crate) const fn get(&self) -> &Identity<T::Policy, T::Source> {
        // SAFETY: invariants 1 and 2: the tensors are a `Keep`.
        unsafe { self.0.cast::<Identity<T::Policy, T::Source>>().as_ref() }
    }

    /// What a launch keeps until it has completed its outputs.
    pub(crate) fn keep(&self) -> Keep<T::Policy, T::Source> {
        // SAFETY: invariants 1 and 2.
        unsafe { Keep::new(self.0.cast()) }
    }
}

impl<T: Target> Clone for IdentityRef<T> {
    fn clone(&self) -> Self {
        self.get().tensors.join();
        Self(self.0)
    }
}

impl<T: Target> Drop for IdentityRef<T> {
    fn drop(&mut self) {
        if !self.get().tensors.leave() {
            return;
        }
        let keep = Keep(self.0.cast());
        // SAFETY: invariant 2: this was the last, so nobody else reaches the handle, now or later. What other `Keep`s reach is
        // beside it.
        let directory = unsafe { ManuallyDrop::take(&mut (*self.0.as_ptr()).directory) };
        if let Some(directory) = directory.directory() {
            // SAFETY: it has entered here: a handle of a directory, which was not replaced, answers the same one as long as it lives.
            unsafe { directory.roll().leave(&keep) };
        }
    }
}
