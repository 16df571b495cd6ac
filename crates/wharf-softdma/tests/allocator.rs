//! The device's allocator: classes, names, alignment, books, events, and why something was refused.

use std::sync::Arc;
use std::thread;

use wharf_backend::usage::{
    Accounted, Allocation, Tag, UsageBooks, UsageClass, UsageEvent, UsageEventKind,
};
use wharf_backend::{
    AllocError, AllocHint, BackendExt, Census, DeviceAddress, Group, MemBackend, Place, SegmentMut,
    TransferError,
};
use wharf_softdma::{Channel, ChannelConfig, Config, SoftDma};
use wharf_source::{FaultSource, HeapSource};
use wharf_sync::Blocking;
use wharf_tensor::{Hosted, Tensor, TensorError};

type Device = SoftDma<()>;

/// A device whose one channel starts at `base`.
fn at(base: u64, memory: usize) -> (Device, Arc<Channel>) {
    let channel = ChannelConfig::new(memory).at(DeviceAddress::new(base));
    let device = Device::open(Config::of(channel)).expect("addresses of this test alone");
    let channel = device.channel();
    (device, channel)
}

fn address(place: Place) -> u64 {
    match place {
        Place::Device(address) => address.get(),
        Place::Host(_) => panic!("device memory"),
    }
}

/// Everything that can still be read, oldest first.
fn events(channel: &Channel) -> Vec<UsageEvent> {
    let numbers = channel.ledger().events_dropped..channel.recorded();
    numbers.filter_map(|number| channel.event(number)).collect()
}

#[test]
fn classes_names_and_places_are_told_of_what_lives() {
    let (_device, channel) = at(0x41_0000_0000, 4096);
    let weight =
        SegmentMut::alloc(channel.tagged("conv1.weight", UsageClass::WEIGHT), 100).unwrap();
    let ring = channel
        .tagged(Tag::new("ring"), UsageClass::RING)
        .aligned(1024)
        .unwrap();
    let ring = SegmentMut::alloc(ring, 64).unwrap();
    let plain = channel.alloc(1).unwrap();
    let expected = [
        Allocation {
            channel: channel.id(),
            address: DeviceAddress::new(0x41_0000_0000),
            asked: 100,
            allocated: 128,
            align_offset: 0,
            class: UsageClass::WEIGHT,
            tag: Tag::new("conv1.weight"),
        },
        // Behind the first, in what the alignment of the other one left free.
        Allocation {
            channel: channel.id(),
            address: DeviceAddress::new(0x41_0000_0080),
            asked: 1,
            allocated: 64,
            align_offset: 0,
            class: UsageClass::GENERIC,
            tag: Tag::NONE,
        },
        Allocation {
            channel: channel.id(),
            address: DeviceAddress::new(0x41_0000_0400),
            asked: 64,
            allocated: 64,
            align_offset: 0,
            class: UsageClass::RING,
            tag: Tag::new("ring"),
        },
    ];
    assert_eq!(
        [weight.allocation(), plain.allocation(), ring.allocation()],
        expected
    );
    assert!(channel.allocations().unwrap().eq(expected));
    for (address, found) in [
        (0x41_0000_0000, Some(0)),
        (0x41_0000_007F, Some(0)),
        (0x41_0000_0080, Some(1)),
        (0x41_0000_00C0, None),
        (0x41_0000_0400, Some(2)),
        (0x41_0000_0440, None),
        (0x41_0000_1000, None),
        (0x40_FFFF_FFFF, None),
    ] {
        let allocation = channel.allocation_at(DeviceAddress::new(address));
        assert_eq!(
            allocation,
            found.map(|index: usize| expected[index]),
            "{address:#x}"
        );
    }
    assert_eq!(
        expected[0].to_string(),
        format!(
            "0x4100000000 on {}: 100 bytes of 128, weight 'conv1.weight'",
            channel.id()
        )
    );
    drop((weight, ring));
    assert!(channel.allocations().unwrap().eq([expected[1]]));
    drop(plain);
    assert_eq!(channel.allocations().unwrap().len(), 0);
}

