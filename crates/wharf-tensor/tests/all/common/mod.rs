//! What several of these tests need: a source that keeps books, a device whose memory the host does not
//! reach, an engine that works when it is told to, and a sink that remembers.
#![allow(dead_code, reason = "each test uses a part of it")]

/// Makes an engine of what has a `queue` of descriptors and a `stream`. Who uses it argues for what the queue does not see: that operands are
/// touched only while their job exists, and that nobody else has the stream. The queue keeps the cargo until then, and hands out one
/// job at a time, in order.
macro_rules! unsafe_engine {
    ([$($generics:tt)*] $engine:ty, $target:ty) => {
        // SAFETY: the queue's part as above; the rest where it is used.
        unsafe impl<$($generics)*> ::wharf_engine::Engine for $engine {
            type Policy = <$target as ::wharf_tensor::Target>::Policy;
            type Cargo = ::wharf_tensor::Tickets<$target>;
            fn stream(&self) -> ::wharf_engine::StreamId {
                self.stream.id()
            }
            unsafe fn submit(
                &self,
                descriptor: ::wharf_engine::Descriptor,
                cargo: Self::Cargo,
            ) -> Result<
                ::wharf_engine::Sequence,
                ::wharf_engine::Returned<Self::Cargo, ::wharf_engine::SubmitError>,
            > {
                self.queue.push(descriptor, cargo)
            }
            fn poll(
                &self,
                sequence: ::wharf_engine::Sequence,
                waker: Option<&::std::task::Waker>,
            ) -> ::std::task::Poll<Option<::wharf_engine::Completion<Self::Cargo>>> {
                self.queue.poll(sequence, waker)
            }
            fn detach(&self, sequence: ::wharf_engine::Sequence) {
                self.queue.detach(sequence);
            }
            fn abort(&self, sequence: ::wharf_engine::Sequence) {
                self.queue.abort(sequence);
            }
            fn outstanding(
                &self,
            ) -> Option<::std::ops::RangeInclusive<::wharf_engine::Sequence>> {
                self.queue.outstanding()
            }
            fn completed(&self) -> &<Self::Policy as ::wharf_sync::SyncPolicy>::Event {
                self.queue.completed()
            }
        }
    };
}

pub(crate) mod hands;
pub(crate) mod tasks;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, MemBackend, MemSpace, Place,
    TransferError,
};
use wharf_engine::{DescriptorQueue, Job, Stream, run_on_host};
use wharf_source::{BlockSource, HeapSource, SourceError};
use wharf_sync::SyncPolicy;
use wharf_tensor::{Target, Tickets, TraceEvent, TraceKind, TracePhase, TraceSink};

/// The heap as a source that knows which blocks are out, and refuses the nth request when told to.
#[derive(Debug, Default)]
pub(crate) struct Books {
    out: Mutex<BTreeMap<usize, Layout>>,
    calls: AtomicUsize,
    /// The call to refuse, counted from one.
    refuse: AtomicUsize,
    foreign: AtomicUsize,
}

impl Books {
    /// Blocks that were not released.
    pub(crate) fn blocks(&self) -> usize {
        self.out.lock().unwrap().len()
    }
    /// Releases of what was never vended here, or with another layout.
    pub(crate) fn foreign(&self) -> usize {
        self.foreign.load(Ordering::Relaxed)
    }
    /// Requests since [`refuse_nth`](Self::refuse_nth).
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
    /// Refuses the nth request from now on; zero: none.
    pub(crate) fn refuse_nth(&self, nth: usize) {
        self.calls.store(0, Ordering::Relaxed);
        self.refuse.store(nth, Ordering::Relaxed);
    }
}

// SAFETY: every block is one of the heap's, and only those go back to it, once.
unsafe impl BlockSource for Books {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call == self.refuse.load(Ordering::Relaxed) {
            return None;
        }
        let block = HeapSource.try_alloc(layout)?;
        self.out.lock().unwrap().insert(block.addr().get(), layout);
        Some(block)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        let entry = self.out.lock().unwrap().remove(&block.addr().get());
        if entry != Some(layout) {
            self.foreign.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: vended above with this layout, and just struck off the books.
        unsafe { HeapSource.release(block, layout) }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        SourceError::Exhausted {
            requested: layout.size(),
            available: 0,
        }
    }
    fn name(&self) -> &'static str {
        "books"
    }
}

