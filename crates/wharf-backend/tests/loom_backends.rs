//! What several contexts do with a registry and with borrowed memory, under the model checker.

use loom::cell::UnsafeCell;
use loom::thread;
use wharf_backend::{
    BorrowedDevice, BorrowedShared, DeviceAddress, DeviceRange, DeviceRegistry, DeviceTransfer,
    MemBackend, RegistryError, SegmentMut, SharedBytes, SourceBackend,
};
use wharf_source::HeapSource;
use wharf_sync::Loom;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// A device whose number is written where only the model checker says that it may be.
struct Numbered {
    number: UnsafeCell<usize>,
}

// SAFETY: the cell is what is under test; loom checks every access to it.
unsafe impl Sync for Numbered {}

impl DeviceTransfer for Numbered {
    fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), wharf_backend::TransferError> {
        Ok(())
    }
    fn read(&self, _: DeviceAddress, _: &mut [u8]) -> Result<(), wharf_backend::TransferError> {
        Ok(())
    }
}

type Device = BorrowedDevice<Numbered, Loom>;

/// Leaked, because threads of loom are `'static`, and a model has few thousand runs.
fn device(number: usize) -> &'static Device {
    let hook = Numbered {
        number: UnsafeCell::new(0),
    };
    let range = DeviceRange::new(DeviceAddress::new(0), number, hook).unwrap();
    let device: &Device = Box::leak(Box::new(BorrowedDevice::fresh(range)));
    // SAFETY: nobody has it yet.
    hook_of(device)
        .number
        .with_mut(|at| unsafe { *at = number });
    device
}

fn hook_of(device: &Device) -> &Numbered {
    device.lent().hook()
}

/// Registering publishes: whoever finds it sees what was done before.
fn check(device: &Device) {
    // SAFETY: written before it was registered; loom checks.
    let number = hook_of(device).number.with(|at| unsafe { *at });
    assert_eq!(number, device.max_segment_size());
}

type Registry<const N: usize> = DeviceRegistry<&'static Device, N>;

fn registry<const N: usize>() -> &'static Registry<N> {
    Box::leak(Box::new(Registry::fresh()))
}

#[test]
fn two_registrations_claim_two_entries_or_one_is_refused() {
    model(|| {
        let table = registry::<1>();
        let register = |number| table.register(device(number)).ok();
        let other = thread::spawn(move || register(1));
        let here = register(2);
        let there = other.join().unwrap();
        assert!(here.is_some() != there.is_some(), "there is one entry");
        let id = here.or(there).unwrap();
        check(table.get(id).unwrap());
        assert_eq!((table.census().in_use, table.census().refused), (1, 1));
    });
}

#[test]
fn a_replacement_is_seen_whole_or_not_at_all() {
    model(|| {
        let table = registry::<1>();
        let id = table.register(device(1)).unwrap();
        let other = thread::spawn(move || {
            let old = table.replace(id, device(2)).unwrap();
            assert_eq!(old.max_segment_size(), 1);
        });
        check(table.get(id).unwrap());
        other.join().unwrap();
        assert_eq!(table.get(id).unwrap().max_segment_size(), 2);
    });
}

#[test]
fn an_id_is_stale_before_its_entry_is_used_again() {
    model(|| {
        let table = registry::<1>();
        let old = table.register(device(1)).unwrap();
        let other = thread::spawn(move || {
            table.unregister(old).unwrap();
            table.register(device(2)).unwrap()
        });
        match table.get(old) {
            Ok(found) => assert_eq!(found.max_segment_size(), 1),
            Err(error) => assert_eq!(error, RegistryError::Unknown { id: old }),
        }
        let new = other.join().unwrap();
        assert_ne!(old, new);
        assert!(table.get(old).is_err());
        check(table.get(new).unwrap());
    });
}

#[test]
fn borrowed_memory_is_out_once_whoever_asks() {
    model(|| {
        let memory: &BorrowedShared<'static, Loom> =
            Box::leak(Box::new(BorrowedShared::fresh(SharedBytes::new(b"table"))));
        let visit = || match memory.lend() {
            Ok(segment) => {
                assert_eq!(&*segment, b"table");
                assert!(memory.may_own(segment.header_ptr()));
                true
            }
            Err(_) => false,
        };
        let other = thread::spawn(visit);
        let here = visit();
        let there = other.join().unwrap();
        assert!(here || there);
        let census = memory.census();
        assert_eq!(census.in_use, 0);
        assert_eq!(census.refused, usize::from(!(here && there)));
        assert!(visit(), "it is back");
    });
}

#[test]
fn a_source_backend_counts_what_every_context_takes() {
    model(|| {
        let memory: &SourceBackend<HeapSource, Loom> =
            Box::leak(Box::new(SourceBackend::fresh(HeapSource)));
        let header = memory
            .alignment()
            .max(SegmentMut::alloc(memory, 0).map_or(0, |_| memory.census().in_use));
        let visit = move || {
            let segment = SegmentMut::alloc(memory, 16).unwrap().filled(1).unwrap();
            let census = memory.census();
            assert!(census.in_use >= header && census.in_use <= census.peak);
            assert_eq!(*segment, [1; 16]);
        };
        let other = thread::spawn(visit);
        visit();
        other.join().unwrap();
        let census = memory.census();
        assert_eq!(census.in_use, 0);
        let one = header + 16;
        assert!(census.peak == one || census.peak == 2 * one);
    });
}