#[test]
fn every_class_has_its_own_books() {
    let (_device, channel) = at(0x42_0000_0000, 1024);
    let io = channel.tagged("input", UsageClass::IO);
    let weight = channel.tagged("weight", UsageClass::WEIGHT);
    let first = SegmentMut::alloc(io.clone(), 65).unwrap();
    let second = SegmentMut::alloc(weight.clone(), 512).unwrap();
    drop(first);
    let third = SegmentMut::alloc(io.clone(), 1).unwrap();
    SegmentMut::alloc(weight.clone(), 600).unwrap_err();
    SegmentMut::alloc(weight, 2000).unwrap_err();
    SegmentMut::alloc(io, 513).unwrap_err();
    let books = channel.usage();
    let census = |in_use, peak, refused, largest_refused| Census {
        unit: 1,
        in_use,
        peak,
        refused,
        largest_refused,
        ..Census::NOTHING
    };
    assert_eq!(books.class(UsageClass::IO), census(64, 128, 1, 513));
    assert_eq!(books.class(UsageClass::WEIGHT), census(512, 512, 2, 2000));
    assert_eq!(books.class(UsageClass::GENERIC), census(0, 0, 0, 0));
    let total = Census {
        capacity: 1024,
        ..census(576, 640, 3, 2000)
    };
    assert_eq!((books.total(), channel.census()), (total, total));
    assert_eq!(books.classes().count(), 2);
    // Another class with a single request counts there.
    let hint = AllocHint::of(UsageClass::custom(3).unwrap());
    let own = SegmentMut::alloc_with(channel.tagged("x", UsageClass::IO), 1, hint).unwrap();
    assert_eq!(
        channel.usage().class(UsageClass::custom(3).unwrap()).in_use,
        64
    );
    assert_eq!(channel.usage().class(UsageClass::IO).in_use, 64);
    drop((own, second, third));
    assert_eq!(channel.usage().total().in_use, 0);
    assert!(
        channel
            .usage()
            .classes()
            .all(|(_, census)| census.in_use == 0)
    );
}

#[test]
fn any_power_of_two_is_met_and_nothing_is_wasted() {
    // At no multiple of more than 64.
    let (_device, channel) = at(0x43_0000_0040, 1 << 20);
    let mut kept = Vec::new();
    for power in 0..=16 {
        let aligned = channel
            .tagged("a", UsageClass::TENSOR)
            .aligned(1 << power)
            .unwrap();
        assert_eq!(aligned.alignment(), (1 << power).max(64));
        let segment = SegmentMut::alloc(aligned, 10).unwrap();
        assert!(
            address(segment.place()).is_multiple_of(1 << power),
            "{power}"
        );
        kept.push(segment);
    }
    assert_eq!(channel.census().in_use, 17 * 64);
    // Aligned already: exactly the whole of what is there, again and again.
    drop(kept);
    let max = channel.max_segment_size_for(AllocHint::NONE.aligned(4096).unwrap());
    assert_eq!(max, (1 << 20) - 4096 + 64);
    let pages = channel
        .tagged("pages", UsageClass::TENSOR)
        .aligned(4096)
        .unwrap();
    for _ in 0..3 {
        let whole = SegmentMut::alloc(pages.clone(), max).unwrap();
        assert_eq!(whole.allocation().allocated, max);
        assert_eq!(
            channel.ledger().largest_free,
            4096 - 64,
            "what lies before is free"
        );
    }
    let too_large = AllocError::TooLarge {
        requested: max + 1,
        max,
    };
    assert_eq!(SegmentMut::alloc(pages, max + 1).unwrap_err(), too_large);
    // No address of the channel is aligned so.
    let never = channel
        .tagged("never", UsageClass::TENSOR)
        .aligned(1 << 50)
        .unwrap();
    let refused = AllocError::TooAligned {
        requested: 1,
        alignment: 1 << 50,
    };
    assert_eq!(SegmentMut::alloc(never, 1).unwrap_err(), refused);
    for alignment in [0, 3, 48] {
        let refused = channel.tagged("odd", UsageClass::TENSOR).aligned(alignment);
        assert_eq!(refused.unwrap_err().alignment, alignment);
    }
}