/// What untouched device memory holds.
pub(crate) const UNTOUCHED: u8 = 0xEE;
/// Bytes between two segments of a device, which nobody may touch.
const GAP: usize = 32;

/// Device memory behind a mutex: the host reaches it by transfers only. It may be closed, or told to fail a
/// transfer.
#[derive(Debug)]
pub(crate) struct Device<P: SyncPolicy> {
    memory: Mutex<Memory>,
    closed: AtomicBool,
    transfers: AtomicUsize,
    fail: AtomicUsize,
    policy: PhantomData<&'static P::Lock<()>>,
}

#[derive(Debug, Default)]
struct Memory {
    bytes: Vec<u8>,
    /// Live segments: start and length.
    live: BTreeMap<usize, usize>,
}

/// A header that knows where its bytes are.
#[repr(C)]
struct Segment<P: SyncPolicy> {
    header: Header<P>,
    start: usize,
}

impl<P: SyncPolicy> Device<P> {
    pub(crate) fn new() -> Self {
        Self {
            memory: Mutex::default(),
            closed: AtomicBool::new(false),
            transfers: AtomicUsize::new(0),
            fail: AtomicUsize::new(0),
            policy: PhantomData,
        }
    }
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
    /// Fails the nth transfer from now on; zero: none.
    pub(crate) fn fail_nth(&self, nth: usize) {
        self.transfers.store(0, Ordering::Relaxed);
        self.fail.store(nth, Ordering::Relaxed);
    }
    pub(crate) fn transfers(&self) -> usize {
        self.transfers.load(Ordering::Relaxed)
    }
    pub(crate) fn segments(&self) -> usize {
        self.memory.lock().unwrap().live.len()
    }
    /// Whether every byte between the segments is as it was.
    pub(crate) fn gaps_untouched(&self) -> bool {
        let memory = self.memory.lock().unwrap();
        let mut outside = memory.bytes.clone();
        for (&start, &len) in &memory.live {
            outside[start..start + len].fill(UNTOUCHED);
        }
        outside.iter().all(|&byte| byte == UNTOUCHED)
    }

    /// Bytes as an engine of the device reads them.
    pub(crate) fn peek(&self, address: DeviceAddress, len: usize) -> Vec<u8> {
        let at = usize::try_from(address.get()).unwrap();
        self.memory.lock().unwrap().bytes[at..at + len].to_vec()
    }
    /// Bytes as an engine of the device writes them.
    pub(crate) fn poke(&self, address: DeviceAddress, bytes: &[u8]) {
        let at = usize::try_from(address.get()).unwrap();
        self.memory.lock().unwrap().bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn transfer(&self) -> Result<(), TransferError> {
        let number = self.transfers.fetch_add(1, Ordering::Relaxed) + 1;
        if self.closed.load(Ordering::Relaxed) || number == self.fail.load(Ordering::Relaxed) {
            return Err(TransferError::Closed);
        }
        Ok(())
    }

    fn start(header: NonNull<Header<P>>) -> usize {
        // SAFETY: only called with live headers, each of which is the first field of a `Segment`.
        unsafe { header.cast::<Segment<P>>().as_ref() }.start
    }
}

// SAFETY: segments are ranges of one vector that are never vended twice; their headers are boxes.
unsafe impl<P: SyncPolicy> MemBackend for Device<P> {
    type Policy = P;
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        if self.closed.load(Ordering::Relaxed) || size > self.max_segment_size() {
            return None;
        }
        let mut memory = self.memory.lock().unwrap();
        let start = memory.bytes.len() + GAP;
        memory.bytes.resize(start + size + GAP, UNTOUCHED);
        memory.live.insert(start, size);
        let header = Header::<P>::new(size);
        let segment = Box::leak(Box::new(Segment { header, start }));
        Some(NonNull::from(segment).cast())
    }
    fn refusal(&self, requested: usize, _: AllocHint) -> AllocError {
        if self.closed.load(Ordering::Relaxed) {
            return AllocError::Closed;
        }
        AllocError::TooLarge {
            requested,
            max: self.max_segment_size(),
        }
    }
    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        let mut memory = self.memory.lock().unwrap();
        let start = Self::start(header);
        if let Some(len) = memory.live.remove(&start) {
            memory.bytes[start..start + len].fill(UNTOUCHED);
        }
        // SAFETY: `vend` leaked this box, and nobody has it any more.
        drop(unsafe { Box::from_raw(header.cast::<Segment<P>>().as_ptr()) });
    }
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        Place::Device(DeviceAddress::new(Self::start(header) as u64))
    }
    fn may_own(&self, _: NonNull<Header<P>>) -> bool {
        true
    }
    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::VENDS_INITIALISED | Caps::ENGINE_ADDRESSED
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn alignment(&self) -> usize {
        1
    }
    fn max_segment_size(&self) -> usize {
        1 << 20
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "test device"
    }
    unsafe fn copy_in(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.transfer()?;
        // SAFETY: the caller lends `len` bytes there.
        let source = unsafe { std::slice::from_raw_parts(source.as_ptr(), len) };
        let at = Self::start(header) + offset;
        self.memory.lock().unwrap().bytes[at..at + len].copy_from_slice(source);
        Ok(())
    }
    unsafe fn copy_out(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.transfer()?;
        // SAFETY: the caller lends `len` initialised bytes there (ours always pass a slice).
        let destination = unsafe { std::slice::from_raw_parts_mut(destination.as_ptr(), len) };
        let at = Self::start(header) + offset;
        destination.copy_from_slice(&self.memory.lock().unwrap().bytes[at..at + len]);
        Ok(())
    }
    unsafe fn fill(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.transfer()?;
        let at = Self::start(header) + offset;
        self.memory.lock().unwrap().bytes[at..at + len].fill(byte);
        Ok(())
    }
}

