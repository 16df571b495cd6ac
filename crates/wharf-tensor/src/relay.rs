//! Copying between devices that do not reach each other, by their engines, through memory which both reach.

mod awaited;

use core::fmt;
use core::ops::Range;

use wharf_backend::{Caps, MemBackend};
use wharf_engine::{Access, Command};

use crate::io::FOREVER;
use crate::launch::launch;
use crate::storage::StorageRef;
use crate::{Launch, LaunchError, StorageId, Submission, Target, Tensor, TensorError, WaitError};

/// Why a copy [through](Tensor::copy_through) other memory ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CopyError {
    /// Bytes that have arrived: the first of the destination. What is behind them is undefined where the
    /// engine that writes it has failed, and as it was elsewhere.
    pub done: usize,
    /// Bytes of the copy.
    pub len: usize,
    /// Why no more did.
    pub cause: CopyFault,
}

/// What ended a copy [through](Tensor::copy_through) other memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CopyFault {
    /// A tensor cannot be had, or they do not fit each other.
    Tensor(TensorError),
    /// Two of source, destination and bounce are of one storage.
    SameStorage {
        /// Of which.
        storage: StorageId,
    },
    /// An engine took a piece no more.
    Launch(LaunchError),
    /// An engine failed with a piece.
    Wait(WaitError),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, len, cause } = self;
        write!(f, "{done} of {len} bytes were copied: {cause}")
    }
}

impl fmt::Display for CopyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::SameStorage { storage } => {
                write!(f, "two of source, destination and bounce are of {storage}")
            }
            Self::Launch(error) => error.fmt(f),
            Self::Wait(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CopyError {}
impl core::error::Error for CopyFault {}

impl From<TensorError> for CopyFault {
    fn from(error: TensorError) -> Self {
        Self::Tensor(error)
    }
}
impl From<LaunchError> for CopyFault {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}
impl From<WaitError> for CopyFault {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl<T: Target> Tensor<T> {
    /// Copies all of `source` into all of this tensor by way of `bounce`: `reader` moves the bytes into it, `writer` moves them out.
    /// The CPU moves none.
    ///
    /// `bounce` is memory that both engines reach, of any size from one byte. It is cut in halves: while `writer` empties one,
    /// `reader` fills the other. Pieces are as long as the smaller half, so choose a multiple of what the engines move best.
    ///
    /// Blocks until all has arrived; a task awaits [`copy_through_when_ready`](Self::copy_through_when_ready). Until then `reader` has
    /// the source to read and `writer` has this tensor to write: nobody else changes the one or sees the other in between; and `bounce`
    /// is [split](Self::split), so nobody else has it.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor};
    /// use wharf_engine::{CpuEngine, Stream};
    /// # use wharf_tensor::Tickets;
    /// # type Sketch = Parts<Heap<Unsync>, HeapSource>;
    /// # let target = Sketch::new(HeapSource);
    /// # let camera = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
    /// # let display = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
    /// # let frame = Tensor::alloc(&target, Heap::new(), 1000)?;
    /// # let screen = Tensor::alloc(&target, Heap::new(), 1000)?;
    /// # frame.fill(7)?;
    /// let bounce = Tensor::alloc(&target, Heap::new(), 256)?;
    /// screen.copy_through(&frame, &bounce, &camera, &display)?;
    /// # assert_eq!(*screen.lend()?, [7; 1000]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// With [`done`](CopyError::done) at zero: lengths differ, two of the three share a storage, `bounce` is in use or has no
    /// bytes, an engine does not reach it. Later: an engine failed. Nothing of it is under way any more, unless nobody is left who
    /// could end it ([`WaitError::WouldDeadlock`]).
    pub fn copy_through<R, W>(
        &self,
        source: &Self,
        bounce: &Self,
        reader: &R,
        writer: &W,
    ) -> Result<(), CopyError>
    where
        R: Launch<T> + ?Sized,
        W: Launch<T> + ?Sized,
    {
        let mut done = 0;
        let len = self.len();
        self.relay(source, bounce, (reader, writer), &mut done)
            .map_err(|cause| CopyError { done, len, cause })
    }

    fn relay<R, W>(
        &self,
        source: &Self,
        bounce: &Self,
        (reader, writer): (&R, &W),
        done: &mut usize,
    ) -> Result<(), CopyFault>
    where
        R: Launch<T> + ?Sized,
        W: Launch<T> + ?Sized,
    {
        let (to, from) = self.ends(source, bounce)?;
        // In the order in which every call takes two storages.
        let read = || source.ticket(Access::Read, reader.stream(), FOREVER);
        let write = || self.ticket(Access::Write, writer.stream(), FOREVER);
        let (reads, writes) = if to.id().get() < from.id().get() {
            let writes = write()?;
            (read()?, writes)
        } else {
            (read()?, write()?)
        };
        let len = self.len();
        let (halves, most) = bounce.halves_for(len)?;
        let route = Route {
            source,
            destination: self,
            most,
        };
        let take_up = |at: usize, half: &Self| -> Result<_, CopyFault> {
            let [piece, half] = route.up(at, half)?;
            let uses = [piece.input(), half.output()];
            Ok(launch(
                reader,
                Command::Copy,
                &uses,
                FOREVER,
                Some((0, &reads)),
            )?)
        };
        let set_down = |at: usize, half: &Self| -> Result<_, CopyFault> {
            let [half, piece] = route.down(at, half)?;
            let uses = [half.input(), piece.output()];
            Ok(launch(
                writer,
                Command::Copy,
                &uses,
                FOREVER,
                Some((1, &writes)),
            )?)
        };
        let mut last = Arrival::none(done);
        let mut at = 0;
        let [mut this, mut other] = halves;
        let mut taken_up = if len > 0 {
            Some(take_up(0, &this)?)
        } else {
            None
        };
        while let Some(submission) = taken_up.take() {
            submission.wait()?;
            last.settle()?;
            let end = route.range(at).end;
            last.await_next(set_down(at, &this)?, end);
            at = end;
            core::mem::swap(&mut this, &mut other);
            if at < len {
                if this.is_uncut(&other) {
                    last.settle()?;
                }
                taken_up = Some(take_up(at, &this)?);
            }
        }
        last.settle()
    }

    /// The storages of both ends, if they fit each other.
    fn ends<'t>(
        &'t self,
        source: &'t Self,
        bounce: &Self,
    ) -> Result<(&'t StorageRef<T>, &'t StorageRef<T>), CopyFault> {
        let (to, from, len) = (self.storage()?, source.storage()?, self.len());
        let between = bounce.storage()?;
        if len != source.len() {
            return Err(CopyFault::Tensor(TensorError::LengthMismatch {
                destination: len,
                source: source.len(),
            }));
        }
        to.writable()?;
        between.writable()?;
        // The one engine would wait for the other one, which has it for this very call.
        let twice = if to.is_same(from) || to.is_same(between) {
            Some(to)
        } else {
            from.is_same(between).then_some(from)
        };
        if let Some(storage) = twice {
            let storage = storage.id();
            return Err(CopyFault::SameStorage { storage });
        }
        Ok((to, from))
    }

    /// [`halves`](Self::halves), and how long a piece is, for a copy of `len` bytes.
    fn halves_for(&self, len: usize) -> Result<([Self; 2], usize), CopyFault> {
        let halves = self.halves()?;
        let most = halves[0].len().min(halves[1].len());
        if most == 0 && len > 0 {
            return Err(CopyFault::Tensor(TensorError::OutOfBounds {
                offset: 0,
                len: 1,
                size: self.len(),
            }));
        }
        Ok((halves, most))
    }

    /// Whether these two are of a bounce that could not be cut. Then what is set down is waited for first: who waits at the fence instead does not
    /// poll the engine that it waits for.
    fn is_uncut(&self, other: &Self) -> bool {
        self.storage_id() == other.storage_id()
    }

    /// Two halves with fences of their own; twice the same, if it cannot be cut. Nobody else has them.
    fn halves(&self) -> Result<[Self; 2], TensorError> {
        let storage = self.storage()?;
        let mut cut = self.len() / 2;
        if let Some((segment, start)) = storage.get().segment() {
            let backend = segment.backend();
            if backend.caps().contains(Caps::NEEDS_CACHE_OPS) {
                // No wrap: all of it lies in the segment.
                let past = (start + self.offset() + cut) % backend.alignment();
                cut = cut.saturating_sub(past);
            }
        }
        // Also where there is nothing to cut: a part is nobody else's, who would write it between the ways in and out.
        let (first, second) = self.split(cut)?;
        Ok(if cut == 0 {
            [second.clone(), second]
        } else {
            [first, second]
        })
    }
}

/// From where to where pieces go.
struct Route<'c, T: Target> {
    source: &'c Tensor<T>,
    destination: &'c Tensor<T>,
    /// Bytes of a piece.
    most: usize,
}

