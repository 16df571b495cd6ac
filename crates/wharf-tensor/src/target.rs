//! What a program chooses once.

use core::fmt;

use wharf_backend::BackendRef;
use wharf_source::BlockSource;
use wharf_sync::{Clock, NoClock, SyncPolicy};

use crate::directory::{DirectoryRef, NoDirectory};
use crate::trace::{NoTrace, TraceSink};

/// Everything that tensors need of the program around them, as one type parameter.
///
/// The parts are held *by value*: zero-sized on an MCU, counted on a host. So a target costs nothing where
/// there is one of it, and a test makes as many as it likes.
///
/// Most programs need no implementation of their own: see [`Parts`].
pub trait Target: Clone + 'static {
    /// How storages are shared.
    type Policy: SyncPolicy;
    /// How storages keep the backend of their bytes. Erased (`&'static dyn MemBackend<…> + Sync`,
    /// `Arc<dyn MemBackend<…> + Send + Sync>`) where a program has several.
    type Memory: BackendRef<Policy = Self::Policy> + Clone + 'static;
    /// Where the control block of a storage comes from. Each storage keeps a clone, through which the block goes back.
    type Source: BlockSource + Clone + 'static;
    /// How waits idle, and when they end. Each storage keeps a clone.
    type Clock: Clock + Clone;
    /// Who is told. Each storage keeps a clone.
    type Trace: TraceSink + Clone;
    /// Where named tensors are listed. Each name keeps a clone.
    type Directory: DirectoryRef<Self::Policy, Self::Source>;

    /// The block source.
    fn source(&self) -> &Self::Source;
    /// The clock.
    fn clock(&self) -> &Self::Clock;
    /// The trace sink.
    fn trace(&self) -> &Self::Trace;
    /// The directory of names.
    fn directory(&self) -> &Self::Directory;
}

/// A target put together from parts.
///
/// ```
/// use wharf_backend::{Heap, MemBackend};
/// use wharf_source::HeapSource;
/// use wharf_sync::Unsync;
/// use wharf_tensor::{Parts, Tensor};
///
/// type Sketch = Parts<Heap<Unsync>, HeapSource>;
/// let target = Sketch::new(HeapSource);
/// let tensor = Tensor::alloc(&target, Heap::new(), 16)?;
/// tensor.write(4, &[1, 2, 3])?;
/// # Ok::<(), wharf_tensor::TensorError>(())
/// ```
pub struct Parts<M, S, C = NoClock, L = NoTrace, D = NoDirectory> {
    source: S,
    clock: C,
    trace: L,
    directory: D,
    memory: core::marker::PhantomData<fn() -> M>,
}

impl<M, S> Parts<M, S> {
    /// Without a clock, a trace and a directory.
    pub const fn new(source: S) -> Self {
        Self::with(source, NoClock, NoTrace)
    }
}

impl<M, S, C, L> Parts<M, S, C, L> {
    /// With a clock and a trace, and without a directory.
    pub const fn with(source: S, clock: C, trace: L) -> Self {
        Self::with_directory(source, clock, trace, NoDirectory)
    }
}

impl<M, S, C, L, D> Parts<M, S, C, L, D> {
    /// With all parts.
    pub const fn with_directory(source: S, clock: C, trace: L, directory: D) -> Self {
        Self {
            source,
            clock,
            trace,
            directory,
            memory: core::marker::PhantomData,
        }
    }
}

impl<M, S: Clone, C: Clone, L: Clone, D: Clone> Clone for Parts<M, S, C, L, D> {
    fn clone(&self) -> Self {
        Self::with_directory(
            self.source.clone(),
            self.clock.clone(),
            self.trace.clone(),
            self.directory.clone(),
        )
    }
}

impl<M, S, C, L, D> fmt::Debug for Parts<M, S, C, L, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<M, S, C, L, D> Target for Parts<M, S, C, L, D>
where
    M: BackendRef + Clone + 'static,
    S: BlockSource + Clone + 'static,
    C: Clock + Clone + 'static,
    L: TraceSink + Clone + 'static,
    D: DirectoryRef<M::Policy, S>,
{
    type Policy = M::Policy;
    type Memory = M;
    type Source = S;
    type Clock = C;
    type Trace = L;
    type Directory = D;

    #[inline]
    fn source(&self) -> &S {
        &self.source
    }
    #[inline]
    fn clock(&self) -> &C {
        &self.clock
    }
    #[inline]
    fn trace(&self) -> &L {
        &self.trace
    }
    #[inline]
    fn directory(&self) -> &D {
        &self.directory
    }
}

/// The usual target of a hosted program: threads, any backend, the heap for control blocks, the system's clock, a
/// directory of its own. Make it with `Hosted::default()`; the names are `target.directory()`. Its memory is counted, so the heap is
/// `Arc::new(Heap::new())` here, as any backend is.
#[cfg(feature = "std")]
pub type Hosted = Parts<
    std::sync::Arc<dyn wharf_backend::MemBackend<Policy = wharf_sync::Blocking> + Send + Sync>,
    wharf_source::HeapSource,
    wharf_sync::StdClock,
    NoTrace,
    std::sync::Arc<crate::Directory<wharf_sync::Blocking, wharf_source::HeapSource>>,
>;

impl<M, S: Default, C: Default, L: Default, D: Default> Default for Parts<M, S, C, L, D> {
    fn default() -> Self {
        Self::with_directory(S::default(), C::default(), L::default(), D::default())
    }
}

/// The usual target of a firmware: backends in statics, control blocks from a static pool (`StaticPoolSource<P, BYTES, 1>`; each
/// storage takes [`Tensor::CONTROL_BLOCK`](crate::Tensor::CONTROL_BLOCK), which under `Critical` is 96 bytes on a Cortex-M3 and 160 on x86-64).
/// A name takes [`Tensor::IDENTITY_BLOCK`](crate::Tensor::IDENTITY_BLOCK), another size class (128 and 232 bytes, without the text of a copied
/// name); `D` may be a `&'static` [`Directory<P, &'static S>`](crate::Directory), made with [`Parts::with_directory`].
pub type Firmware<P, S, C = NoClock, D = NoDirectory> =
    Parts<&'static (dyn wharf_backend::MemBackend<Policy = P> + Sync), &'static S, C, NoTrace, D>;
