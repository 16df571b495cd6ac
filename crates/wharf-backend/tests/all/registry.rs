//! The registry: what it takes, what an id is good for, and that it is one thing at a time for everybody.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use wharf_backend::{
    BackendRef, BorrowedDevice, Census, DeviceAddress, DeviceId, DeviceRange, DeviceRegistry,
    DeviceTransfer, MemBackend, RegistryError, StaticPool, Table, TransferError,
};
use wharf_sync::{Blocking, ConstInit, Critical, SyncPolicy, Unsync};

/// A device that reads as its own number.
struct Numbered(u8);

impl DeviceTransfer for Numbered {
    fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), TransferError> {
        Ok(())
    }
    fn read(&self, _: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> {
        to.fill(self.0);
        Ok(())
    }
}

type Device<P> = BorrowedDevice<Numbered, P>;

/// `number` is also its length.
fn device<P: SyncPolicy>(number: u8) -> Device<P> {
    let range = DeviceRange::new(DeviceAddress::new(0x1000), number.into(), Numbered(number));
    BorrowedDevice::fresh(range.unwrap())
}

/// The number, by what the backend says and by what its hook does.
fn number<P: SyncPolicy>(device: &Device<P>) -> (usize, u8) {
    let mut byte = [0];
    device
        .lent()
        .hook()
        .read(DeviceAddress::new(0), &mut byte)
        .unwrap();
    (device.max_segment_size(), byte[0])
}

#[test]
fn a_registered_device_is_found_by_its_id() {
    let (one, two) = (device::<Unsync>(1), device(2));
    let registry = DeviceRegistry::<&Device<Unsync>, 3>::new();
    let first = registry.register(&one).unwrap();
    let second = registry.register(&two).unwrap();
    assert_ne!(first, second);
    assert_eq!(number(registry.get(first).unwrap()), (1, 1));
    assert_eq!(number(registry.get(second).unwrap()), (2, 2));
    // The same one twice has two names.
    let again = registry.register(&one).unwrap();
    assert_ne!(again, first);
    registry.unregister(first).unwrap();
    assert_eq!(number(registry.get(again).unwrap()), (1, 1));
    assert_eq!(DeviceId::from_bits(again.to_bits()), again);
}

#[test]
fn a_full_table_is_an_error_that_gives_the_backend_back() {
    let registry = DeviceRegistry::<Arc<Device<Blocking>>, 2>::fresh();
    let spare = Arc::new(device(9));
    let ids = [1, 2].map(|n| registry.register(Arc::new(device(n))).unwrap());
    assert_eq!(registry.census().largest_refused, 0);
    let refused = registry.register(Arc::clone(&spare)).unwrap_err();
    assert_eq!(refused.error, RegistryError::Full { capacity: 2 });
    assert_eq!(refused.to_string(), "all 2 entries are taken");
    drop(refused);
    assert_eq!(Arc::strong_count(&spare), 1, "it keeps none of it");
    let census = registry.census();
    let numbers = (census.capacity, census.in_use, census.peak, census.refused);
    assert_eq!(numbers, (2, 2, 2, 1));
    assert!(
        census.unit > size_of::<Arc<Device<Blocking>>>(),
        "a reference and its generation"
    );
    assert_eq!(census.largest_refused, census.unit, "an entry was refused");
    let gone = registry.unregister(ids[0]).unwrap();
    assert_eq!(number(&gone), (1, 1));
    registry.register(spare).unwrap();
    assert_eq!(registry.census().in_use, 2);
    let none = DeviceRegistry::<&Device<Unsync>, 0>::new();
    let error = none.register(&device(1)).unwrap_err().error;
    assert_eq!(error, RegistryError::Full { capacity: 0 });
}

