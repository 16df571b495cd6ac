//! Tensors on the memory channels of a device: batches and copies across them, how far a transfer that fails has got, and what is
//! known of their addresses.

use std::sync::Arc;

use wharf_backend::usage::{Tagged, UsageClass};
use wharf_backend::{DeviceAddress, Place, TransferError};
use wharf_engine::{Command, Fault, KernelFault};
use wharf_softdma::{Channel, ChannelConfig, Config, SoftDma};
use wharf_source::HeapSource;
use wharf_tensor::{
    BatchError, CopyError, CopyFault, Launch, Parts, Tensor, TensorError, Tickets, WaitError,
};

type Target = Parts<Arc<Channel>, HeapSource>;
type Device = SoftDma<Tickets<Target>>;

/// Two channels, and one that the queue does not reach.
fn device() -> Device {
    let channel = ChannelConfig::new(1 << 16);
    let config = Config::of(channel).with(channel).with(channel.unreached());
    Device::open(config).unwrap()
}

fn on(device: &Device, channel: usize, bytes: &[u8]) -> Tensor<Target> {
    let memory = device.channels()[channel].clone();
    let tensor = Tensor::alloc(&Target::new(HeapSource), memory, bytes.len()).unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

fn bytes(tensor: &Tensor<Target>) -> Vec<u8> {
    let mut bytes = vec![0; tensor.len()];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

fn ramp(len: usize) -> Vec<u8> {
    (1..=len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[test]
fn a_batch_reaches_every_channel_and_says_where_it_ended() {
    let device = device();
    let tensors = [0, 1, 2].map(|channel| on(&device, channel, &[0; 4]));
    let [a, b, c] = &tensors;
    let ops = [
        c.write_op(0, &[1, 2]),
        a.write_op(1, &[3]),
        b.write_op(0, &[4, 5, 6]),
        a.write_op(0, &[7, 8]),
    ];
    let injected = |error| matches!(error, TransferError::Injected { .. });
    for nth in 1..=4 {
        Tensor::write_batch(&[a, b, c].map(|tensor| tensor.write_op(0, &[0; 4]))).unwrap();
        device.faults().fail_transfer(nth);
        let moved = [0, 2, 3, 6];
        let at = usize::try_from(nth).unwrap() - 1;
        match Tensor::write_batch(&ops) {
            Err(BatchError::Refused {
                op: 0,
                error: TensorError::Transfer(error),
            }) => assert!(nth == 1 && injected(error)),
            Err(BatchError::Partial { op, bytes, error }) => {
                assert_eq!((op, bytes), (at, moved[at]));
                assert!(injected(error));
            }
            other => panic!("{other:?}"),
        }
        let expected = [
            [0, if nth > 2 { 3 } else { 0 }, 0, 0],
            if nth > 3 { [4, 5, 6, 0] } else { [0; 4] },
            if nth > 1 { [1, 2, 0, 0] } else { [0; 4] },
        ];
        assert_eq!(
            tensors.each_ref().map(bytes),
            expected.map(Vec::from),
            "{nth}"
        );
    }
    Tensor::write_batch(&ops).unwrap();
    assert_eq!(bytes(a), [7, 8, 0, 0]);
    device.close();
    let closed = BatchError::Refused {
        op: 0,
        error: TensorError::Transfer(TransferError::Closed),
    };
    assert_eq!(Tensor::write_batch(&ops), Err(closed));
}

#[test]
fn a_copy_across_channels_goes_in_pieces_and_says_how_many_bytes_arrived() {
    let device = device();
    let source = on(&device, 2, &ramp(600));
    for (nth, done) in [(1, 0), (2, 0), (3, 256), (4, 256), (5, 512), (6, 512)] {
        let destination = on(&device, 0, &[0; 600]);
        device.faults().fail_transfer(nth);
        let refused = destination.copy_from(&source).unwrap_err();
        match refused {
            TensorError::Transfer(TransferError::Injected { .. }) => assert_eq!(done, 0),
            TensorError::Partial {
                done: told,
                len: 600,
                error: TransferError::Injected { .. },
            } => assert_eq!(told, done),
            other => panic!("{other:?}"),
        }
        let mut expected = vec![0; 600];
        expected[..done].copy_from_slice(&ramp(done));
        assert_eq!(bytes(&destination), expected, "{nth}");
        destination.copy_from(&source).unwrap();
        assert_eq!(bytes(&destination), ramp(600));
    }
}

#[test]
fn the_queue_copies_by_itself_and_through_another_channel() {
    let device = device();
    let (source, destination) = (on(&device, 0, &ramp(1000)), on(&device, 1, &[0; 1000]));
    let bounce = on(&device, 1, &[0; 128]);
    device
        .launch(Command::Copy, &[source.input(), destination.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(bytes(&destination), ramp(1000));

    destination.fill(0).unwrap();
    destination
        .copy_through(&source, &bounce, &device, &device)
        .unwrap();
    assert_eq!(bytes(&destination), ramp(1000));

    // Pieces of 64 bytes. The launches: up, down and up, down and up, ...: the sixth is the third setting down.
    destination.fill(0).unwrap();
    let fault = Fault::Kernel(KernelFault(5));
    device.faults().fail_launch(6, fault);
    let CopyError { done, len, cause } = destination
        .copy_through(&source, &bounce, &device, &device)
        .unwrap_err();
    assert_eq!(cause, CopyFault::Wait(WaitError::Fault(fault)));
    assert_eq!((done, len), (128, 1000));
    let mut expected = vec![0; 1000];
    expected[..128].copy_from_slice(&ramp(128));
    assert_eq!(bytes(&destination), expected);
    assert_eq!(device.in_use(), 0);
    bounce.try_fill(0).unwrap();

    // What the queue does not reach is refused by name.
    let apart = on(&device, 2, &[0; 1000]);
    let refused = apart
        .copy_through(&source, &bounce, &device, &device)
        .unwrap_err();
    assert!(matches!(refused.cause, CopyFault::Launch(_)), "{refused}");
    assert_eq!(refused.done, 0);
}

#[test]
fn addresses_above_four_gibibytes_and_what_the_channel_knows_of_them() {
    type Tagging = Parts<Tagged<Arc<Channel>>, HeapSource>;
    let base = 0x7A_0000_0000;
    let config = ChannelConfig::new(1 << 16)
        .named("hbm")
        .at(DeviceAddress::new(base));
    let device = Device::open(Config::of(config)).unwrap();
    let _before = on(&device, 0, &[0]);
    let tagged = device.channel().tagged("filter", UsageClass::WEIGHT);
    let memory = tagged.aligned(4096).unwrap();
    let target = Tagging::new(HeapSource);
    let tensor = Tensor::alloc(&target, memory, 1000).unwrap();
    let (_, part) = tensor.split(100).unwrap();
    for (tensor, offset) in [(tensor.slice(100..).unwrap(), 100), (part, 100)] {
        let placement = tensor.placement().unwrap();
        // The granule behind the first segment is not a multiple of 4096.
        let address = DeviceAddress::new(base + 4096);
        assert_eq!(placement.segment, Place::Device(address));
        assert_eq!(placement.segment_offset, offset);
        assert_eq!((placement.len, placement.segment_len), (900, 1000));
        assert_eq!(
            (placement.alignment, placement.alignment_offset()),
            (4096, 100)
        );
        assert_eq!(placement.backend, "hbm");
        assert_eq!(tensor.device_address().unwrap().get(), base + 4196);
        let known = tensor.allocation().unwrap();
        assert_eq!(known.address, address);
        assert_eq!((known.asked, known.allocated), (1000, 1024));
        assert_eq!((known.class, known.align_offset), (UsageClass::WEIGHT, 0));
        assert_eq!(known.tag.to_string(), "filter");
    }
    let nothing = Tensor::placeholder(&target, 4).unwrap();
    let storage = nothing.storage_id().unwrap();
    assert_eq!(
        nothing.allocation(),
        Err(TensorError::Placeholder { storage })
    );
    assert_eq!(
        Tensor::<Tagging>::empty().allocation(),
        Err(TensorError::NoStorage)
    );
}
