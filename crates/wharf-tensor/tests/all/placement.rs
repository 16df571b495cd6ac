//! Where bytes are: of slices, of parts, above 4 GiB, and at the end of all addresses.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::common::{Books, Stepped};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, Heap, MemBackend, MemSpace, Place,
    TransferError,
};
use wharf_engine::{Command, SubmitError};
use wharf_sync::Blocking;
use wharf_tensor::{Launch, LaunchError, Parts, Tensor, TensorError};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Mixed = Parts<Memory, Arc<Books>>;

/// Addresses without bytes: every segment is at the same one, which is nobody's.
struct Far(u64);

// SAFETY: headers are boxes; nothing is ever read or written at the addresses.
unsafe impl MemBackend for Far {
    type Policy = Blocking;
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<Blocking>>> {
        Some(NonNull::from(Box::leak(Box::new(Header::new(size)))))
    }
    fn refusal(&self, _: usize, _: AllocHint) -> AllocError {
        AllocError::Unsupported
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Blocking>>) {
        // SAFETY: `vend` leaked this box, and nobody has it any more.
        drop(unsafe { Box::from_raw(header.as_ptr()) });
    }
    unsafe fn place(&self, _: NonNull<Header<Blocking>>) -> Place {
        Place::Device(DeviceAddress::new(self.0))
    }
    fn may_own(&self, _: NonNull<Header<Blocking>>) -> bool {
        true
    }
    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::VENDS_INITIALISED
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn alignment(&self) -> usize {
        4
    }
    fn max_segment_size(&self) -> usize {
        usize::MAX
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "far"
    }
}

fn far(base: u64, len: usize) -> Tensor<Mixed> {
    let memory: Memory = Arc::new(Far(base));
    Tensor::alloc(&Mixed::new(Arc::default()), memory.clone(), len).unwrap()
}

fn near(len: usize) -> Tensor<Mixed> {
    let memory: Memory = Arc::new(Heap::new());
    Tensor::alloc(&Mixed::new(Arc::default()), memory.clone(), len).unwrap()
}

const GIB: usize = 1 << 30;

#[test]
fn addresses_above_four_gibibytes_are_whole() {
    let base = 0x0012_3456_0000_0000;
    let tensor = far(base, 100 * GIB);
    let slice = tensor
        .slice(5 * GIB + 1..)
        .unwrap()
        .slice(GIB..GIB + 7)
        .unwrap();
    let at = base + 6 * GIB as u64 + 1;
    assert_eq!(slice.device_address(), Ok(DeviceAddress::new(at)));
    let placement = slice.placement().unwrap();
    assert_eq!(placement.storage, tensor.storage_id().unwrap());
    assert_eq!(placement.place, Place::Device(DeviceAddress::new(at)));
    assert_eq!(placement.segment, Place::Device(DeviceAddress::new(base)));
    assert_eq!(placement.space(), MemSpace::Device);
    assert_eq!(
        (
            placement.len,
            placement.segment_offset,
            placement.segment_len
        ),
        (7, 6 * GIB + 1, 100 * GIB)
    );
    assert_eq!((placement.alignment, placement.alignment_offset()), (4, 1));
    assert_eq!(placement.backend, "far");
    let storage = placement.storage;
    assert_eq!(
        placement.to_string(),
        format!(
            "{storage}: 7 bytes at 0x12345780000001 of the device, 6442450945 into 107374182400 of far"
        )
    );
    assert_eq!(
        slice.host_ptr(),
        Err(TensorError::NotHostAddressable { storage })
    );
    // A part knows its whole.
    let (_, part) = tensor.split(50 * GIB).unwrap();
    let placement = part.slice(3..5).unwrap().placement().unwrap();
    assert_eq!(placement.segment_offset, 50 * GIB + 3);
    assert_eq!(
        placement.place,
        Place::Device(DeviceAddress::new(base + 50 * GIB as u64 + 3))
    );
    assert_eq!(placement.alignment_offset(), 3);
    // Nothing moves there, and that is an answer.
    let space = MemSpace::Device;
    assert_eq!(
        part.write(0, &[1]),
        Err(TensorError::Transfer(TransferError::Unsupported { space }))
    );
}

