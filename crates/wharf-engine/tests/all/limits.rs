//! Cutting transfers into what hardware can do: worked values, and any values against a search of all ways to cut.

use proptest::prelude::*;
use wharf_engine::{
    DeviceAddress, Extent, Hop, Limits, LimitsError, Rules, SplitCopyError, SplitError,
    SplitListError, split_copy,
};

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

fn limits(rules: Rules) -> Limits {
    Limits::new(rules).unwrap()
}

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(DeviceAddress::new(start), len)
}

/// Start and length of every element, or the refusal.
fn split(limits: &Limits, start: u64, len: u64) -> Result<Vec<(u64, u64)>, SplitError> {
    let elements = limits.split(extent(start, len))?;
    let announced = elements.len();
    let list: Vec<_> = elements.map(|one| (one.start.get(), one.len)).collect();
    assert_eq!(announced, list.len(), "as many as announced");
    Ok(list)
}

#[test]
fn rules_that_contradict_themselves_are_refused() {
    let error = |rules| Limits::new(rules).unwrap_err();
    for address_bits in [0, 65, u32::MAX] {
        let rules = Rules {
            address_bits,
            ..Rules::NONE
        };
        assert_eq!(error(rules), LimitsError::AddressBits { address_bits });
    }
    for alignment in [0, 3, u64::MAX] {
        let rules = Rules {
            alignment,
            ..Rules::NONE
        };
        assert_eq!(error(rules), LimitsError::Alignment { alignment });
    }
    for (boundary, alignment) in [(0, 1), (3000, 1), (4, 8)] {
        let rules = Rules {
            boundary: Some(boundary),
            alignment,
            ..Rules::NONE
        };
        let wrong = LimitsError::Boundary {
            boundary,
            alignment,
        };
        assert_eq!(error(rules), wrong);
    }
    for (max_bytes, alignment) in [(0, 1), (3, 4)] {
        let rules = Rules {
            max_bytes,
            alignment,
            ..Rules::NONE
        };
        let wrong = LimitsError::MaxBytes {
            max_bytes,
            alignment,
        };
        assert_eq!(error(rules), wrong);
    }
    let none = Rules {
        max_elements: 0,
        ..Rules::NONE
    };
    assert_eq!(error(none), LimitsError::NoElements);
    assert_eq!(
        LimitsError::Boundary {
            boundary: 4,
            alignment: 8
        }
        .to_string(),
        "boundary 4 is no power of two, or below the alignment 8"
    );
}

#[test]
fn limits_say_what_they_are() {
    assert_eq!(limits(Rules::NONE), Limits::NONE);
    assert_eq!(Limits::default(), Limits::NONE);
    assert_eq!(Limits::NONE.rules(), Rules::NONE);
    let rules = Rules {
        address_bits: 24,
        alignment: 4,
        boundary: Some(64 * KIB),
        max_bytes: 4095,
        max_elements: 7,
    };
    let rounded = Rules {
        max_bytes: 4092,
        ..rules
    };
    assert_eq!(limits(rules).rules(), rounded);
    let highest = Rules {
        boundary: Some(1 << 63),
        ..Rules::NONE
    };
    assert_eq!(limits(highest).rules(), highest);
}

#[test]
fn without_limits_there_is_one_element() {
    let all = &Limits::NONE;
    assert_eq!(split(all, 5, 7), Ok(vec![(5, 7)]));
    assert_eq!(split(all, 0, u64::MAX), Ok(vec![(0, u64::MAX)]));
    assert_eq!(split(all, u64::MAX, 1), Ok(vec![(u64::MAX, 1)]));
    assert_eq!(split(all, 1, u64::MAX), Ok(vec![(1, u64::MAX)]));
    assert_eq!(split(all, u64::MAX, 0), Ok(vec![]), "no bytes, no elements");
}

