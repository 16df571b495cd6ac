//! The bytes that tensors share.
//!
//! Invariants:
//! 1. the control block lives while a [`StorageRef`] exists, each of which is counted in `holders`, or while the fence counts a
//!    device access. Whoever takes the last of both away frees it, and the fence tells exactly one so;
//! 2. the bytes are touched only under a claim that the fence has granted: by a [`Hold`](crate::hold::Hold), or by the device that a
//!    [`Ticket`](crate::Ticket) stands for; or by a call past the fence, whose caller vouches for what a claim would have.
//!    The fence never grants a write beside another claim on the same storage;
//! 3. while a storage is split, it grants nothing, and the ranges of its parts do not overlap: so the accesses of
//!    different storages never meet in a byte;
//! 4. the segment's handle is never used exclusively while the block lives; bytes are reached through its place and its
//!    backend;
//! 5. `plain` is the first byte, host memory, of a segment whose backend says [`Caps::PLAIN_COPIES`]: valid for reads of `len`
//!    bytes, and for writes unless `read_only`, until the segment goes, which it does with the block. So whoever has a
//!    claim may copy there without asking the backend;
//! 6. nothing grants a claim to write a storage that is `read_only`, which is one over a segment in that state, because its backend says
//!    [`Caps::READ_ONLY`] then and only then: it is refused before the fence is asked;
//! 7. the block came from the source handle that lies in it, and goes back through that very handle. (A handle that the target
//!    answers later need not be the same: [`Target`] is a safe trait.)
#![allow(unsafe_code, reason = "owns the control block; the invariants above")]

use core::alloc::Layout;
use core::fmt;
use core::future::poll_fn;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::time::Duration;

use wharf_backend::{Caps, MemBackend, MemSpace, Place, ReadOnly, SegmentMut};
use wharf_source::Block;
use wharf_sync::SyncPolicy;

use crate::error::StorageId;
use crate::fence::{Busy, Claim, End, Fence, Refusal, Turn, desert, end_unless_waited, end_unseen};
use crate::holders::Holders;
use crate::identity::Window;
use crate::trace::{Span, TraceDetail, TraceEvent, TraceKind, tell};
use crate::valued::{Kept, SegmentRef};
use crate::{Target, TensorError};

/// What a storage is a storage of.
pub(crate) enum Bytes<T: Target> {
    /// All of a segment.
    Whole(SegmentMut<T::Memory>),
    /// All of a segment that nobody may write.
    Fixed(SegmentMut<T::Memory, ReadOnly>),
    /// Bytes of a storage that is split.
    Part(Part<T>),
    /// None: a length alone.
    Placeholder,
}

/// One of the parts that a storage was split into.
pub(crate) struct Part<T: Target> {
    /// Taken when the part is dropped, and by [`into_whole`](Self::into_whole), which is instead of that.
    whole: ManuallyDrop<StorageRef<T>>,
    start: usize,
}

impl<T: Target> Part<T> {
    const fn new(whole: StorageRef<T>, start: usize) -> Self {
        Self {
            whole: ManuallyDrop::new(whole),
            start,
        }
    }

    /// Gives the part back to the whole.
    fn into_whole(self) -> StorageRef<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, nor dropped.
        unsafe { this.rejoin() }
    }

    /// # Safety
    /// The part is not used any more, nor dropped.
    unsafe fn rejoin(&mut self) -> StorageRef<T> {
        // SAFETY: the caller's promise, so it is taken once.
        let whole = unsafe { ManuallyDrop::take(&mut self.whole) };
        whole.get().fence.rejoin();
        whole
    }
}

/// What a storage knows of its bytes without asking: where they are, where the CPU may copy by itself, and what of the
/// capabilities it keeps.
type Facts = (Option<Place>, Option<NonNull<u8>>, Caps);

/// Those of all of a segment.
fn whole<T: Target>(segment: &SegmentRef<'_, T>) -> Facts {
    let (place, caps) = (segment.place(), segment.backend().caps());
    let plain = match place {
        Place::Host(base) if caps.contains(Caps::PLAIN_COPIES) => Some(base),
        Place::Host(_) | Place::Device(_) => None,
    };
    (Some(place), plain, caps)
}

