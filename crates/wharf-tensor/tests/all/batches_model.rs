//! Batches over host and device memory against plain vectors, with operations that leave their tensors and a device that fails.

use std::sync::Arc;

use crate::common::{Books, Device};
use proptest::prelude::*;
use wharf_backend::{Heap, MemBackend, TransferError};
use wharf_sync::Blocking;
use wharf_tensor::{BatchError, Parts, Tensor, TensorError};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Mixed = Parts<Memory, Arc<Books>>;

const LEN: usize = 24;
/// Storages on the host, on the device, and without bytes.
const HOST: usize = 2;
const DEVICE: usize = 2;
const STORAGES: usize = HOST + DEVICE + 1;

#[derive(Clone, Debug)]
struct Op {
    tensor: usize,
    offset: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A window on the tensor with this number.
    Slice(usize, usize, usize),
    Write(Vec<Op>),
    Read(Vec<Op>),
    /// The same, and a transfer of the device fails.
    FailWrite(usize, Vec<Op>),
    FailRead(usize, Vec<Op>),
    /// Past the fence.
    Unfenced(Vec<Op>),
    Copy(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    let offset = prop_oneof![
        20 => 0_usize..8,
        1 => 0_usize..LEN + 2,
        1 => (0_usize..3).prop_map(|less| usize::MAX - less),
    ];
    let bytes = proptest::collection::vec(any::<u8>(), 0..6);
    (0_usize..64, offset, bytes).prop_map(|(tensor, offset, bytes)| Op {
        tensor,
        offset,
        bytes,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let ops = || proptest::collection::vec(op(), 0..6);
    let which = || 0_usize..64;
    prop_oneof![
        3 => (which(), 0..LEN, 0..=LEN).prop_map(|(tensor, start, len)| Step::Slice(tensor, start, len)),
        4 => ops().prop_map(Step::Write),
        4 => ops().prop_map(Step::Read),
        2 => (1_usize..5, ops()).prop_map(|(nth, ops)| Step::FailWrite(nth, ops)),
        2 => (1_usize..5, ops()).prop_map(|(nth, ops)| Step::FailRead(nth, ops)),
        1 => ops().prop_map(Step::Unfenced),
        2 => (which(), which()).prop_map(|(to, from)| Step::Copy(to, from)),
    ]
}

/// A window on a storage.
#[derive(Clone, Copy, Debug)]
struct Window {
    storage: usize,
    start: usize,
    len: usize,
}

const fn on_device(storage: usize) -> bool {
    HOST <= storage && storage < HOST + DEVICE
}

const fn has_bytes(storage: usize) -> bool {
    storage < HOST + DEVICE
}

struct Machine {
    device: Arc<Device<Blocking>>,
    tensors: Vec<(Tensor<Mixed>, Window)>,
    storages: Vec<Vec<u8>>,
}

impl Machine {
    fn new() -> Self {
        let device = Arc::new(Device::new());
        let target = Mixed::new(Arc::default());
        let tensors = (0..STORAGES).map(|storage| {
            let memory: Memory = if on_device(storage) {
                device.clone()
            } else {
                Arc::new(Heap::new())
            };
            let tensor = if has_bytes(storage) {
                Tensor::alloc(&target, memory.clone(), LEN).unwrap()
            } else {
                Tensor::placeholder(&target, LEN).unwrap()
            };
            tensor.fill(0).unwrap();
            let window = Window {
                storage,
                start: 0,
                len: LEN,
            };
            (tensor, window)
        });
        Self {
            tensors: tensors.collect(),
            device,
            storages: vec![vec![0; LEN]; STORAGES],
        }
    }

    fn which(&self, tensor: usize) -> (&Tensor<Mixed>, Window) {
        let (tensor, window) = &self.tensors[tensor % self.tensors.len()];
        (tensor, *window)
    }

    /// How far a batch gets, and what it answers.
    fn outcome(&self, ops: &[Op], fails: usize) -> (usize, Result<(), BatchError>) {
        for (index, op) in ops.iter().enumerate() {
            let (size, len) = (self.which(op.tensor).1.len, op.bytes.len());
            if op.offset.checked_add(len).is_none_or(|end| end > size) {
                let offset = op.offset;
                let error = TensorError::OutOfBounds { offset, len, size };
                return (0, Err(BatchError::Refused { op: index, error }));
            }
        }
        let (mut transfers, mut bytes) = (0, 0);
        for (op, one) in ops.iter().enumerate() {
            transfers += usize::from(on_device(self.which(one.tensor).1.storage));
            if fails != 0 && transfers == fails {
                let error = TransferError::Closed;
                let outcome = match bytes {
                    0 => BatchError::Refused {
                        op,
                        error: TensorError::Transfer(error),
                    },
                    bytes => BatchError::Partial { op, bytes, error },
                };
                return (op, Err(outcome));
            }
            bytes += one.bytes.len() as u64;
        }
        (ops.len(), Ok(()))
    }

    fn write(&mut self, ops: &[Op], fails: usize, fenced: bool) {
        let (done, expected) = self.outcome(ops, fails);
        let batch: Vec<_> = ops
            .iter()
            .map(|op| self.which(op.tensor).0.write_op(op.offset, &op.bytes))
            .collect();
        self.device.fail_nth(fails);
        let outcome = if fenced {
            Tensor::try_write_batch(&batch)
        } else {
            // SAFETY: nobody else is here.
            unsafe { Tensor::write_batch_unfenced(&batch) }
        };
        self.device.fail_nth(0);
        assert_eq!(outcome, expected);
        for op in &ops[..done] {
            let Window { storage, start, .. } = self.which(op.tensor).1;
            if has_bytes(storage) {
                self.storages[storage][start + op.offset..][..op.bytes.len()]
                    .copy_from_slice(&op.bytes);
            }
        }
    }

    fn read(&self, ops: &[Op], fails: usize, fenced: bool) {
        let (done, expected) = self.outcome(ops, fails);
        let mut buffers: Vec<_> = ops.iter().map(|op| op.bytes.clone()).collect();
        let mut batch: Vec<_> = ops
            .iter()
            .zip(&mut buffers)
            .map(|(op, buffer)| self.which(op.tensor).0.read_op(op.offset, buffer))
            .collect();
        self.device.fail_nth(fails);
        let outcome = if fenced {
            Tensor::try_read_batch(&mut batch)
        } else {
            // SAFETY: nobody else is here.
            unsafe { Tensor::read_batch_unfenced(&mut batch) }
        };
        self.device.fail_nth(0);
        assert_eq!(outcome, expected);
        for (index, (op, buffer)) in ops.iter().zip(&buffers).enumerate() {
            let Window { storage, start, .. } = self.which(op.tensor).1;
            if index < done && has_bytes(storage) {
                let at = start + op.offset;
                assert_eq!(*buffer, self.storages[storage][at..at + buffer.len()]);
            } else {
                assert_eq!(*buffer, op.bytes, "untouched");
            }
        }
    }

    fn copy(&mut self, to: usize, from: usize) {
        let ((target, to), (source, from)) = (self.which(to), self.which(from));
        let outcome = target.try_copy_from(source);
        if to.len != from.len {
            let (destination, source) = (to.len, from.len);
            let mismatch = TensorError::LengthMismatch {
                destination,
                source,
            };
            assert_eq!(outcome, Err(mismatch));
            return;
        }
        assert_eq!(outcome, Ok(()));
        if has_bytes(to.storage) && has_bytes(from.storage) {
            let bytes = self.storages[from.storage][from.start..][..from.len].to_vec();
            self.storages[to.storage][to.start..][..to.len].copy_from_slice(&bytes);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            &Step::Slice(tensor, start, len) => {
                let (tensor, window) = self.which(tensor);
                let start = start.min(window.len);
                let len = len.min(window.len - start);
                let slice = tensor.slice(start..start + len).unwrap();
                let window = Window {
                    storage: window.storage,
                    start: window.start + start,
                    len,
                };
                self.tensors.push((slice, window));
            }
            Step::Write(ops) => self.write(ops, 0, true),
            Step::Read(ops) => self.read(ops, 0, true),
            Step::FailWrite(nth, ops) => self.write(ops, *nth, true),
            Step::FailRead(nth, ops) => self.read(ops, *nth, true),
            Step::Unfenced(ops) => {
                self.write(ops, 2, false);
                self.read(ops, 2, false);
            }
            &Step::Copy(to, from) => self.copy(to, from),
        }
        for (storage, expected) in self.storages.iter().enumerate() {
            // The fence of none is taken.
            let mut bytes = vec![0; LEN];
            let (tensor, _) = &self.tensors[storage];
            tensor.try_write(0, &[]).unwrap();
            tensor.try_read(0, &mut bytes).unwrap();
            assert_eq!(bytes, *expected, "storage {storage}");
        }
        assert!(self.device.gaps_untouched());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_do_what_a_plain_model_does(steps in proptest::collection::vec(step(), 1..24)) {
        let mut machine = Machine::new();
        for step in &steps {
            machine.step(step);
        }
    }
}
