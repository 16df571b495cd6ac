//! What lies in `.bss`: no start-up code makes it, and interrupt handlers could share it. And what is declared by a macro
//! for one policy.

use wharf_backend::{Align32, BorrowedExclusive, StaticPool, backend_set};
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
    tally.add(sets(report));
    tally
}

backend_set! {
    /// What one program has, as one type.
    enum Memory<'b>: Critical, host {
        Frames(StaticPool<Critical, 64, 4, Align32>),
        Lent(BorrowedExclusive<'b, Critical>),
    }
}

fn sets(report: &mut dyn Report) -> Tally {
    let mut left = [0; 72];
    let frames = Memory::Frames(StaticPool::new());
    let lent = Memory::Lent(BorrowedExclusive::exclusive(&mut left));
    let mut tally = backend("backend_set!, a pool", &frames, report);
    tally.add(backend("backend_set!, lent bytes", &lent, report));
    tally.add(segment("Segment<backend_set!>", &frames, report));
    tally
}