impl<T: Target> Part<T> {
    fn facts(&self) -> Facts {
        let whole = self.whole.get();
        let mut caps = Caps::empty();
        caps.set(Caps::READ_ONLY, whole.read_only);
        caps.set(Caps::NEEDS_CACHE_OPS, whole.maintained);
        // `wrapping_add` keeps the provenance, and the part lies in its whole.
        let plain = whole
            .plain
            .map(|base| base.as_ptr().wrapping_add(self.start));
        let place = offset(whole.place, self.start);
        (place, plain.and_then(NonNull::new), caps)
    }
}

impl<T: Target> Drop for Part<T> {
    fn drop(&mut self) {
        // SAFETY: what is dropped is not used any more.
        drop(unsafe { self.rejoin() });
    }
}

/// The control block.
pub(crate) struct Storage<T: Target> {
    holders: Holders<T::Policy>,
    fence: Fence<T::Policy>,
    bytes: Bytes<T>,
    place: Option<Place>,
    plain: Option<NonNull<u8>>,
    len: usize,
    read_only: bool,
    /// Its backend [maintains caches](Caps::NEEDS_CACHE_OPS).
    maintained: bool,
    source: T::Source,
    clock: T::Clock,
    trace: T::Trace,
}

impl<T: Target> Storage<T> {
    #[inline]
    pub(crate) const fn fence(&self) -> &Fence<T::Policy> {
        &self.fence
    }

    #[inline]
    pub(crate) const fn trace(&self) -> &T::Trace {
        &self.trace
    }

    /// Where the bytes are; a placeholder has none.
    #[inline]
    pub(crate) const fn place(&self) -> Option<Place> {
        self.place
    }

    /// Whether the backend's hooks are to bracket what a device does.
    #[inline]
    pub(crate) const fn is_maintained(&self) -> bool {
        self.maintained
    }

    /// The segment that the bytes lie in, and where they begin in it.
    #[inline]
    pub(crate) fn segment(&self) -> Option<(SegmentRef<'_, T>, usize)> {
        let (mut storage, mut start) = (self, 0);
        loop {
            match &storage.bytes {
                Bytes::Whole(segment) => return Some((SegmentRef::Writable(segment), start)),
                Bytes::Fixed(segment) => return Some((SegmentRef::Fixed(segment), start)),
                Bytes::Part(part) => {
                    // No wrap: a part lies in its whole.
                    start += part.start;
                    storage = part.whole.get();
                }
                Bytes::Placeholder => return None,
            }
        }
    }
}

/// A counted reference to a storage.
pub(crate) struct StorageRef<T: Target> {
    block: NonNull<Storage<T>>,
}

// SAFETY: another thread may count, fence, wait and trace, use the segment under a claim, and free: so everything in
// the block that a shared reference reaches must be usable from there, shared and owned. The source is reached by
// whoever frees, and by whoever has split the storage, until his second part is gone: each of them alone, so it is
// sent and never shared.
unsafe impl<T: Target> Send for StorageRef<T>
where
    T::Memory: Send + Sync,
    T::Source: Send,
    T::Clock: Send + Sync,
    T::Trace: Send + Sync,
    <T::Policy as SyncPolicy>::Count: Send + Sync,
    <T::Policy as SyncPolicy>::Word: Send + Sync,
    <T::Policy as SyncPolicy>::Event: Send + Sync,
{
}
// SAFETY: `&StorageRef` can be cloned, so as above.
unsafe impl<T: Target> Sync for StorageRef<T>
where
    T::Memory: Send + Sync,
    T::Source: Send,
    T::Clock: Send + Sync,
    T::Trace: Send + Sync,
    <T::Policy as SyncPolicy>::Count: Send + Sync,
    <T::Policy as SyncPolicy>::Word: Send + Sync,
    <T::Policy as SyncPolicy>::Event: Send + Sync,
{
}

/// How long to wait for the fence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until it is granted, or the deadline of the target's clock.
    Until(Option<Duration>),
}

impl<T: Target> StorageRef<T> {
    pub(crate) const CONTROL_BLOCK: Layout = Layout::new::<Storage<T>>();

    /// Puts bytes under a fence of their own. Where the block source refuses, they come back.
    pub(crate) fn new(
        target: &T,
        bytes: Bytes<T>,
        len: usize,
    ) -> Result<Self, (TensorError, Bytes<T>)> {
        // Cloned first: a clone may answer for another source than the original, but never for another than itself.
        let source = target.source().clone();
        let parts = (target.clock().clone(), target.trace().clone());
        Self::build(source, parts, bytes, len)
    }

