//! The fence against tables that were worked out by hand, and against a list of holders.

use core::cell::Cell;
use core::time::Duration;
use std::vec::Vec;

use proptest::prelude::*;
use wharf_engine::Stream;
use wharf_sync::{Clock, Critical, NoClock, Unsync};

use super::*;

mod keeping;
mod turns;
mod waking;

impl<P: SyncPolicy> Fence<P> {
    /// Grants `claim`, waiting for what ends by itself.
    fn begin<C: Clock + ?Sized>(
        &self,
        claim: Claim,
        clock: &C,
        deadline: Option<Duration>,
    ) -> Result<(), Refusal> {
        Turn::new(self, claim).wait(clock, deadline, || ()).0
    }
}

/// Two streams, a and b.
struct Streams(Stream, Stream);

impl Streams {
    fn claim() -> Self {
        Self(Stream::claim().unwrap(), Stream::claim().unwrap())
    }
    fn a(&self) -> StreamId {
        self.0.id()
    }
    fn b(&self) -> StreamId {
        self.1.id()
    }
    /// The claims that the columns of the table below stand for.
    fn newcomers(&self) -> [Claim; 8] {
        [
            Claim::HostRead,
            Claim::HostWrite,
            Claim::GuardRead,
            Claim::GuardWrite,
            Claim::DeviceRead(self.a()),
            Claim::DeviceRead(self.b()),
            Claim::DeviceWrite(self.a()),
            Claim::DeviceWrite(self.b()),
        ]
    }
}

/// Who may come beside whom: `.` granted, `H` held, `G` guarded. `a` and `b` are streams.
const BESIDE: [&str; 8] = [
    // HostR HostW GuardR GuardW DevR(a) DevR(b) DevW(a) DevW(b)
    ". H . H . . H H", // beside HostRead
    "H H H H H H H H", // beside HostWrite
    ". G . G . . G G", // beside GuardRead
    "G G G G G G G G", // beside GuardWrite
    ". H . H . . . H", // beside DeviceRead(a)
    ". H . H . . H .", // beside DeviceRead(b)
    "H H H H . H . H", // beside DeviceWrite(a)
    "H H H H H . H .", // beside DeviceWrite(b)
];

fn beside(holder: usize, newcomer: usize) -> Result<(), Refusal> {
    match BESIDE[holder].as_bytes()[2 * newcomer] {
        b'.' => Ok(()),
        b'H' => Err(Refusal::Held),
        _ => Err(Refusal::Guarded),
    }
}

#[test]
fn every_pair_is_granted_or_refused_as_the_table_says() {
    let streams = Streams::claim();
    let claims = streams.newcomers();
    for (row, &holder) in claims.iter().enumerate() {
        for (column, &newcomer) in claims.iter().enumerate() {
            let fence = Fence::<Unsync>::new();
            fence.try_begin(holder).unwrap();
            let expected = beside(row, column);
            let what = std::format!("{newcomer:?} beside {holder:?}");
            assert_eq!(fence.try_begin(newcomer), expected, "{what}");
            if expected.is_ok() {
                fence.end(newcomer);
            }
            // To wait for oneself would be for ever; a guard is not waited for at all.
            let waited = match expected {
                Err(Refusal::Held) => Err(Refusal::Never),
                other => other,
            };
            assert_eq!(fence.begin(newcomer, &NoClock, None), waited, "{what}");
            if waited.is_ok() {
                fence.end(newcomer);
            }
            fence.end(holder);
            assert_eq!(fence.word.load(), 0, "{what}");
        }
    }
}

#[test]
fn the_fields_lie_apart_and_leave_the_flags_alone() {
    let fields = [
        HOST_READERS,
        GUARD_READERS,
        HOST_WRITER,
        GUARD_WRITER,
        DEVICE_READERS,
        DEVICE_WRITERS,
        STREAM,
        PENDING,
    ];
    let maxima = fields.map(Field::max);
    assert_eq!(maxima, [31, 15, 1, 1, 63, 63, 63, 3]);
    let all = fields.iter().fold(WAITERS, |seen, field| {
        assert_eq!(seen & field.mask(), 0);
        seen | field.mask()
    });
    assert_eq!(all, 0xFFFF_FFFF);
    assert_eq!(DESERTED, 0x600, "the host and the guard that write");
    let devices = fields.map(Field::is_device);
    assert_eq!(
        devices,
        [false, false, false, false, true, true, false, false]
    );
    for field in fields {
        assert!(field.is_full(field.mask()) && !field.is_full(!field.one()));
    }
}

