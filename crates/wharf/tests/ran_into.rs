//! What users of an accelerator runtime in C ran into, one test for each; `docs/coming-from.md` lists them.
//!
//! Written as a user would, against the facade, a hosted target and the device in software. The crates below have tests that go
//! further into each.

use wharf::backend::usage::UsageClass;
use wharf::backend::{AllocError, DeviceAddress, TransferError};
use wharf::engine::{Fault, SubmitError};
use wharf::prelude::*;
use wharf::softdma::{Channel, ChannelConfig};
use wharf::tensor::{LaunchError, TraceEvent};

type Device = SoftDma<Tickets<Hosted>>;

const MIB: usize = 1 << 20;

fn device() -> Device {
    Device::open(Config::new(MIB)).unwrap()
}

fn bytes(tensor: &Tensor<Hosted>) -> Vec<u8> {
    let mut bytes = vec![0; tensor.len()];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

fn in_use(channel: &Channel) -> usize {
    channel.ledger().census.in_use
}

fn double(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Read(from), Lent::Write(to)] = operands else {
        return Err(KernelFault::OPERANDS);
    };
    to.iter_mut()
        .zip(from.iter())
        .for_each(|(to, from)| *to = from * 2);
    Ok(())
}

#[test]
fn sizes_of_four_gibibytes_and_more_do_not_overflow() {
    const BIG: usize = (4 << 30) + 12;
    let base = 0x7_0000_0000;
    let channel = ChannelConfig::new(16 << 30)
        .at(DeviceAddress::new(base))
        .without_bytes();
    let device = Device::open(Config::of(channel)).unwrap();
    let target = Hosted::default();
    let tensor = Tensor::alloc(&target, device.channel(), BIG).unwrap();
    let tail = tensor.slice(BIG - 4..).unwrap();
    assert_eq!((tensor.len(), tail.len(), tail.offset()), (BIG, 4, BIG - 4));
    assert_eq!(
        tail.device_address().unwrap().get(),
        base + BIG as u64 - 4,
        "no bit of the offset is lost"
    );
    assert_eq!(in_use(&device.channel()), (4 << 30) + 64);
    // Neither the sum of offset and length nor a size on the way to the trace is cut to 32 bits.
    assert_eq!(
        tensor.read(BIG, &mut [0; 1]),
        Err(TensorError::OutOfBounds {
            offset: BIG,
            len: 1,
            size: BIG
        })
    );
    assert_eq!(
        tensor.slice(usize::MAX - 1..).unwrap_err(),
        TensorError::OutOfBounds {
            offset: usize::MAX - 1,
            len: usize::MAX,
            size: BIG
        }
    );
    let told = TraceEvent::instant(wharf::tensor::TraceKind::Write, 1, BIG as u64);
    assert_eq!(told.bytes, BIG as u64);
}

#[test]
fn a_bad_argument_is_named() {
    let device = device();
    let target = Hosted::default();
    let [a, b] = [4, 6].map(|len| Tensor::alloc(&target, device.channel(), len).unwrap());
    assert_eq!(
        a.write(3, &[0; 2]).unwrap_err().to_string(),
        "2 bytes at 3 leave a tensor of 4"
    );
    assert_eq!(
        a.copy_from(&b).unwrap_err().to_string(),
        "6 bytes do not fill 4"
    );
    // Of several arguments, which.
    let refused = Tensor::write_batch(&[a.write_op(0, &[0; 4]), b.write_op(5, &[0; 2])]);
    assert_eq!(
        refused.unwrap_err(),
        wharf::tensor::BatchError::Refused {
            op: 1,
            error: TensorError::OutOfBounds {
                offset: 5,
                len: 2,
                size: 6
            }
        }
    );
    let empty = Tensor::empty();
    let refused = device.launch(Command::Copy, &[a.input(), empty.output()]);
    assert_eq!(
        refused.map(drop).unwrap_err(),
        LaunchError::Operand {
            operand: 1,
            error: TensorError::NoStorage
        }
    );
}

