//! The engines of wharf.
#![allow(unsafe_code, reason = "lends an engine memory that it does not keep")]

use wharf_backend::{MemSpace, StaticPool};
use wharf_engine::{CpuEngine, Stream};
use wharf_sync::{NoClock, SyncPolicy};

use super::missing;
use crate::{EngineClaims, Parcel, Report, Tally, engine_on_borrowed};

const CLAIMS: EngineClaims = EngineClaims {
    apart: false,
    unreachable: Some(MemSpace::Device),
};

#[inline(never)]
pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "CpuEngine";
    let Ok(stream) = Stream::claim() else {
        return missing::<P>(NAME, "a stream", report);
    };
    let memory = StaticPool::<P, 16, 2>::fresh();
    let cpu = CpuEngine::<P, Parcel, 4>::new(stream);
    // SAFETY: this engine runs only inside of calls to it, and is dropped before the memory.
    unsafe { engine_on_borrowed(NAME, &cpu, &memory, NoClock, CLAIMS, report) }
}

#[cfg(feature = "std")]
pub(super) fn unwinding<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    use wharf_backend::Heap;

    const NAME: &str = "CpuEngine, unwinding";
    let Ok(stream) = Stream::claim() else {
        return missing::<P>(NAME, "a stream", report);
    };
    let cpu = CpuEngine::<P, Parcel, 4>::new(stream);
    crate::engine_unwinding(NAME, &cpu, Heap::<P>::new(), NoClock, CLAIMS, report)
}