#[test]
fn a_full_field_names_its_limit_and_takes_no_more_until_one_ends() {
    let streams = Streams::claim();
    let (read, write) = (
        Claim::DeviceRead(streams.a()),
        Claim::DeviceWrite(streams.a()),
    );
    let limits = [
        (Claim::HostRead, 31),
        (Claim::GuardRead, 15),
        (read, 63),
        (write, 63),
    ];
    for (claim, limit) in limits {
        let fence = Fence::<Unsync>::new();
        for _ in 0..limit {
            fence.try_begin(claim).unwrap();
        }
        assert_eq!(fence.try_begin(claim), Err(Refusal::Full(limit)));
        let waited = fence.begin(claim, &NoClock, None);
        assert_eq!(waited, Err(Refusal::Full(limit)), "full is not waited for");
        fence.end(claim);
        fence.try_begin(claim).unwrap();
        for _ in 0..limit {
            fence.end(claim);
        }
        assert_eq!(fence.word.load(), 0);
    }
}

#[test]
fn readers_of_two_streams_keep_writers_of_either_out_until_both_are_gone() {
    let streams = Streams::claim();
    let fence = Fence::<Unsync>::new();
    let [read_a, read_b] = [streams.a(), streams.b()].map(Claim::DeviceRead);
    let [write_a, write_b] = [streams.a(), streams.b()].map(Claim::DeviceWrite);
    fence.try_begin(read_a).unwrap();
    fence.try_begin(read_b).unwrap();
    assert_eq!(fence.try_begin(write_a), Err(Refusal::Held));
    assert_eq!(fence.try_begin(write_b), Err(Refusal::Held));
    // A third reader does not make the word forget that there were two streams.
    fence.try_begin(read_a).unwrap();
    fence.end(read_b);
    assert_eq!(fence.try_begin(write_b), Err(Refusal::Held));
    fence.end(read_a);
    fence.end(read_a);
    fence.try_begin(write_b).unwrap();
    assert_eq!(fence.try_begin(read_a), Err(Refusal::Held));
    assert_eq!(fence.in_flight(), (0, 1));
    fence.end(write_b);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn a_stream_stays_known_while_any_of_its_accesses_is_left() {
    let streams = Streams::claim();
    let fence = Fence::<Unsync>::new();
    let (read, write) = (
        Claim::DeviceRead(streams.a()),
        Claim::DeviceWrite(streams.a()),
    );
    fence.try_begin(write).unwrap();
    fence.try_begin(read).unwrap();
    fence.end(read);
    assert_eq!(
        fence.try_begin(Claim::DeviceRead(streams.b())),
        Err(Refusal::Held)
    );
    assert_eq!(fence.try_begin(write), Ok(()), "its own stream goes on");
    assert_eq!(fence.in_flight(), (0, 2));
}

/// A clock that does something whenever somebody idles, and a second passes.
struct Script<F: Fn(u64)> {
    now: Cell<u64>,
    step: F,
}

impl<F: Fn(u64)> Script<F> {
    fn new(step: F) -> Self {
        Self {
            now: Cell::new(0),
            step,
        }
    }
}

impl<F: Fn(u64)> Clock for Script<F> {
    fn now(&self) -> Duration {
        Duration::from_secs(self.now.get())
    }
    fn idle(&self) {
        let now = self.now.get() + 1;
        self.now.set(now);
        (self.step)(now);
    }
}

/// Beyond it a script has no more steps: a wait that gets there would never end.
fn no_more(step: u64) -> ! {
    panic!("nothing happens at second {step}, and somebody still waits")
}

#[test]
fn a_pending_writer_holds_newcomers_back_and_is_next() {
    let streams = Streams::claim();
    let [read, write] = [
        Claim::DeviceRead(streams.a()),
        Claim::DeviceWrite(streams.a()),
    ];
    for writer in [
        Claim::HostWrite,
        Claim::GuardWrite,
        Claim::DeviceWrite(streams.b()),
    ] {
        let fence = Fence::<Critical>::new();
        let woken = Cell::new(fence.event.epoch());
        fence.try_begin(read).unwrap();
        // All of these could join a device that reads, if nobody were pending.
        let newcomers = [Claim::HostRead, Claim::GuardRead, read, write];
        let clock = Script::new(|step| match step {
            1 => {
                for late in newcomers {
                    assert_eq!(fence.try_begin(late), Err(Refusal::Held));
                }
            }
            2 => {
                fence.end(read);
                woken.set(fence.event.epoch());
            }
            late => no_more(late),
        });
        assert_eq!(fence.begin(writer, &clock, None), Ok(()));
        assert_eq!(clock.now.get(), 2);
        assert_eq!(
            fence.event.epoch(),
            woken.get(),
            "to be granted wakes nobody"
        );
        assert_eq!(fence.word.load() & (PENDING.mask() | WAITERS), 0);
        fence.end(writer);
        assert_eq!(fence.word.load(), 0);
    }
}

#[test]
fn a_waiting_reader_holds_nobody_back() {
    let streams = Streams::claim();
    let write = Claim::DeviceWrite(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(write).unwrap();
    let clock = Script::new(|step| match step {
        1 => fence.try_begin(write).unwrap(),
        2 | 3 => fence.end(write),
        late => no_more(late),
    });
    assert_eq!(fence.begin(Claim::HostRead, &clock, None), Ok(()));
    assert_eq!(clock.now.get(), 3);
}

#[test]
fn a_writer_that_gives_up_leaves_the_queue() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(read).unwrap();
    let alone = fence.word.load();
    let clock = Script::new(|_| ());
    let deadline = Some(Duration::from_secs(5));
    let outcome = fence.begin(Claim::HostWrite, &clock, deadline);
    assert_eq!(outcome, Err(Refusal::TimedOut));
    assert_eq!(clock.now.get(), 5);
    assert_eq!(fence.word.load(), alone, "neither pending nor waiters");
    assert_eq!(fence.try_begin(Claim::HostRead), Ok(()));
}

#[test]
fn a_writer_that_cannot_wait_leaves_the_queue() {
    let streams = Streams::claim();
    let fence = Fence::<Unsync>::new();
    fence.try_begin(Claim::DeviceRead(streams.a())).unwrap();
    let alone = fence.word.load();
    let outcome = fence.begin(Claim::HostWrite, &NoClock, None);
    assert_eq!(outcome, Err(Refusal::Never));
    assert_eq!(fence.word.load(), alone);
}

#[test]
fn a_clock_that_panics_leaves_no_writer_pending() {
    let streams = Streams::claim();
    let fence = Fence::<Critical>::new();
    fence.try_begin(Claim::DeviceRead(streams.a())).unwrap();
    let alone = fence.word.load();
    let clock = Script::new(|_| panic!("the clock has stopped"));
    let waits = || fence.begin(Claim::HostWrite, &clock, None);
    assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(waits)).is_err());
    assert_eq!(fence.word.load(), alone);
}

