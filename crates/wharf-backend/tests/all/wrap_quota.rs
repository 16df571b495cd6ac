//! Shares: what is reserved can always be had, what is common is had up to a limit, and everything comes back.
#![cfg(all(feature = "std", feature = "critical-section"))]

use proptest::prelude::*;
use wharf_backend::wrap::{Book, QuotaError, WaitList};
use wharf_backend::{
    AllocError, BackendExt, Census, FaultInject, FreeList, MemBackend, Quota, SegmentMut, Share,
    StaticPool, Uninit,
};
use wharf_sync::{Blocking, ConstInit, Critical, SyncPolicy, Unsync};

type Pool<P> = StaticPool<P, 8, 6>;

#[test]
fn promises_are_checked_when_they_are_made() {
    let quota = Quota::<_, 3>::new_const(Pool::<Unsync>::new());
    assert_eq!(
        quota.share(3, 2).unwrap_err(),
        QuotaError::BelowReserve {
            reserved: 3,
            limit: 2
        }
    );
    assert_eq!(
        quota.share(7, 7).unwrap_err(),
        QuotaError::Overbooked {
            asked: 7,
            reserved: 0,
            capacity: 6
        }
    );
    let first = quota.share(4, usize::MAX).unwrap();
    let overbooked = QuotaError::Overbooked {
        asked: usize::MAX,
        reserved: 4,
        capacity: 6,
    };
    assert_eq!(quota.share(usize::MAX, usize::MAX).unwrap_err(), overbooked);
    assert_eq!(
        overbooked.to_string(),
        format!(
            "{} segments to be reserved, 4 of 6 are reserved already",
            usize::MAX
        )
    );
    // Held beyond its reserve, so it cannot be promised to another.
    let all: Vec<_> = (0..5).map(|_| first.alloc(8).unwrap()).collect();
    let busy = QuotaError::InUse { asked: 2, free: 1 };
    assert_eq!(quota.share(2, 2).unwrap_err(), busy);
    assert_eq!(
        busy.to_string(),
        "2 segments to be reserved, 1 are free at present"
    );
    let second = quota.share(1, 1).unwrap();
    assert_eq!(first.census().capacity, 5, "the common part has shrunk");
    assert!(first.alloc(8).is_err());
    assert!(second.alloc(8).is_ok());
    drop(all);
    let third = quota.share(1, 1).unwrap();
    assert_eq!(
        (first.reserved(), second.reserved(), third.reserved()),
        (4, 1, 1)
    );
    assert_eq!(
        quota.share(0, 1).unwrap_err(),
        QuotaError::TooMany { shares: 3 }
    );
}

#[test]
fn a_share_counts_its_own() {
    let quota = Quota::<_, 2>::new(Pool::<Unsync>::new());
    let transmit = quota.share(2, 2).unwrap();
    let receive = quota.share(1, 4).unwrap();
    let one = transmit.alloc(3).unwrap();
    let mut many: Vec<_> = (0..4)
        .map(|_| SegmentMut::alloc(receive, 8).unwrap())
        .collect();
    let expected = Census {
        unit: 8,
        capacity: 4,
        in_use: 4,
        peak: 4,
        ..Census::NOTHING
    };
    assert_eq!(receive.census(), expected);
    assert_eq!(
        receive.alloc(5).unwrap_err(),
        AllocError::Exhausted {
            requested: 5,
            in_use: 32,
            capacity: 32
        }
    );
    assert_eq!(
        receive.alloc(9).unwrap_err(),
        AllocError::TooLarge {
            requested: 9,
            max: 8
        }
    );
    many.pop();
    assert_eq!(
        receive.census(),
        Census {
            in_use: 3,
            refused: 2,
            largest_refused: 9,
            ..expected
        }
    );
    assert_eq!(transmit.census().in_use, 1);
    assert_eq!(transmit.census().refused, 0);
    assert_eq!(quota.census().in_use, 4);
    drop((one, many));
    assert_eq!((transmit.census().in_use, receive.census().in_use), (0, 0));
    assert_eq!(quota.census().in_use, 0);
}

#[test]
fn a_share_of_nothing_vends_nothing() {
    let quota = Quota::<_, 2>::new(Pool::<Unsync>::new());
    quota.share(6, 6).unwrap();
    let none = quota.share(0, usize::MAX).unwrap();
    assert_eq!(none.max_segment_size(), 0);
    for size in [0, 1] {
        assert_eq!(none.alloc(size).unwrap_err(), AllocError::Unsupported);
    }
}

