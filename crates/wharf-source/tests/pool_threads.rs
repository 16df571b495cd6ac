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

/// Eight threads, twenty thousand blocks each, with stamps that tell thread and round. Every third block is
/// sent to the next thread, verified there, and released there. There is memory for all that can be alive at
/// once, so each of them is met.
#[cfg(feature = "std")]
#[test]
fn eight_threads_of_twenty_thousand_blocks() {
    use std::sync::mpsc::{TrySendError, sync_channel};
    use wharf_source::{PoolSource, SizeClass};
    use wharf_sync::Blocking;

    type Handle<'p> = &'p PoolSource<'p, Blocking>;
    const THREADS: usize = 8;
    const ROUNDS: usize = 20_000;

    fn stamp(block: &mut Block<Handle<'_>>, mark: u32) {
        let pattern = mark.to_le_bytes().into_iter().cycle();
        for (byte, value) in block.as_uninit_mut().iter_mut().zip(pattern) {
            byte.write(value);
        }
    }
    fn verify(block: &mut Block<Handle<'_>>, mark: u32) {
        let pattern = mark.to_le_bytes().into_iter().cycle();
        for (byte, value) in block.as_uninit_mut().iter_mut().zip(pattern) {
            // SAFETY: stamped before it was kept or sent.
            assert_eq!(unsafe { byte.assume_init() }, value);
        }
    }

    let mut slab = vec![MaybeUninit::uninit(); 1 << 17];
    let mut table: [SizeClass; 32] = [const { SizeClass::EMPTY }; 32];
    let pool = PoolSource::<Blocking>::new(&mut slab, &mut table);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
        .map(|_| sync_channel::<(Block<Handle<'_>>, u32)>(16))
        .unzip();
    thread::scope(|scope| {
        let workers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(me, inbox)| {
                let next = senders[(me + 1) % THREADS].clone();
                let pool = &pool;
                scope.spawn(move || {
                    let mut mine = VecDeque::new();
                    for round in 0..ROUNDS {
                        let mark = u32::try_from(me * ROUNDS + round).unwrap();
                        let layout =
                            Layout::from_size_align(SIZES[round % 4], 1 << (round % 7)).unwrap();
                        let mut block = Block::new(pool, layout).unwrap();
                        assert_eq!(block.as_ptr().addr().get() % layout.align(), 0);
                        stamp(&mut block, mark);
                        mine.push_back((block, mark));
                        if mine.len() > 5
                            && let Some((mut block, mark)) = mine.pop_front()
                        {
                            verify(&mut block, mark);
                            let mut parcel = (round % 3 == 0).then_some((block, mark));
                            while let Some(full) = parcel.take() {
                                match next.try_send(full) {
                                    Err(TrySendError::Full(full)) => {
                                        parcel = Some(full);
                                        thread::yield_now();
                                    }
                                    sent => sent.unwrap(),
                                }
                                // Whoever waits makes room for who waits for it.
                                for (mut block, mark) in inbox.try_iter() {
                                    verify(&mut block, mark);
                                }
                            }
                        }
                    }
                    drop(next);
                    for (mut block, mark) in mine {
                        verify(&mut block, mark);
                    }
                    // Until every other thread is done.
                    for (mut block, mark) in inbox {
                        verify(&mut block, mark);
                    }
                })
            })
            .collect();
        drop(senders);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
    assert_eq!(pool.census().refused, 0);
    assert_eq!((pool.foreign(), pool.overflowed()), (0, 0));
}
