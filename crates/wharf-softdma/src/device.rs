//! The device: opening, waiting, closing.

use core::fmt;
use core::task::Poll;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

use wharf_engine::{Cargo, Completion, DescriptorQueue, Engine, Sequence, Stream};
use wharf_sync::{Blocking, Event, NoClock};

use crate::activity::{Activity, Tracked};
use crate::{Channel, OpenError, Stats, WaitError, engine};

/// How a device is opened.
///
/// ```
/// use wharf_softdma::Config;
///
/// let config = Config::new(1 << 20).named("npu0");
/// assert_eq!((config.name, config.memory), ("npu0", 1 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The name of the device, of its channel and of its thread.
    pub name: &'static str,
    /// Bytes of device memory, rounded up to whole granules of 64. The host provides pages as they are first used.
    pub memory: usize,
}

impl Config {
    /// A device with `memory` bytes.
    #[must_use]
    pub const fn new(memory: usize) -> Self {
        Self {
            name: "softdma",
            memory,
        }
    }

    /// Called `name`.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

impl Default for Config {
    /// 16 MiB.
    fn default() -> Self {
        Self::new(16 << 20)
    }
}

/// A device in software: a [`Channel`] of memory, a queue of `SLOTS` descriptors, and a worker thread that carries them
/// out, one at a time and in order.
///
/// Submitting is [`Engine::submit`]; tensors do it through their safe front. Dropping the device
/// [`close`](Self::close)s it. What outlives it (segments, the channel) answers `Closed`.
///
/// A cargo that holds an owner of the device keeps it open until the completion is polled or, if it is detached,
/// has landed; so do not let a submission that nobody polls or detaches own its device.
pub struct SoftDma<C: Cargo + Send + 'static, const SLOTS: usize = 64> {
    pub(crate) shared: Arc<Shared<C, SLOTS>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    worker_id: ThreadId,
}

/// What the device and its worker both hold. The stream is part of it: as long as the worker may still run
/// something, nobody else may call himself by it.
pub(crate) struct Shared<C: Cargo, const SLOTS: usize> {
    pub(crate) queue: DescriptorQueue<Blocking, Tracked<C>, SLOTS>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) stream: Stream,
    pub(crate) activity: Arc<Activity>,
}

impl<C: Cargo, const SLOTS: usize> Shared<C, SLOTS> {
    /// Takes no more. What is queued lands as closed.
    pub(crate) fn close(&self) {
        // First, so that whoever sees a completion with `Closed` sees a closed channel too.
        self.channel.close();
        let _landing = self.activity.landing();
        self.queue.close();
    }
}

impl<C: Cargo + Send + 'static, const SLOTS: usize> SoftDma<C, SLOTS> {
    /// Opens a device.
    ///
    /// # Errors
    /// The host has not the memory, the thread or the stream for it.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let channel = Arc::new(Channel::new(config.name, config.memory)?);
        let stream = Stream::claim()?;
        let shared = Arc::new(Shared {
            queue: DescriptorQueue::new(),
            channel,
            stream,
            activity: Arc::default(),
        });
        // A thread's name must not contain a NUL.
        let name = config.name.split('\0').next().unwrap_or_default();
        let served = Arc::clone(&shared);
        let worker = thread::Builder::new()
            .name(name.into())
            .spawn(move || engine::serve(&served))
            .map_err(|error| OpenError::Worker { kind: error.kind() })?;
        Ok(Self {
            shared,
            worker_id: worker.thread().id(),
            worker: Mutex::new(Some(worker)),
        })
    }

    /// The device's memory.
    #[must_use]
    pub fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.shared.channel)
    }

    /// What became of the descriptors so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.activity.stats()
    }

    /// Slots in use: queued, running, or finished and not asked for.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.shared.queue.in_use()
    }

    /// Whether the device was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.queue.is_closed()
    }

    /// Waits for a completion and takes it.
    ///
    /// # Errors
    /// There is none to wait for, or it would have to wait for its own caller.
    pub fn wait(&self, sequence: Sequence) -> Result<Completion<C>, WaitError> {
        loop {
            let seen = self.completed().epoch();
            match self.poll(sequence, None) {
                Poll::Ready(Some(completion)) => return Ok(completion),
                Poll::Ready(None) => return Err(WaitError::Unknown { sequence }),
                Poll::Pending if self.is_inside() => return Err(WaitError::Inside),
                Poll::Pending => self.completed().wait(seen, &NoClock, None),
            };
        }
    }

    /// Waits until nothing is queued or running. What was submitted before can be polled then.
    ///
    /// # Errors
    /// It would have to wait for its own caller.
    pub fn drain(&self) -> Result<(), WaitError> {
        if self.is_inside() {
            return Err(WaitError::Inside);
        }
        self.shared.activity.wait_until_idle();
        Ok(())
    }

    /// Closes the device: nothing more is taken, vended or moved; what is queued completes with
    /// [`Fault::Closed`](wharf_engine::Fault::Closed); what runs, runs to its end, which this waits for.
    ///
    /// On the device's own thread (in a kernel, a cargo, a waker) it does not wait: the thread ends when its caller
    /// has returned. Closing again is harmless.
    pub fn close(&self) {
        self.shared.close();
        if self.is_worker() {
            return;
        }
        // Held while joining, so that whoever closes second waits as well. The worker never comes here.
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = worker.take() {
            // A worker does not panic; if it did, it has ended.
            let _ = worker.join();
        }
    }

    fn is_worker(&self) -> bool {
        thread::current().id() == self.worker_id
    }

    /// Whether this is the device's code: it cannot go on while this thread waits.
    fn is_inside(&self) -> bool {
        self.is_worker() || self.shared.activity.is_landing_here()
    }
}

impl<C: Cargo + Send + 'static, const SLOTS: usize> Drop for SoftDma<C, SLOTS> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<C: Cargo + Send + 'static, const SLOTS: usize> fmt::Debug for SoftDma<C, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftDma")
            .field("stream", &self.shared.stream.id())
            .field("queue", &self.shared.queue)
            .field("channel", &self.shared.channel)
            .field("stats", &self.stats())
            .finish()
    }
}
