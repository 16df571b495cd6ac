//! The books and the ring of a device allocator against plain lists.

use proptest::prelude::*;
use wharf_backend::usage::{EventRing, Tag, UsageBooks, UsageClass, UsageEvent, UsageEventKind};

fn event(bytes: usize) -> UsageEvent {
    UsageEvent {
        kind: UsageEventKind::Alloc,
        class: UsageClass::WEIGHT,
        bytes,
        address: None,
        tag: Tag::NONE,
    }
}

proptest! {
    /// Against sums over lists.
    #[test]
    fn every_class_has_its_own_line(
        steps in prop::collection::vec((0_u8..3, 0_u8..32, 0_usize..1000), 0..60),
    ) {
        let mut books = UsageBooks::new(5000);
        let mut used = [0_usize; 32];
        let mut peaks = [0_usize; 32];
        let mut refused = [(0_usize, 0_usize); 32];
        let mut peak = 0;
        for (step, number, bytes) in steps {
            let class = UsageClass::from_number(number).unwrap();
            let at = usize::from(number);
            match step {
                0 => {
                    books.take(class, bytes);
                    used[at] += bytes;
                    peaks[at] = peaks[at].max(used[at]);
                    peak = peak.max(used.iter().sum());
                }
                1 => {
                    let bytes = bytes.min(used[at]);
                    books.give(class, bytes);
                    used[at] -= bytes;
                }
                _ => {
                    books.refuse(class, bytes);
                    refused[at] = (refused[at].0 + 1, refused[at].1.max(bytes));
                }
            }
        }
        for (at, class) in UsageClass::all().enumerate() {
            let census = books.class(class);
            prop_assert_eq!((census.in_use, census.peak), (used[at], peaks[at]));
            prop_assert_eq!((census.refused, census.largest_refused), refused[at]);
            prop_assert_eq!(census.capacity, 0);
            let shown = books.classes().any(|(shown, _)| shown == class);
            prop_assert_eq!(shown, peaks[at] > 0 || refused[at].0 > 0);
        }
        let total = books.total();
        prop_assert_eq!((total.in_use, total.peak), (used.iter().sum(), peak));
        prop_assert_eq!(total.refused, refused.iter().map(|(count, _)| count).sum::<usize>());
        prop_assert_eq!(total.largest_refused, refused.iter().map(|&(_, most)| most).max().unwrap());
        prop_assert_eq!((total.capacity, total.unit), (5000, 1));
    }

    #[test]
    fn the_last_ones_are_there(count in 0_usize..30) {
        let mut ring = EventRing::<7>::new();
        for bytes in 0..count {
            ring.push(event(bytes));
        }
        prop_assert_eq!(ring.recorded(), count as u64);
        prop_assert_eq!(ring.dropped(), count.saturating_sub(7) as u64);
        let kept: Vec<_> = ring.iter().map(|(number, event)| (number, event.bytes)).collect();
        let expected: Vec<_> =
            (count.saturating_sub(7)..count).map(|bytes| (bytes as u64, bytes)).collect();
        prop_assert_eq!(kept, expected);
        prop_assert_eq!(ring.get(count as u64), None);
        prop_assert_eq!(ring.get(u64::MAX), None);
    }
}