#[test]
fn elements_end_at_boundaries() {
    let page = limits(Rules {
        boundary: Some(4 * KIB),
        ..Rules::NONE
    });
    assert_eq!(split(&page, 4096, 4096), Ok(vec![(4096, 4096)]));
    assert_eq!(split(&page, 4095, 2), Ok(vec![(4095, 1), (4096, 1)]));
    assert_eq!(
        split(&page, 0x0ff0, 0x2020),
        Ok(vec![
            (0x0ff0, 0x10),
            (0x1000, 0x1000),
            (0x2000, 0x1000),
            (0x3000, 0x10)
        ])
    );
    // The last page of the address space, to its last byte.
    assert_eq!(
        split(&page, u64::MAX - 4096, 4097),
        Ok(vec![(u64::MAX - 4096, 1), (u64::MAX - 4095, 4096)])
    );
    // A boundary of one byte: every byte on its own.
    let bytes = limits(Rules {
        boundary: Some(1),
        ..Rules::NONE
    });
    assert_eq!(split(&bytes, 7, 2), Ok(vec![(7, 1), (8, 1)]));
}

#[test]
fn elements_have_at_most_so_many_bytes() {
    // 4095 bytes in words are 4092.
    let words = limits(Rules {
        alignment: 4,
        max_bytes: 4095,
        ..Rules::NONE
    });
    assert_eq!(
        split(&words, 0x100, 8200),
        Ok(vec![(0x100, 4092), (0x10fc, 4092), (0x20f8, 16)])
    );
    // Counted from the boundary again: 64 KiB are two elements of 40 000 and 25 536.
    let isa = limits(Rules {
        boundary: Some(64 * KIB),
        max_bytes: 40_000,
        ..Rules::NONE
    });
    assert_eq!(
        split(&isa, 0xff00, 0x100 + 65_536 + 1),
        Ok(vec![
            (0xff00, 0x100),
            (0x10000, 40_000),
            (0x10000 + 40_000, 25_536),
            (0x20000, 1)
        ])
    );
}

#[test]
fn what_is_misaligned_is_named() {
    let words = limits(Rules {
        alignment: 4,
        ..Rules::NONE
    });
    assert_eq!(
        split(&words, 0x1002, 8),
        Err(SplitError::MisalignedStart {
            start: 0x1002,
            alignment: 4
        })
    );
    assert_eq!(
        split(&words, 0x1000, 6),
        Err(SplitError::MisalignedLen {
            len: 6,
            alignment: 4
        })
    );
    assert_eq!(
        split(&words, 0x1002, 8).unwrap_err().to_string(),
        "address 0x1002 is no multiple of 4"
    );
    assert_eq!(split(&words, 0x1002, 0), Ok(vec![]), "nothing is touched");
}

#[test]
fn the_width_counts_to_the_last_byte() {
    let narrow = limits(Rules {
        address_bits: 32,
        ..Rules::NONE
    });
    let beyond = |start, len| {
        Err(SplitError::BeyondWidth {
            start,
            len,
            address_bits: 32,
        })
    };
    let top = 4 * GIB;
    assert_eq!(split(&narrow, top - 16, 16), Ok(vec![(top - 16, 16)]));
    assert_eq!(split(&narrow, 0, top), Ok(vec![(0, top)]));
    assert_eq!(split(&narrow, top - 16, 17), beyond(top - 16, 17));
    assert_eq!(split(&narrow, top, 1), beyond(top, 1));
    assert_eq!(split(&narrow, top, 0), Ok(vec![]));
    assert_eq!(
        split(&narrow, top - 16, 17).unwrap_err().to_string(),
        "17 bytes at 0xfffffff0 leave what 32 address lines reach"
    );
    // A sum past 2^64 is beyond every width.
    let wraps = SplitError::BeyondWidth {
        start: u64::MAX,
        len: 2,
        address_bits: 64,
    };
    assert_eq!(split(&Limits::NONE, u64::MAX, 2), Err(wraps));
    let one = limits(Rules {
        address_bits: 1,
        ..Rules::NONE
    });
    assert_eq!(split(&one, 0, 2), Ok(vec![(0, 2)]));
    assert!(split(&one, 1, 2).is_err());
}

#[test]
fn too_many_elements_are_counted_and_not_walked() {
    let few = |max_elements| {
        limits(Rules {
            boundary: Some(4 * KIB),
            max_bytes: 3 * KIB,
            max_elements,
            ..Rules::NONE
        })
    };
    // A page takes two; 16 bytes before and 1 KiB after take one each.
    let start = 0x10_0000 - 16;
    let len = 16 + 8 * KIB + KIB;
    let many = SplitError::TooManyElements { needed: 6, max: 5 };
    assert_eq!(split(&few(5), start, len), Err(many));
    assert_eq!(
        many.to_string(),
        "6 elements needed, a transfer has at most 5"
    );
    assert_eq!(split(&few(6), start, len).unwrap().len(), 6);
    // The whole address space but its last byte, in pages of two: 2^53.
    let needed = 1 << 53;
    assert_eq!(
        split(&few(9), 0, u64::MAX),
        Err(SplitError::TooManyElements { needed, max: 9 })
    );
}