#[test]
fn what_is_not_for_the_host_is_refused_there() {
    let (near, far) = (ChannelConfig::new(4096), ChannelConfig::new(4096).on_host());
    let device = Device::open(Config::of(near).with(far)).unwrap();
    let [near, far] = device.channels() else {
        panic!("two channels")
    };
    assert!(!near.is_on_host() && far.is_on_host());
    for class in UsageClass::all() {
        assert!(SegmentMut::alloc(near.tagged("here", class), 1).is_ok());
        let there = SegmentMut::alloc(far.tagged("there", class), 1).map(drop);
        if [6, 7].contains(&class.number()) || class.number() >= 24 {
            let channel = far.id();
            assert_eq!(there, Err(AllocError::NotOnHost { class, channel }));
            assert_eq!(far.max_segment_size_for(AllocHint::of(class)), 0);
            assert_eq!(far.usage().class(class).refused, 1);
        } else {
            assert_eq!(there, Ok(()));
        }
    }
}

#[test]
fn addresses_and_sizes_beyond_32_bits_are_planned_without_bytes() {
    // 6 TiB, more than this host has.
    const MEMORY: usize = 6 << 40;
    let planned = ChannelConfig::new(MEMORY)
        .at(DeviceAddress::new(0x5000_0000_0000_0000))
        .without_bytes();
    let device = Device::open(Config::of(planned)).unwrap();
    let channel = device.channel();
    assert!(!channel.is_reached());
    let first = channel.alloc(5 << 32).unwrap();
    let weight = channel
        .tagged("experts", UsageClass::WEIGHT)
        .aligned(1 << 40)
        .unwrap();
    let second = SegmentMut::alloc(weight.clone(), (1 << 42) + 1).unwrap();
    assert_eq!((first.len(), second.len()), (5 << 32, (1 << 42) + 1));
    assert_eq!(address(second.place()), 0x5000_0000_0000_0000 + (1 << 40));
    assert_eq!(second.allocation().allocated, (1 << 42) + 64);
    assert_eq!(
        channel.usage().class(UsageClass::WEIGHT).in_use,
        (1 << 42) + 64
    );
    assert_eq!(channel.census().in_use, (5 << 32) + (1 << 42) + 64);
    let refused = SegmentMut::alloc(weight, 1 << 42).unwrap_err();
    let AllocError::OutOfMemory {
        requested,
        available,
        largest_free,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    let free = (1 << 40) - (5 << 32);
    assert_eq!(requested, 1 << 42);
    // Before the second up to the next multiple, and behind it.
    assert_eq!(
        (available, largest_free),
        ((2 << 40) - (5 << 32) - 64, free.max((1 << 40) - 64))
    );
    // Nothing moves where no bytes are.
    let mut first = first.initialised().unwrap();
    let space = wharf_backend::MemSpace::Device;
    assert_eq!(
        first.write(5 << 31, &[1]),
        Err(TransferError::Unsupported { space })
    );
    assert_eq!(
        first.read(0, &mut [1]),
        Err(TransferError::Unsupported { space })
    );
    drop((first, second));
    assert_eq!(channel.ledger().largest_free, MEMORY);
}

#[test]
fn memory_above_4_gib_is_used_like_any() {
    let (_device, channel) = at(0x1_0000_0000, 4096);
    let mut segment = channel.alloc(8).unwrap().filled(7).unwrap();
    assert_eq!(address(segment.place()), 0x1_0000_0000);
    segment.write(2, &[1, 2]).unwrap();
    let mut bytes = [0; 8];
    segment.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 7, 1, 2, 7, 7, 7, 7]);
}

#[test]
fn the_last_events_can_be_read_with_the_names_in_them() {
    let (_device, channel) = at(0x44_0000_0000, 256);
    let io = channel.tagged("frame", UsageClass::IO);
    let base = DeviceAddress::new(0x44_0000_0000);
    drop(SegmentMut::alloc(io.clone(), 10).unwrap());
    SegmentMut::alloc(io.clone(), 300).unwrap_err();
    let event = |kind, bytes, address| UsageEvent {
        kind,
        class: UsageClass::IO,
        bytes,
        address,
        tag: Tag::new("frame"),
    };
    let expected = [
        event(UsageEventKind::Alloc, 10, Some(base)),
        event(UsageEventKind::Free, 10, Some(base)),
        event(UsageEventKind::Refusal, 300, None),
    ];
    assert_eq!(events(&channel), expected);
    assert_eq!(
        (channel.recorded(), channel.ledger().events_dropped),
        (3, 0)
    );
    for _ in 0..50 {
        drop(SegmentMut::alloc(io.clone(), 1).unwrap());
    }
    // 103, of which the last 64 are kept.
    assert_eq!(
        (channel.recorded(), channel.ledger().events_dropped),
        (103, 39)
    );
    assert_eq!((channel.event(38), channel.event(103)), (None, None));
    assert_eq!(events(&channel).len(), 64);
    assert_eq!(
        channel.event(39),
        Some(event(UsageEventKind::Alloc, 1, Some(base)))
    );
}