/// An engine that does nothing until told: work stays in flight between steps. Reaches any place, and runs what is
/// all in host memory; on device memory its commands have no effect.
pub(crate) struct Stepped<T: Target, const SLOTS: usize = 4> {
    queue: DescriptorQueue<T::Policy, Tickets<T>, SLOTS>,
    stream: Stream,
}

impl<T: Target, const SLOTS: usize> Stepped<T, SLOTS> {
    pub(crate) fn new() -> Self {
        Self {
            queue: DescriptorQueue::new(),
            stream: Stream::claim().unwrap(),
        }
    }
    /// Takes the next descriptor up, to be finished later.
    pub(crate) fn start(&self) -> Option<Job<'_, T::Policy, Tickets<T>, SLOTS>> {
        self.queue.next()
    }
    /// Runs the next descriptor to its end. `false`: there was none.
    pub(crate) fn step(&self) -> bool {
        let Some(job) = self.start() else {
            return false;
        };
        let device = |place: &Place| matches!(place, Place::Device(_));
        let outcome = if job
            .descriptor()
            .operands()
            .iter()
            .any(|one| device(&one.place))
        {
            Ok(())
        } else {
            // SAFETY: whoever submitted promised that the operands are valid and unshared until the job lands.
            unsafe { run_on_host(job.descriptor()) }
        };
        job.finish(outcome);
        true
    }
    pub(crate) fn close(&self) {
        self.queue.close();
    }
    pub(crate) fn in_use(&self) -> usize {
        self.queue.in_use()
    }
}

// SAFETY: operands are touched in `step` only, while their job exists; the stream is claimed.
unsafe_engine! { [T: Target, const SLOTS: usize] Stepped<T, SLOTS>, T }

/// A sink that remembers everything.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Vec<TraceEvent>>);

impl TraceSink for Recorder {
    fn record(&self, event: TraceEvent) {
        self.0.lock().unwrap().push(event);
    }
}

impl Recorder {
    /// What was recorded since the last call.
    pub(crate) fn take(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
    /// The same as kinds and phases.
    pub(crate) fn story(&self) -> Vec<(TraceKind, TracePhase)> {
        self.take()
            .iter()
            .map(|event| (event.kind, event.phase))
            .collect()
    }
}

/// A waker that counts.
#[derive(Debug, Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
