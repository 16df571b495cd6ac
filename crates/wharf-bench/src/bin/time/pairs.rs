//! Two threads on one allocator: together, against one alone.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use heapless::object_pool;
use heapless::pool::object::ObjectBlock;
use wharf_backend::{BackendExt, MemBackend, PoolBackend, ShardedPool, SlotControl};
use wharf_bench::SpinLifo;
use wharf_sync::{Blocking, Spin, SyncPolicy};

use crate::alone::hold;
use crate::contest::progress;
use crate::table::{Goal, Row};
use crate::together::{Speedup, Task, speedup};

const SLOTS: usize = 64;

/// Owns the memory that pools borrow.
struct Yard<P: SyncPolicy> {
    slab: Vec<MaybeUninit<u8>>,
    control: Vec<SlotControl<P>>,
}

impl<P: SyncPolicy> Yard<P> {
    fn new() -> Self {
        Self {
            // With room to align.
            slab: vec![MaybeUninit::uninit(); 64 * (SLOTS + 1)],
            control: (0..SLOTS).map(|_| SlotControl::new()).collect(),
        }
    }
    fn pool(&mut self) -> PoolBackend<'_, P> {
        PoolBackend::new(&mut self.slab, &mut self.control, 64, 64).expect("a pool")
    }
    fn shards(&mut self) -> ShardedPool<'_, P, 2> {
        ShardedPool::new(&mut self.slab, &mut self.control, 64, 64).expect("a pool")
    }
}

fn pairs_of<B: MemBackend>(pool: &B, times: u64) {
    for _ in 0..times {
        hold(pool.alloc(64).ok());
    }
}

/// For all of them together; those that find no quiet moment have a second chance in what is left of it.
const PATIENCE: Duration = Duration::from_secs(32);

/// What two threads do, and the goal of it.
type Contest<'c> = (&'static str, Goal, Task<'c>);

fn row(&(name, goal, _): &Contest<'_>, measured: Option<&Speedup>) -> Row {
    Row {
        name: format!("two threads, {name}"),
        nanoseconds: measured.map(|measured| measured.nanoseconds),
        beside: measured.map_or("", |_| "one"),
        ratio: measured.map(|measured| measured.speedup),
        goal,
        note: match measured {
            Some(measured) => format!("{} rounds", measured.rounds),
            None => "too busy a machine: both never ran at once".to_owned(),
        },
    }
}

pub(crate) fn measure(rows: &mut Vec<Row>) {
    let mut yards: [Yard<Spin>; 4] = std::array::from_fn(|_| Yard::new());
    let [mine, theirs, spin, spin_shards] = yards.each_mut();
    let own = [mine.pool(), theirs.pool()];
    let (spin, spin_shards) = (spin.pool(), spin_shards.shards());
    let mut yards: [Yard<Blocking>; 2] = std::array::from_fn(|_| Yard::new());
    let [blocking, blocking_shards] = yards.each_mut();
    let (blocking, blocking_shards) = (blocking.pool(), blocking_shards.shards());
    let lifo = SpinLifo::<64, SLOTS>::default();
    let own = own.each_ref();
    let goal = Goal::AtLeast(1.8);
    let contests: [Contest<'_>; 8] = [
        // What this machine makes of two threads that share nothing.
        ("a pool each (Spin)", Goal::No, &|who, times| {
            pairs_of(own[who], times);
        }),
        ("ShardedPool (Spin)", goal, &|_, times| {
            pairs_of(&spin_shards, times);
        }),
        ("ShardedPool (Blocking)", goal, &|_, times| {
            pairs_of(&blocking_shards, times);
        }),
        ("PoolBackend (Spin)", Goal::No, &|_, times| {
            pairs_of(&spin, times);
        }),
        ("PoolBackend (Blocking)", Goal::No, &|_, times| {
            pairs_of(&blocking, times);
        }),
        ("LIFO + spin lock", Goal::No, &|_, times| {
            for _ in 0..times {
                hold(lifo.alloc());
            }
        }),
        ("heapless object pool", Goal::No, &|_, times| {
            heapless_object(times);
        }),
        ("malloc", Goal::No, &|_, times| {
            for _ in 0..times {
                hold(Box::<[u8; 64]>::new_uninit());
            }
        }),
    ];

    let deadline = Instant::now() + PATIENCE;
    let mut measured: [Option<Speedup>; 8] = contests.map(|_| None);
    for attempt in 1..=2 {
        for ((name, _, task), measured) in contests.iter().zip(&mut measured) {
            let left = deadline.saturating_duration_since(Instant::now());
            if measured.is_none() && !left.is_zero() {
                progress(&format!("two threads, {name}, attempt {attempt}"));
                *measured = speedup(*task, left.min(PATIENCE / 8));
            }
        }
    }
    let pairs = contests.iter().zip(&measured);
    rows.extend(pairs.map(|(contest, measured)| row(contest, measured.as_ref())));
}

object_pool!(Objects: [u8; 64]);

/// Alloc and drop in the pool of heapless, which is a static.
pub(crate) fn heapless_object(times: u64) {
    static FILL: std::sync::Once = std::sync::Once::new();
    FILL.call_once(|| {
        for _ in 0..SLOTS {
            Objects.manage(Box::leak(Box::new(ObjectBlock::new([0; 64]))));
        }
    });
    for _ in 0..times {
        hold(Objects.request());
    }
}
