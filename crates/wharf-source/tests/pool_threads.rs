//! Pools under contention, and blocks that are released on a foreign thread.
#![cfg(any(feature = "std", feature = "critical-section"))]

use core::alloc::Layout;
use core::mem::MaybeUninit;
use std::collections::VecDeque;
use std::thread;

use wharf_source::{Block, BlockSource, StaticPoolSource};

const SIZES: [usize; 4] = [8, 24, 64, 100];

/// Each thread stamps its blocks and finds its stamps again; every other block dies on a foreign thread.
fn contend<S: BlockSource + Copy + Send + 'static>(pool: S) {
    let (sender, receiver) = std::sync::mpsc::channel::<Block<S>>();
    let grave = thread::spawn(move || receiver.into_iter().count());
    let workers = [1u8, 2, 3].map(|stamp| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut mine = VecDeque::new();
            for round in 0..2000usize {
                let layout = Layout::from_size_align(SIZES[round % 4], 1 << (round % 7)).unwrap();
                if let Ok(mut block) = Block::new(pool, layout) {
                    assert_eq!(block.as_ptr().addr().get() % layout.align(), 0);
                    block.as_uninit_mut().fill(MaybeUninit::new(stamp));
                    mine.push_back(block);
                }
                if mine.len() > 5 {
                    let mut block = mine.pop_front().unwrap();
                    for byte in block.as_uninit_mut() {
                        // SAFETY: filled above.
                        assert_eq!(unsafe { byte.assume_init() }, stamp);
                    }
                    if round % 2 == 0 {
                        sender.send(block).unwrap();
                    }
                }
            }
        })
    });
    drop(sender);
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert!(grave.join().unwrap() > 0);
}

macro_rules! contended {
    ($(#[$attribute:meta] $name:ident: $policy:ident),+ $(,)?) => {$(
        #[$attribute]
        #[test]
        fn $name() {
            static POOL: StaticPoolSource<wharf_sync::$policy, 16384, 32> = StaticPoolSource::new();
            contend(&POOL);
            assert_eq!((POOL.foreign(), POOL.overflowed()), (0, 0));
            assert!(POOL.used() <= 16384);
        }
    )+};
}
contended! {
    #[cfg(feature = "critical-section")] critical: Critical,
    #[cfg(feature = "std")] blocking: Blocking,
}