fn hops(
    (from, source): (u64, Rules),
    (to, destination): (u64, Rules),
    len: u64,
) -> Result<Vec<(u64, u64, u64)>, SplitCopyError> {
    let (source, destination) = (limits(source), limits(destination));
    let hops = split_copy(extent(from, len), &source, extent(to, len), &destination)?;
    let announced = hops.len();
    let list: Vec<_> = hops
        .map(
            |Hop {
                 source,
                 destination,
                 len,
             }| (source.get(), destination.get(), len),
        )
        .collect();
    assert_eq!(announced, list.len(), "as many as announced");
    Ok(list)
}

const PAGES: Rules = Rules {
    boundary: Some(4 * KIB),
    ..Rules::NONE
};

#[test]
fn a_copy_is_cut_where_either_end_must_be() {
    let small = Rules {
        boundary: Some(KIB),
        ..Rules::NONE
    };
    assert_eq!(
        hops((4096 - 100, PAGES), (1024 - 300, small), 1500),
        Ok(vec![
            (3996, 724, 100),   // the source's page ends
            (4096, 824, 200),   // the destination's KiB ends
            (4296, 1024, 1024), // and another
            (5320, 2048, 176),
        ])
    );
    // The same cuts, seen from the other side.
    assert_eq!(
        hops((1024 - 300, small), (4096 - 100, PAGES), 1500)
            .unwrap()
            .iter()
            .map(|hop| hop.2)
            .collect::<Vec<_>>(),
        [100, 200, 1024, 176]
    );
    assert_eq!(hops((1, PAGES), (u64::MAX, small), 0), Ok(vec![]));
    assert_eq!(
        hops((u64::MAX - 1, PAGES), (0, Rules::NONE), 2),
        Ok(vec![(u64::MAX - 1, 0, 2)])
    );
}

#[test]
fn a_copy_that_cannot_be_cut_says_at_which_end() {
    let words = Rules {
        alignment: 4,
        ..Rules::NONE
    };
    let run = |source, destination, len| hops(source, destination, len).unwrap_err();
    let unequal = split_copy(extent(0, 3), &Limits::NONE, extent(8, 4), &Limits::NONE);
    let lengths = SplitCopyError::Lengths {
        source: 3,
        destination: 4,
    };
    assert_eq!(unequal.unwrap_err(), lengths);
    let start = SplitError::MisalignedStart {
        start: 2,
        alignment: 4,
    };
    assert_eq!(
        run((2, words), (0, PAGES), 8),
        SplitCopyError::Source(start)
    );
    assert_eq!(
        run((0, PAGES), (2, words), 8),
        SplitCopyError::Destination(start)
    );
    assert_eq!(
        SplitCopyError::Destination(start).to_string(),
        "destination: address 0x2 is no multiple of 4"
    );
    // Each is fine on its own: bytes across a page, words anywhere. But words cannot stop at the page.
    assert_eq!(
        run((4094, PAGES), (0, words), 8),
        SplitCopyError::Boundary {
            start: 4094,
            boundary: 4096,
            alignment: 4
        }
    );
    assert_eq!(hops((4090, PAGES), (0, words), 4), Ok(vec![(4090, 0, 4)]));
    let bytewise = Rules {
        boundary: Some(2),
        ..Rules::NONE
    };
    assert_eq!(
        run((0, bytewise), (0, words), 4),
        SplitCopyError::Boundary {
            start: 0,
            boundary: 2,
            alignment: 4
        }
    );
    let short = Rules {
        max_bytes: 3,
        ..Rules::NONE
    };
    assert_eq!(
        run((0, short), (0, words), 4),
        SplitCopyError::MaxBytes {
            max_bytes: 3,
            alignment: 4
        }
    );
    // The stricter count is the one that refuses.
    let pages = |max_elements| Rules {
        max_elements,
        ..PAGES
    };
    let many = |max| SplitError::TooManyElements { needed: 3, max };
    assert_eq!(
        run((4095, pages(2)), (4095, pages(9)), 4098),
        SplitCopyError::Source(many(2))
    );
    assert_eq!(
        run((4095, pages(9)), (4095, pages(1)), 4098),
        SplitCopyError::Destination(many(1))
    );
}

