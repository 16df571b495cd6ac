//! Operations that a task awaits.
//!
//! No access is held while a task is suspended: what is granted is used in the same poll. So a suspended future keeps
//! nobody out but by its place in the queue.

use core::fmt;

use wharf_engine::{Access, StreamId};

use crate::copy::{copy_across, copy_within};
use crate::hold::Hold;
use crate::storage::{Patience, StorageRef};
use crate::trace::TraceKind;
use crate::{ReadGuard, Target, Tensor, TensorError, Ticket, WriteGuard};

impl<T: Target> Tensor<T> {
    /// Operations on this tensor that a task awaits instead of blocking its thread. For executors on a host and in firmware, and
    /// under every policy: under [`Unsync`](wharf_sync::Unsync), where a blocking call could only wait for itself, another task
    /// ends the access.
    ///
    /// ```
    /// # use core::{future::Future, pin::pin, task::{Context, Waker}};
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// use wharf_engine::Stream;
    /// use wharf_tensor::{Access, Parts, Tensor, TensorError};
    ///
    /// type Sketch = Parts<Heap<Unsync>, HeapSource>;
    /// # let target = Sketch::new(HeapSource);
    /// async fn first(samples: &Tensor<Sketch>) -> Result<u8, TensorError> {
    ///     let mut byte = [0];
    ///     samples.when_ready().read(0, &mut byte).await?;
    ///     Ok(byte[0])
    /// }
    ///
    /// let samples = Tensor::alloc(&target, Heap::new(), 64)?;
    /// # let stream = Stream::claim().unwrap();
    /// let adc = samples.begin(Access::Write, stream.id())?;
    /// let mut task = pin!(first(&samples));
    /// # let mut context = Context::from_waker(Waker::noop());
    /// assert!(task.as_mut().poll(&mut context).is_pending());
    /// drop(adc); // wakes the task
    /// assert!(task.as_mut().poll(&mut context).is_ready());
    /// # Ok::<(), TensorError>(())
    /// ```
    #[must_use]
    pub const fn when_ready(&self) -> WhenReady<'_, T> {
        WhenReady { tensor: self }
    }
}

/// A tensor whose operations are awaited: see [`Tensor::when_ready`].
///
/// Each does what the method of the same name does on the tensor, with the same errors. Nothing happens before the first
/// poll, and nothing is allocated.
///
/// # Cancelling
/// Every future here may be dropped at any poll. What it does to the bytes it does in its last poll, so until then nothing
/// has happened; it holds no access, and a writer gives up its place in the queue, on which those behind it are woken. Its
/// waker stays with the storage until the next access ends or another waker takes the place; a wake more than needed is all
/// that comes of it.
///
/// So a deadline in a task is a race against the timer of the executor.
///
/// # Keeping one without polling it
/// A writer that waits has a place in the queue, and newcomers wait behind it: that is what keeps readers from starving it.
/// They wait until it is polled to its end or dropped. So do not await the same tensor in a `select` arm that leaves a
/// write pending and unpolled. A future that is forgotten ([`core::mem::forget`]) never gives its place up: nothing dangles, but
/// what is left is [`WouldBlock`](TensorError::WouldBlock) for readers and newcomers. (A reader that waits keeps nobody
/// out.)
///
/// # How many tasks
/// An event has room for a few wakers (one under `Unsync`, two under `Critical`, four under `Blocking` and `Spin`). The
/// futures of one task need one. With more tasks on one storage none is lost, but they wake each other by turns, which
/// keeps the processor busy for as long as they wait: have one task wait for all of them there.
pub struct WhenReady<'t, T: Target> {
    tensor: &'t Tensor<T>,
}

impl<'t, T: Target> WhenReady<'t, T> {
    /// [`Tensor::read`].
    ///
    /// # Errors
    /// As there. Dropped before it is ready it leaves `bytes` as they are.
    pub async fn read(self, offset: usize, bytes: &mut [u8]) -> Result<(), TensorError> {
        let storage = self.tensor.storage()?;
        let at = self.tensor.span(offset, bytes.len())?;
        let hold = storage.read_when_ready().await?;
        let _traced = self.tensor.traced(storage, TraceKind::Read, bytes.len());
        Ok(hold.read(at, bytes)?)
    }

