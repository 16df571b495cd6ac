//! What a descriptor does.
#![allow(unsafe_code, reason = "submits a descriptor of its own")]

use core::ptr::NonNull;

use wharf_backend::MemSpace;
use wharf_engine::{
    Command, Descriptor, DescriptorError, DeviceAddress, Fault, KernelFault, Lent, Operand, Place,
    SubmitError,
};
use wharf_sync::SyncPolicy;

use super::Rig;
use super::scene::{LEN, Part, Scene, Use};
use crate::check::{Demand, ensure, equal, refused};
use crate::{Failure, Outcome, Stop};

pub(super) fn fills<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    for byte in [0x5A, 0x00, 0xFF] {
        scene.do_now(Command::Fill(byte), &[Use::Write(Part::A)])?;
        scene.holds(Part::A, byte)?;
        scene.holds(Part::B, 0)?;
    }
    scene.close()
}

pub(super) fn copies<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let mut scene = Scene::new(rig)?;
    scene.write(Part::A, 0x3C)?;
    scene.do_now(Command::Copy, &[Use::Read(Part::A), Use::Write(Part::B)])?;
    scene.holds(Part::A, 0x3C)?;
    scene.holds(Part::B, 0x3C)?;
    scene.close()
}

/// Adds the first operand to the second, and says what is wrong with them.
fn add(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    match operands {
        [Lent::Read(from), Lent::Write(to)] => {
            if from.len() != LEN || to.len() != LEN {
                return Err(KernelFault(1));
            }
            for (to, from) in to.iter_mut().zip(from.iter()) {
                *to = to.wrapping_add(*from);
            }
            Ok(())
        }
        [Lent::Write(_), Lent::Read(_)] => Err(KernelFault(2)),
        _ => Err(KernelFault(3)),
    }
}

pub(super) fn kernel<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let mut scene = Scene::new(rig)?;
    scene.write(Part::A, 40)?;
    scene.write(Part::B, 2)?;
    let operands = [Use::Read(Part::A), Use::Write(Part::B)];
    scene.do_now(Command::Kernel(add), &operands)?;
    scene.holds(Part::A, 40)?;
    scene.holds(Part::B, 42)?;
    scene.close()
}

pub(super) fn no_bytes<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    scene.do_now(Command::Fill(9), &[Use::Nothing(Part::A)])?;
    let empty = Command::Kernel(|operands| match operands {
        [Lent::Write([]), Lent::Write(to)] => {
            to.fill(1);
            Ok(())
        }
        _ => Err(KernelFault(1)),
    });
    scene.do_now(empty, &[Use::Nothing(Part::A), Use::Write(Part::B)])?;
    scene.do_now(Command::Kernel(|_| Ok(())), &[])?;
    scene.holds(Part::A, 0)?;
    scene.holds(Part::B, 1)?;
    scene.close()
}

pub(super) fn order<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let triple = Command::Kernel(|operands| match operands {
        [Lent::Write(bytes)] => {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_mul(3));
            Ok(())
        }
        _ => Err(KernelFault(1)),
    });
    let scene = Scene::new(rig)?;
    let (a, b) = (Use::Write(Part::A), Use::Write(Part::B));
    // No two of the steps may change places: (5 * 3 copied, + 15) * 3.
    let submitted = [
        scene.submit(Command::Fill(5), &[a]),
        scene.submit(triple, &[a]),
        scene.submit(Command::Copy, &[Use::Read(Part::A), b]),
        scene.submit(Command::Kernel(add), &[Use::Read(Part::A), b]),
    ];
    for sequence in submitted {
        scene.succeed(sequence?)?;
    }
    scene.do_now(triple, &[b])?;
    scene.holds(Part::A, 15)?;
    scene.holds(Part::B, 90)?;
    scene.close()
}

pub(super) fn numbers<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let mut last = 0;
    for _ in 0..4 {
        let sequence = scene.submit(Command::Fill(1), &[Use::Write(Part::A)])?;
        ensure(
            sequence.get() > last,
            "a later submission has a higher number",
        )?;
        last = sequence.get();
        scene.succeed(sequence)?;
    }
    scene.close()
}

pub(super) fn faults<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let give_up = Command::Kernel(|operands| {
        if let [Lent::Write(bytes)] = operands {
            bytes.fill(7);
        }
        Err(KernelFault(0xBAD))
    });
    let sequence = scene.submit(give_up, &[Use::Write(Part::A)])?;
    let told = scene.finish(sequence)?.map(drop);
    let told = told.map_err(|returned| returned.error);
    refused("its completion", told, Fault::Kernel(KernelFault(0xBAD)))?;
    scene.holds(Part::A, 7)?;
    // One that failed is in nobody's way.
    scene.do_now(Command::Fill(8), &[Use::Write(Part::A)])?;
    scene.holds(Part::A, 8)?;
    scene.close()
}

pub(super) fn overlap<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let (read, write) = (Use::Read(Part::A), Use::Write(Part::A));
    let kernel = Command::Kernel(add);
    for operands in [[read, write], [write, read], [write, write]] {
        let operands = operands.map(|operand| scene.operand(operand));
        let made = Descriptor::new(kernel, &operands);
        let expected = DescriptorError::Overlap {
            first: 0,
            second: 1,
        };
        refused("a descriptor", made, expected)?;
    }
    let apart = [write, Use::Write(Part::B)].map(|operand| scene.operand(operand));
    Descriptor::new(kernel, &apart).demand("segments of their own do not overlap")?;
    let twice = [read, read].map(|operand| scene.operand(operand));
    Descriptor::new(kernel, &twice).demand("what is only read may overlap")?;
    scene.close()
}

pub(super) fn unreachable<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let place = match rig.claims.unreachable {
        Some(MemSpace::Host) => Place::Host(NonNull::dangling()),
        Some(MemSpace::Device) => Place::Device(DeviceAddress::new(64)),
        None => return Err(Stop::Inapplicable("it claims to reach every space")),
    };
    let scene = Scene::new(rig)?;
    let operands = [scene.operand(Use::Write(Part::A)), Operand::read(place, 0)];
    let descriptor = Descriptor::new(Command::Kernel(add), &operands).demand("a descriptor")?;
    // SAFETY: the first operand is the scene's, and the second has no bytes.
    match unsafe { rig.engine.submit(descriptor, scene.ledger.parcel()) } {
        Ok(sequence) => {
            let _ = scene.finish(sequence)?;
            return Err(Failure::new("an operand out of reach is refused").into());
        }
        Err(returned) => {
            let landed = returned.value.landed_times();
            scene.ledger.returned(returned.value);
            equal("landings of a parcel that was refused", landed, 0)?;
            let expected = SubmitError::Unreachable { operand: 1 };
            refused("the refusal", Err::<(), _>(returned.error), expected)?;
        }
    }
    scene.close()
}