#[test]
fn the_second_writer_keeps_its_mark_when_the_first_gives_up() {
    let streams = Streams::claim();
    let read = Claim::DeviceRead(streams.a());
    let fence = Fence::<Critical>::new();
    fence.try_begin(read).unwrap();
    let clock = Script::new(|step| match step {
        1 => {
            let impatient = Script::new(|_| {
                assert_eq!(PENDING.get(fence.word.load()), 2);
            });
            let deadline = Some(Duration::from_secs(1));
            let outcome = fence.begin(Claim::GuardWrite, &impatient, deadline);
            assert_eq!(outcome, Err(Refusal::TimedOut));
            // Without a step in between in which readers could come.
            assert_eq!(PENDING.get(fence.word.load()), 1);
            assert_eq!(fence.try_begin(Claim::HostRead), Err(Refusal::Held));
        }
        2 => {
            assert_eq!(fence.try_begin(Claim::HostRead), Err(Refusal::Held));
            fence.end(read);
        }
        late => no_more(late),
    });
    assert_eq!(fence.begin(Claim::HostWrite, &clock, None), Ok(()));
    fence.end(Claim::HostWrite);
    assert_eq!(fence.word.load(), 0);
}

#[test]
fn a_wait_that_meets_a_guard_or_a_full_field_ends_there() {
    let streams = Streams::claim();
    let write = Claim::DeviceWrite(streams.a());
    let taken: [(Claim, u32, Refusal); 2] = [
        (Claim::GuardWrite, 1, Refusal::Guarded),
        (Claim::HostRead, 31, Refusal::Full(31)),
    ];
    for (claim, times, refusal) in taken {
        let fence = Fence::<Critical>::new();
        fence.try_begin(write).unwrap();
        let clock = Script::new(|step| {
            assert_eq!(step, 1);
            fence.end(write);
            for _ in 0..times {
                fence.try_begin(claim).unwrap();
            }
        });
        assert_eq!(fence.begin(Claim::HostRead, &clock, None), Err(refusal));
    }
}