#[test]
fn a_copy_that_ends_short_of_a_boundary_need_not_meet_it() {
    let halfwords = Rules {
        alignment: 2,
        ..Rules::NONE
    };
    // Odd, so that steps of two never meet the page's end at 4096; but the last byte is the one at 4094.
    assert_eq!(
        hops((4093, PAGES), (0, halfwords), 2),
        Ok(vec![(4093, 0, 2)])
    );
    assert_eq!(
        hops((4093, PAGES), (0, halfwords), 4),
        Err(SplitCopyError::Boundary {
            start: 4093,
            boundary: 4096,
            alignment: 2
        })
    );
}

#[test]
fn what_is_left_is_counted_down() {
    let page = limits(PAGES);
    let mut elements = page.split(extent(4095, 4098)).unwrap();
    let mut hops = split_copy(extent(4095, 4098), &page, extent(4095, 4098), &page).unwrap();
    for left in [2, 1, 0] {
        assert!(elements.next().is_some());
        assert!(hops.next().is_some());
        assert_eq!((elements.len(), hops.len()), (left, left));
        assert_eq!(elements.size_hint(), (left, Some(left)));
        assert_eq!(hops.size_hint(), (left, Some(left)));
    }
    for _ in 0..2 {
        assert_eq!((elements.next(), hops.next()), (None, None));
        assert_eq!((elements.len(), hops.len()), (0, 0));
    }
}

#[test]
fn a_list_is_cut_extent_by_extent() {
    let rules = Rules {
        boundary: Some(4 * KIB),
        max_bytes: 3 * KIB,
        max_elements: 5,
        ..Rules::NONE
    };
    let engine = limits(rules);
    let list = [
        extent(0x1000, 14),
        extent(0xDEAD, 0),
        extent(0x1FF0, 0x20),
        extent(0x3000, 4 * KIB),
    ];
    assert_eq!(engine.needed_list(list), Ok(5));
    let mut elements = engine.split_list(list).unwrap();
    let mut seen = Vec::new();
    for left in (0..5).rev() {
        let one = elements.next().unwrap();
        seen.push((one.start.get(), one.len));
        assert_eq!(elements.len(), left);
    }
    assert_eq!((elements.next(), elements.next()), (None, None));
    let expected = [
        (0x1000, 14),
        (0x1FF0, 0x10),
        (0x2000, 0x10),
        (0x3000, 3 * KIB),
        (0x3C00, KIB),
    ];
    assert_eq!(seen, expected);
    // No extents, no elements; the same of none with bytes.
    assert_eq!(engine.split_list([]).unwrap().len(), 0);
    assert_eq!(engine.split_list([extent(9, 0); 3]).unwrap().next(), None);
}

#[test]
fn a_list_is_refused_as_a_whole() {
    let engine = limits(Rules {
        alignment: 4,
        max_bytes: 8,
        max_elements: 4,
        ..Rules::NONE
    });
    let refused = |list: &[Extent]| engine.split_list(list.iter().copied()).unwrap_err();
    // The sum counts: each of them would do.
    let many = [extent(0, 24), extent(64, 16)];
    assert_eq!(engine.needed_list(many), Ok(5));
    let error = refused(&many);
    let too_many = SplitListError::TooManyElements { needed: 5, max: 4 };
    assert_eq!(error, too_many);
    assert_eq!(
        error.to_string(),
        "5 elements needed by the list, a transfer has at most 4"
    );
    // The first that cannot be cut is named.
    let error = SplitError::MisalignedStart {
        start: 66,
        alignment: 4,
    };
    let bad = [extent(0, 8), extent(66, 8), extent(0, 3)];
    assert_eq!(refused(&bad), SplitListError::Extent { index: 1, error });
    assert_eq!(engine.needed_list(bad), Err(refused(&bad)));
    assert_eq!(
        refused(&bad).to_string(),
        "extent 1: address 0x42 is no multiple of 4"
    );
}

