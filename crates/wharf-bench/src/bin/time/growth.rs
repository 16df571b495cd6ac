//! That nothing grows with the number of slots, or with the depth of slices.

use std::hint::black_box;
use std::mem::MaybeUninit;

use wharf_backend::{BackendExt, PoolBackend, SegmentMut, SlotControl, StaticPool, Uninit};
use wharf_segment::{Segment, View};
use wharf_sync::Unsync;

use crate::alone::hold;
use crate::contest::{Case, medians, progress};
use crate::table::{Goal, Row};

const PAYLOAD: usize = 8;
const SLOTS: [usize; 3] = [8, 1 << 12, 1 << 20];
const DEPTH: usize = 10_000;

/// What is still called flat.
const FLAT: Goal = Goal::AtMost(1.1);

fn pair(pool: &PoolBackend<'_, Unsync>, times: u64) {
    let pool = black_box(pool);
    for _ in 0..times {
        hold(pool.alloc(PAYLOAD).ok());
    }
}

pub(crate) fn measure(rows: &mut Vec<Row>) {
    progress("growth with slots");
    let mut memory = SLOTS.map(|slots| {
        let slab = vec![MaybeUninit::uninit(); slots * PAYLOAD];
        let control: Vec<_> = (0..slots).map(|_| SlotControl::<Unsync>::new()).collect();
        (slab, control)
    });
    let pools = memory
        .each_mut()
        .map(|(slab, control)| PoolBackend::new(slab, control, PAYLOAD, 1).expect("a pool"));
    // One slot is left of each.
    let _held: Vec<SegmentMut<_, Uninit>> = pools
        .iter()
        .flat_map(|pool| (1..pool.slots()).map(|_| pool.alloc(0).expect("a slot")))
        .collect();
    let large: Case<'_> = &|times| pair(&pools[2], times);
    let middle: Case<'_> = &|times| pair(&pools[1], times);
    let small: Case<'_> = &|times| pair(&pools[0], times);
    let (nanoseconds, ratios) = medians(&[large, middle, small]);
    rows.push(Row {
        name: "alloc+drop, the last of 2^20 slots".to_owned(),
        nanoseconds: Some(nanoseconds[0]),
        beside: "the last of 8",
        ratio: Some(ratios[2]),
        goal: FLAT,
        note: format!(
            "{:.2} ns; of 2^12: {:.2} ns",
            nanoseconds[2], nanoseconds[1]
        ),
    });

    progress("growth with depth");
    let pool = StaticPool::<Unsync, 64, 1>::new();
    let segment = Segment::from(
        pool.alloc(64)
            .expect("a slot")
            .filled(0)
            .expect("host memory"),
    );
    let shallow = View::from(segment);
    let mut deep = shallow.clone();
    for _ in 0..DEPTH {
        deep = deep.slice(..).expect("in bounds");
    }
    let slice = |view: &View<&StaticPool<Unsync, 64, 1>>, times: u64| {
        let view = black_box(view);
        for _ in 0..times {
            hold(view.slice(8..24).ok());
        }
    };
    let deep: Case<'_> = &|times| slice(&deep, times);
    let shallow: Case<'_> = &|times| slice(&shallow, times);
    let (nanoseconds, ratios) = medians(&[deep, shallow]);
    rows.push(Row {
        name: "slice+drop, 10 000 slices deep".to_owned(),
        nanoseconds: Some(nanoseconds[0]),
        beside: "of a segment",
        ratio: Some(ratios[1]),
        goal: FLAT,
        note: format!("{:.2} ns", nanoseconds[1]),
    });
}
