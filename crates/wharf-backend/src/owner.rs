//! Bytes that belong to some value: a `Vec`, an `Arc<[u8]>`, a mapping. The value becomes the segment.
//!
//! Invariants: a header is the start of a [`Node`] in a block of the source with that node's layout. From the moment the bytes
//! were asked for until the header is reclaimed, the owner is neither moved nor touched; so the borrow that `as_ref` or `as_mut`
//! gave may be kept: it lives as long as the borrow of the owner does, which nobody ends.
#![allow(unsafe_code, reason = "keeps a value and a borrow of it in one block")]

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use wharf_source::{Block, BlockSource, Census};
use wharf_sync::SyncPolicy;

use crate::segment::Facts;
use crate::{
    AllocError, AllocHint, BackendRef, Caps, Header, HostBackend, Init, MemBackend, Place,
    ReadOnly, ReadableBackend, Returned, SegmentMut, State,
};

/// The control block, and the owner beside it. The header is first, so that a pointer to it is one to the node.
#[repr(C)]
struct Node<O, P: SyncPolicy> {
    header: Header<P>,
    base: NonNull<u8>,
    owner: O,
}

/// Makes segments of values that own bytes, in place: nothing is copied, and the value is dropped with the last handle, on
/// whatever thread that is.
///
/// `O` is the owner; `M` says whether its bytes may be written ([`Init`], by `AsMut<[u8]>`) or are shared with others
/// ([`ReadOnly`], by `AsRef<[u8]>`). The control block and the owner itself (for a `Vec` three words) lie in one block of the source
/// `S`; running out of those is a value, and gives the owner back.
///
/// Like `Heap` it is its own reference: it has no state but the handle of the source.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use std::sync::Arc;
/// use wharf_backend::OwnerBackend;
/// use wharf_source::HeapSource;
/// use wharf_sync::Unsync;
///
/// let frames = OwnerBackend::<Vec<u8>, Unsync, _>::new(HeapSource);
/// let mut frame = frames.adopt(vec![1, 2, 3]).unwrap();
/// frame[0] = 9;
/// assert_eq!(OwnerBackend::into_owner(frame), [9, 2, 3]);
///
/// let weights: Arc<[u8]> = Arc::from([4, 5, 6]);
/// let segment = OwnerBackend::<_, Unsync, _, _>::new(HeapSource).adopt_shared(Arc::clone(&weights)).unwrap();
/// assert_eq!(*segment, [4, 5, 6]);
/// drop(segment);
/// assert_eq!(Arc::strong_count(&weights), 1);
/// # }
/// ```
///
/// What is shared cannot be written:
///
/// ```compile_fail,E0594
/// # use std::sync::Arc;
/// # use wharf_backend::OwnerBackend;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # let weights: Arc<[u8]> = Arc::from([4, 5, 6]);
/// let shared = OwnerBackend::<_, Unsync, _, _>::new(HeapSource);
/// let mut segment = shared.adopt_shared(weights).unwrap();
/// segment[0] = 1; // error: cannot assign
/// ```
///
/// The bound needs no promise of a stable address: the owner has stopped moving before it is asked where its bytes are, and
/// is asked once. So an array or a borrow is an owner too, and it cannot be stored longer than it lives:
///
/// ```compile_fail,E0597
/// # use wharf_backend::OwnerBackend;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// let segment = {
///     let bytes = [1, 2, 3];
///     OwnerBackend::<&[u8], Unsync, _, _>::new(HeapSource).adopt_shared(&bytes[..]).unwrap()
/// }; // error: `bytes` does not live long enough
/// drop(segment);
/// ```
pub struct OwnerBackend<O, P: SyncPolicy, S, M = Init> {
    source: S,
    // It drops owners, on whatever thread; and counts by `P`.
    owner: PhantomData<(O, M)>,
    policy: PhantomData<&'static P::Lock<()>>,
}

impl<O, P: SyncPolicy, S, M> OwnerBackend<O, P, S, M> {
    /// With control blocks of `source`.
    pub const fn new(source: S) -> Self {
        Self {
            source,
            owner: PhantomData,
            policy: PhantomData,
        }
    }

    /// Where the control blocks come from.
    pub const fn source(&self) -> &S {
        &self.source
    }
}

impl<O, P: SyncPolicy, S: Clone, M> Clone for OwnerBackend<O, P, S, M> {
    fn clone(&self) -> Self {
        Self::new(self.source.clone())
    }
}

impl<O, P: SyncPolicy, S: BlockSource, M> fmt::Debug for OwnerBackend<O, P, S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerBackend")
            .field("policy", &P::NAME)
            .field("source", &self.source.name())
            .finish()
    }
}

/// Drops an owner in its block unless it is forgotten: for an `as_ref` that panics.
struct Placed<O>(NonNull<O>);

impl<O> Drop for Placed<O> {
    fn drop(&mut self) {
        // SAFETY: `adopt_by` wrote it, and nobody else has it yet.
        unsafe { self.0.drop_in_place() };
    }
}

type Adopted<O, P, S, M> = Result<SegmentMut<OwnerBackend<O, P, S, M>, M>, Returned<O, AllocError>>;

impl<O: AsMut<[u8]>, P: SyncPolicy, S: BlockSource + Clone> OwnerBackend<O, P, S, Init> {
    /// Makes a segment of `owner`, which may be written.
    ///
    /// # Errors
    /// The source has no block for the control block. The owner comes back.
    pub fn adopt(&self, owner: O) -> Adopted<O, P, S, Init> {
        self.clone().adopt_by(owner, |owner| {
            let bytes = owner.as_mut();
            // Of the slice, not of its first byte: that reaches all of it.
            (NonNull::from(&mut *bytes).cast(), bytes.len())
        })
    }
}

