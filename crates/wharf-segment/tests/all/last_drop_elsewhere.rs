//! Eight threads clone, check and drop one another's segments; whoever comes last gives the memory back.
#![cfg(feature = "std")]

use core::mem::MaybeUninit;
use std::sync::mpsc;
use std::thread;

use wharf_backend::{BackendExt, MemBackend, PoolBackend, SlotControl};
use wharf_segment::{Segment, View};
use wharf_sync::Blocking;

const THREADS: usize = 8;
const ROUNDS: usize = 20_000;
const PAYLOAD: usize = 40;
const SLOTS: usize = 32;

type Pool<'s> = PoolBackend<'s, Blocking>;

/// What thread `thread` writes in round `round`.
fn stamp(thread: usize, round: usize) -> [u8; PAYLOAD] {
    let seed = (thread * ROUNDS + round).to_le_bytes();
    core::array::from_fn(|at| seed[at % seed.len()] ^ at.to_le_bytes()[0])
}

struct Sent<'p, 's> {
    thread: usize,
    round: usize,
    view: View<&'p Pool<'s>>,
}

impl Sent<'_, '_> {
    /// Clones what arrived, checks all of it, and is quite possibly the last to drop it.
    fn verify(self) {
        let clone = self.view.segment().clone();
        let expected = stamp(self.thread, self.round);
        assert_eq!(*self.view, expected[8..]);
        drop(self.view);
        assert_eq!(*clone, expected);
    }
}

#[test]
fn segments_dropped_last_on_other_threads_come_home() {
    let mut slab = vec![MaybeUninit::uninit(); PAYLOAD * SLOTS];
    let mut control = [const { SlotControl::<Blocking>::NEW }; SLOTS];
    let pool = PoolBackend::new(&mut slab, &mut control, PAYLOAD, 1).unwrap();
    let pool = &pool;

    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
        .map(|_| mpsc::channel::<Sent<'_, '_>>())
        .unzip();
    thread::scope(|scope| {
        for (me, inbox) in receivers.into_iter().enumerate() {
            let neighbours = [1, 3].map(|step| senders[(me + step) % THREADS].clone());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let unique = loop {
                        inbox.try_iter().for_each(Sent::verify);
                        match pool.alloc(PAYLOAD) {
                            Ok(unique) => break unique,
                            Err(_) => thread::yield_now(),
                        }
                    };
                    let expected = stamp(me, round);
                    let segment = Segment::from(unique.init_from(&expected).unwrap());
                    // Two others hold it besides us, and nobody knows who lets go last.
                    for neighbour in &neighbours {
                        let view = View::from(segment.clone()).slice(8..).unwrap();
                        neighbour
                            .send(Sent {
                                thread: me,
                                round,
                                view,
                            })
                            .unwrap();
                    }
                    assert_eq!(*segment, expected);
                    // Alone already? Then we may write, and nobody sees it.
                    if let Ok(mut unique) = segment.try_mut() {
                        unique.fill(0, PAYLOAD, 0).unwrap();
                    }
                }
                drop(neighbours);
                // Until those before have finished.
                inbox.into_iter().for_each(Sent::verify);
            });
        }
        drop(senders);
    });

    let census = pool.census();
    assert_eq!(census.in_use, 0, "nothing lost");
    assert!(census.peak <= SLOTS);
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc(PAYLOAD).ok()).collect();
    assert_eq!(all.len(), SLOTS, "and everything there");
}