#[test]
fn a_count_that_no_number_holds_is_too_many() {
    let bytewise = limits(Rules {
        max_bytes: 1,
        ..Rules::NONE
    });
    let all = [extent(0, u64::MAX); 3];
    assert_eq!(bytewise.needed(all[0]), Ok(u64::MAX));
    assert_eq!(bytewise.needed_list(all), Ok(u64::MAX));
    let too_many = SplitListError::TooManyElements {
        needed: u64::MAX,
        max: usize::MAX,
    };
    assert_eq!(bytewise.split_list(all).unwrap_err(), too_many);
    // On its own it is as many as an engine without a limit has, where a `usize` has 64 bits.
    #[cfg(target_pointer_width = "64")]
    assert_eq!(bytewise.split(all[0]).map(|all| all.len()), Ok(usize::MAX));
}

#[test]
fn extents_that_change_their_mind_give_no_more_than_was_counted() {
    use std::cell::Cell;
    /// Yields `.0` extents, and its clones fewer or more by `.1`.
    #[derive(Debug)]
    struct Fickle(Cell<i32>, i32);
    impl Clone for Fickle {
        fn clone(&self) -> Self {
            let now = self.0.get();
            self.0.set(now + self.1);
            Self(Cell::new(now), 0)
        }
    }
    impl Iterator for Fickle {
        type Item = Extent;
        fn next(&mut self) -> Option<Extent> {
            let left = self.0.get() - 1;
            self.0.set(left);
            (left >= 0).then(|| extent(0, 8))
        }
    }
    for (change, comes) in [(-2, 1), (0, 3), (7, 3)] {
        let mut elements = Limits::NONE
            .split_list(Fickle(Cell::new(3), change))
            .unwrap();
        assert_eq!(elements.len(), 3);
        assert_eq!(elements.by_ref().count(), comes);
        assert_eq!((elements.len(), elements.next()), (0, None));
    }
}

/// Whether hardware under these rules does `len` bytes at `start` in one element.
fn legal(rules: &Rules, start: u64, len: u64) -> bool {
    let last = u128::from(start) + u128::from(len) - 1;
    len <= rules.max_bytes
        && last < 1 << rules.address_bits
        && start.is_multiple_of(rules.alignment)
        && len.is_multiple_of(rules.alignment)
        && rules.boundary.is_none_or(|boundary| {
            let boundary = u128::from(boundary);
            u128::from(start) / boundary == last / boundary
        })
}

/// The fewest elements that `ends` admit, by trying all; `None` if there are none.
fn fewest(ends: &[(u64, Rules)], len: u64) -> Option<usize> {
    let fits = |begin: usize, end: usize| {
        ends.iter()
            .all(|(start, rules)| legal(rules, start + begin as u64, (end - begin) as u64))
    };
    // `best[n]`: how many for the first `n` bytes.
    let mut best = vec![Some(0)];
    for end in 1..=usize::try_from(len).unwrap() {
        let reached = (0..end)
            .filter(|&begin| fits(begin, end))
            .filter_map(|begin| best[begin].map(|count: usize| count + 1))
            .min();
        best.push(reached);
    }
    best.pop().unwrap()
}

fn some_rules() -> impl Strategy<Value = Rules> {
    (
        prop_oneof![6_u32..9, Just(64)],
        0_u32..4,
        prop::option::of(0_u32..6),
        prop_oneof![1_u64..40, Just(u64::MAX)],
    )
        .prop_map(|(address_bits, alignment, boundary, max_bytes)| Rules {
            address_bits,
            alignment: 1 << alignment,
            boundary: boundary.map(|boundary| 1 << boundary),
            max_bytes,
            max_elements: usize::MAX,
        })
        .prop_filter("rules with which there is a transfer", |rules| {
            Limits::new(*rules).is_ok()
        })
}