impl<O: AsRef<[u8]>, P: SyncPolicy, S: BlockSource + Clone> OwnerBackend<O, P, S, ReadOnly> {
    /// Makes a segment of `owner`, which others may share and nobody writes.
    ///
    /// # Errors
    /// The source has no block for the control block. The owner comes back.
    pub fn adopt_shared(&self, owner: O) -> Adopted<O, P, S, ReadOnly> {
        self.clone().adopt_by(owner, |owner| {
            let bytes = (*owner).as_ref();
            (NonNull::from(bytes).cast(), bytes.len())
        })
    }
}

impl<O, P: SyncPolicy, S: BlockSource, M: State> OwnerBackend<O, P, S, M> {
    const NODE: Layout = Layout::new::<Node<O, P>>();

    /// `bytes` is called once, and answers with a borrow of its argument.
    fn adopt_by(
        self,
        owner: O,
        bytes: impl FnOnce(&mut O) -> (NonNull<u8>, usize),
    ) -> Adopted<O, P, S, M> {
        let block = match Block::new(&self.source, Self::NODE) {
            Ok(block) => block,
            Err(refusal) => return Err(Returned::new(refusal.into(), owner)),
        };
        let node = block.as_ptr().cast::<Node<O, P>>();
        // SAFETY: a fresh block of a node's layout: the field is in it, and ours to write. A block of its own from here on.
        let mut placed = unsafe {
            let owner_at = NonNull::new_unchecked(&raw mut (*node.as_ptr()).owner);
            owner_at.write(owner);
            Placed(owner_at)
        };
        // SAFETY: just written, and nobody else has it.
        let (base, len) = bytes(unsafe { placed.0.as_mut() });
        core::mem::forget(placed);
        // SAFETY: as above; the owner is not touched again, so that the borrow stays good.
        unsafe {
            (&raw mut (*node.as_ptr()).base).write(base);
            (&raw mut (*node.as_ptr()).header).write(Header::new(len));
        }
        let _ = block.into_raw();
        // SAFETY: a fresh header with a count of one; all `len` bytes have values, and may be used as `M` says, because
        // `adopt` borrowed them exclusively and `adopt_shared` shared.
        Ok(unsafe { SegmentMut::from_raw_unchecked(node.cast(), self) })
    }

    /// Takes the owner out again, of the only handle there is.
    pub fn into_owner(segment: SegmentMut<Self, M>) -> O {
        let (header, this) = segment.into_raw();
        // SAFETY: the handle was the only one.
        unsafe { this.take_apart(header) }
    }

    /// # Safety
    /// `header` is live, and no handle is left.
    unsafe fn take_apart(&self, header: NonNull<Header<P>>) -> O {
        // SAFETY: the start of a node, in a block of this layout, and nobody uses it any more.
        let block = unsafe { Block::from_raw(header.cast(), Self::NODE, &self.source) };
        let node = block.as_ptr().cast::<Node<O, P>>();
        // SAFETY: moved out once, before the block goes; the header has no more use.
        unsafe {
            (&raw mut (*node.as_ptr()).header).drop_in_place();
            (&raw const (*node.as_ptr()).owner).read()
        }
    }
}

// SAFETY: every segment is a value in a block of its own, where it stays, and the bytes are borrowed of it for as long. A handle
// that goes to another thread takes the owner along: `Send` and `Sync` are those of `O`.
unsafe impl<O, P: SyncPolicy, S: BlockSource, M: State> MemBackend for OwnerBackend<O, P, S, M> {
    type Policy = P;

    /// It vends nothing: it binds what exists.
    fn vend(&self, _: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        None
    }
    fn refusal(&self, _: usize, _: AllocHint) -> AllocError {
        AllocError::Unsupported
    }
    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        // SAFETY: as the caller promises. The block is released before the owner is dropped, whatever that does.
        drop(unsafe { self.take_apart(header) });
    }
    #[inline]
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        // SAFETY: a live header, so the start of a node.
        Place::Host(unsafe { (*header.cast::<Node<O, P>>().as_ptr()).base })
    }
    /// No record is kept of what was adopted, so it can refute nothing.
    fn may_own(&self, _: NonNull<Header<P>>) -> bool {
        true
    }
    fn caps(&self) -> Caps {
        let access = if <M as Facts>::WRITABLE {
            Caps::empty()
        } else {
            Caps::READ_ONLY
        };
        access | Caps::OWNS_BYTES | Caps::VENDS_INITIALISED | Caps::PLAIN_COPIES
    }
    fn alignment(&self) -> usize {
        1
    }
    fn max_segment_size(&self) -> usize {
        0
    }
    /// All zero: what was adopted was somebody else's to count. The control blocks are in the census of the source.
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "owner"
    }
}

// SAFETY: owners' bytes are slices, exclusively borrowed.
unsafe impl<O, P: SyncPolicy, S: BlockSource> HostBackend for OwnerBackend<O, P, S, Init> {}

// SAFETY: owners' bytes are slices.
unsafe impl<O, P: SyncPolicy, S: BlockSource> ReadableBackend for OwnerBackend<O, P, S, ReadOnly> {}

// SAFETY: the value is the handle of a source, which may be moved and copied about while it lives, and nothing else.
unsafe impl<O, P: SyncPolicy, S: BlockSource, M: State> BackendRef for OwnerBackend<O, P, S, M> {
    type Policy = P;
    type Backend = Self;
    fn backend(&self) -> &Self {
        self
    }
}
