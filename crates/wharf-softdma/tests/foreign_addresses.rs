//! A device address is a number, and anybody may write one down. The device takes only those that a backend answers for.

use std::sync::Arc;

use wharf_backend::{
    BorrowedBackend, BorrowedDevice, DeviceAddress, DeviceRange, DeviceTransfer, MemBackend, Place,
    Scrub, SegmentMut, Shared, TransferError,
};
use wharf_engine::{Command, EngineExt, Freight, ShipError, SubmitError};
use wharf_softdma::{Channel, Config, SoftDma};
use wharf_sync::{Blocking, NoClock};
use wharf_tensor::{Hosted, Launch, LaunchError, Tensor, Tickets};

/// Reaches nothing.
struct Nowhere;

impl DeviceTransfer for Nowhere {
    fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), TransferError> {
        Ok(())
    }
    fn read(&self, _: DeviceAddress, _: &mut [u8]) -> Result<(), TransferError> {
        Ok(())
    }
}

type Made = BorrowedDevice<Nowhere, Blocking>;

/// Memory that says it lies where `victim` does, without a line of unsafe code.
fn made_up(victim: &SegmentMut<Arc<Channel>>) -> Arc<Made> {
    let Place::Device(base) = victim.place() else {
        panic!("device memory");
    };
    let range = DeviceRange::new(base, victim.len(), Nowhere).unwrap();
    Arc::new(BorrowedBackend::fresh(range))
}

fn assert_untouched(victim: &SegmentMut<Arc<Channel>>) {
    let mut bytes = [0; 64];
    victim.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 64]);
}

#[test]
fn a_launch_on_made_up_memory_is_refused() {
    let device = SoftDma::<Tickets<Hosted>>::open(Config::new(4096)).unwrap();
    let victim = SegmentMut::alloc(device.channel(), 64).unwrap();
    let victim = victim.filled(7).unwrap();
    let made_up = Tensor::alloc(&Hosted::default(), made_up(&victim), 64).unwrap();
    let launched = device.launch(Command::Fill(9), &[made_up.output()]);
    let refused = launched.map(|launched| launched.wait());
    assert_untouched(&victim);
    let unreachable = SubmitError::Unreachable { operand: 0 };
    assert_eq!(refused, Err(LaunchError::Submit(unreachable)));
    assert_eq!(made_up.in_flight(), (0, 0));
}

#[test]
fn made_up_memory_is_not_shipped() {
    let device = SoftDma::<Freight<Arc<Made>>>::open(Config::new(4096)).unwrap();
    let victim = SegmentMut::alloc(device.channel(), 64).unwrap();
    let victim = victim.filled(7).unwrap();
    let cargo = SegmentMut::alloc(made_up(&victim), 64).unwrap();
    let cargo = Freight::write(cargo.initialised().unwrap());
    let refused = match device.ship(Command::Fill(9), cargo) {
        Ok(shipped) => {
            let _ = shipped.wait(&NoClock, None);
            None
        }
        Err(refused) => Some(refused.error),
    };
    assert_untouched(&victim);
    let unreachable = SubmitError::Unreachable { operand: 0 };
    assert_eq!(refused, Some(ShipError::Submit(unreachable)));
}

#[test]
fn a_wrapped_channel_is_answered_for() {
    type Wrapped = Arc<Scrub<Shared<Arc<Channel>>>>;
    let device = SoftDma::<Freight<Wrapped>>::open(Config::new(4096)).unwrap();
    let keys: Wrapped = Arc::new(Scrub::new(Shared::new(device.channel())));
    assert_eq!(keys.census().in_use, 0);
    let key = SegmentMut::alloc(keys, 64).unwrap().filled(0).unwrap();
    let filled = device.ship(Command::Fill(9), Freight::write(key)).unwrap();
    let key = filled.wait(&NoClock, None).unwrap().unwrap().into_segment();
    let mut bytes = [0; 64];
    key.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 64]);
}