#[test]
fn what_the_inner_backend_refuses_is_given_back_and_told() {
    let pool = FaultInject::new(Pool::<Unsync>::new());
    pool.fail_sizes(5..=5);
    let quota = Quota::<_, 2>::new(pool);
    let share = quota.share(1, 2).unwrap();
    for call in 1..=9 {
        assert_eq!(
            share.alloc(5).unwrap_err(),
            AllocError::Injected { call },
            "no place of it is lost"
        );
    }
    assert_eq!((share.census().in_use, share.census().peak), (0, 0));
    assert_eq!(share.census().refused, 9);
    let [one, other] = [share.alloc(4).unwrap(), share.alloc(4).unwrap()];
    assert_eq!(share.census().peak, 2);
    let exhausted = AllocError::Exhausted {
        requested: 8,
        in_use: 16,
        capacity: 16,
    };
    assert_eq!(share.alloc(8).unwrap_err(), exhausted, "as large as any");
    drop(one);
    assert!(share.alloc(5).is_err());
    assert_eq!(share.census().in_use, 1);
    assert_eq!(share.census().peak, 2, "there were two");
    drop(other);
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { share: usize, size: usize },
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3_usize, 0..10_usize).prop_map(|(share, size)| Step::Alloc { share, size }),
        2 => any::<usize>().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..80)
}

/// Three shares of six slots, against sums.
fn run<P: SyncPolicy>(terms: [(usize, usize); 3], steps: &[Step])
where
    P::Lock<FreeList>: ConstInit,
    P::Lock<Book<3>>: ConstInit,
    P::Lock<WaitList>: ConstInit,
    P::Count: ConstInit,
    P::Event: ConstInit,
{
    let quota = Quota::<_, 3>::new_const(Pool::<P>::new());
    let shares = terms.map(|(reserved, limit)| quota.share(reserved, limit).unwrap());
    let common = 6 - terms.iter().map(|terms| terms.0).sum::<usize>();
    type Held<'q, P> = SegmentMut<Share<'q, Pool<P>, 3>, Uninit>;
    let mut held: Vec<(usize, Held<'_, P>)> = Vec::new();
    let mut refused = [0; 3];
    for step in steps {
        let of = |held: &[(usize, Held<'_, P>)], share| {
            held.iter().filter(|held| held.0 == share).count()
        };
        match *step {
            Step::Alloc { share, size } => {
                let (reserved, limit) = terms[share];
                let surplus: usize = (0..3)
                    .map(|share| of(&held, share).saturating_sub(terms[share].0))
                    .sum();
                let in_use = of(&held, share);
                let may = in_use < reserved || (in_use < limit && surplus < common);
                match SegmentMut::alloc(shares[share], size) {
                    Ok(segment) => {
                        assert!(may && size <= 8, "{step:?}");
                        held.push((share, segment));
                    }
                    Err(_) => {
                        assert!(!may || size > 8, "{step:?}");
                        refused[share] += 1;
                    }
                }
            }
            Step::Drop(index) if !held.is_empty() => drop(held.remove(index % held.len())),
            Step::Drop(_) => {}
        }
        for share in 0..3 {
            let census = shares[share].census();
            assert_eq!(census.in_use, of(&held, share));
            assert_eq!(census.refused, refused[share]);
            assert_eq!(
                census.capacity,
                (terms[share].0 + common).min(terms[share].1)
            );
        }
        assert_eq!(quota.census().in_use, held.len());
        // The promise, whatever else is held.
        let missing: Vec<_> = (0..3)
            .flat_map(|share| {
                let missing = terms[share].0.saturating_sub(of(&held, share));
                (0..missing).map(move |_| share)
            })
            .map(|share| SegmentMut::alloc(shares[share], 8).expect("it is reserved"))
            .collect();
        drop(missing);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shares_do_what_sums_say(
        reserved in prop::array::uniform3(0..=2_usize),
        beyond in prop::array::uniform3(0..=5_usize),
        steps in steps(),
    ) {
        let terms = core::array::from_fn(|share| (reserved[share], reserved[share] + beyond[share]));
        run::<Unsync>(terms, &steps);
        run::<Critical>(terms, &steps);
    }
}

#[test]
fn a_hoarder_never_starves_the_other_on_any_thread() {
    static QUOTA: Quota<StaticPool<Blocking, 8, 6>, 2> = Quota::new_const(StaticPool::new());
    let transmit = QUOTA.share(2, 2).unwrap();
    let receive = QUOTA.share(0, usize::MAX).unwrap();
    std::thread::scope(|scope| {
        let receivers = [(); 2].map(|()| {
            scope.spawn(move || {
                let mut hoard = Vec::new();
                for _ in 0..20_000 {
                    match SegmentMut::alloc(receive, 8) {
                        Ok(segment) => hoard.push(segment),
                        // Dropped elsewhere, all at once.
                        Err(_) => {
                            let all = core::mem::take(&mut hoard);
                            std::thread::scope(|scope| {
                                scope.spawn(|| drop(all));
                            });
                        }
                    }
                    if hoard.len() == 4 {
                        hoard.clear();
                    }
                }
            })
        });
        while !receivers
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            let two = [(); 2].map(|()| SegmentMut::alloc(transmit, 8).expect("it is reserved"));
            drop(two);
        }
    });
    assert_eq!((transmit.census().in_use, receive.census().in_use), (0, 0));
    assert_eq!(transmit.census().refused, 0);
    assert_eq!(QUOTA.census().in_use, 0);
}
