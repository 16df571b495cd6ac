//! Two threads on one allocator: together, against one alone.

use std::mem::MaybeUninit;

use heapless::object_pool;
use heapless::pool::object::ObjectBlock;
use wharf_backend::{BackendExt, FreeList, MemBackend, PoolBackend, ShardedPool, SlotControl};
use wharf_bench::SpinLifo;
use wharf_sync::{Blocking, Spin, SyncPolicy};

use crate::alone::hold;
use crate::contest::progress;
use crate::table::{Goal, Row};
use crate::together::{Task, speedup};

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

fn contest(rows: &mut Vec<Row>, name: &str, goal: Goal, task: Task<'_>) {
    progress(name);
    let Some(measured) = speedup(task) else {
        rows.push(Row {
            name: format!("two threads, {name}"),
            nanoseconds: None,
            beside: "",
            ratio: None,
            goal,
            note: "the machine never ran both at once".to_owned(),
        });
        return;
    };
    rows.push(Row {
        name: format!("two threads, {name}"),
        nanoseconds: Some(measured.nanoseconds),
        beside: "one",
        ratio: Some(measured.speedup),
        goal,
        note: format!("{} rounds", measured.rounds),
    });
}

fn one_list<P: SyncPolicy>(rows: &mut Vec<Row>, name: &str)
where
    P::Lock<FreeList>: Sync,
    P::Count: Sync,
{
    let mut yard = Yard::<P>::new();
    let pool = yard.pool();
    contest(rows, name, Goal::No, &|_, times| pairs_of(&pool, times));
}

fn shards<P: SyncPolicy>(rows: &mut Vec<Row>, name: &str, goal: Goal)
where
    P::Lock<FreeList>: Sync,
    P::Count: Sync,
{
    let mut yard = Yard::<P>::new();
    let pool = yard.shards();
    contest(rows, name, goal, &|_, times| pairs_of(&pool, times));
}

pub(crate) fn measure(rows: &mut Vec<Row>) {
    // What this machine makes of two threads that share nothing.
    let mut yards = [Yard::<Spin>::new(), Yard::<Spin>::new()];
    let own = yards.each_mut().map(Yard::pool);
    let own = own.each_ref();
    contest(rows, "a pool each (Spin)", Goal::No, &|who, times| {
        pairs_of(own[who], times);
    });

    shards::<Spin>(rows, "ShardedPool (Spin)", Goal::AtLeast(1.8));
    shards::<Blocking>(rows, "ShardedPool (Blocking)", Goal::AtLeast(1.8));
    one_list::<Spin>(rows, "PoolBackend (Spin)");
    one_list::<Blocking>(rows, "PoolBackend (Blocking)");
    let lifo = SpinLifo::<64, SLOTS>::default();
    contest(rows, "LIFO + spin lock", Goal::No, &|_, times| {
        for _ in 0..times {
            hold(lifo.alloc());
        }
    });
    contest(rows, "heapless object pool", Goal::No, &|_, times| {
        heapless_object(times);
    });
    contest(rows, "malloc", Goal::No, &|_, times| {
        for _ in 0..times {
            hold(Box::<[u8; 64]>::new_uninit());
        }
    });
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