#[test]
fn a_refusal_is_explained_by_channel_class_and_name() {
    let second = ChannelConfig::new(256).named("spill");
    let device = Device::open(Config::new(1024).named("npu").with(second)).unwrap();
    let [first, second] = device.channels() else {
        panic!("two channels")
    };
    let _kept = [
        SegmentMut::alloc(first.tagged("conv1.weight", UsageClass::WEIGHT), 700).unwrap(),
        SegmentMut::alloc(second.tagged("old", UsageClass::SPILL), 64).unwrap(),
    ];
    SegmentMut::alloc(first.tagged("other", UsageClass::IO), 400).unwrap_err();
    let refused =
        SegmentMut::alloc(first.tagged("conv2.weight", UsageClass::WEIGHT), 400).unwrap_err();
    SegmentMut::alloc(first.tagged("later", UsageClass::WEIGHT), 401).unwrap_err();
    assert_eq!(
        refused,
        AllocError::OutOfMemory {
            requested: 400,
            available: 320,
            largest_free: 320,
            channel: first.id(),
            class: UsageClass::WEIGHT,
        }
    );
    assert!(refused.may_pass());
    let why = device.explain(refused);
    assert_eq!(
        (why.error(), why.tag()),
        (&refused, &Tag::new("conv2.weight"))
    );
    let (a, b) = (first.id(), second.id());
    let expected = format!(
        "'conv2.weight': 400 bytes of class weight asked, 320 free on {a}, the largest range has 320 ('npu')\n\
         \n\
         {a} 'npu', largest free range 320 bytes\n\
         class             in use         peak  refused      largest\n\
         weight               704          704        2          401\n\
         io                     0            0        1          400\n\
         total                704          704        3          401 of 1024 bytes\n\
         \n\
         {b} 'spill', largest free range 192 bytes\n\
         class             in use         peak  refused      largest\n\
         spill                 64           64        0            0\n\
         total                 64           64        0            0 of 256 bytes"
    );
    assert_eq!(why.to_string(), expected);
    // Whose caller nobody knows any more, is explained without him; and so is what is no lack of memory.
    for _ in 0..64 {
        drop(first.alloc(1).unwrap());
    }
    assert!(device.explain(refused).tag().is_none());
    assert!(
        device
            .explain(AllocError::Closed)
            .to_string()
            .starts_with("the device is closed\n")
    );
}

#[test]
fn a_tensor_carries_its_name_into_the_books() {
    let (device, channel) = at(0x45_0000_0000, 4096);
    let target = Hosted::default();
    let tensor: Tensor<Hosted> = Tensor::alloc(
        &target,
        channel.tagged("embedding", UsageClass::WEIGHT),
        1000,
    )
    .unwrap();
    tensor.write(0, &[1, 2, 3]).unwrap();
    let slice = tensor.slice(500..).unwrap();
    drop(tensor);
    let Some(Place::Device(address)) = slice.place() else {
        panic!("device memory")
    };
    let allocation = channel.allocation_at(address).unwrap();
    assert_eq!(
        (allocation.tag, allocation.asked),
        (Tag::new("embedding"), 1000)
    );
    assert_eq!(channel.usage().class(UsageClass::WEIGHT).in_use, 1024);
    let refused = Tensor::<Hosted>::alloc(&target, channel.tagged("logits", UsageClass::IO), 3500);
    let error = refused
        .unwrap_err()
        .alloc_error()
        .expect("3072 bytes are left");
    assert_eq!(TensorError::NoStorage.alloc_error(), None);
    assert!(
        device
            .explain(error)
            .to_string()
            .starts_with("'logits': 3500 bytes of class io asked, 3072 free")
    );
    // Also when the device is closed first, and gone.
    device.close();
    drop(device);
    drop(slice);
    assert_eq!(channel.usage().total().in_use, 0);
    assert_eq!(channel.allocations().unwrap().len(), 0);
}