/// A place near the bottom of the address space, or at its very top.
fn some_extent() -> impl Strategy<Value = (u64, u64)> {
    (0_u64..200, 0_u64..100, any::<bool>())
        .prop_map(|(start, len, top)| {
            if top {
                (u64::MAX - start - len.saturating_sub(1), len)
            } else {
                (start, len)
            }
        })
        .prop_filter("in the address space", |(start, len)| {
            u128::from(*start) + u128::from(*len) <= 1 << 64
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn elements_are_legal_complete_and_fewest(rules in some_rules(), (start, len) in some_extent()) {
        let ends = [(start, rules)];
        let best = if start.checked_add(len).is_some() { Some(fewest(&ends, len)) } else { None };
        match split(&limits(rules), start, len) {
            Ok(elements) => {
                let mut next = start;
                for &(start, len) in &elements {
                    prop_assert_eq!(start, next);
                    prop_assert!(legal(&rules, start, len));
                    next = start.wrapping_add(len);
                }
                prop_assert_eq!(next, start.wrapping_add(len));
                if let Some(best) = best {
                    prop_assert_eq!(Some(elements.len()), best);
                }
            }
            Err(_) => if let Some(best) = best { prop_assert_eq!(best, None) },
        }
    }

    /// Against the same extents, one by one.
    #[test]
    fn a_list_is_what_its_extents_are(
        rules in some_rules(),
        max_elements in 1_usize..40,
        list in prop::collection::vec(some_extent(), 0..6),
        aligned in any::<bool>(),
    ) {
        // Half of the time at places where something can come of it.
        let mask = if aligned { 7 } else { 0 };
        let list: Vec<_> = list.iter().map(|(start, len)| (start & !mask, len & !mask)).collect();
        let engine = limits(Rules { max_elements, ..rules });
        let alone = limits(rules);
        let mut expected = Ok(Vec::new());
        for (index, &(start, len)) in list.iter().enumerate() {
            expected = expected.and_then(|mut done| match split(&alone, start, len) {
                Ok(elements) => {
                    done.extend(elements);
                    Ok(done)
                }
                Err(error) => Err(SplitListError::Extent { index, error }),
            });
        }
        let extents = list.iter().map(|&(start, len)| extent(start, len));
        let needed = expected.as_ref().map(|all| all.len() as u64).map_err(|error| *error);
        prop_assert_eq!(engine.needed_list(extents.clone()), needed);
        let expected = expected.and_then(|all| if all.len() > max_elements {
            Err(SplitListError::TooManyElements { needed: all.len() as u64, max: max_elements })
        } else {
            Ok(all)
        });
        let elements = engine.split_list(extents);
        let announced = elements.as_ref().map(ExactSizeIterator::len).ok();
        let elements = elements.map(|all| all.map(|one| (one.start.get(), one.len)).collect::<Vec<_>>());
        prop_assert_eq!(announced, elements.as_ref().map(Vec::len).ok());
        prop_assert_eq!(elements, expected);
    }

    #[test]
    fn hops_are_legal_complete_and_fewest(
        source in some_rules(),
        destination in some_rules(),
        from in 0_u64..120,
        to in 0_u64..120,
        len in 0_u64..100,
        aligned in any::<bool>(),
    ) {
        // Half of the time at places where something can come of it.
        let mask = if aligned { 7 } else { 0 };
        let (from, to, len) = (from & !mask, to & !mask, len & !mask);
        let best = fewest(&[(from, source), (to, destination)], len);
        match hops((from, source), (to, destination), len) {
            Ok(elements) => {
                let mut done = 0;
                for &(source_start, destination_start, len) in &elements {
                    prop_assert_eq!((source_start, destination_start), (from + done, to + done));
                    prop_assert!(legal(&source, source_start, len));
                    prop_assert!(legal(&destination, destination_start, len));
                    done += len;
                }
                prop_assert_eq!(done, len);
                prop_assert_eq!(Some(elements.len()), best);
            }
            Err(_) => prop_assert_eq!(best, None),
        }
    }

    #[test]
    fn no_numbers_panic_and_the_count_is_what_comes(
        start in any::<u64>(),
        len in any::<u64>(),
        other in any::<u64>(),
        boundaries in (0_u32..64, 0_u32..64),
        max_bytes in 1_u64..,
    ) {
        let rules = |boundary: u32| Rules {
            boundary: Some(1 << boundary),
            max_bytes,
            max_elements: 64,
            ..Rules::NONE
        };
        let _ = split(&limits(rules(boundaries.0)), start, len);
        let _ = hops((start, rules(boundaries.0)), (other, rules(boundaries.1)), len);
    }
}
