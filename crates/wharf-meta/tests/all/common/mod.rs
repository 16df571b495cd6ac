//! What these tests need of targets: one on the host whose source keeps count, and one with a device.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::rc::Rc;

use wharf_backend::Heap;
use wharf_softdma::{Config, SoftDma};
use wharf_source::{FaultSource, HeapSource};
use wharf_sync::Unsync;
use wharf_tensor::{Hosted, Parts, Tensor, Tickets};

pub(crate) type Host = Parts<Heap<Unsync>, HeapSource>;

pub(crate) fn host(bytes: &[u8]) -> Tensor<Host> {
    let tensor = Tensor::alloc(&Host::new(HeapSource), Heap::new(), bytes.len()).unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

/// A host target whose source fails on order.
pub(crate) type Faulty = Parts<Heap<Unsync>, Rc<FaultSource<HeapSource>>>;

pub(crate) fn faulty() -> (Faulty, Rc<FaultSource<HeapSource>>) {
    let source = Rc::new(FaultSource::new(HeapSource));
    (Faulty::new(source.clone()), source)
}

/// A device, and tensors in its memory.
pub(crate) struct Device {
    pub(crate) device: SoftDma<Tickets<Hosted>>,
    pub(crate) target: Hosted,
}

impl Device {
    pub(crate) fn open() -> Self {
        Self {
            device: SoftDma::open(Config::new(1 << 20)).unwrap(),
            target: Hosted::default(),
        }
    }

    pub(crate) fn empty(&self, len: usize) -> Tensor<Hosted> {
        Tensor::alloc(&self.target, self.device.channel(), len).unwrap()
    }

    pub(crate) fn tensor(&self, bytes: &[u8]) -> Tensor<Hosted> {
        let tensor = self.empty(bytes.len());
        tensor.write(0, bytes).unwrap();
        tensor
    }
}

/// Bytes that repeat only after 251, so that a piece that is out of place shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect()
}
