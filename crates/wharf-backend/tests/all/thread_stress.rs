//! Eight threads on one pool: what one allocates another checks and drops, and nothing is lost.
#![cfg(feature = "std")]

use core::mem::MaybeUninit;
use std::sync::{Arc, mpsc};
use std::thread;

use wharf_backend::{
    AllocError, BackendExt, BackendRef, MemBackend, PoolBackend, SegmentMut, SlotControl,
    StaticPool,
};
use wharf_sync::Blocking;

const THREADS: usize = 8;
const ROUNDS: usize = 20_000;
const PAYLOAD: usize = 48;
const SLOTS: usize = 24;

/// A mark that no other thread and no neighbouring round writes.
fn stamp(thread: usize, round: usize) -> [u8; PAYLOAD] {
    let seed = (thread * ROUNDS + round).to_le_bytes();
    core::array::from_fn(|at| seed[at % seed.len()] ^ at.to_le_bytes()[0])
}

type Sent<R> = (usize, usize, SegmentMut<R>);

fn verify<R: BackendRef>((thread, round, segment): Sent<R>) {
    assert_eq!(segment.host().unwrap(), stamp(thread, round));
}

/// Every thread allocates, stamps, and sends every other segment to its neighbour, which checks it and drops
/// it. With fewer slots than could be on their way, the pool is exhausted again and again; how often is returned.
fn stress<R: BackendRef + Clone + Send>(backend: &R) -> usize {
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Sent<R>>()).unzip();
    thread::scope(|scope| {
        let work = |me: usize, inbox: mpsc::Receiver<Sent<R>>| {
            let neighbour = senders[(me + 1) % THREADS].clone();
            let backend = backend.clone();
            move || {
                let mut refused = 0;
                for round in 0..ROUNDS {
                    let segment = loop {
                        inbox.try_iter().for_each(verify);
                        match SegmentMut::alloc(backend.clone(), PAYLOAD) {
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

fn check<R: BackendRef + Clone + Send>(backend: &R) {
    let refused = stress(backend);
    let census = backend.backend().census();
    assert_eq!(census.in_use, 0, "nothing lost");
    assert_eq!(
        census.refused, refused,
        "everybody who was refused was counted"
    );
    assert!(census.peak <= SLOTS);
    // And nothing doubled.
    let all: Vec<_> = std::iter::from_fn(|| SegmentMut::alloc(backend.clone(), 0).ok()).collect();
    assert_eq!(all.len(), SLOTS);
    let mut places: Vec<_> = all
        .iter()
        .map(|segment| match segment.place() {
            wharf_backend::Place::Host(base) => base.addr(),
            wharf_backend::Place::Device(_) => panic!("a pool is host memory"),
        })
        .collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), SLOTS);
}

#[test]
fn a_lent_pool_survives_eight_threads() {
    let mut slab = vec![MaybeUninit::uninit(); PAYLOAD * SLOTS];
    let mut control = [const { SlotControl::<Blocking>::NEW }; SLOTS];
    let pool = PoolBackend::new(&mut slab, &mut control, PAYLOAD, 1).unwrap();
    check(&&pool);
    assert!(pool.alloc(PAYLOAD).is_ok());
}

#[test]
fn a_counted_erased_pool_survives_eight_threads() {
    let pool: Arc<dyn MemBackend<Policy = Blocking> + Send + Sync> =
        Arc::new(StaticPool::<Blocking, PAYLOAD, SLOTS>::new());
    check(&pool);
    assert_eq!(Arc::strong_count(&pool), 1);
}