#[test]
fn where_addresses_run_out_is_told_and_does_not_wrap() {
    let base = u64::MAX - 99;
    // Of 200 bytes only 100 have addresses.
    let tensor = far(base, 200);
    let storage = tensor.storage_id().unwrap();
    let last = tensor.slice(99..).unwrap();
    assert_eq!(last.device_address(), Ok(DeviceAddress::new(u64::MAX)));
    assert_eq!(last.placement().unwrap().alignment_offset(), 3);
    for offset in [100, 101, 199, 200] {
        let slice = tensor.slice(offset..).unwrap();
        let wraps = TensorError::AddressWraps {
            storage,
            base,
            offset,
        };
        assert_eq!(slice.device_address(), Err(wraps));
        assert_eq!(slice.placement(), Err(wraps));
        assert_eq!(slice.host_ptr(), Err(wraps));
        assert_eq!(slice.place(), None);
        let engine = Stepped::<Mixed>::new();
        let refused = engine.try_launch(Command::Fill(0), &[slice.output()]);
        let operand = LaunchError::Operand {
            operand: 0,
            error: wraps,
        };
        assert_eq!(refused.map(drop), Err(operand));
    }
    assert_eq!(
        TensorError::AddressWraps {
            storage,
            base: 0xFFF0,
            offset: 100
        }
        .to_string(),
        format!("no address is 100 bytes behind 0xfff0, where {storage} begins")
    );
    // The parts of it, too.
    let (first, second) = tensor.split(120).unwrap();
    assert_eq!(first.device_address(), Ok(DeviceAddress::new(base)));
    assert_eq!(
        second.device_address(),
        Err(TensorError::AddressWraps {
            storage: second.storage_id().unwrap(),
            base,
            offset: 120
        })
    );
}

#[test]
fn a_host_pointer_reaches_the_bytes_of_the_slice() {
    let tensor = near(64);
    let storage = tensor.storage_id().unwrap();
    tensor.write(40, &[1, 2, 3]).unwrap();
    let (_, part) = tensor.split(32).unwrap();
    let slice = part.slice(8..11).unwrap();
    let pointer = slice.host_ptr().unwrap();
    {
        let _guard = slice.lend().unwrap();
        // SAFETY: valid for the three bytes, and the guard keeps writers out.
        let bytes = unsafe { std::slice::from_raw_parts(pointer.as_ptr(), 3) };
        assert_eq!(bytes, [1, 2, 3]);
    }
    let placement = slice.placement().unwrap();
    assert_eq!(placement.place, Place::Host(pointer));
    assert_eq!((placement.segment_offset, placement.segment_len), (40, 64));
    assert_eq!(
        placement.alignment_offset(),
        pointer.addr().get() % placement.alignment
    );
    let storage_of_part = part.storage_id().unwrap();
    assert_eq!(
        slice.device_address(),
        Err(TensorError::NotOnDevice {
            storage: storage_of_part
        })
    );
    drop((slice, part));
    assert_eq!(
        tensor.device_address().unwrap_err().to_string(),
        format!("{storage} is in host memory, which has no device address")
    );
    assert_eq!(tensor.slice(64..).unwrap().placement().unwrap().len, 0);
}

#[test]
fn what_has_no_bytes_has_no_place() {
    let empty = Tensor::<Mixed>::empty();
    let no = TensorError::NoStorage;
    assert_eq!(empty.placement(), Err(no));
    assert_eq!(empty.host_ptr(), Err(no));
    assert_eq!(empty.device_address(), Err(no));
    let nothing = Tensor::placeholder(&Mixed::new(Arc::default()), 1 << 40).unwrap();
    let storage = nothing.storage_id().unwrap();
    let placeholder = TensorError::Placeholder { storage };
    let slice = nothing.slice(GIB..).unwrap();
    assert_eq!(slice.placement(), Err(placeholder));
    assert_eq!(slice.host_ptr(), Err(placeholder));
    assert_eq!(slice.device_address(), Err(placeholder));
    let (part, _) = nothing.split(8).unwrap();
    let storage = part.storage_id().unwrap();
    assert_eq!(part.placement(), Err(TensorError::Placeholder { storage }));
}

#[test]
fn a_tensor_says_in_which_space_its_bytes_are() {
    let target = Mixed::new(Arc::default());
    let near: Memory = Arc::new(Heap::new());
    let near = Tensor::alloc(&target, near.clone(), 4).unwrap();
    assert_eq!(near.space(), Some(MemSpace::Host));
    assert_eq!(far(0x1000, 4).space(), Some(MemSpace::Device));
    assert_eq!(Tensor::<Mixed>::empty().space(), None);
    let nothing = Tensor::placeholder(&target, 4).unwrap();
    assert_eq!(nothing.space(), None);
}

#[test]
fn addresses_that_are_not_the_engines_are_given_to_none() {
    // One that would take them.
    let engine = Stepped::<Mixed>::new();
    let tensor = far(0x1000, 4);
    let refused = engine.launch(Command::Fill(1), &[tensor.output()]);
    assert_eq!(
        refused.map(drop).unwrap_err(),
        LaunchError::Submit(SubmitError::Unreachable { operand: 0 })
    );
    assert_eq!((tensor.in_flight(), engine.in_use()), ((0, 0), 0));
}
