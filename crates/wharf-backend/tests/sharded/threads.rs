//! Eight threads: what one allocates another checks and drops, and nothing is lost.

use core::mem::MaybeUninit;
use std::sync::mpsc;
use std::thread;

use wharf_backend::{
    AllocError, BackendExt, MemBackend, Place, SegmentMut, ShardedPool, SlotControl,
};
use wharf_sync::{Blocking, SyncPolicy};

const THREADS: usize = 8;
const ROUNDS: usize = 20_000;
const PAYLOAD: usize = 48;

/// A mark that no other thread and no neighbouring round writes.
fn stamp(thread: usize, round: usize) -> [u8; PAYLOAD] {
    let seed = (thread * ROUNDS + round).to_le_bytes();
    core::array::from_fn(|at| seed[at % seed.len()] ^ at.to_le_bytes()[0])
}

type Sent<'p, P, const SHARDS: usize> = (usize, usize, SegmentMut<&'p ShardedPool<'p, P, SHARDS>>);

fn verify<P: SyncPolicy, const SHARDS: usize>((thread, round, segment): Sent<'_, P, SHARDS>) {
    assert_eq!(*segment, stamp(thread, round));
}

/// Every thread allocates, stamps, and sends every other segment to its neighbour, which checks it and drops it. How often
/// it was refused is returned.
fn stress<'p, P, const SHARDS: usize>(pool: &'p ShardedPool<'p, P, SHARDS>) -> usize
where
    P: SyncPolicy,
    P::Lock<wharf_backend::FreeList>: Send + Sync,
    P::Count: Send + Sync,
{
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
        .map(|_| mpsc::channel::<Sent<'p, P, SHARDS>>())
        .unzip();
    thread::scope(|scope| {
        let work = |me: usize, inbox: mpsc::Receiver<Sent<'p, P, SHARDS>>| {
            let neighbour = senders[(me + 1) % THREADS].clone();
            move || {
                let mut refused = 0;
                for round in 0..ROUNDS {
                    let segment = loop {
                        inbox.try_iter().for_each(verify);
                        match pool.alloc(PAYLOAD) {
                            Ok(segment) => break segment,
                            Err(AllocError::Exhausted { .. }) => refused += 1,
                            Err(other) => panic!("{other}"),
                        }
                        thread::yield_now();
                    };
                    let segment = segment.init_from(&stamp(me, round)).unwrap();
                    if round % 2 == 0 {
                        neighbour.send((me, round, segment)).unwrap();
                    } else {
                        verify((me, round, segment));
                    }
                }
                drop(neighbour);
                // Until the one before has finished.
                inbox.into_iter().for_each(verify);
                refused
            }
        };
        let workers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(me, inbox)| scope.spawn(work(me, inbox)))
            .collect();
        drop(senders);
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum()
    })
}

fn check<P, const SHARDS: usize>(slots: usize)
where
    P: SyncPolicy,
    P::Lock<wharf_backend::FreeList>: Send + Sync,
    P::Count: Send + Sync,
{
    let mut slab = vec![MaybeUninit::uninit(); PAYLOAD * slots];
    let mut control: Vec<_> = (0..slots).map(|_| SlotControl::<P>::new()).collect();
    let pool = ShardedPool::<P, SHARDS>::new(&mut slab, &mut control, PAYLOAD, 1).unwrap();
    let refused = stress(&pool);
    let census = pool.census();
    assert_eq!(census.in_use, 0, "nothing lost");
    assert_eq!(
        census.refused, refused,
        "everybody who was refused was counted"
    );
    assert!(census.peak <= slots);
    // And nothing doubled.
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc(0).ok()).collect();
    assert_eq!(all.len(), slots);
    let mut places: Vec<_> = all
        .iter()
        .map(|segment| match segment.place() {
            Place::Host(base) => base.addr(),
            Place::Device(_) => panic!("a pool is host memory"),
        })
        .collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), slots);
}

#[test]
fn a_shard_for_every_thread() {
    check::<Blocking, 8>(64);
}

#[test]
fn fewer_shards_than_threads_and_hardly_any_slots() {
    check::<Blocking, 3>(7);
}

#[cfg(feature = "spin")]
#[test]
fn spinning() {
    check::<wharf_sync::Spin, 4>(24);
}
