//! The device keeps the laws that every backend and engine keeps, on each of its channels.

use std::sync::Arc;

use wharf_backend::usage::UsageClass;
use wharf_backend::{DeviceAddress, Heap, MemBackend, MemSpace};
use wharf_conformance::{
    Balance, EngineClaims, Parcel, Printer, Tally, backend, copies, engine, engine_unwinding,
    launch, rope, segment, tensor, view,
};
use wharf_softdma::{Channel, ChannelConfig, Config, SoftDma};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, StdClock};
use wharf_tensor::{Directory, Parts, Tickets};

/// Two channels, the second of another size, from `base` on, and in the host's DRAM.
fn open(base: u64) -> SoftDma<Parcel, 4> {
    let second = ChannelConfig::new(96 * 1024)
        .named("second")
        .at(DeviceAddress::new(base))
        .on_host();
    SoftDma::open(Config::new(64 * 1024).with(second)).expect("room and a thread")
}

fn with_report(check: impl FnOnce(&mut Printer<String>, &mut Tally)) {
    let mut report = Printer::new(String::new());
    let mut tally = Tally::default();
    check(&mut report, &mut tally);
    let report = report.finish().expect("a string takes everything");
    print!("{report}");
    assert!(tally.is_clean() && tally.passed > 0, "{report}");
}

fn on_channel(index: usize, name: &'static str, base: u64) {
    let device = open(base);
    let memory: Arc<Channel> = Arc::clone(&device.channels()[index]);
    with_report(|report, tally| {
        tally.add(backend(name, Arc::clone(&memory), report));
        tally.add(view("View<Arc<Channel>>", Arc::clone(&memory), report));
        tally.add(rope("Rope<Arc<Channel>>", Arc::clone(&memory), report));
        tally.add(segment(
            "Segment<Arc<Channel>>",
            Arc::clone(&memory),
            report,
        ));
        let claims = EngineClaims {
            apart: true,
            unreachable: Some(MemSpace::Host),
        };
        let clock = StdClock::new();
        let its_own = Arc::clone(&memory);
        tally.add(engine("SoftDma", &device, its_own, clock, claims, report));
        let (its_own, name) = (Arc::clone(&memory), "SoftDma, unwinding");
        tally.add(engine_unwinding(
            name, device, its_own, clock, claims, report,
        ));
    });
    assert_eq!(memory.ledger().segments, 0);
}

#[test]
fn the_device_keeps_the_laws() {
    on_channel(0, "Channel", 0x9_0000_0000);
}

#[test]
fn the_device_keeps_the_laws_on_its_second_channel() {
    on_channel(1, "Channel above 4 GiB", 0xA_0000_0040);
}

#[test]
fn a_tagged_channel_keeps_the_laws() {
    // Not at a multiple of what is asked for.
    let device = open(0xB_0000_0040);
    let memory = &device.channels()[1];
    with_report(|report, tally| {
        let tagged = memory
            .tagged("conformance", UsageClass::IO)
            .aligned(256)
            .expect("256 is 2^8");
        tally.add(backend("Tagged<Arc<Channel>>", tagged.clone(), report));
        tally.add(segment(
            "Segment<Tagged<Arc<Channel>>>",
            tagged.clone(),
            report,
        ));
    });
    assert_eq!(memory.ledger().segments, 0);
}

/// What a program has that uses the device and the heap: one erased memory, and everything else that there is.
type Target = Parts<
    Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>,
    HeapSource,
    StdClock,
    Arc<Balance>,
    Arc<Directory<Blocking, HeapSource>>,
>;

#[test]
fn tensors_on_the_device_are_tensors() {
    let second = ChannelConfig::new(64 * 1024).named("second");
    let config = Config::new(64 * 1024).with(second);
    let device = SoftDma::<Tickets<Target>, 4>::open(config).expect("room and a thread");
    let trace = Arc::new(Balance::new());
    let target = Target::with_directory(HeapSource, StdClock::new(), trace.clone(), Arc::default());
    let memory = |channel: usize| Arc::clone(&device.channels()[channel]);
    with_report(|report, tally| {
        tally.add(tensor("Channel", &target, memory(0), report));
        let heap = Arc::new(Heap::<Blocking>::new());
        tally.add(copies(
            "Channel, HeapBackend",
            &target,
            memory(0),
            heap,
            report,
        ));
        tally.add(copies(
            "two Channels",
            &target,
            memory(0),
            memory(1),
            report,
        ));
        let claims = EngineClaims {
            apart: true,
            unreachable: None,
        };
        tally.add(launch(
            "SoftDma",
            &target,
            memory(0),
            &device,
            claims,
            report,
        ));
    });
    assert!(trace.is_even());
    assert_eq!(memory(0).ledger().segments + memory(1).ledger().segments, 0);
}
