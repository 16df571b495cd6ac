//! Every operation that may allocate, a row each: its requests are counted in a run that goes well, and then each of them is
//! refused in turn, of the memory of the host, of the device, and of the source of the blocks. After each refusal everything is what it was
//! before: memory, blocks, the directory, fences, completion counts, handles, bytes. And what was there serves on: it is
//! written and read, and the same operation succeeds.
//!
//! A row that takes nothing runs while *everything* is refused. So the table also holds what the documentation says allocates nothing.
//!
//! The table is held to the crate: a public function in no row is a failure, unless it is `const`. (Those call no trait, so no
//! source and no backend.) The functions of [`Launch`](wharf_tensor::Launch) are in the rows of `launching`.
//!
//! What cannot be refused here is the heap of the host, from which [`ChromeTrace`](wharf_tensor::ChromeTrace) alone takes.

mod bench;
mod held;
mod launching;
mod moving;
mod setting_up;

use bench::{Bench, Name, Took};
use wharf_backend::AllocError;
use wharf_source::SourceError;
use wharf_tensor::TensorError;

/// An operation.
struct Row {
    title: &'static str,
    /// The public functions that it goes through: module and name.
    through: &'static [&'static str],
    /// Segments of the host's memory and of the device's.
    segments: [u64; 2],
    /// The blocks, in the order in which they are asked for.
    blocks: &'static [Took],
    /// Does it, checks what it gives, and lets go of that. Where it is refused: that what was given came back.
    run: fn(&Bench) -> Result<(), TensorError>,
}

/// An operation that takes nothing.
const fn nothing(
    title: &'static str,
    through: &'static [&'static str],
    run: fn(&Bench) -> Result<(), TensorError>,
) -> Row {
    Row {
        title,
        through,
        segments: [0, 0],
        blocks: &[],
        run,
    }
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [setting_up::ROWS, moving::ROWS, launching::ROWS]
        .into_iter()
        .flatten()
}

/// Who refuses.
#[derive(Clone, Copy, Debug)]
enum Refuser {
    Host,
    Device,
    Blocks,
}

impl Refuser {
    const ALL: [Self; 3] = [Self::Host, Self::Device, Self::Blocks];

    fn requests(self, row: &Row) -> u64 {
        match self {
            Self::Host => row.segments[0],
            Self::Device => row.segments[1],
            Self::Blocks => row.blocks.len() as u64,
        }
    }

    fn refuse(self, bench: &Bench, nth: u64) {
        match self {
            Self::Host => bench.host.fail_nth(nth),
            Self::Device => bench.device.fail_nth(nth),
            Self::Blocks => bench.source.fail_nth(nth),
        }
    }

    fn calls(self, bench: &Bench) -> u64 {
        bench.calls()[self as usize]
    }

    /// That an error says it was this one, at this request, and for how much.
    #[track_caller]
    fn told(self, row: &Row, nth: u64, error: TensorError) {
        let expected = match self {
            Self::Host | Self::Device => AllocError::Injected { call: nth },
            Self::Blocks => AllocError::Source(SourceError::Injected {
                requested: row.blocks[usize::try_from(nth).unwrap() - 1].bytes(),
                call: nth,
            }),
        };
        assert_eq!(
            error,
            TensorError::Alloc(expected),
            "{}: {self:?} {nth}",
            row.title
        );
    }
}

#[test]
fn what_allocates_survives_each_refusal() {
    for row in rows().filter(|row| Refuser::ALL.iter().any(|who| who.requests(row) > 0)) {
        let takes = Refuser::ALL.map(|who| who.requests(row));
        for who in Refuser::ALL {
            for nth in 1..=who.requests(row) {
                let bench = Bench::new();
                let before = bench.state();
                bench.refuse_nothing();
                who.refuse(&bench, nth);
                let refused = (row.run)(&bench).expect_err(row.title);
                who.told(row, nth, refused);
                let at = format!("{}: {who:?} {nth}", row.title);
                assert_eq!(who.calls(&bench), nth, "{at}: asked on");
                assert_eq!(bench.state(), before, "{at}");
                // It serves on, and the same succeeds.
                bench.serves();
                bench.refuse_nothing();
                (row.run)(&bench).expect(row.title);
                assert_eq!(bench.calls(), takes, "{at}: once more");
                assert_eq!(bench.state().held, before.held, "{at}: once more");
                bench.end();
            }
            // One more there is not.
            let bench = Bench::new();
            let before = bench.state();
            bench.refuse_nothing();
            who.refuse(&bench, who.requests(row) + 1);
            (row.run)(&bench).expect(row.title);
            assert_eq!(bench.calls(), takes, "{}", row.title);
            assert_eq!(bench.state().held, before.held, "{}", row.title);
            bench.serves();
            bench.end();
        }
    }
}

#[test]
fn what_allocates_nothing_works_while_everything_is_refused() {
    for row in rows().filter(|row| Refuser::ALL.iter().all(|who| who.requests(row) == 0)) {
        let bench = Bench::new();
        let before = bench.state();
        bench.refuse_everything();
        (row.run)(&bench).expect(row.title);
        assert_eq!(bench.calls(), [0; 3], "{}", row.title);
        assert_eq!(bench.state().held, before.held, "{}", row.title);
        bench.serves();
        bench.end();
    }
}

/// The sizes that the crate foretells are those that are asked for.
#[test]
fn blocks_are_as_large_as_foretold() {
    assert!(Took::Control.bytes() > 0);
    assert_eq!(Took::Named(Name::Static).bytes(), bench::IDENTITY.size());
    assert!(Took::Named(Name::Copied(1)).bytes() > bench::IDENTITY.size());
}