impl<T: Target> Route<'_, T> {
    /// The piece that starts there.
    fn range(&self, at: usize) -> Range<usize> {
        at..self.source.len().min(at.saturating_add(self.most))
    }

    /// What is read and what is written to take the piece up.
    fn up(&self, at: usize, half: &Tensor<T>) -> Result<[Tensor<T>; 2], TensorError> {
        let range = self.range(at);
        Ok([
            self.source.slice(range.clone())?,
            half.slice(..range.len())?,
        ])
    }

    /// What is read and what is written to set it down.
    fn down(&self, at: usize, half: &Tensor<T>) -> Result<[Tensor<T>; 2], TensorError> {
        let range = self.range(at);
        Ok([half.slice(..range.len())?, self.destination.slice(range)?])
    }
}

/// The piece that arrives while the next one is taken up. Nothing is under way any more when it is dropped.
struct Arrival<'d, 'e, W: Launch<T> + ?Sized, T: Target> {
    done: &'d mut usize,
    piece: Option<(Submission<'e, W, T>, usize)>,
}

impl<'d, 'e, W: Launch<T> + ?Sized, T: Target> Arrival<'d, 'e, W, T> {
    const fn none(done: &'d mut usize) -> Self {
        Self { done, piece: None }
    }

    fn await_next(&mut self, submission: Submission<'e, W, T>, end: usize) {
        self.piece = Some((submission, end));
    }

    /// Blocks until it has arrived.
    fn settle(&mut self) -> Result<(), CopyFault> {
        if let Some((submission, end)) = self.piece.take() {
            submission.wait()?;
            *self.done = end;
        }
        Ok(())
    }
}

impl<W: Launch<T> + ?Sized, T: Target> Drop for Arrival<'_, '_, W, T> {
    fn drop(&mut self) {
        // Something else has failed, and is what the caller is told.
        let _ = self.settle();
    }
}
