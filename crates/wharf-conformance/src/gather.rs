//! Ropes that cannot be gathered because a transfer fails.

use wharf_backend::{BackendRef, Caps, MemBackend, MemSpace, TransferError};
use wharf_segment::GatherError;

use crate::check::{Demand, applies, equal, refused};
use crate::rope::{TEXT, has, three};
use crate::view::{in_use, settles};
use crate::writer::subject;
use crate::{Check, Outcome, Report, Tally, run};

/// Holds the ropes of a device that fails on order to what `wharf-segment` says of it: how far a gathering came is told, and nothing
/// is lost of what was to be gathered.
///
/// After `breaks(n)` that many transfers succeed, and those that follow fail with [`TransferError::Closed`]; after
/// `breaks(usize::MAX)` none does. The backend vends four segments, one of 21 bytes among them, and nobody else uses it meanwhile.
pub fn gather_failures<R>(
    name: &'static str,
    backend: R,
    breaks: impl Fn(usize),
    report: &mut dyn Report,
) -> Tally
where
    R: BackendRef + Clone,
{
    let device = Device {
        backend,
        breaks: &breaks,
    };
    let checks: [Check<Device<'_, R>>; 2] = [
        Check {
            name: "a transfer that fails says how far it was",
            run: |device| settles(&device.backend, |_| told(device)),
        },
        Check {
            name: "a rope that was not gathered is as it was",
            run: |device| settles(&device.backend, |_| untouched(device)),
        },
    ];
    run(
        subject::<R>("gather failures", name),
        &device,
        &checks,
        report,
    )
}

struct Device<'d, R> {
    backend: R,
    breaks: &'d dyn Fn(usize),
}

/// The transfers of a rope of three links of seven bytes, in their order, each by what is told when it fails.
fn transfers<R: BackendRef>(backend: &R) -> impl Iterator<Item = GatherError> {
    let error = TransferError::Closed;
    let caps = backend.backend().caps();
    // Memory without values is filled first.
    let fill =
        (!caps.contains(Caps::VENDS_INITIALISED)).then_some(GatherError::Write { at: 0, error });
    let moves = [0, 7, 14].into_iter().flat_map(move |at| {
        [
            GatherError::Read { at, error },
            GatherError::Write { at, error },
        ]
    });
    fill.into_iter().chain(moves)
}

const HOST: &str = "it is host memory, which is not moved by transfers alone";

fn told<R: BackendRef + Clone>(device: &Device<'_, R>) -> Outcome {
    let Device { backend, breaks } = device;
    applies(backend.backend().space() == MemSpace::Device, HOST)?;
    let rope = three(backend)?;
    for (after, error) in transfers(backend).enumerate() {
        breaks(after);
        let gathered = rope.gather(backend.clone()).map(drop);
        breaks(usize::MAX);
        refused("a gathering", gathered, error)?;
    }
    // One more than there are.
    breaks(transfers(backend).count());
    let gathered = rope.gather(backend.clone()).map(drop);
    breaks(usize::MAX);
    gathered.demand("a gathering with nothing in its way")?;
    Ok(())
}

fn untouched<R: BackendRef + Clone>(device: &Device<'_, R>) -> Outcome {
    let Device { backend, breaks } = device;
    applies(backend.backend().space() == MemSpace::Device, HOST)?;
    let rope = three(backend)?;
    let during = in_use(backend);
    for (after, _) in transfers(backend).enumerate() {
        breaks(after);
        let gathered = rope.gather(backend.clone()).map(drop);
        breaks(usize::MAX);
        equal("gatherings that went well", u32::from(gathered.is_ok()), 0)?;
        equal(
            "units in use: the segment went back",
            in_use(backend),
            during,
        )?;
        has(&rope, &TEXT)?;
    }
    Ok(())
}