#[test]
fn out_of_memory_says_who_has_it_and_who_asked() {
    let device = Device::open(Config::new(1024)).unwrap();
    let target = Hosted::default();
    let of = |tag: &str, class| device.channel().tagged(tag, class);
    let _input = Tensor::alloc(&target, of("input", UsageClass::IO), 700).unwrap();
    let weight = of("conv1.weight", UsageClass::WEIGHT);
    let refused = Tensor::alloc(&target, weight, 400).map(drop).unwrap_err();
    let error = refused.alloc_error().unwrap();
    assert!(matches!(
        error,
        AllocError::OutOfMemory {
            requested: 400,
            available: 320,
            class: UsageClass::WEIGHT,
            ..
        }
    ));
    // The breakdown is one call away, and begins with the caller's own name.
    let why = device.explain(error).to_string();
    assert!(why.starts_with("'conv1.weight': 400 bytes of class weight asked, 320 free"));
    assert!(why.contains("io                   704          704        0            0"));
}

#[test]
fn freed_memory_is_free_at_once_and_the_counters_say_so() {
    let device = device();
    let target = Hosted::default();
    let tensor = Tensor::alloc(&target, device.channel(), 1000).unwrap();
    let slice = tensor.slice(10..20).unwrap();
    assert_eq!(in_use(&device.channel()), 1024);
    drop(tensor);
    assert_eq!(in_use(&device.channel()), 1024, "the slice has all of it");
    drop(slice);
    assert_eq!(in_use(&device.channel()), 0);
    let ledger = device.channel().ledger();
    assert_eq!((ledger.allocations, ledger.frees), (1, 1));
}

#[test]
fn nothing_reads_past_a_slice() {
    let device = device();
    let target = Hosted::default();
    let secret = Tensor::alloc(&target, device.channel(), 16).unwrap();
    secret.fill(9).unwrap();
    let slice = secret.slice(4..8).unwrap();
    let mut mine = [1; 5];
    let past = TensorError::OutOfBounds {
        offset: 0,
        len: 5,
        size: 4,
    };
    assert_eq!(slice.read(0, &mut mine), Err(past));
    assert_eq!(mine, [1; 5]);
    assert_eq!(slice.write(0, &mine), Err(past));
    assert_eq!(bytes(&secret), [9; 16]);
}

#[test]
fn tensors_of_another_device_are_refused_at_the_launch_with_both_channels() {
    let [here, there] = [device(), device()];
    let target = Hosted::default();
    let near = Tensor::alloc(&target, here.channel(), 4).unwrap();
    let far = Tensor::alloc(&target, there.channel(), 4).unwrap();
    let refused = here.launch(Command::Copy, &[near.input(), far.output()]);
    assert_eq!(
        refused.map(drop).unwrap_err(),
        LaunchError::Submit(SubmitError::WrongChannel {
            operand: 1,
            channel: there.channel().id(),
            reached: Some(here.channel().id())
        })
    );
    // And nothing is held by the attempt.
    near.try_write(0, &[1; 4]).unwrap();
    far.try_write(0, &[1; 4]).unwrap();
}

#[test]
fn tensors_that_outlive_the_device_are_harmless() {
    let device = device();
    let channel = device.channel();
    let target = Hosted::default();
    let tensor = Tensor::alloc(&target, device.channel(), 64).unwrap();
    let view = tensor.slice(8..).unwrap();
    let submission = device.launch(Command::Fill(1), &[tensor.output()]).unwrap();
    submission.wait().unwrap();
    drop(device);
    assert_eq!(
        view.read(0, &mut [0; 4]),
        Err(TensorError::Transfer(TransferError::Closed))
    );
    drop(tensor);
    assert_eq!(in_use(&channel), 64, "the view keeps its storage");
    drop(view);
    assert_eq!(in_use(&channel), 0);
}