    fn build(
        source: T::Source,
        (clock, trace): (T::Clock, T::Trace),
        bytes: Bytes<T>,
        len: usize,
    ) -> Result<Self, (TensorError, Bytes<T>)> {
        let block = match Block::new(source, Self::CONTROL_BLOCK) {
            Ok(block) => block,
            Err(refusal) => return Err((TensorError::Alloc(refusal.into()), bytes)),
        };
        let (block, _, source) = block.into_raw();
        let block = block.cast::<Storage<T>>();
        let (place, plain, caps) = match &bytes {
            Bytes::Whole(segment) => whole(&SegmentRef::<T>::Writable(segment)),
            Bytes::Fixed(segment) => whole(&SegmentRef::<T>::Fixed(segment)),
            Bytes::Part(part) => part.facts(),
            Bytes::Placeholder => (None, None, Caps::empty()),
        };
        let storage = Storage {
            holders: Holders::one(),
            fence: Fence::new(),
            bytes,
            place,
            plain,
            len,
            read_only: caps.contains(Caps::READ_ONLY),
            maintained: caps.contains(Caps::NEEDS_CACHE_OPS),
            source,
            clock,
            trace,
        };
        // SAFETY: a fresh block of this layout, which is ours.
        unsafe { block.write(storage) };
        let this = Self { block };
        tell(this.trace(), || {
            this.event(TraceKind::Alloc)
                .with(match (&this.get().bytes, this.place()) {
                    (Bytes::Whole(_) | Bytes::Fixed(_), Some(place)) => {
                        TraceDetail::Memory(place.space())
                    }
                    _ => TraceDetail::None,
                })
        });
        Ok(this)
    }

    #[inline]
    pub(crate) fn get(&self) -> &Storage<T> {
        // SAFETY: invariant 1. Nothing in the block is written after `build` but through cells.
        unsafe { self.block.as_ref() }
    }

    pub(crate) fn id(&self) -> StorageId {
        StorageId(self.block.addr().get())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.get().len
    }