#[test]
fn host_memory_is_no_device() {
    type Erased<'e> = dyn MemBackend<Policy = Unsync> + 'e;
    let pool = StaticPool::<Unsync, 8, 1>::new();
    let one = device::<Unsync>(1);
    let registry = DeviceRegistry::<&Erased<'_>, 2>::new();
    let refused = registry.register(&pool).unwrap_err();
    assert_eq!(refused.error, RegistryError::NotADevice);
    assert_eq!(refused.value.name(), "pool");
    let id = registry.register(&one).unwrap();
    let refused = registry.replace(id, &pool).err().unwrap();
    assert_eq!(refused.error, RegistryError::NotADevice);
    assert_eq!(
        registry.get(id).unwrap().max_segment_size(),
        1,
        "still there"
    );
    assert_eq!(
        registry.census(),
        Census {
            peak: 1,
            ..registry.census()
        }
    );
    assert_eq!(registry.census().refused, 0);
}

#[test]
fn no_id_finds_what_came_after() {
    let registry = DeviceRegistry::<&Device<Unsync>, 1>::new();
    let (one, two) = (device(1), device(2));
    let mut stale = Vec::new();
    // The same entry, and the same backend at the same address, again and again.
    for _ in 0..5 {
        let id = registry.register(&one).unwrap();
        for &old in &stale {
            let unknown = RegistryError::Unknown { id: old };
            assert_eq!(registry.get(old).err(), Some(unknown));
            assert_eq!(registry.unregister(old).err(), Some(unknown));
            let refused = registry.replace(old, &two).unwrap_err();
            assert_eq!(refused.error, unknown);
            assert_eq!(number(refused.value), (2, 2));
        }
        assert_eq!(number(registry.get(id).unwrap()), (1, 1));
        registry.unregister(id).unwrap();
        stale.push(id);
    }
    for id in [0, 1, u64::MAX, 1 << 32].map(DeviceId::from_bits) {
        assert!(registry.get(id).is_err(), "{id}");
    }
    let text = RegistryError::Unknown { id: stale[3] }.to_string();
    assert_eq!(text, "nothing is registered as 0.3");
}

#[test]
fn replacing_keeps_the_id_and_gives_the_old_one_back() {
    let registry = DeviceRegistry::<&Device<Unsync>, 2>::new();
    let (one, two) = (device(1), device(2));
    let id = registry.register(&one).unwrap();
    assert_eq!(number(registry.replace(id, &two).unwrap()), (1, 1));
    assert_eq!(number(registry.get(id).unwrap()), (2, 2));
    assert_eq!(registry.census().in_use, 1);
    assert_eq!(number(registry.unregister(id).unwrap()), (2, 2));
}

/// A reference whose `Clone` calls the registry.
struct Calling<'r> {
    device: &'r Device<Unsync>,
    registry: &'r Cell<Option<&'r DeviceRegistry<Self, 2>>>,
    outcomes: Rc<Cell<(bool, Option<RegistryError>)>>,
    id: Cell<Option<DeviceId>>,
}

// SAFETY: as the reference inside.
unsafe impl BackendRef for Calling<'_> {
    type Policy = Unsync;
    type Backend = Device<Unsync>;
    fn backend(&self) -> &Device<Unsync> {
        self.device
    }
}

impl Clone for Calling<'_> {
    fn clone(&self) -> Self {
        let copy = Self {
            device: self.device,
            registry: self.registry,
            outcomes: Rc::clone(&self.outcomes),
            id: Cell::new(None),
        };
        if let (Some(registry), Some(id)) = (self.registry.get(), self.id.get()) {
            let other = registry.unregister(id).err();
            self.outcomes
                .set((registry.get(DeviceId::from_bits(1)).is_err(), other));
        }
        copy
    }
}

#[test]
fn a_reference_that_calls_back_is_told_so() {
    let one = device(1);
    let slot = Cell::new(None);
    let outcomes = Rc::new(Cell::new((false, None)));
    let registry = DeviceRegistry::<Calling<'_>, 2>::new();
    let calling = Calling {
        device: &one,
        registry: &slot,
        outcomes: Rc::clone(&outcomes),
        id: Cell::new(Some(DeviceId::from_bits(0))),
    };
    let id = registry.register(calling).unwrap();
    slot.set(Some(&registry));
    drop(registry.get(id).unwrap());
    assert_eq!(outcomes.get(), (true, Some(RegistryError::Busy)));
    slot.set(None);
    assert!(registry.get(id).is_ok());
}

