//! What others free while a request goes from lock to lock.

use core::cell::Cell;
use core::mem::MaybeUninit;
use std::sync::LazyLock;

use wharf_backend::{BackendExt, MemBackend, Place, SegmentMut, ShardedPool, SlotControl, Uninit};
use wharf_sync::{Critical, Lock, SyncPolicy, Who};

use crate::posted::{Posted, stand_at};

const PAYLOAD: usize = 16;

/// What others do once so many locks were entered that were not inside of another.
type Interruption = (usize, Box<dyn FnOnce()>);

thread_local! {
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    static MEANWHILE: Cell<Option<Interruption>> = const { Cell::new(None) };
}

/// As `Critical`, except that a test says what happens before a lock is entered.
struct Watched;

// SAFETY: all that is shared is shared as under `Critical`.
unsafe impl SyncPolicy for Watched {
    type Lock<T> = WatchedLock<<Critical as SyncPolicy>::Lock<T>>;
    type Count = <Critical as SyncPolicy>::Count;
    type Word = <Critical as SyncPolicy>::Word;
    type Event = <Critical as SyncPolicy>::Event;
    const NAME: &'static str = "Watched";

    fn who() -> Who {
        Posted::<Critical>::who()
    }
}

struct WatchedLock<L>(L);

// SAFETY: the lock inside.
unsafe impl<T, L: Lock<T>> Lock<T> for WatchedLock<L> {
    fn new(value: T) -> Self {
        Self(L::new(value))
    }
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        if INSIDE.get() == 0 {
            match MEANWHILE.take() {
                Some((0, happens)) => happens(),
                Some((more, happens)) => MEANWHILE.set(Some((more - 1, happens))),
                None => {}
            }
        }
        INSIDE.set(INSIDE.get() + 1);
        let result = self.0.with(section);
        INSIDE.set(INSIDE.get() - 1);
        result
    }
    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

type Pool = ShardedPool<'static, Watched, 2>;

/// Two slots, one in each shard.
static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let slab = vec![MaybeUninit::uninit(); 2 * PAYLOAD].leak();
    let control = vec![SlotControl::new(), SlotControl::new()].leak();
    ShardedPool::new(slab, control, PAYLOAD, 1).unwrap()
});

fn address(segment: &SegmentMut<&'static Pool, Uninit>) -> usize {
    match segment.place() {
        Place::Host(base) => base.addr().get(),
        Place::Device(_) => panic!("a pool is host memory"),
    }
}

/// A request looks at its own shard, at the other, and once more at both. Wherever it is, it gets what is freed before its last
/// look: in the shard that it comes to, in one that it has left, by whoever is at home there and by whoever is not.
#[test]
fn what_is_freed_behind_a_request_is_found() {
    let pool = &*POOL;
    for looks in 0..3 {
        for (home, by) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let [first, second] = [0, 1].map(|who| {
                stand_at(who);
                pool.alloc(PAYLOAD).unwrap()
            });
            let (freed, kept) = if home == 0 {
                (first, second)
            } else {
                (second, first)
            };
            let place = address(&freed);
            stand_at(0);
            let others = move || {
                stand_at(by);
                drop(freed);
                stand_at(0);
            };
            MEANWHILE.set(Some((looks, Box::new(others))));
            let got = pool.alloc(PAYLOAD);
            assert!(MEANWHILE.take().is_none(), "it looked {looks} times");
            let got = got.unwrap_or_else(|error| panic!("{looks}, {home}, {by}: {error}"));
            assert_eq!(address(&got), place);
            drop((got, kept));
            assert_eq!(pool.census().in_use, 0);
        }
    }
    assert_eq!(pool.census().refused, 0);
}
