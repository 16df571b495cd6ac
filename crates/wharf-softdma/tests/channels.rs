//! Several channels on one device: who reaches what, and what is refused.

mod common;

use common::{Load, NOTHING, submit};
use std::sync::Arc;
use wharf_backend::{DeviceAddress, Init, MemBackend, SegmentMut};
use wharf_engine::{Command, EngineExt, Operand, Place, Returned, SubmitError};
use wharf_softdma::{Channel, ChannelConfig, Config, MAX_CHANNELS, OpenError, SoftDma};
use wharf_sync::NoClock;
use wharf_tensor::{Hosted, Launch, LaunchError, Tensor, Tickets};

type Buffer = SegmentMut<Arc<Channel>, Init>;

fn buffer(channel: &Arc<Channel>, bytes: &[u8]) -> Buffer {
    let segment = SegmentMut::alloc(Arc::clone(channel), bytes.len()).expect("room");
    segment.init_from(bytes).expect("an open device")
}

fn bytes(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes).expect("an open device");
    bytes
}

fn read(buffer: &Buffer) -> Operand {
    Operand::read(buffer.place(), buffer.len())
}

fn write(buffer: &Buffer) -> Operand {
    Operand::write(buffer.place(), buffer.len())
}

/// Two channels that the queue reaches and one that it does not.
fn open(base: u64) -> SoftDma<Load, 4> {
    let config = Config::new(1000)
        .named("npu")
        .with(
            ChannelConfig::new(5000)
                .named("hbm1")
                .at(DeviceAddress::new(base)),
        )
        .with(ChannelConfig::new(64).named("far").unreached());
    SoftDma::open(config).expect("a small device")
}

#[test]
fn every_channel_is_a_memory_of_its_own() {
    let device = open(0x61_0000_0000);
    let channels = device.channels();
    let shape = |channel: &Arc<Channel>| (channel.name(), channel.capacity(), channel.is_reached());
    let expected = [
        ("npu", 1024, true),
        ("hbm1", 5056, true),
        ("far", 64, false),
    ];
    assert!(channels.iter().map(shape).eq(expected));
    assert_eq!(channels[1].base().get(), 0x61_0000_0000);
    assert_eq!(device.channel().id(), channels[0].id());
    let ids = [0, 1, 2].map(|index: u8| (channels[usize::from(index)].id().index(), index));
    assert!(ids.iter().all(|(id, index)| id == index));
    let _full = buffer(&channels[2], &[1; 64]);
    assert!(SegmentMut::alloc(Arc::clone(&channels[2]), 1).is_err());
    assert!(SegmentMut::alloc(Arc::clone(&channels[0]), 1).is_ok());
    let refused: Vec<_> = channels
        .iter()
        .map(|channel| channel.census().refused)
        .collect();
    assert_eq!(refused, [0, 0, 1]);
}

#[test]
fn the_queue_copies_from_one_channel_to_another() {
    let device = open(0x62_0000_0000);
    let [near, high, _] = device.channels() else {
        panic!("three channels")
    };
    let (from, to) = (buffer(near, b"across"), buffer(high, b"______"));
    let operands = [read(&from), write(&to)];
    let sequence = submit(&device, Command::Copy, &operands, Load::new(1)).unwrap();
    device.wait(sequence, &NoClock, None).unwrap().unwrap();
    assert_eq!(bytes(&to), b"across");
    assert_eq!((near.ledger().bytes_out, high.ledger().bytes_in), (0, 6));
}

#[test]
fn an_operand_out_of_reach_is_refused_by_the_names_of_both_channels() {
    let device = open(0x63_0000_0000);
    let other = open(0x64_0000_0000);
    let [near, high, far] = device.channels() else {
        panic!("three channels")
    };
    let here = buffer(high, &[0; 8]);
    let foreign = &other.channels()[1];
    for (channel, there) in [
        (far, buffer(far, &[0; 8])),
        (foreign, buffer(foreign, &[0; 8])),
    ] {
        let refused = submit(
            &device,
            Command::Copy,
            &[read(&here), write(&there)],
            Load::new(3),
        );
        let Returned { error, value } = refused.unwrap_err();
        let wrong = SubmitError::WrongChannel {
            operand: 1,
            channel: channel.id(),
            reached: Some(near.id()),
        };
        assert_eq!((error, value.id, value.landed), (wrong, 3, None));
        let (there, reached) = (channel.id(), near.id());
        let told = format!("operand 1 is on {there}, the engine reaches {reached}");
        assert_eq!(error.to_string(), told);
    }
    // What leaves a channel that is reached is another mistake.
    let Place::Device(end) = here.place() else {
        panic!("device memory")
    };
    let beyond = Operand::read(Place::Device(end), 5057);
    let refused = submit(&device, NOTHING, &[beyond], Load::new(4)).unwrap_err();
    assert_eq!(refused.error, SubmitError::Unreachable { operand: 0 });
    let nobodys = Operand::read(Place::Device(DeviceAddress::new(64)), 1);
    let refused = submit(&device, NOTHING, &[nobodys], Load::new(4)).unwrap_err();
    assert_eq!(refused.error, SubmitError::Unreachable { operand: 0 });
    assert_eq!((device.in_use(), device.stats().completed), (0, 0));
}