/// A reference whose `Clone` does with the registry whatever there is to do, or panics.
struct Nested<P: SyncPolicy> {
    device: Arc<Device<P>>,
    registry: Option<Arc<Registry<P>>>,
    said: Arc<std::sync::Mutex<Vec<RegistryError>>>,
    panics: Arc<std::sync::atomic::AtomicBool>,
}
type Registry<P> = std::sync::OnceLock<std::sync::Weak<DeviceRegistry<Nested<P>, 2>>>;

// SAFETY: as for an `Arc`.
unsafe impl<P: SyncPolicy> BackendRef for Nested<P> {
    type Policy = P;
    type Backend = Device<P>;
    fn backend(&self) -> &Device<P> {
        &self.device
    }
}

impl<P: SyncPolicy> Nested<P> {
    fn alone(&self) -> Self {
        Self {
            device: Arc::clone(&self.device),
            registry: None,
            said: Arc::clone(&self.said),
            panics: Arc::clone(&self.panics),
        }
    }
}

impl<P: SyncPolicy> Clone for Nested<P> {
    fn clone(&self) -> Self {
        assert!(!self.panics.load(Ordering::Relaxed), "it cannot be cloned");
        if let Some(registry) = self.registry.as_ref().and_then(|registry| registry.get()) {
            let registry = registry.upgrade().unwrap();
            let (mine, other) = (DeviceId::from_bits(0), DeviceId::from_bits(1));
            let mut said = self.said.lock().unwrap();
            said.extend([mine, other].map(|id| registry.get(id).err().unwrap()));
            said.push(registry.register(self.alone()).err().unwrap().error);
            said.push(registry.replace(mine, self.alone()).err().unwrap().error);
            said.push(registry.unregister(mine).err().unwrap());
        }
        self.alone()
    }
}

#[test]
fn a_clone_that_calls_back_is_told_so_and_does_not_hang_between_threads() {
    fn check<P: SyncPolicy>() {
        let handle = Arc::new(Registry::<P>::new());
        let registry = Arc::new(DeviceRegistry::<Nested<P>, 2>::fresh());
        let nested = Nested {
            device: Arc::new(device(7)),
            registry: Some(Arc::clone(&handle)),
            said: Arc::default(),
            panics: Arc::default(),
        };
        let (said, panics) = (Arc::clone(&nested.said), Arc::clone(&nested.panics));
        let id = registry.register(nested).ok().unwrap();
        handle.set(Arc::downgrade(&registry)).ok().unwrap();
        let found = registry.get(id).unwrap();
        assert_eq!(number(&*found.device), (7, 7));
        assert_eq!(*said.lock().unwrap(), [RegistryError::Busy; 5]);
        assert_eq!(registry.census().in_use, 1, "nothing came of it");
        // A clone that panics leaves nothing behind.
        panics.store(true, Ordering::Relaxed);
        let gets = || registry.get(id).map(drop);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(gets)).is_err());
        panics.store(false, Ordering::Relaxed);
        assert!(registry.get(id).is_ok());
        assert!(registry.unregister(id).is_ok());
    }
    check::<Blocking>();
    check::<Critical>();
    check::<Unsync>();
    #[cfg(feature = "spin")]
    check::<wharf_sync::Spin>();
}

#[test]
fn threads_never_see_half_of_a_replacement_and_claim_no_entry_twice() {
    static TABLE: DeviceRegistry<Arc<Device<Critical>>, 4> = DeviceRegistry::new();
    const ROUNDS: usize = 2_000;
    let shared = TABLE.register(Arc::new(device(200))).unwrap();
    let full = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..8_u8 {
            let full = &full;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (says, does) = number(&TABLE.get(shared).unwrap());
                    assert_eq!(says, usize::from(does));
                    let mine = Arc::new(device(worker + 1));
                    if round % 3 == 0 {
                        let before = TABLE.replace(shared, mine).unwrap();
                        assert_eq!(number(&before).0, usize::from(number(&before).1));
                        continue;
                    }
                    // Eight workers and three entries.
                    let Ok(id) = TABLE.register(mine) else {
                        full.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    let found = TABLE.get(id).unwrap();
                    assert_eq!(number(&found).1, worker + 1, "mine, and nobody else's");
                    let taken = TABLE.unregister(id).unwrap();
                    assert!(Arc::ptr_eq(&found, &taken));
                    assert!(TABLE.get(id).is_err());
                }
            });
        }
    });
    let census = TABLE.census();
    assert_eq!(census.in_use, 1);
    assert!(census.peak <= 4);
    assert_eq!(census.refused, full.into_inner());
}

