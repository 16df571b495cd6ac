//! The device: opening, waiting, closing.

use core::fmt;
use core::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

use wharf_backend::AllocError;
use wharf_backend::usage::{Breakdown, ChannelId};
use wharf_engine::{Cargo, DescriptorQueue, Operand, Stream, SubmitError};
use wharf_sync::Blocking;

use crate::activity::{Activity, Tracked};
use crate::channel::Memory;
use crate::{Channel, Config, Faults, MAX_CHANNELS, OpenError, Stats, addresses, engine};

/// The number of the next device. Only for reports, so that it may come round.
static NEXT_DEVICE: AtomicU16 = AtomicU16::new(0);

/// A device in software: one or more [`Channel`]s of memory, a queue of `SLOTS` descriptors, and a worker thread that carries them
/// out, one at a time and in order.
///
/// Submitting is [`Engine::submit`](wharf_engine::Engine::submit); tensors do it through their safe front. Waiting is
/// [`EngineExt`](wharf_engine::EngineExt); what the device's own thread would wait for (in a kernel, a cargo, a waker) is an error
/// and no hang. Dropping the device
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
    /// At least one.
    pub(crate) channels: Vec<Arc<Channel>>,
    pub(crate) faults: Faults,
    pub(crate) stream: Stream,
    pub(crate) activity: Arc<Activity>,
}

impl<C: Cargo, const SLOTS: usize> Shared<C, SLOTS> {
    /// Takes no more. What is queued lands as closed.
    pub(crate) fn close(&self) {
        // First, so that whoever sees a completion with `Closed` sees a closed channel too.
        self.channels.iter().for_each(|channel| channel.close());
        self.queue.close();
        // Last, so that what was held until then ends in a closed device.
        self.faults.close();
    }

    /// Where the worker finds an operand, if the queue reaches it.
    pub(crate) fn locate(&self, operand: &Operand) -> Option<NonNull<u8>> {
        self.reached().find_map(|channel| channel.locate(operand))
    }

    /// The channels that the queue reaches.
    fn reached(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.channels.iter().filter(|channel| channel.is_reached())
    }

    /// Why an operand that the queue does not reach is out of its reach.
    pub(crate) fn unreachable(&self, index: usize, operand: &Operand) -> SubmitError {
        let owner = match operand.place {
            wharf_engine::Place::Device(address) => addresses::owner(address),
            wharf_engine::Place::Host(_) => None,
        };
        let mut reached = self.reached().map(|channel| channel.id());
        match owner {
            // What starts in a channel that is reached leaves it.
            Some(channel) if !reached.any(|one| one == channel) => SubmitError::WrongChannel {
                operand: index,
                channel,
                reached: self.reached().map(|channel| channel.id()).next(),
            },
            _ => SubmitError::Unreachable { operand: index },
        }
    }
}

impl<C: Cargo + Send + 'static, const SLOTS: usize> SoftDma<C, SLOTS> {
    /// Opens a device.
    ///
    /// # Errors
    /// The host has not the memory, the thread or the stream for it, or addresses that were asked for cannot be had. (The memory and its
    /// tables are refused by value. The device itself is a few `Arc`s and a thread, for which the standard library ends the
    /// program if the heap has nothing left.)
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let asked = config.asked();
        if asked > MAX_CHANNELS {
            return Err(OpenError::TooManyChannels { asked });
        }
        // Relaxed: a number, and nothing behind it.
        let device = NEXT_DEVICE.fetch_add(1, Ordering::Relaxed);
        // The memory first, all of which is refused by value.
        let mut memories = [const { None }; MAX_CHANNELS];
        let ids = (0..).map(|index| ChannelId::new(device, index));
        for ((place, config), id) in memories.iter_mut().zip(config.channels()).zip(ids) {
            *place = Some((id, config, Memory::new(id, config)?));
        }
        let mut channels = Vec::new();
        let requested = asked * size_of::<Arc<Channel>>();
        channels
            .try_reserve_exact(asked)
            .map_err(|_| OpenError::Memory { requested })?;
        let faults = Faults::none();
        for (id, config, memory) in memories.into_iter().flatten() {
            channels.push(Arc::new(Channel::new(id, config, memory, faults.clone())));
        }
        let stream = Stream::claim()?;
        let shared = Arc::new(Shared {
            queue: DescriptorQueue::new(),
            channels,
            faults,
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

    /// The device's memory: its first channel.
    #[must_use]
    pub fn channel(&self) -> Arc<Channel> {
        // There is a first one, as `open` has it.
        Arc::clone(&self.shared.channels[0])
    }

    /// All of its channels, in the order of the configuration.
    #[must_use]
    pub fn channels(&self) -> &[Arc<Channel>] {
        &self.shared.channels
    }

    /// Who has the memory, now that an allocation was refused: for a person, by channel and class, with the name of who
    /// asked.
    ///
    /// ```
    /// use wharf_backend::SegmentMut;
    /// use wharf_backend::usage::UsageClass;
    /// use wharf_softdma::{Config, SoftDma};
    ///
    /// let device = SoftDma::<()>::open(Config::new(1024))?;
    /// let input = device.channel().tagged("input", UsageClass::IO);
    /// let weight = device.channel().tagged("conv1.weight", UsageClass::WEIGHT);
    /// let _input = SegmentMut::alloc(input, 1000)?;
    /// let refused = SegmentMut::alloc(weight, 4).unwrap_err();
    /// let why = device.explain(refused).to_string();
    /// assert!(why.starts_with("'conv1.weight': 4 bytes of class weight asked, 0 free on channel"));
    /// assert!(why.contains("io                  1024         1024        0            0"));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// A tensor tells the same, as one of several things that may go wrong:
    ///
    /// ```
    /// # use wharf_backend::usage::UsageClass;
    /// # use wharf_softdma::{Config, SoftDma};
    /// # use wharf_tensor::{Hosted, Tensor};
    /// # let device = SoftDma::<()>::open(Config::new(1024))?;
    /// let target = Hosted::default();
    /// let _input = Tensor::alloc(&target, device.channel(), 1000)?;
    /// let weight = device.channel().tagged("conv1.weight", UsageClass::WEIGHT);
    /// let refused = Tensor::alloc(&target, weight, 200).map(drop).unwrap_err();
    /// if let Some(error) = refused.alloc_error() {
    ///     let why = device.explain(error).to_string();
    ///     assert!(why.starts_with("'conv1.weight': 200 bytes of class weight asked"));
    /// }
    /// # assert!(refused.alloc_error().is_some());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, error: AllocError) -> Breakdown<'_, Arc<Channel>> {
        Breakdown::new(error, self.channels())
    }

    /// Makes the device fail.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
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

    /// Closes the device: nothing more is taken, vended or moved; what is queued completes with
    /// [`Fault::Closed`](wharf_engine::Fault::Closed); what runs, runs to its end, which this waits for; what was made to
    /// [stall](Faults::stall_launch) does not stall any more.
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

    /// Whether this is the device's own thread: it runs kernels, and whatever its completions wake.
    pub(crate) fn is_worker(&self) -> bool {
        thread::current().id() == self.worker_id
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
            .field("channels", &self.shared.channels)
            .field("stats", &self.stats())
            .finish()
    }
}