    /// Where the bytes are; a placeholder has none.
    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        self.get().place()
    }

    /// Where the CPU may copy by itself, under a claim (invariant 5): `len` bytes from `at` on, if they lie in the storage.
    #[inline]
    pub(crate) fn plain(&self, at: usize, len: usize) -> Option<NonNull<u8>> {
        let storage = self.get();
        let base = storage.plain?;
        let end = at.checked_add(len)?;
        // SAFETY: invariant 5: the sum stays in the storage, or is its end.
        (end <= storage.len).then(|| unsafe { base.add(at) })
    }

    /// That the bytes may be written. Asked before anything is waited for.
    ///
    /// # Errors
    /// [`TensorError::ReadOnly`].
    #[inline]
    pub(crate) fn writable(&self) -> Result<(), TensorError> {
        if self.get().read_only {
            return Err(self.read_only());
        }
        Ok(())
    }

    #[cold]
    fn read_only(&self) -> TensorError {
        TensorError::ReadOnly { storage: self.id() }
    }

    pub(crate) fn clock(&self) -> &T::Clock {
        &self.get().clock
    }

    pub(crate) fn trace(&self) -> &T::Trace {
        &self.get().trace
    }

    pub(crate) fn in_flight(&self) -> (u32, u32) {
        self.get().fence.in_flight()
    }

    pub(crate) fn holders(&self) -> u32 {
        self.get().holders.get()
    }

    /// What is under a window on it, for its name.
    pub(crate) fn window(&self, offset: usize, len: usize) -> Window<T::Policy> {
        let storage = self.get();
        let segment = storage.segment();
        Window {
            storage: self.id(),
            offset,
            len,
            storage_len: storage.len,
            space: self.place().map(|place| place.space()),
            memory: segment.map(|(segment, _)| (segment.header_ptr().addr().get(), segment.len())),
            holders: NonNull::from(&storage.holders),
            fence: NonNull::from(&storage.fence),
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.block == other.block
    }

    /// Something that happens to the whole storage.
    fn event(&self, kind: TraceKind) -> TraceEvent {
        TraceEvent::instant(kind, self.id().get(), self.len() as u64)
    }

    /// Begins `claim`.
    #[inline]
    pub(crate) fn begin(&self, claim: Claim, patience: Patience) -> Result<(), TensorError> {
        let storage = self.get();
        if claim.writes() {
            self.writable()?;
        }
        let granted = match (storage.fence.try_begin(claim), patience) {
            (Err(Refusal::Held), Patience::Until(deadline)) => self.wait(claim, deadline),
            (granted, _) => granted,
        };
        granted.map_err(|refusal| self.refused(refusal))
    }

    #[cold]
    fn wait(&self, claim: Claim, deadline: Option<Duration>) -> Result<(), Refusal> {
        let storage = self.get();
        let blocks = || {
            Span::start(&storage.trace, || {
                let (reads, writes) = storage.fence.in_flight();
                self.event(TraceKind::Blocked)
                    .with(TraceDetail::Pending { reads, writes })
            })
        };
        let (granted, blocked) = self.turn(claim).wait(&storage.clock, deadline, blocks);
        // A sink that panics at the stop does not leave the access behind.
        let ended = granted.map(|()| Ended(&storage.fence, claim));
        drop(blocked);
        ended.map(core::mem::forget)
    }

    /// Begins `claim`, in a task.
    pub(crate) async fn begin_when_ready(&self, claim: Claim) -> Result<(), TensorError> {
        if claim.writes() {
            self.writable()?;
        }
        let mut turn = self.turn(claim);
        let granted = poll_fn(|context| turn.poll(context.waker())).await;
        granted.map_err(|refusal| self.refused(refusal))
    }

    pub(crate) fn turn(&self, claim: Claim) -> Turn<'_, T::Policy> {
        Turn::new(&self.get().fence, claim)
    }

    #[cold]
    pub(crate) fn refused(&self, refusal: Refusal) -> TensorError {
        let storage = self.id();
        match refusal {
            Refusal::Held => TensorError::WouldBlock { storage },
            Refusal::Guarded => TensorError::Guarded { storage },
            Refusal::Split => TensorError::Split { storage },
            Refusal::Full(limit) => TensorError::Busy { storage, limit },
            Refusal::Never => TensorError::WouldDeadlock { storage },
            Refusal::TimedOut => TensorError::TimedOut { storage },
        }
    }

    /// Two storages in place of this one: `range` of it, before and from `at` on. This one grants nothing until both are gone.
    pub(crate) fn split(
        &self,
        (start, len): (usize, usize),
        at: usize,
    ) -> Result<(Self, Self), TensorError> {
        // Of a part without bytes there is no line.
        if at != 0 && at != len {
            self.may_part(start + at)?;
        }
        let this = self.get();
        this.fence
            .split()
            .map_err(|refusal| self.refused(refusal))?;
        // From here on each part takes itself back when it is dropped.
        let part = |start| Part::new(self.clone(), start);
        let (first, second) = (part(start), part(start + at));
        let storage = |part: Part<T>, len| {
            let parts = (this.clock.clone(), this.trace.clone());
            let built = Self::build(this.source.clone(), parts, Bytes::Part(part), len);
            built.map_err(|(error, _)| error)
        };
        Ok((storage(first, at)?, storage(second, len - at)?))
    }

    /// Whether a cache line would be in two parts. Maintaining it for the one would throw away what the CPU wrote to the other.
    fn may_part(&self, at: usize) -> Result<(), TensorError> {
        let Some((segment, start)) = self.get().segment() else {
            return Ok(());
        };
        let backend = segment.backend();
        let (at, alignment) = (start + at, backend.alignment());
        if self.get().maintained && !at.is_multiple_of(alignment) {
            return Err(TensorError::Unaligned { at, alignment });
        }
        Ok(())
    }

    /// What keeps [`into_segment`](Self::into_segment) from succeeding.
    fn holds_segment<S: Kept>(&self) -> Result<(), TensorError> {
        let storage = self.id();
        // First what no waiting mends.
        match &self.get().bytes {
            Bytes::Whole(_) if S::READ_ONLY => return Err(TensorError::NotReadOnly { storage }),
            Bytes::Fixed(_) if !S::READ_ONLY => return Err(TensorError::ReadOnly { storage }),
            Bytes::Whole(_) | Bytes::Fixed(_) => {}
            Bytes::Part(part) => {
                return Err(TensorError::Part {
                    storage,
                    whole: part.whole.id(),
                    at: part.start,
                });
            }
            Bytes::Placeholder => return Err(TensorError::Placeholder { storage }),
        }
        self.sole()
    }

    /// The segment, if it is in state `S`, this is the only handle, no device has access, and it is not a part or a placeholder.
    /// When that is certain, and the storage still there, `before` is called.
    pub(crate) fn into_segment<S: Kept>(
        self,
        before: impl FnOnce(),
    ) -> Result<SegmentMut<T::Memory, S>, (Self, TensorError)> {
        if let Err(error) = self.holds_segment::<S>() {
            return Err((self, error));
        }
        before();
        let this = ManuallyDrop::new(self);
        let freed = this.event(TraceKind::Free);
        // SAFETY: one holder, and that was ours; no device access, and nobody is left who could begin one.
        let remains = unsafe { free(this.block) };
        // A sink that panics leaks nothing: the remains are owned.
        tell(&remains.trace, || {
            freed.with(TraceDetail::Left { accesses: 0 })
        });
        tell(&remains.trace, || remains.memory_free());
        match S::release::<T>(remains.bytes) {
            Ok(segment) => Ok(segment),
            // Tested above, and nobody changes what a storage is a storage of.
            Err(_) => unreachable!(),
        }
    }

    /// Is no holder any more: not to be used afterwards, nor dropped. Whether nobody keeps the block now.
    #[inline]
    fn leave(&self) -> bool {
        let storage = self.get();
        if !storage.holders.leave() {
            return false;
        }
        // Whatever the sink does; until then the block lives, because the fence knows of nobody who left.
        let departs = Departs(self.block);
        tell(&storage.trace, || {
            // Nobody can begin one any more.
            let (reads, writes) = storage.fence.in_flight();
            let accesses = reads + writes;
            self.event(TraceKind::Free)
                .with(TraceDetail::Left { accesses })
        });
        core::mem::forget(departs);
        desert(storage.fence.word()) == End::Last
    }

    /// That nobody else keeps the block, so that nobody can begin anything either; or who does.
    fn sole(&self) -> Result<(), TensorError> {
        let storage = self.get();
        let alone = || match storage.holders.get() {
            1 => Ok(()),
            holders => Err(self.shared(holders - 1)),
        };
        // In this order. Alone, there is no other tensor to begin an access. Then idle, so every device access has ended.
        // But who ended one that was waited for became a holder before he did (`end_waited`), and may be at the wake
        // still: so alone once more.
        alone()?;
        storage.fence.idle().map_err(|held| self.busy(held))?;
        alone()
    }

    #[cold]
    fn shared(&self, others: u32) -> TensorError {
        let storage = self.id();
        // The parts of a storage are among those that keep it, and name it better.
        match self.get().fence.idle() {
            Err(Busy::Split) => TensorError::Split { storage },
            _ => TensorError::Held { storage, others },
        }
    }

    #[cold]
    fn busy(&self, busy: Busy) -> TensorError {
        let storage = self.id();
        match busy {
            Busy::Devices { reads, writes } => TensorError::InFlight {
                storage,
                reads,
                writes,
            },
            Busy::Split => TensorError::Split { storage },
            Busy::Host => TensorError::Guarded { storage },
        }
    }

    /// For a device access that the fence has granted, which keeps the block from now on.
    pub(crate) const fn block(&self) -> NonNull<Storage<T>> {
        self.block
    }
}