#[test]
fn a_group_is_freed_at_once_and_its_failures_lose_nothing() {
    let (device, channel) = at(0x46_0000_0000, 1024);
    let source = FaultSource::<_, Blocking>::new(HeapSource);
    let mut model = Group::new(channel.tagged("model-7", UsageClass::WEIGHT), &source);
    let weights = model.alloc(100).unwrap();
    model.get_mut(weights).unwrap().write(0, &[5; 100]).unwrap();
    let taken = {
        let bias = model.alloc(10).unwrap();
        model.take(bias).unwrap()
    };
    // The list grows from 8 to 16 and is refused; the device refuses; a transfer is not needed for device memory.
    for _ in 0..6 {
        model.alloc(1).unwrap();
    }
    let held = channel.census().in_use;
    source.fail_nth(1);
    assert!(matches!(
        model.alloc(1).unwrap_err(),
        wharf_backend::GroupError::Alloc(AllocError::Source(_))
    ));
    device.faults().fail_alloc(1);
    assert_eq!(
        model.alloc(1).unwrap_err(),
        wharf_backend::GroupError::Alloc(AllocError::Injected { call: 1 })
    );
    assert_eq!(
        (channel.census().in_use, model.len(), model.bytes()),
        (held, 7, 106)
    );
    assert!(
        channel
            .allocations()
            .unwrap()
            .all(|one| one.tag == Tag::new("model-7"))
    );
    model.clear();
    assert_eq!(
        channel.census().in_use,
        64,
        "what was taken out is nobody's but its owner's"
    );
    assert!(model.get(weights).is_none());
    let again = model.alloc(800).unwrap();
    assert_ne!(again, weights);
    assert_eq!(model.get(again).unwrap().len(), 800);
    drop(model);
    assert_eq!(channel.census().in_use, 64);
    drop(taken);
    assert_eq!(channel.census().in_use, 0);
}

#[test]
fn eight_threads_keep_one_set_of_books() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 1000 };
    let (_device, channel) = at(0x47_0000_0000, 1 << 16);
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let channel = &channel;
            scope.spawn(move || {
                let class = UsageClass::from_number(number).unwrap();
                let tag = Tag::new(&format!("thread {number}"));
                let mine = channel
                    .tagged(tag, class)
                    .aligned(64 << (number % 4))
                    .unwrap();
                let mut kept = Vec::new();
                for round in 0..ROUNDS {
                    if let Ok(segment) = SegmentMut::alloc(mine.clone(), round * 37 % 900) {
                        let allocation = segment.allocation();
                        assert_eq!((allocation.class, allocation.tag), (class, tag));
                        assert_eq!(allocation.asked, round * 37 % 900);
                        assert!(allocation.address.get().is_multiple_of(64 << (number % 4)));
                        kept.push(segment);
                    }
                    if kept.len() > 10 {
                        kept.clear();
                    }
                }
                let listed = channel.allocations().unwrap().filter(|one| one.tag == tag);
                assert_eq!(listed.count(), kept.len());
            });
        }
    });
    let books: UsageBooks = channel.usage();
    assert_eq!((books.total().in_use, books.classes().count()), (0, 8));
    let ledger = channel.ledger();
    let told = ledger.allocations + ledger.frees + books.total().refused as u64;
    assert_eq!(channel.recorded(), told);
    assert_eq!(
        ledger.allocations + books.total().refused as u64,
        8 * ROUNDS as u64
    );
    assert_eq!(ledger.largest_free, 1 << 16);
}

#[test]
fn tagged_references_cross_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<wharf_backend::usage::Tagged<Arc<Channel>>>();
    shared::<Group<wharf_backend::usage::Tagged<Arc<Channel>>, HeapSource>>();
    shared::<wharf_softdma::Faults>();
    shared::<wharf_softdma::Stall>();
    shared::<UsageEvent>();
    shared::<Allocation>();
}
