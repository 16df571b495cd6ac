//! What lies in `.bss`: no start-up code makes it, and interrupt handlers could share it.

use wharf_backend::{Align32, StaticPool};
use wharf_conformance::{Report, SourceClaims, Tally, backend, segment, source};
use wharf_source::StaticPoolSource;
use wharf_sync::Critical;

static FRAMES: StaticPool<Critical, 64, 8, Align32> = StaticPool::new();
static BLOCKS: StaticPoolSource<Critical, 2048, 16> = StaticPoolSource::new();

pub(crate) fn run(report: &mut dyn Report) -> Tally {
    let mut tally = backend("static StaticPool", &FRAMES, report);
    tally.add(segment("Segment<&'static StaticPool>", &FRAMES, report));
    let claims = SourceClaims::POOL;
    let name = "static StaticPoolSource";
    tally.add(source::<Critical, _>(name, &BLOCKS, claims, report));
    tally
}