#[test]
fn an_end_wakes_those_who_wait_and_nobody_otherwise() {
    let streams = Streams::claim();
    let write = Claim::DeviceWrite(streams.a());
    let fence = Fence::<Critical>::new();
    let before = fence.event.epoch();
    fence.try_begin(write).unwrap();
    fence.end(write);
    assert_eq!(fence.event.epoch(), before, "nobody was there to be woken");

    // A reader that waited in vain has left its mark; the next end clears it and wakes once.
    fence.try_begin(write).unwrap();
    let hurried = fence.begin(Claim::HostRead, &NoClock, Some(Duration::ZERO));
    assert_eq!(hurried, Err(Refusal::TimedOut));
    assert_eq!(fence.word.load() & (WAITERS | PENDING.mask()), WAITERS);
    fence.end(write);
    assert_eq!(fence.word.load(), 0);
    let woken = fence.event.epoch();
    assert_ne!(woken, before);
    fence.try_begin(write).unwrap();
    fence.end(write);
    assert_eq!(fence.event.epoch(), woken);
}

/// The holders as a list, and the streams of devices since none was there last.
#[derive(Default)]
struct Model {
    holders: Vec<usize>,
    streams: Vec<u8>,
}

impl Model {
    const LIMITS: [usize; 4] = [31, 1, 15, 1];

    /// Stream of a column of the table: 0 for a, 1 for b.
    fn stream(claim: usize) -> Option<u8> {
        match claim {
            4 | 6 => Some(0),
            5 | 7 => Some(1),
            _ => None,
        }
    }
    fn count(&self, claims: &[usize]) -> usize {
        let among = |holder: &&usize| claims.contains(holder);
        self.holders.iter().filter(among).count()
    }

    fn admit(&self, claim: usize) -> Result<(), Refusal> {
        let against = |refusal| {
            let refused = |&holder: &usize| beside(holder, claim) == Err(refusal);
            self.holders.iter().any(refused)
        };
        if against(Refusal::Guarded) {
            return Err(Refusal::Guarded);
        }
        // Which of several streams is left the word does not know: writers wait for all.
        let mixed = self.streams.len() > 1 && matches!(claim, 6 | 7);
        if against(Refusal::Held) || mixed {
            return Err(Refusal::Held);
        }
        let (used, limit) = match claim {
            4 | 5 => (self.count(&[4, 5]), 63),
            6 | 7 => (self.count(&[6, 7]), 63),
            host => (self.count(&[host]), Self::LIMITS[host]),
        };
        if used == limit {
            return Err(Refusal::Full(u32::try_from(limit).unwrap()));
        }
        Ok(())
    }

    fn begin(&mut self, claim: usize) {
        self.holders.push(claim);
        if let Some(stream) = Self::stream(claim)
            && !self.streams.contains(&stream)
        {
            self.streams.push(stream);
        }
    }

    fn end(&mut self, which: usize) -> usize {
        let claim = self.holders.swap_remove(which);
        if self.count(&[4, 5, 6, 7]) == 0 {
            self.streams.clear();
        }
        claim
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// So many of one claim: fields fill up.
    Begin(usize, usize),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let many = prop_oneof![4 => 1_usize..4, 1 => Just(40)];
    let step = prop_oneof![
        3 => (0_usize..8, many).prop_map(|(claim, times)| Step::Begin(claim, times)),
        2 => (0_usize..1000).prop_map(Step::End),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn histories_agree_with_a_list_of_holders(steps in steps()) {
        let streams = Streams::claim();
        let claims = streams.newcomers();
        let fence = Fence::<Unsync>::new();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Begin(claim, times) => for _ in 0..times {
                    let expected = model.admit(claim);
                    prop_assert_eq!(fence.try_begin(claims[claim]), expected);
                    if expected.is_ok() {
                        model.begin(claim);
                    }
                },
                Step::End(which) if !model.holders.is_empty() => {
                    let claim = model.end(which % model.holders.len());
                    fence.end(claims[claim]);
                }
                Step::End(_) => {}
            }
            let (reads, writes) = (model.count(&[4, 5]), model.count(&[6, 7]));
            prop_assert_eq!(fence.in_flight(), (u32::try_from(reads).unwrap(), u32::try_from(writes).unwrap()));
        }
        while !model.holders.is_empty() {
            fence.end(claims[model.end(0)]);
        }
        prop_assert_eq!(fence.word.load(), 0, "an unused fence is zero again");
    }
}
