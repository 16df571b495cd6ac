//! Every line of the right-hand columns of `docs/coming-from.md`, compiled and run. A test of the workspace's tools holds the page to this file.
//!
//! Long lines are kept as they stand on the page, or broken as rustfmt does: spaces do not count.
#![allow(unsafe_code, reason = "the calls past the fence are on the page")]

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use wharf::backend::{BorrowedShared, MemSpace};
use wharf::engine::{CpuEngine, Fault};
use wharf::prelude::*;
use wharf::softdma::Channel;
use wharf::tensor::WaitError;

type Done = Result<(), Box<dyn Error>>;
type Device = SoftDma<Tickets<Hosted>>;
type Cpu = CpuEngine<Blocking, Tickets<Hosted>>;

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn device() -> Device {
    Device::open(Config::new(1 << 20)).unwrap()
}

fn bytes(t: &Tensor<Hosted>) -> Vec<u8> {
    let mut bytes = vec![0; t.len()];
    t.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn where_tensors_come_from() -> Done {
    let (device, target) = (device(), Hosted::default());
    let (size, name) = (64, "conv1.weight");
    let named = Tensor::alloc_named(&target, device.channel(), size, name)?;
    assert_eq!((named.name(), named.len()), (Some(name), 64));
    let t = Tensor::alloc(&target, device.channel(), size)?;
    assert_eq!((t.name(), t.space()), (None, Some(MemSpace::Device)));
    let memory = Arc::new(Heap::new());
    let t = Tensor::alloc(&target, memory, size)?;
    assert_eq!(t.space(), Some(MemSpace::Host));
    let t = Tensor::placeholder(&target, size)?;
    assert_eq!((t.len(), t.space()), (64, None));

    // Over bytes that are there: lent for ever, and given away.
    type Lent = wharf::backend::BorrowedBackend<wharf::backend::ExclusiveBytes<'static>, Blocking>;
    let lent = Arc::new(Lent::exclusive(vec![7; 64].leak()));
    let segment = Lent::lend_by(lent)?;
    let mut t = Tensor::empty();
    assert_eq!(t.fill(0), Err(TensorError::NoStorage));
    t.attach(&target, segment)?;
    assert_eq!(bytes(&t), [7; 64]);
    type Owners = wharf::backend::OwnerBackend<Vec<u8>, Blocking, HeapSource>;
    let target = Parts::<Owners, HeapSource>::new(HeapSource);
    let segment = Owners::new(HeapSource).adopt(vec![8; 64])?;
    let mut t = Tensor::empty();
    t.attach(&target, segment)?;
    assert_eq!(*t.lend()?, [8; 64]);

    static WEIGHTS: [u8; 4] = [3, 1, 4, 1];
    static FLASH: BorrowedShared<'static, Blocking> = BorrowedShared::shared(&WEIGHTS);
    let target = Parts::<&'static BorrowedShared<'static, Blocking>, HeapSource>::new(HeapSource);
    let segment = FLASH.lend()?;
    let t = Tensor::from_segment(&target, segment)?;
    assert_eq!(*t.lend()?, WEIGHTS);
    assert!(matches!(t.fill(0), Err(TensorError::ReadOnly { .. })));
    Ok(())
}

#[test]
fn handles() -> Done {
    let target = Hosted::default();
    let source = Tensor::alloc_named(&target, Arc::new(Heap::new()), 64, "source")?;
    let (offset, size) = (16, 32);
    let t = source.slice(offset..offset + size)?;
    assert_eq!((t.offset(), t.len(), t.name()), (16, 32, None));
    drop(t);
    let t = source;
    let other = t.clone();
    assert_eq!(other.name(), Some("source"));
    drop(other);
    let at = 24;
    let (head, tail) = t.split(at)?;
    assert_eq!((head.len(), tail.len()), (24, 40));
    drop((head, tail));
    let memory = t.into_segment()?;
    assert_eq!(memory.len(), 64);
    Ok(())
}

#[test]
fn where_the_bytes_are() -> Done {
    let device = device();
    let channel = device.channel();
    let target = Hosted::default();
    let mut t = Tensor::alloc(&target, Arc::new(Heap::new()), 64)?;
    t.host_ptr()?;
    assert_eq!(t.lend()?[63], 0);
    t.lend_mut()?[63] = 1;
    t = Tensor::alloc(&target, device.channel(), 64)?;
    assert_eq!(t.device_address()?, channel.base());
    assert_eq!(t.placement()?.segment_len, 64);
    let found = channel.allocation_at(t.device_address()?);
    assert_eq!(found.map(|found| found.asked), Some(64));

    let target = Parts::<Arc<Channel>, HeapSource>::new(HeapSource);
    let t = Tensor::alloc(&target, device.channel(), 48)?;
    assert_eq!(t.allocation()?.asked, 48);
    Ok(())
}

#[test]
fn moving_bytes() -> Done {
    let (device, target) = (device(), Hosted::default());
    let t = Tensor::alloc(&target, device.channel(), 8)?;
    let (offset, mut bytes) = (2, [1, 2, 3, 4]);
    t.write(offset, &bytes)?;
    t.read(offset, &mut bytes)?;
    let (range, byte) = (3..5, 9);
    t.slice(range)?.fill(byte)?;
    t.read(offset, &mut bytes)?;
    assert_eq!(bytes, [1, 9, 9, 4]);

    let (from, to) = (t.slice(..4)?, t.slice(1..5)?);
    to.copy_from(&from)?;
    let mut all = [0; 8];
    t.read(0, &mut all)?;
    assert_eq!(all, [0, 0, 0, 1, 9, 4, 0, 0]);

    Tensor::write_batch(&[t.write_op(offset, &bytes)])?;
    bytes.fill(0);
    Tensor::read_batch(&mut [t.read_op(offset, &mut bytes)])?;
    assert_eq!(bytes, [1, 9, 9, 4]);
    // SAFETY: the tensor is this test's alone.
    unsafe { Tensor::write_batch_unfenced(&[t.write_op(offset, &bytes)]) }?;
    // SAFETY: as above.
    unsafe { Tensor::read_batch_unfenced(&mut [t.read_op(offset, &mut bytes)]) }?;
    // SAFETY: as above.
    unsafe {
        t.write_unfenced(0, &[5])?;
        t.read_unfenced(0, &mut bytes)?;
        assert_eq!(bytes[0], 5);
        t.fill_unfenced(0)?;
    }
    Ok(())
}

#[test]
fn copies_between_engines() -> Done {
    let target = Hosted::default();
    let alloc = |len| Tensor::alloc(&target, Arc::new(Heap::new()), len);
    let (from, to, bounce) = (alloc(100)?, alloc(100)?, alloc(16)?);
    let (reader, writer) = (Cpu::new(Stream::claim()?), Cpu::new(Stream::claim()?));
    from.fill(1)?;
    to.copy_through(&from, &bounce, &reader, &writer)?;
    assert_eq!(bytes(&to), [1; 100]);
    from.fill(2)?;
    block_on(async {
        to.copy_through_when_ready(&from, &bounce, &reader, &writer)
            .await?;
        Ok::<_, Box<dyn Error>>(())
    })?;
    assert_eq!(bytes(&to), [2; 100]);
    Ok(())
}

#[test]
fn checksums_and_dumps() -> Done {
    let target = Hosted::default();
    let t = Tensor::alloc(&target, Arc::new(Heap::new()), 4)?;
    t.write(0, b"abcd")?;
    // 1 + 97 + 98 + 99 + 100 = 395, and 98 + 196 + 295 + 395 = 984.
    let sum = checksum(&t, wharf::meta::Adler32::new())?;
    assert_eq!(sum, 984 << 16 | 395);
    let scratch = wharf::meta::dump::Dump::create_temporary()?;
    let directory = scratch.directory().join("inner");
    let mut dump = wharf::meta::dump::Dump::create(directory)?;
    let name = "x";
    let file = dump.raw(name, &t)?;
    assert_eq!(std::fs::read(file)?, b"abcd");
    let typed = Typed::new(t, DType::U16, Shape::new(&[2])?)?;
    let name = "y";
    let file = dump.npy(name, &typed)?;
    assert!(std::fs::read(file)?.ends_with(b"abcd"));
    std::fs::remove_dir_all(scratch.directory())?;
    Ok(())
}

#[test]
fn waiting_for_access() -> Done {
    let target = Hosted::default();
    let t = Tensor::alloc(&target, Arc::new(Heap::new()), 4)?;
    let claimed = Stream::claim()?;
    let stream = claimed.id();
    let (offset, mut bytes, limit) = (0, [1; 4], Duration::MAX);
    t.try_read(offset, &mut bytes)?;
    t.within(limit).read(offset, &mut bytes)?;
    block_on(async {
        t.when_ready().read(offset, &mut bytes).await?;
        Ok::<_, TensorError>(())
    })?;
    assert_eq!(bytes, [0; 4]);

    let ticket: Ticket<_> = t.begin(Access::Read, stream)?;
    assert_eq!((ticket.place(), ticket.len()), (t.place(), 4));
    assert!(matches!(t.try_fill(1), Err(TensorError::WouldBlock { .. })));
    drop(ticket);
    t.try_fill(1)?;
    drop(t.try_begin(Access::Read, stream)?);
    drop(t.within(limit).begin(Access::Read, stream)?);
    block_on(async {
        drop(t.when_ready().begin(Access::Read, stream).await?);
        Ok::<_, TensorError>(())
    })?;

    let (a, b) = (t.slice(..2)?, t.slice(2..)?);
    let b = b.named(&target, "b").map_err(|refused| refused.error)?;
    let tickets = Tickets::begin(stream, &[a.input(), b.output()])?;
    tickets.land(Ok(()));
    assert_eq!(
        b.completions().map(|completions| completions.count()),
        Some(1)
    );
    Ok(())
}

#[test]
fn completions() -> Done {
    let target = Hosted::default();
    let t = Tensor::alloc_named(&target, Arc::new(Heap::new()), 4, "t")?;
    let completions = t.completions().ok_or("it has a name")?;
    let (n, limit, period) = (2, Duration::MAX, Duration::from_secs(1));
    let completions = completions.warning_every(period);
    completions.complete();
    assert!(matches!(
        completions.try_wait_for(n),
        Err(CompletionError::WouldBlock { .. })
    ));
    let late = completions.wait_for_within(n, Duration::ZERO);
    assert!(matches!(
        late,
        Err(CompletionError::TimedOut {
            expected: 2,
            seen: 1,
            ..
        })
    ));
    completions.complete();
    completions.wait_for(n)?;
    completions.wait_for_within(n, limit)?;
    completions.try_wait_for(n)?;
    assert_eq!(block_on(async { completions.reached(n).await }), 2);
    assert_eq!(completions.reset(), 2);
    assert_eq!(TraceKind::Overdue as u16, 130);
    Ok(())
}

#[test]
fn running() -> Done {
    let (engine, target) = (device(), Hosted::default());
    let input = Tensor::alloc(&target, engine.channel(), 4)?;
    let output = Tensor::alloc(&target, engine.channel(), 4)?;
    let (command, clock, limit) = (Command::Copy, StdClock::new(), Duration::MAX);
    input.fill(6)?;
    engine
        .launch(command, &[input.input(), output.output()])?
        .wait()?;
    assert_eq!(bytes(&output), [6; 4]);

    let mut submission: Submission<'_, _, _> =
        engine.launch(command, &[input.input(), output.output()])?;
    submission.wait_within(limit)?;
    assert_eq!(submission.poll(None), Poll::Ready(Err(WaitError::Taken)));
    let submission = engine.launch(command, &[input.input(), output.output()])?;
    block_on(async {
        submission.await?;
        Ok::<_, WaitError>(())
    })?;
    let submission = engine.launch(command, &[input.input(), output.output()])?;
    submission.abort();
    let sequence = submission.into_sequence();
    engine.drain(&clock, None)?;
    block_on(async { engine.drained().await });
    assert!(engine.poll(sequence, None).is_ready());
    assert_eq!(engine.outstanding(), None);
    Ok(())
}

#[test]
fn what_memory_is_for() -> Done {
    let device = device();
    let channel = device.channel();
    let name = "conv1.weight";
    let weight = channel.tagged(name, UsageClass::WEIGHT);
    let target = Hosted::default();
    let t = Tensor::alloc(&target, weight, 100)?;
    assert_eq!(channel.usage().class(UsageClass::WEIGHT).in_use, 128);
    drop(t);
    let ours = [
        UsageClass::GENERIC,
        UsageClass::INSTRUCTIONS,
        UsageClass::IO,
        UsageClass::SPILL,
        UsageClass::NOTIFICATION,
        UsageClass::TENSOR,
        UsageClass::RING,
    ];
    assert!(ours.iter().all(|class| !class.is_device_only()));
    let device_only = [UsageClass::SCRATCHPAD, UsageClass::COLLECTIVE];
    assert!(device_only.iter().all(|class| class.is_device_only()));
    let index = 7;
    assert!(UsageClass::custom(index).is_some());

    let used = channel.ledger().census.in_use;
    let mut model = wharf::backend::Group::new(channel, HeapSource);
    model.alloc(64)?;
    model.alloc(64)?;
    drop(model);
    assert_eq!(device.channel().ledger().census.in_use, used);
    Ok(())
}

#[test]
fn what_model_files_know() -> Done {
    let numbered = [
        DType::Unknown,
        DType::U64,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::Bf16,
        DType::F16,
        DType::I32,
        DType::U32,
        DType::F32,
        DType::Fp32R,
        DType::I64,
        DType::Fp8E3,
        DType::Fp8E4,
        DType::Fp8E5,
    ];
    for (number, dtype) in (0..).zip(numbered) {
        assert_eq!(dtype.number(), number);
    }
    let used = [wharf::meta::Usage::In, wharf::meta::Usage::Out];
    assert_eq!(used.map(|usage| usage.number()), [0, 1]);

    let infos = [
        TensorInfo::input("image", DType::F32, &[8, 8])?,
        TensorInfo::output("scores", DType::F32, &[10])?,
    ];
    let model = ModelTensors::new(&infos)?;
    assert_eq!(model.inputs()[0].size(), 256);

    let target = Hosted::default();
    let t = Tensor::alloc(&target, Arc::new(Heap::new()), 256)?;
    let name = "image";
    let mut set = TensorSet::new(&target);
    assert!(set.insert(name, t)?.is_none());
    let held = set.get(name)?.clone();
    drop(set);
    assert_eq!(held.len(), 256);
    Ok(())
}

#[test]
fn what_goes_wrong() -> Done {
    let (device, target) = (device(), Hosted::default());
    let t = Tensor::alloc(&target, device.channel(), 4)?;
    assert!(matches!(
        t.write(4, &[0]),
        Err(TensorError::OutOfBounds {
            offset: 4,
            len: 1,
            size: 4
        })
    ));
    let short = t.copy_from(&t.slice(1..)?);
    assert!(matches!(
        short,
        Err(TensorError::LengthMismatch {
            destination: 4,
            source: 3
        })
    ));
    assert_eq!(
        Tensor::<Hosted>::empty().fill(0),
        Err(TensorError::NoStorage)
    );

    let refused = Tensor::alloc_named(&target, device.channel(), 2 << 20, "big").unwrap_err();
    let error @ TensorError::Alloc(cause) = refused.error else {
        panic!("{refused}");
    };
    assert_eq!(error.alloc_error(), Some(cause));
    let error = cause;
    assert!(device.explain(error).to_string().contains("channel"));

    let stream = Stream::claim()?;
    let ticket = t.begin(Access::Write, stream.id())?;
    let late = t.within(Duration::ZERO).fill(0).unwrap_err();
    assert!(matches!(late, TensorError::TimedOut { .. }));
    let t = t
        .named(&target, "conv1.bias")
        .map_err(|refused| refused.error)?;
    let (directory, error) = (target.directory(), late);
    assert!(directory.explain(error).to_string().contains("conv1.bias"));
    drop(ticket);

    // A gate in front of the first launch: what is behind it has not started, and there are two slots.
    let device = SoftDma::<Tickets<Hosted>, 2>::open(Config::new(1 << 10))?;
    let stall = device.faults().stall_launch(1);
    let t2 = Tensor::alloc(&target, device.channel(), 4)?;
    let mut first = device.launch(Command::Fill(1), &[t2.output()])?;
    assert!(stall.wait_reached());
    assert_eq!(first.wait_within(Duration::ZERO), Err(WaitError::TimedOut));
    let second = device.launch(Command::Fill(2), &[t2.output()])?;
    let full = device.launch(Command::Fill(3), &[t2.output()]).map(drop);
    assert_eq!(
        full,
        Err(LaunchError::Submit(SubmitError::QueueFull { slots: 2 }))
    );
    device.close();
    assert_eq!(second.wait(), Err(WaitError::Fault(Fault::Closed)));
    assert_eq!(first.wait(), Err(WaitError::Fault(Fault::Closed)));
    let closed = device.launch(Command::Fill(4), &[t2.output()]).map(drop);
    assert_eq!(closed, Err(LaunchError::Submit(SubmitError::Closed)));
    assert_eq!(
        t2.fill(0),
        Err(TensorError::Transfer(TransferError::Closed))
    );
    let none = Tensor::alloc(&target, device.channel(), 4).unwrap_err();
    assert_eq!(none.alloc_error(), Some(AllocError::Closed));
    drop(t);
    Ok(())
}
