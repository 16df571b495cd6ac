//! One thread: allocation, counting, slicing.

use std::cell::Cell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use wharf_backend::{BackendExt, MemBackend, SegmentMut, ShardedPool, SlotControl, StaticPool};
use wharf_bench::{AnyHandle, AnyLifo, Lifo, Run, SpinLifo, Window};
use wharf_segment::{Segment, View};
use wharf_sync::{Spin, SyncPolicy, Unsync};

use crate::contest::{Case, medians, progress};
use crate::pairs::heapless_object;
use crate::table::{Goal, Row};

type Pool<P> = StaticPool<P, 64, 16>;

/// Lets the optimiser believe that somebody looks at `value`, and drops it.
#[inline]
pub(crate) fn hold<T>(value: T) {
    black_box(&value);
}

/// The first case beside each of the others, of which the first has the goal.
fn contest(
    rows: &mut Vec<Row>,
    name: &str,
    case: Case<'_>,
    goal: Goal,
    peers: &[(&'static str, Case<'_>)],
) {
    progress(name);
    let cases: Vec<Case<'_>> = std::iter::once(case)
        .chain(peers.iter().map(|(_, peer)| *peer))
        .collect();
    let (nanoseconds, ratios) = medians(&cases);
    for (index, (beside, _)) in peers.iter().enumerate() {
        rows.push(Row {
            name: name.to_owned(),
            nanoseconds: Some(nanoseconds[0]),
            beside,
            ratio: Some(ratios[index + 1]),
            goal: if index == 0 { goal } else { Goal::No },
            note: format!("{:.2} ns", nanoseconds[index + 1]),
        });
    }
}

fn unique<P: SyncPolicy>(pool: &Pool<P>, times: u64) {
    let pool = black_box(pool);
    for _ in 0..times {
        hold(pool.alloc(64).ok());
    }
}

fn shared<B: MemBackend + ?Sized>(pool: &B, times: u64) {
    let pool = black_box(pool);
    for _ in 0..times {
        // SAFETY: 64 bytes nobody reads; a value is assumed so that freezing costs nothing but itself.
        let segment =
            SegmentMut::alloc(pool, 64).map(|s| Segment::from(unsafe { s.assume_init() }));
        hold(segment.ok());
    }
}

fn cloned<T: Clone>(value: &T, times: u64) {
    let value = black_box(value);
    for _ in 0..times {
        hold(value.clone());
    }
}

fn segment<P: SyncPolicy>(pool: &Pool<P>) -> Segment<&Pool<P>> {
    let unique = pool.alloc(64).expect("a slot");
    Segment::from(unique.filled(0).expect("host memory"))
}

fn sliced<P: SyncPolicy>(view: &View<&Pool<P>>, times: u64) {
    let (view, range) = (black_box(view), black_box(&RANGE));
    for _ in 0..times {
        hold(view.slice(range.0..range.1).ok());
    }
}

/// What is sliced out of 64 bytes.
const RANGE: (usize, usize) = (8, 24);

pub(crate) fn measure(rows: &mut Vec<Row>) {
    let (unsync, spin) = (Pool::<Unsync>::new(), Pool::<Spin>::new());
    let (lifo, spin_lifo) = (Lifo::<64, 16>::default(), SpinLifo::<64, 16>::default());
    let floor: Case<'_> = &|times| {
        let lifo = black_box(&lifo);
        for _ in 0..times {
            hold(lifo.alloc());
        }
    };
    let spin_floor: Case<'_> = &|times| {
        let lifo = black_box(&spin_lifo);
        for _ in 0..times {
            hold(lifo.alloc());
        }
    };
    let malloc: Case<'_> = &|times| {
        for _ in 0..times {
            hold(Box::<[u8; 64]>::new_uninit());
        }
    };
    contest(
        rows,
        "unique alloc+drop, Unsync",
        &|times| unique(&unsync, times),
        Goal::AtMost(2.0),
        &[
            ("floor/lifo", floor),
            ("heapless object pool", &heapless_object),
            ("malloc", malloc),
        ],
    );
    contest(
        rows,
        "shared alloc+drop, Unsync",
        &|times| shared(&unsync, times),
        Goal::AtMost(2.5),
        &[("floor/lifo", floor)],
    );
    let any: &dyn AnyLifo = black_box(&lifo);
    let erased_floor: Case<'_> = &|times| {
        let any = black_box(any);
        for _ in 0..times {
            hold(AnyHandle::alloc(any));
        }
    };
    let erased: &dyn MemBackend<Policy = Unsync> = black_box(&unsync);
    contest(
        rows,
        "shared alloc+drop, Unsync, erased",
        &|times| shared(erased, times),
        Goal::AtMost(3.0),
        &[("floor/lifo", floor), ("floor/lifo, erased", erased_floor)],
    );
    contest(
        rows,
        "shared alloc+drop, Spin",
        &|times| shared(&spin, times),
        Goal::AtMost(1.3),
        &[("LIFO + spin lock", spin_floor)],
    );
    let mut slab = vec![MaybeUninit::uninit(); 64 * 16];
    let mut control: Vec<_> = (0..16).map(|_| SlotControl::<Spin>::new()).collect();
    let sharded = ShardedPool::<_, 2>::new(&mut slab, &mut control, 64, 64).expect("a pool");
    contest(
        rows,
        "shared alloc+drop, Spin, ShardedPool",
        &|times| shared(&sharded, times),
        Goal::No,
        &[("LIFO + spin lock", spin_floor)],
    );

    let (counted, plain) = (Arc::new([0u8; 64]), Rc::new([0u8; 64]));
    let (held, held_alone) = (segment(&spin), segment(&unsync));
    contest(
        rows,
        "clone+drop, Spin",
        &|times| cloned(&held, times),
        Goal::AtMost(1.05),
        &[("Arc", &|times| cloned(&counted, times))],
    );
    // A segment is two words; so is this.
    let wide = (Rc::clone(&plain), &RANGE);
    contest(
        rows,
        "clone+drop, Unsync",
        &|times| cloned(&held_alone, times),
        Goal::AtMost(1.05),
        &[
            ("Arc", &|times| cloned(&counted, times)),
            ("Rc", &|times| cloned(&plain, times)),
            ("Rc and a reference", &|times| cloned(&wide, times)),
        ],
    );

    let (view, view_alone) = (View::from(held), View::from(held_alone));
    let bytes = Bytes::from(vec![0u8; 64]);
    // From the second handle on it counts.
    let _counts = bytes.clone();
    let peer: Case<'_> = &|times| {
        let (bytes, range) = (black_box(&bytes), black_box(&RANGE));
        for _ in 0..times {
            hold(bytes.slice(range.0..range.1));
        }
    };
    let (run, owner) = (Run::default(), Cell::new(0));
    let window = Window::new(&run, &owner, 64);
    let unchecked: Case<'_> = &|times| {
        let (window, range) = (black_box(&window), black_box(&RANGE));
        for _ in 0..times {
            hold(window.slice(range.0..range.1));
        }
    };
    contest(
        rows,
        "view slice+drop, Spin",
        &|times| sliced(&view, times),
        Goal::No,
        &[("Bytes::slice", peer)],
    );
    contest(
        rows,
        "view slice+drop, Unsync",
        &|times| sliced(&view_alone, times),
        Goal::No,
        &[("floor/window", unchecked)],
    );
}