#[test]
fn everything_before_a_drain_has_landed_after_it() {
    let device = device();
    let target = Hosted::default();
    let tensors = [1, 2, 3].map(|byte| {
        let tensor = Tensor::alloc(&target, device.channel(), 32).unwrap();
        // Nobody keeps the submission.
        drop(
            device
                .launch(Command::Fill(byte), &[tensor.output()])
                .unwrap(),
        );
        tensor
    });
    device.drain(&NoClock, None).unwrap();
    for (byte, tensor) in (1..).zip(&tensors) {
        let mut bytes = [0; 32];
        tensor.try_read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [byte; 32]);
    }
}

#[test]
fn a_slice_is_copied_with_its_own_size() {
    let device = device();
    let target = Hosted::default();
    let [big, room] = [64, 64].map(|len| Tensor::alloc(&target, device.channel(), len).unwrap());
    big.fill(7).unwrap();
    let (from, to) = (big.slice(8..12).unwrap(), room.slice(60..).unwrap());
    to.copy_from(&from).unwrap();
    let mut expected = [0; 64];
    expected[60..].fill(7);
    assert_eq!(bytes(&room), expected);
}

#[test]
fn queued_work_keeps_what_it_uses() {
    let device = device();
    let channel = device.channel();
    let target = Hosted::default();
    let output = Tensor::alloc(&target, device.channel(), 4).unwrap();
    let stall = device.faults().stall_launch(1);
    let input = Tensor::alloc(&target, device.channel(), 4).unwrap();
    input.write(0, &[1, 2, 3, 4]).unwrap();
    let queued = device
        .launch(Command::Kernel(double), &[input.input(), output.output()])
        .unwrap();
    drop(input);
    // Whoever asks for memory now gets other memory.
    let other = Tensor::alloc(&target, device.channel(), 4).unwrap();
    other.write(0, &[100; 4]).unwrap();
    assert_eq!(in_use(&channel), 3 * 64);
    stall.release();
    queued.wait().unwrap();
    assert_eq!(bytes(&output), [2, 4, 6, 8]);
    assert_eq!(in_use(&channel), 2 * 64);
}

#[test]
fn operands_of_one_storage_do_not_wait_for_each_other() {
    let device = device();
    let target = Hosted::default();
    let all = Tensor::alloc(&target, device.channel(), 8).unwrap();
    all.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    // The host's copy, overlapping; both ends are one storage.
    let (low, high) = (all.slice(..6).unwrap(), all.slice(2..).unwrap());
    high.copy_from(&low).unwrap();
    assert_eq!(bytes(&all), [1, 2, 1, 2, 3, 4, 5, 6]);
    // A launch on two halves of one storage.
    let (input, output) = (all.slice(..4).unwrap(), all.slice(4..).unwrap());
    let command = Command::Kernel(double);
    device
        .launch(command, &[input.input(), output.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(bytes(&all), [1, 2, 1, 2, 2, 4, 2, 4]);
    // A batch that names one storage three times.
    let ops = [(0, [9]), (7, [8]), (0, [7])];
    Tensor::write_batch(&ops.each_ref().map(|(at, byte)| all.write_op(*at, byte))).unwrap();
    assert_eq!(bytes(&all), [7, 2, 1, 2, 2, 4, 2, 8]);
}

#[test]
fn what_fails_after_its_tensors_are_gone_reaches_nobody_else() {
    let device = device();
    let target = Hosted::default();
    let survivor = Tensor::alloc(&target, device.channel(), 4).unwrap();
    device
        .faults()
        .fail_launch(1, Fault::Kernel(KernelFault(5)));
    let doomed = Tensor::alloc(&target, device.channel(), 4).unwrap();
    let failing = device.launch(Command::Fill(1), &[doomed.output()]).unwrap();
    drop((doomed, failing));
    // The next call is about itself alone.
    let next = device
        .launch(Command::Fill(2), &[survivor.output()])
        .unwrap();
    assert_eq!(next.wait(), Ok(()));
    assert_eq!(bytes(&survivor), [2; 4]);
    assert_eq!(in_use(&device.channel()), 64);
}