    /// [`Tensor::write`].
    ///
    /// # Errors
    /// As there. Dropped before it is ready it has written nothing.
    pub async fn write(self, offset: usize, bytes: &[u8]) -> Result<(), TensorError> {
        let storage = self.tensor.storage()?;
        let at = self.tensor.span(offset, bytes.len())?;
        let mut hold = storage.write_when_ready().await?;
        let _traced = self.tensor.traced(storage, TraceKind::Write, bytes.len());
        Ok(hold.write(at, bytes)?)
    }

    /// [`Tensor::fill`].
    ///
    /// # Errors
    /// As there. Dropped before it is ready it has written nothing.
    pub async fn fill(self, byte: u8) -> Result<(), TensorError> {
        let (tensor, storage) = (self.tensor, self.tensor.storage()?);
        let mut hold = storage.write_when_ready().await?;
        let _traced = tensor.traced(storage, TraceKind::Write, tensor.len());
        Ok(hold.fill(tensor.offset(), tensor.len(), byte)?)
    }

    /// [`Tensor::copy_from`]. It waits for one of the two tensors at a time, and holds neither meanwhile.
    ///
    /// # Errors
    /// As there. Dropped before it is ready it has written nothing.
    pub async fn copy_from(self, source: &Tensor<T>) -> Result<(), TensorError> {
        let tensor = self.tensor;
        let (to, from) = (tensor.storage()?, source.storage()?);
        let (to_offset, from_offset, len) = (tensor.offset(), source.offset(), tensor.len());
        if len != source.len() {
            return Err(TensorError::LengthMismatch {
                destination: len,
                source: source.len(),
            });
        }
        if to.is_same(from) {
            let mut hold = to.write_when_ready().await?;
            let _traced = tensor.traced(to, TraceKind::Write, len);
            return copy_within(&mut hold, from_offset, to_offset, len);
        }
        let (mut write, read) = both(to, from).await?;
        let _traced = tensor.traced(to, TraceKind::Write, len);
        copy_across(&read, from_offset, &mut write, to_offset, len)
    }

    /// [`Tensor::lend`]. What it is ready with is a guard: to hold it across an `await` keeps writers out meanwhile.
    ///
    /// # Errors
    /// As there. Dropped before it is ready it holds nothing.
    pub async fn lend(self) -> Result<ReadGuard<'t, T>, TensorError> {
        let storage = self.tensor.lendable()?;
        ReadGuard::new(self.tensor, storage.guard_read_when_ready().await?)
    }

    /// [`Tensor::lend_mut`]. To hold the guard across an `await` keeps everybody out meanwhile.
    ///
    /// # Errors
    /// As there. Dropped before it is ready it holds nothing.
    pub async fn lend_mut(self) -> Result<WriteGuard<'t, T>, TensorError> {
        let storage = self.tensor.lendable()?;
        WriteGuard::new(self.tensor, storage.guard_write_when_ready().await?)
    }

    /// [`Tensor::begin`].
    ///
    /// # Errors
    /// As there. Dropped before it is ready it holds nothing.
    pub async fn begin(self, access: Access, stream: StreamId) -> Result<Ticket<T>, TensorError> {
        let (tensor, storage) = (self.tensor, self.tensor.storage()?);
        let range = (tensor.offset(), tensor.len());
        Ticket::begin_when_ready(storage, stream, access, range).await
    }
}

/// Access to two storages. Waits for one at a time; while it does, it does not hold the other, so two of these the opposite
/// way do not wait for each other in a circle.
async fn both<'s, T: Target>(
    to: &'s StorageRef<T>,
    from: &'s StorageRef<T>,
) -> Result<(Hold<'s, T, true>, Hold<'s, T, false>), TensorError> {
    loop {
        let write = to.write_when_ready().await?;
        match from.read(Patience::None) {
            Ok(read) => return Ok((write, read)),
            Err(TensorError::WouldBlock { .. }) => drop(write),
            Err(error) => return Err(error),
        }
        let read = from.read_when_ready().await?;
        match to.write(Patience::None) {
            Ok(write) => return Ok((write, read)),
            Err(TensorError::WouldBlock { .. }) => drop(read),
            Err(error) => return Err(error),
        }
    }
}

impl<T: Target> Clone for WhenReady<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Target> Copy for WhenReady<'_, T> {}

impl<T: Target> fmt::Debug for WhenReady<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhenReady")
            .field("tensor", &self.tensor)
            .finish()
    }
}
