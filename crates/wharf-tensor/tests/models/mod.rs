//! What the models of this crate share: memory and control blocks that notice an access which they should not have seen.
#![allow(dead_code, reason = "each model uses a part of it")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, MemBackend, MemSpace, Place,
    TransferError,
};
use wharf_engine::{DescriptorQueue, Engine, Stream, StreamId};
use wharf_source::{BlockSource, HeapSource, SourceError};
use wharf_sync::{Clock, Loom, SyncPolicy};
use wharf_tensor::{Access, NoTrace, Parts, Tensor, TensorError, Tickets};

/// The heap, but what comes back is made unusable and kept for as long as anybody has the source: loom's objects in a
/// block that was released have no number any more, so who uses one fails the model.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<Vec<(NonNull<u8>, Layout)>>);

// SAFETY: the blocks are nobody's any more.
unsafe impl Send for Quarantine {}
// SAFETY: behind a mutex.
unsafe impl Sync for Quarantine {}

// SAFETY: the heap's blocks, each given back to it once.
unsafe impl BlockSource for Quarantine {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        HeapSource.try_alloc(layout)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the block is ours again, and so long.
        unsafe { block.write_bytes(0xFF, layout.size()) };
        self.0.lock().unwrap().push((block, layout));
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        HeapSource.refusal(layout)
    }
    fn name(&self) -> &'static str {
        "quarantine"
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        for (block, layout) in self.0.get_mut().unwrap().drain(..) {
            // SAFETY: the heap's, with this layout.
            unsafe { HeapSource.release(block, layout) }
        }
    }
}

/// Time does not pass in a model: a limit of zero has passed, any other never does.
#[derive(Clone, Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// One segment of two bytes of device memory.
pub(crate) struct Cell {
    bytes: UnsafeCell<[u8; 2]>,
    pub(crate) reclaimed: AtomicUsize,
    blocks: Arc<Quarantine>,
}

// SAFETY: loom's cell checks every access against every other.
unsafe impl Sync for Cell {}
// SAFETY: plain bytes.
unsafe impl Send for Cell {}

// SAFETY: it vends one segment per value, whose header is a box.
unsafe impl MemBackend for Cell {
    type Policy = Loom;
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<Loom>>> {
        assert_eq!(size, 2);
        Some(NonNull::from(Box::leak(Box::new(Header::new(size)))))
    }
    fn refusal(&self, _: usize, _: AllocHint) -> AllocError {
        AllocError::Unsupported
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Loom>>) {
        self.reclaimed.fetch_add(1, Ordering::Relaxed);
        // Whoever frees has seen every access of those who had it before.
        self.bytes.with_mut(|_| ());
        // SAFETY: `vend` leaked this box, and nobody has it any more.
        drop(unsafe { Box::from_raw(header.as_ptr()) });
    }
    unsafe fn place(&self, _: NonNull<Header<Loom>>) -> Place {
        Place::Device(DeviceAddress::new(0))
    }
    fn may_own(&self, _: NonNull<Header<Loom>>) -> bool {
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
        2
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "cell"
    }
    unsafe fn copy_in(
        &self,
        _: NonNull<Header<Loom>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.bytes.with_mut(|bytes| {
            // SAFETY: loom has checked that nobody else is at the cell; the caller lends `len` bytes.
            unsafe {
                (&mut *bytes)[offset..offset + len]
                    .copy_from_slice(std::slice::from_raw_parts(source.as_ptr(), len));
            }
        });
        Ok(())
    }
    unsafe fn copy_out(
        &self,
        _: NonNull<Header<Loom>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.bytes.with(|bytes| {
            // SAFETY: loom has checked that nobody writes the cell; the caller lends `len` bytes.
            unsafe {
                std::slice::from_raw_parts_mut(destination.as_ptr(), len)
                    .copy_from_slice(&(&*bytes)[offset..offset + len]);
            }
        });
        Ok(())
    }
}

impl Cell {
    /// What a device does that holds a ticket to write.
    pub(crate) fn device_writes(&self, value: u8) {
        // SAFETY: loom has checked that nobody else is at the cell.
        self.bytes.with_mut(|bytes| unsafe { *bytes = [value; 2] });
    }
    /// What a device does that holds a ticket to read.
    pub(crate) fn device_reads(&self) -> [u8; 2] {
        // SAFETY: loom has checked that nobody writes the cell.
        self.bytes.with(|bytes| unsafe { *bytes })
    }
}

pub(crate) type Model = Parts<Arc<Cell>, Arc<Quarantine>, Still>;

/// Fresh bytes, and a tensor over them.
pub(crate) fn fresh() -> (Arc<Cell>, Tensor<Model>) {
    let cell = Arc::new(Cell {
        bytes: UnsafeCell::new([0; 2]),
        reclaimed: AtomicUsize::new(0),
        blocks: Arc::default(),
    });
    let target = Model::with(cell.blocks.clone(), Still, NoTrace);
    let tensor = Tensor::alloc(&target, cell.clone(), 2).unwrap();
    (cell, tensor)
}

pub(crate) fn read(tensor: &Tensor<Model>) -> [u8; 2] {
    let mut bytes = [0; 2];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

/// One of these values in both bytes: nobody saw a half of a write.
pub(crate) fn assert_whole(bytes: [u8; 2], values: &[u8]) {
    assert!(
        bytes[0] == bytes[1] && values.contains(&bytes[0]),
        "{bytes:?}"
    );
}

/// Explores `model`; beyond so many preemptions a thread runs on until it waits.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Two streams for the whole test; a model may begin with them as often as it likes.
pub(crate) fn streams() -> (Stream, Stream) {
    (Stream::claim().unwrap(), Stream::claim().unwrap())
}

/// A device access that is tried once, with what the device does meanwhile.
pub(crate) fn device<R>(
    tensor: &Tensor<Model>,
    access: Access,
    stream: StreamId,
    work: impl FnOnce() -> R,
) -> Option<R> {
    match tensor.try_begin(access, stream) {
        Ok(ticket) => {
            let done = work();
            drop(ticket);
            Some(done)
        }
        Err(TensorError::WouldBlock { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}
/// A queue that another thread serves.
pub(crate) struct Served {
    pub(crate) queue: DescriptorQueue<Loom, Tickets<Model>, 2>,
    pub(crate) stream: StreamId,
}

// SAFETY: the model touches the bytes between `next` and `finish` alone; the stream is the test's own.
unsafe impl Engine for Served {
    type Policy = Loom;
    type Cargo = Tickets<Model>;
    fn stream(&self) -> StreamId {
        self.stream
    }
    unsafe fn submit(
        &self,
        descriptor: wharf_engine::Descriptor,
        cargo: Tickets<Model>,
    ) -> Result<
        wharf_engine::Sequence,
        wharf_engine::Returned<Tickets<Model>, wharf_engine::SubmitError>,
    > {
        self.queue.push(descriptor, cargo)
    }
    fn poll(
        &self,
        sequence: wharf_engine::Sequence,
        waker: Option<&std::task::Waker>,
    ) -> std::task::Poll<Option<wharf_engine::Completion<Tickets<Model>>>> {
        self.queue.poll(sequence, waker)
    }
    fn detach(&self, sequence: wharf_engine::Sequence) {
        self.queue.detach(sequence);
    }
    fn abort(&self, sequence: wharf_engine::Sequence) {
        self.queue.abort(sequence);
    }
    fn outstanding(&self) -> Option<std::ops::RangeInclusive<wharf_engine::Sequence>> {
        self.queue.outstanding()
    }
    fn completed(&self) -> &<Loom as SyncPolicy>::Event {
        self.queue.completed()
    }
}