/// A place so many bytes further on, inside of the same segment.
pub(crate) fn offset(place: Option<Place>, by: usize) -> Option<Place> {
    Some(match place? {
        // `wrapping_add` keeps the provenance.
        Place::Host(base) => Place::Host(NonNull::new(base.as_ptr().wrapping_add(by))?),
        Place::Device(base) => Place::Device(base.checked_add(by as u64)?),
    })
}

/// Ends a device access, and frees the storage if nobody keeps it any more.
///
/// # Safety
/// The fence of `block` has granted `claim`, to a device, and it was not ended. The caller does not use the block afterwards.
#[inline]
pub(crate) unsafe fn end_device<T: Target>(block: NonNull<Storage<T>>, claim: Claim) {
    // SAFETY: invariant 1: the claim keeps the block. The reference is not used after the claim has ended.
    let storage = unsafe { block.as_ref() };
    match end_unless_waited(storage.fence.word(), claim) {
        End::Kept => {}
        // SAFETY: nobody keeps it any more, and this is whom the fence told.
        End::Last => unsafe { release(block) },
        // SAFETY: nothing has ended, so the caller's promise still holds.
        End::Waited => unsafe { end_waited(block, claim) },
    }
}

/// Who waits does it in a tensor. Become a holder beside that one, so that the wake does not come too late for the fence.
///
/// The block is a raw pointer here, because a reference that is an argument must stay valid until the return.
///
/// # Safety
/// As for [`end_device`].
#[cold]
unsafe fn end_waited<T: Target>(block: NonNull<Storage<T>>, claim: Claim) {
    // SAFETY: as in `end_device`.
    let storage = unsafe { block.as_ref() };
    if storage.holders.join_others() {
        let keeper = StorageRef { block };
        keeper.get().fence.end(claim);
    } else if end_unseen(storage.fence.word(), claim) == End::Last {
        // SAFETY: as in `end_device`.
        unsafe { release(block) };
    }
}