/// Counted, and of one thread; the library knows the other kind.
struct Counted<P: SyncPolicy>(Rc<Device<P>>);

// SAFETY: as for an `Arc`, within a thread.
unsafe impl<P: SyncPolicy> BackendRef for Counted<P> {
    type Policy = P;
    type Backend = Device<P>;
    fn backend(&self) -> &Device<P> {
        &self.0
    }
}

impl<P: SyncPolicy> Clone for Counted<P> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Register(u8),
    /// On the id issued so-manieth, modulo how many there are; it may be stale.
    Replace(usize, u8),
    Unregister(usize),
    Get(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_u8..200).prop_map(Step::Register),
        2 => (any::<usize>(), 1_u8..200).prop_map(|(at, number)| Step::Replace(at, number)),
        3 => any::<usize>().prop_map(Step::Unregister),
        3 => any::<usize>().prop_map(Step::Get),
    ];
    prop::collection::vec(step, 0..100)
}

fn run<P: SyncPolicy>(steps: &[Step])
where
    P::Lock<Table<Counted<P>, 3>>: ConstInit,
    P::Word: ConstInit,
{
    let registry = DeviceRegistry::<Counted<P>, 3>::new();
    // By the order of issue: the number that is there, while it is.
    let mut model: Vec<(DeviceId, Option<u8>)> = Vec::new();
    let (mut peak, mut refused) = (0, 0);
    for step in steps {
        let live = model.iter().filter(|(_, there)| there.is_some()).count();
        let count = model.len().max(1);
        match *step {
            Step::Register(new) => match registry.register(Counted(Rc::new(device(new)))) {
                Ok(id) => {
                    assert!(live < 3);
                    assert!(model.iter().all(|&(old, _)| old != id), "issued once");
                    model.push((id, Some(new)));
                    peak = peak.max(live + 1);
                }
                Err(error) => {
                    assert_eq!(error.error, RegistryError::Full { capacity: 3 });
                    assert_eq!(live, 3);
                    refused += 1;
                }
            },
            Step::Replace(at, new) => {
                let Some((id, there)) = model.get_mut(at % count) else {
                    continue;
                };
                let before = registry.replace(*id, Counted(Rc::new(device(new)))).ok();
                assert_eq!(before.map(|old| number(&old.0).1), *there);
                *there = there.map(|_| new);
            }
            Step::Unregister(at) => {
                let Some((id, there)) = model.get_mut(at % count) else {
                    continue;
                };
                let taken = registry.unregister(*id).ok();
                assert_eq!(taken.map(|old| number(&old.0).1), there.take());
            }
            Step::Get(at) => {
                let Some((id, there)) = model.get(at % count) else {
                    continue;
                };
                let found = registry.get(*id).ok();
                assert_eq!(found.map(|found| number(&found.0).1), *there);
            }
        }
        let live = model.iter().filter(|(_, there)| there.is_some()).count();
        let census = registry.census();
        assert_eq!(
            (census.in_use, census.peak, census.refused),
            (live, peak, refused)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_registry_does_what_the_model_does(steps in steps()) {
        run::<Unsync>(&steps);
        run::<Critical>(&steps);
    }
}

#[test]
fn an_id_is_one_number_and_back() {
    let id = DeviceId::from_bits(0x0000_0003_0000_0007);
    assert_eq!(
        id.to_string(),
        "7.3",
        "the entry, and which of its registrations"
    );
    assert_eq!(id.to_bits(), 0x0000_0003_0000_0007);
    assert_ne!(id, DeviceId::from_bits(7));
    assert_ne!(id, DeviceId::from_bits(0x0000_0003_0000_0000));
}