#[test]
fn a_device_without_a_channel_in_reach_says_so() {
    let mut planned = ChannelConfig::new(1 << 40).without_bytes();
    // Where no bytes are, nothing can be reached, whatever somebody says.
    planned.reached = true;
    let device = SoftDma::<Load, 4>::open(Config::of(planned)).unwrap();
    let channel = device.channel();
    let segment = SegmentMut::alloc(Arc::clone(&channel), 8)
        .unwrap()
        .initialised()
        .unwrap();
    let refused = submit(&device, NOTHING, &[read(&segment)], Load::new(1)).unwrap_err();
    let wrong = SubmitError::WrongChannel {
        operand: 0,
        channel: channel.id(),
        reached: None,
    };
    assert_eq!(refused.error, wrong);
    assert!(wrong.to_string().ends_with("the engine reaches none"));
    // What needs no memory runs.
    let sequence = submit(&device, NOTHING, &[], Load::new(2)).unwrap();
    assert!(device.wait(sequence, &NoClock, None).unwrap().is_ok());
}

#[test]
fn tensors_on_a_foreign_channel_are_refused_at_the_launch() {
    let (device, other) = [(); 2]
        .map(|()| SoftDma::<Tickets<Hosted>>::open(Config::new(4096)).unwrap())
        .into();
    let target = Hosted::default();
    let input = Tensor::alloc(&target, other.channel(), 8).unwrap();
    let output = Tensor::alloc(&target, device.channel(), 8).unwrap();
    let refused = device
        .launch(Command::Copy, &[input.input(), output.output()])
        .map(drop);
    let wrong = SubmitError::WrongChannel {
        operand: 0,
        channel: other.channel().id(),
        reached: Some(device.channel().id()),
    };
    assert_eq!(refused.unwrap_err(), LaunchError::Submit(wrong));
    assert_eq!((input.in_flight(), output.in_flight()), ((0, 0), (0, 0)));
}

#[test]
fn channels_that_cannot_be_had_are_refused_with_the_numbers() {
    let open = |config| SoftDma::<Load, 4>::open(config).err();
    let at = |base| ChannelConfig::new(64).at(DeviceAddress::new(base));
    let mut many = Config::new(64);
    for _ in 1..MAX_CHANNELS {
        many = many.with(ChannelConfig::new(64));
    }
    assert_eq!(open(many), None);
    assert_eq!(many.channels().count(), MAX_CHANNELS);
    let asked = MAX_CHANNELS + 1;
    let many = many.with(ChannelConfig::new(64));
    assert_eq!(open(many), Some(OpenError::TooManyChannels { asked }));
    assert_eq!(many.channels().count(), MAX_CHANNELS);
    assert_eq!(
        open(Config::of(ChannelConfig::new(0))),
        Some(OpenError::NoMemory)
    );
    assert_eq!(
        open(Config::new(64).with(ChannelConfig::new(0))),
        Some(OpenError::NoMemory)
    );
    let base = DeviceAddress::new(0x65_0000_0020);
    let granule = 64;
    let unaligned = OpenError::BaseUnaligned { base, granule };
    assert_eq!(open(Config::of(at(base.get()))), Some(unaligned));
    let base = DeviceAddress::new(u64::MAX - 63);
    let wrap = OpenError::AddressesWrap { base, len: 64 };
    assert_eq!(open(Config::of(at(base.get()))), Some(wrap));
    // A device that has them keeps them, also for its own second channel, until the last segment is gone.
    let base = DeviceAddress::new(0x65_0000_0000);
    let config = Config::of(at(base.get()));
    assert!(matches!(
        open(config.with(at(base.get()))),
        Some(OpenError::AddressesTaken { base: there, len: 64, owner })
            if there == base && owner.index() == 0
    ));
    let first = SoftDma::<Load, 4>::open(config).unwrap();
    let owner = first.channel().id();
    let taken = OpenError::AddressesTaken {
        base,
        len: 64,
        owner,
    };
    let kept = buffer(&first.channel(), &[1]);
    assert_eq!(open(config), Some(taken));
    drop(first);
    assert_eq!(open(config), Some(taken));
    drop(kept);
    assert_eq!(open(config), None);
    for error in [unaligned, wrap, taken, OpenError::TooManyChannels { asked }] {
        assert!(error.to_string().contains("channel") || error.to_string().contains("addresses"));
    }
}

#[test]
fn all_channels_close_with_the_device() {
    let device = open(0x66_0000_0000);
    let kept: Vec<_> = device
        .channels()
        .iter()
        .map(|channel| buffer(channel, &[1]))
        .collect();
    device.close();
    assert!(device.channels().iter().all(|channel| channel.is_closed()));
    for mut segment in kept {
        assert!(segment.write(0, &[2]).is_err());
        let channel = Arc::clone(&device.channels()[0]);
        assert!(SegmentMut::alloc(channel, 1).is_err());
    }
    assert!(
        device
            .channels()
            .iter()
            .all(|channel| channel.ledger().segments == 0)
    );
    assert!(device.is_closed());
}