/// Frees a block, and those of which it was the last part: one after the other, because parts of parts may go deeper than a
/// stack does.
///
/// # Safety
/// As for [`free`].
unsafe fn release<T: Target>(mut block: NonNull<Storage<T>>) {
    loop {
        // SAFETY: the caller's promise; from the second time on, the whole's last holder left just now.
        let remains = unsafe { free(block) };
        let part = match remains.bytes {
            Bytes::Part(part) => part,
            Bytes::Whole(_) | Bytes::Fixed(_) | Bytes::Placeholder => return remains.release(),
        };
        let whole = part.into_whole();
        drop(remains.block);
        let whole = ManuallyDrop::new(whole);
        if !whole.leave() {
            return;
        }
        block = whole.block;
    }
}

/// What a block held, and the block, to be dropped after it: who waits for a control block may want both.
struct Remains<T: Target> {
    bytes: Bytes<T>,
    block: Block<T::Source>,
    trace: T::Trace,
    id: u64,
    len: usize,
    place: Option<Place>,
}

impl<T: Target> Remains<T> {
    fn memory_free(&self) -> TraceEvent {
        let event = TraceEvent::instant(TraceKind::MemoryFree, self.id, self.len as u64);
        match self.place {
            Some(place) => event.with(TraceDetail::Memory(place.space())),
            None => event,
        }
    }

    /// Gives all of it back.
    fn release(self) {
        let _freed = match self.bytes {
            Bytes::Whole(_) | Bytes::Fixed(_) => Span::start(&self.trace, || self.memory_free()),
            Bytes::Part(_) | Bytes::Placeholder => Span::silent(&self.trace),
        };
        drop(self.bytes);
        drop(self.block);
    }
}

/// Gives what the block held to the caller.
///
/// # Safety
/// Nobody keeps the block (invariant 1), and the caller is the one who knows.
unsafe fn free<T: Target>(block: NonNull<Storage<T>>) -> Remains<T> {
    // SAFETY: the caller's promise. The block is moved out of and not touched again but to be released.
    let storage = unsafe { block.read() };
    let id = block.addr().get() as u64;
    let layout = StorageRef::<T>::CONTROL_BLOCK;
    // SAFETY: invariant 7, and nothing uses the block any more.
    let block = unsafe { Block::from_raw(block.cast(), layout, storage.source) };
    Remains {
        bytes: storage.bytes,
        block,
        trace: storage.trace,
        id,
        len: storage.len,
        place: storage.place,
    }
}

impl<T: Target> Clone for StorageRef<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.get().holders.join();
        Self { block: self.block }
    }
}

impl<T: Target> Drop for StorageRef<T> {
    #[inline]
    fn drop(&mut self) {
        if self.leave() {
            // SAFETY: nobody keeps it any more, and this is whom the fence told.
            unsafe { release(self.block) };
        }
    }
}

/// The last tensor of a storage, about which a sink that panics was being told.
struct Departs<T: Target>(NonNull<Storage<T>>);

impl<T: Target> Drop for Departs<T> {
    fn drop(&mut self) {
        // SAFETY: invariant 1: the fence has not been told yet that no tensor keeps the block. The reference is not used after that.
        let storage = unsafe { self.0.as_ref() };
        if desert(storage.fence.word()) == End::Last {
            // SAFETY: nobody keeps it any more, and this is whom the fence told.
            unsafe { release(self.0) };
        }
    }
}

impl<T: Target> fmt::Debug for StorageRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space: Option<MemSpace> = self.place().map(|place| place.space());
        f.debug_struct("Storage")
            .field("id", &self.id())
            .field("len", &self.len())
            .field("space", &space)
            .field("holders", &self.holders())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

/// Ends an access when dropped.
struct Ended<'f, P: SyncPolicy>(&'f Fence<P>, Claim);

impl<P: SyncPolicy> Drop for Ended<'_, P> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}
