//! Operations that wait until a deadline.

use core::fmt;
use core::time::Duration;

use wharf_engine::{Access, StreamId};
use wharf_sync::Clock;

use crate::storage::Patience;
use crate::{ReadGuard, Target, Tensor, TensorError, Ticket, WriteGuard};

/// When a wait ends. Made into a moment when the wait begins, by the clock of the target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    In(Duration),
    At(Duration),
}

impl Limit {
    /// The moment, if `clock` tells the time. One that lies beyond the end of time is the end of time.
    pub(crate) fn moment<C: Clock>(self, clock: &C) -> Option<Duration> {
        clock.tells_time().then(|| match self {
            Self::In(limit) => clock.now().saturating_add(limit),
            Self::At(moment) => moment,
        })
    }
}

impl<T: Target> Tensor<T> {
    /// Operations on this tensor that wait so long and no longer, by the clock of its [`Target`].
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use wharf_backend::Heap;
    /// use wharf_engine::Stream;
    /// use wharf_source::HeapSource;
    /// use wharf_sync::{Blocking, StdClock};
    /// use wharf_tensor::{Access, NoTrace, Parts, Tensor, TensorError};
    ///
    /// type Timed = Parts<Heap<Blocking>, HeapSource, StdClock>;
    /// let target = Timed::with(HeapSource, StdClock::new(), NoTrace);
    /// let frame = Tensor::alloc(&target, Heap::new(), 64)?;
    /// let stream = Stream::claim().unwrap();
    /// let camera = frame.begin(Access::Write, stream.id())?;
    ///
    /// let mut bytes = [0; 64];
    /// let late = frame.within(Duration::from_millis(2)).read(0, &mut bytes);
    /// assert!(matches!(late, Err(TensorError::TimedOut { .. })));
    /// drop(camera);
    /// frame.within(Duration::from_millis(2)).read(0, &mut bytes)?;
    /// # }
    /// # Ok::<(), wharf_tensor::TensorError>(())
    /// ```
    #[must_use]
    pub const fn within(&self, limit: Duration) -> Within<'_, T> {
        Within {
            tensor: self,
            limit: Limit::In(limit),
        }
    }

    /// Operations on this tensor that wait until `moment` on the clock of its [`Target`], and no longer. For several operations
    /// that share one deadline.
    #[must_use]
    pub const fn until(&self, moment: Duration) -> Within<'_, T> {
        Within {
            tensor: self,
            limit: Limit::At(moment),
        }
    }
}

/// A tensor whose operations wait until a deadline: see [`Tensor::within`].
///
/// Each does what the method of the same name does on the tensor, and may fail in two more ways. Nothing has happened then,
/// and nothing is left behind:
///
/// * [`TensorError::TimedOut`]: the conflicting access did not end in time. A limit of zero does not sleep; one of
///   [`Duration::MAX`] never passes.
/// * [`TensorError::NoClock`]: the clock does not [tell the time](Clock::tells_time). Answered at once, whether or not
///   there is anything to wait for, so that it shows in the first test and not in the field.
///
/// The deadline ends the wait for *access*. It does not interrupt the bytes on their way.
pub struct Within<'t, T: Target> {
    tensor: &'t Tensor<T>,
    limit: Limit,
}

impl<'t, T: Target> Within<'t, T> {
    /// [`Tensor::read`].
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn read(self, offset: usize, bytes: &mut [u8]) -> Result<(), TensorError> {
        self.tensor.read_with(offset, bytes, self.patience()?)
    }

    /// [`Tensor::write`].
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn write(self, offset: usize, bytes: &[u8]) -> Result<(), TensorError> {
        self.tensor.write_with(offset, bytes, self.patience()?)
    }

    /// [`Tensor::fill`].
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn fill(self, byte: u8) -> Result<(), TensorError> {
        self.tensor.fill_with(byte, self.patience()?)
    }

    /// [`Tensor::copy_from`]. One deadline for the access to both.
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn copy_from(self, source: &Tensor<T>) -> Result<(), TensorError> {
        self.tensor.copy_with(source, self.patience()?)
    }

    /// [`Tensor::lend`].
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn lend(self) -> Result<ReadGuard<'t, T>, TensorError> {
        self.tensor.lend_with(self.patience()?)
    }

    /// [`Tensor::lend_mut`].
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn lend_mut(self) -> Result<WriteGuard<'t, T>, TensorError> {
        self.tensor.lend_mut_with(self.patience()?)
    }

    /// [`Tensor::begin`].
    ///
    /// # Errors
    /// As there, and see [above](Self).
    pub fn begin(self, access: Access, stream: StreamId) -> Result<Ticket<T>, TensorError> {
        self.tensor.ticket(access, stream, self.patience()?)
    }

    fn patience(self) -> Result<Patience, TensorError> {
        self.tensor.patience(self.limit)
    }
}

impl<T: Target> Tensor<T> {
    pub(crate) fn patience(&self, limit: Limit) -> Result<Patience, TensorError> {
        let storage = self.storage()?;
        match limit.moment(storage.clock()) {
            Some(moment) => Ok(Patience::Until(Some(moment))),
            None => Err(TensorError::NoClock {
                storage: storage.id(),
            }),
        }
    }
}

impl<T: Target> Clone for Within<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Target> Copy for Within<'_, T> {}

impl<T: Target> fmt::Debug for Within<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within")
            .field("tensor", &self.tensor)
            .field("limit", &self.limit)
            .finish()
    }
}
