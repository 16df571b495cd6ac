//! Every operation that may allocate, a row each: its requests are counted in a run that goes well, and then each of them is
//! refused in turn, of the memory and of the source of the blocks. After each refusal everything is what it was before: memory, blocks,
//! counts of handles, the set that was there and its tensors. And what was there serves on.
//!
//! A row that takes nothing runs while *everything* is refused.
//!
//! The table is held to the crate: a public function in no row is a failure, if it is of a module that knows a target or a source, and
//! not `const`. The other modules (types, shapes, names, descriptions) have nobody to ask for memory.
//!
//! What cannot be refused here is the heap of the host, from which `Dump` and the parsed `Archive` take: of the memory and the
//! source they take nothing, and that is what their rows hold.

mod bench;
mod held;
mod rows;

use bench::{Bench, Took};
use wharf_backend::AllocError;
use wharf_source::SourceError;

/// An operation.
struct Row {
    title: &'static str,
    /// The public functions that it goes through: module and name.
    through: &'static [&'static str],
    segments: u64,
    /// The blocks, in the order in which they are asked for.
    blocks: &'static [Took],
    /// Does it, checks what it gives, and lets go of that. Where it is refused: that what it was about is as it was.
    run: fn(&Bench) -> Result<(), AllocError>,
}

/// Refuses each request of one kind.
fn sweep(row: &Row, requests: u64, refuse: fn(&Bench, u64), told: impl Fn(u64) -> AllocError) {
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
    for row in rows::ROWS {
        let memory = |bench: &Bench, nth| bench.memory.fail_nth(nth);
        sweep(row, row.segments, memory, |call| AllocError::Injected {
            call,
        });
        let source = |bench: &Bench, nth| bench.source.fail_nth(nth);
        sweep(row, row.blocks.len() as u64, source, |call| {
            let block = row.blocks[usize::try_from(call).unwrap() - 1];
            let requested = block.bytes();
            AllocError::Source(SourceError::Injected { requested, call })
        });
    }
}

#[test]
fn what_allocates_nothing_works_while_everything_is_refused() {
    for row in rows::ROWS {
        if row.segments > 0 || !row.blocks.is_empty() {
            continue;
        }
        let bench = Bench::new();
        let before = bench.state();
        bench.memory.fail_every(1);
        bench.source.fail_every(1);
        (row.run)(&bench).expect(row.title);
        assert_eq!(bench.calls(), [0; 2], "{}", row.title);
        assert_eq!(bench.state(), before, "{}", row.title);
        bench.end();
    }
}

/// Of the two arrays of a set the one may have got room when the other is refused. It is asked for once.
#[test]
fn room_that_a_set_has_got_stays_with_it() {
    let bench = Bench::new();
    bench.refuse_nothing();
    bench.source.fail_nth(2);
    let mut set = wharf_meta::TensorSet::new(&bench.target);
    set.try_reserve(3, 40).unwrap_err();
    assert!(set.is_empty());
    let first = bench.source.calls();
    set.try_reserve(3, 40).unwrap();
    assert_eq!((first, bench.source.calls()), (2, 3));
}
