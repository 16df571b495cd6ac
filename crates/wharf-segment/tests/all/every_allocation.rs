//! Every operation that may allocate, a row each: its requests are counted in a run that goes well, and then each of them is
//! refused in turn, of the memory and of the source of the links' blocks. After each refusal everything is what it was before: memory,
//! blocks, counts of handles, links, bytes. And what was there serves on.
//!
//! A row that takes nothing runs while *everything* is refused. Views and handles take nothing: they count. Ropes take the block of their
//! links, and what gathers takes a segment.
//!
//! The table is held to the crate: a public function in no row is a failure, unless it is `const`. (Those call no trait, so no
//! source and no backend.)

mod bench;
mod held;
mod ropes;
mod views;

use bench::{Bench, Refused};
use wharf_backend::AllocError;
use wharf_source::SourceError;

/// An operation.
struct Row {
    title: &'static str,
    /// The public functions that it goes through: module and name.
    through: &'static [&'static str],
    segments: u64,
    /// The links of the blocks, in the order in which they are asked for.
    blocks: &'static [usize],
    /// Does it, checks what it gives, and lets go of that. Where it is refused: that what it was about is as it was.
    run: fn(&Bench) -> Result<(), Refused>,
}

/// An operation that takes nothing.
const fn nothing(
    title: &'static str,
    through: &'static [&'static str],
    run: fn(&Bench) -> Result<(), Refused>,
) -> Row {
    Row {
        title,
        through,
        segments: 0,
        blocks: &[],
        run,
    }
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [ropes::ROWS, views::ROWS].into_iter().flatten()
}

/// Refuses each request of one kind.
fn sweep(row: &Row, requests: u64, refuse: fn(&Bench, u64), told: impl Fn(u64) -> Refused) {
    let bench = Bench::new();
    let before = bench.state();
    let takes = [row.segments, row.blocks.len() as u64];
    for nth in 1..=requests {
        let at = format!("{}: {:?}", row.title, told(nth));
        bench.refuse_nothing();
        refuse(&bench, nth);
        let refused = (row.run)(&bench).expect_err(row.title);
        assert_eq!(refused, told(nth), "{at}");
        assert_eq!(bench.state(), before, "{at}");
        bench.refuse_nothing();
        (row.run)(&bench).expect(row.title);
        assert_eq!(bench.calls(), takes, "{at}: once more");
        assert_eq!(bench.state(), before, "{at}: once more");
    }
    // One more there is not.
    bench.refuse_nothing();
    refuse(&bench, requests + 1);
    (row.run)(&bench).expect(row.title);
    assert_eq!(bench.calls(), takes, "{}", row.title);
    assert_eq!(bench.state(), before, "{}", row.title);
    bench.end();
}

#[test]
fn what_allocates_survives_each_refusal() {
    for row in rows() {
        let memory = |bench: &Bench, nth| bench.pool.fail_nth(nth);
        sweep(row, row.segments, memory, |call| {
            Refused::Memory(AllocError::Injected { call })
        });
        let source = |bench: &Bench, nth| bench.source.fail_nth(nth);
        sweep(row, row.blocks.len() as u64, source, |call| {
            let links = row.blocks[usize::try_from(call).unwrap() - 1];
            let requested = bench::block(links);
            Refused::Source(SourceError::Injected { requested, call })
        });
    }
}

#[test]
fn what_allocates_nothing_works_while_everything_is_refused() {
    for row in rows().filter(|row| row.segments == 0 && row.blocks.is_empty()) {
        let bench = Bench::new();
        let before = bench.state();
        bench.pool.fail_every(1);
        bench.source.fail_every(1);
        (row.run)(&bench).expect(row.title);
        assert_eq!(bench.calls(), [0; 2], "{}", row.title);
        assert_eq!(bench.state(), before, "{}", row.title);
        bench.end();
    }
}
