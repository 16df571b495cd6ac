//! Which granules of a channel are taken, and by whom: an address-ordered list of ranges, and the free ones again
//! in lists by size.
//!
//! Classes of size are three bits wide below the leading one (as in the two-level segregated fit), so
//! a range is found by two bit scans. Three things differ from the allocators of this kind that exist:
//!
//! * A request is refused only if no free range has room for it. Rounding a request up to a class, and
//!   stopping there, would refuse to give back the very range that was just freed, and the whole of an
//!   unused memory unless its size happens to be a class. So the request's own class is searched last.
//! * Nothing is taken to align a request: what lies before it stays a free range of its own. Such a request looks at
//!   every range that may do, smallest classes first, until one does: at once where ranges are long, and in linear time at
//!   worst.
//! * Nothing aborts. [`take`](Ranges::take) grows its table fallibly and before it changes anything;
//!   [`give`](Ranges::give) never allocates. Memory for the table stays at its peak.
//!
//! Invariants: the ranges from node 0 on, each behind its `before`, cover `0..len` without gap or
//! overlap; no two neighbours are both free; a free range is in the list of the class of its length,
//! whose bits are set, and in no other; a node is a range, or in the list `spare`.

/// No node.
const NONE: u32 = u32::MAX;
/// Bits of a length below its leading one that tell classes apart.
const FINE: u32 = 3;
/// Classes per power of two.
const LEAVES: usize = 1 << FINE;
/// Powers of two, with room for rounding the largest up.
const TOPS: usize = 64;

/// Which range a segment has. Stays valid until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeId(u32);

/// Why no range was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No free range has room for it.
    Space,
    /// The host's heap refused the table.
    Heap,
}

struct Node<T> {
    start: usize,
    len: usize,
    /// Whoever has it; nobody while it is free or spare.
    owner: Option<T>,
    /// The range that ends where this one starts.
    before: u32,
    /// The range that starts where this one ends; of a spare node, the next one.
    after: u32,
    /// Neighbours in the list of the class, while free.
    prev: u32,
    next: u32,
}

pub(crate) struct Ranges<T> {
    nodes: Vec<Node<T>>,
    /// The list of unused nodes, by `after`.
    spare: u32,
    /// The first free range of each class.
    heads: [u32; TOPS * LEAVES],
    /// Which powers of two have a free range.
    tops: u64,
    /// Which of its classes.
    leaves: [u8; TOPS],
}

/// The class that a free range of `len` is in: the largest that is not longer.
const fn class_of(len: usize) -> usize {
    if len < LEAVES {
        return len;
    }
    let shift = len.ilog2() - FINE;
    ((shift as usize + 1) << FINE) | ((len >> shift) & (LEAVES - 1))
}

/// The first class whose every range has room for `len`.
const fn class_for(len: usize) -> usize {
    let class = class_of(len);
    if len < LEAVES || len.trailing_zeros() >= len.ilog2() - FINE {
        class
    } else {
        class + 1
    }
}

/// How many granules from `start` on lie before the next multiple of `align` (a power of two), if granule 0 is number
/// `first`.
const fn skip(first: u64, start: usize, align: u64) -> u64 {
    first.wrapping_add(start as u64).wrapping_neg() & (align - 1)
}

impl<T> Ranges<T> {
    /// `len` granules, all free.
    pub(crate) fn new(len: usize) -> Result<Self, Refused> {
        let mut ranges = Self {
            nodes: Vec::new(),
            spare: NONE,
            heads: [NONE; TOPS * LEAVES],
            tops: 0,
            leaves: [0; TOPS],
        };
        if len > 0 {
            ranges.reserve(1)?;
            let whole = ranges.node(0, len, NONE, NONE);
            ranges.list(whole);
        }
        Ok(ranges)
    }

    /// Takes `len` granules (at least one) for `owner`, and says where they start: at a multiple of `align` granules (a
    /// power of two), if granule 0 is number `first` of the addresses.
    pub(crate) fn take(
        &mut self,
        len: usize,
        (first, align): (u64, u64),
        owner: T,
    ) -> Result<(RangeId, usize), Refused> {
        let (found, skipped) = if align <= 1 {
            (self.find(len).ok_or(Refused::Space)?, 0)
        } else {
            self.find_aligned(len, first, align).ok_or(Refused::Space)?
        };
        // No wrap: the range has room for both.
        let rest = self.at(found).len - skipped - len;
        self.reserve(usize::from(skipped > 0) + usize::from(rest > 0))?;
        self.unlist(found);
        let taken = if skipped > 0 {
            let taken = self.split(found, skipped);
            self.list(found);
            taken
        } else {
            found
        };
        if rest > 0 {
            let remainder = self.split(taken, len);
            self.list(remainder);
        }
        let node = self.at_mut(taken);
        node.owner = Some(owner);
        Ok((RangeId(taken), node.start))
    }

    /// Cuts a range behind its first `len` granules, and answers the second part. Neither is in a list; a spare node was
    /// made sure of.
    fn split(&mut self, node: u32, len: usize) -> u32 {
        let Node {
            start,
            len: whole,
            after,
            ..
        } = *self.at(node);
        let second = self.node(start + len, whole - len, node, after);
        if after != NONE {
            self.at_mut(after).before = second;
        }
        let cut = self.at_mut(node);
        cut.after = second;
        cut.len = len;
        second
    }

    /// Gives a taken range back, joins it with its free neighbours, and says how long it was and who had it.
    pub(crate) fn give(&mut self, RangeId(id): RangeId) -> (usize, Option<T>) {
        let given = self.at(id).len;
        let owner = self.at_mut(id).owner.take();
        debug_assert!(owner.is_some(), "a range is given back once");
        let after = self.at(id).after;
        if self.is_free(after) {
            self.unlist(after);
            self.join(id, after);
        }
        let before = self.at(id).before;
        let whole = if self.is_free(before) {
            self.unlist(before);
            self.join(before, id);
            before
        } else {
            id
        };
        self.list(whole);
        (given, owner)
    }

    /// Who has a taken range, where it starts, and how long it is.
    pub(crate) fn owner(&self, RangeId(id): RangeId) -> Option<(&T, usize, usize)> {
        let node = self.at(id);
        node.owner
            .as_ref()
            .map(|owner| (owner, node.start, node.len))
    }

    /// The taken ranges in the order of their addresses: who has it, where it starts, and how long it is.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (&T, usize, usize)> {
        let first = (!self.nodes.is_empty()).then_some(0);
        let behind = |&node: &u32| {
            let after = self.at(node).after;
            (after != NONE).then_some(after)
        };
        core::iter::successors(first, behind).filter_map(|node| self.owner(RangeId(node)))
    }

    /// The longest free range. Walks the list of one class.
    pub(crate) fn largest(&self) -> usize {
        let Some(top) = self.tops.checked_ilog2() else {
            return 0;
        };
        let leaf = self.leaves[top as usize].checked_ilog2().unwrap_or(0);
        let class = (top as usize) << FINE | leaf as usize;
        self.class(class)
            .map(|node| self.at(node).len)
            .max()
            .unwrap_or(0)
    }

    /// A free range with room for `len` behind those granules that lie before a multiple of `align`, and how many
    /// those are.
    fn find_aligned(&self, len: usize, first: u64, align: u64) -> Option<(u32, usize)> {
        // Not from the surely long ones down: the range that an aligned segment left is just as long as it was.
        (class_of(len)..TOPS * LEAVES)
            .flat_map(|class| self.class(class))
            .find_map(|node| {
                let Node {
                    start, len: free, ..
                } = self.at(node);
                let skipped = usize::try_from(skip(first, *start, align)).ok()?;
                (skipped.checked_add(len)? <= *free).then_some((node, skipped))
            })
    }

    /// A free range of at least `len`.
    fn find(&self, len: usize) -> Option<u32> {
        let class = class_for(len);
        let (top, leaf) = (class >> FINE, class & (LEAVES - 1));
        // The classes of the same power of two, then every class of the higher ones.
        let same = u32::from(self.leaves[top]) & (u32::MAX << leaf);
        let roomy = if same != 0 {
            Some(top << FINE | same.trailing_zeros() as usize)
        } else {
            let higher = self.tops & (u64::MAX << top << 1);
            (higher != 0).then(|| {
                let top = higher.trailing_zeros() as usize;
                top << FINE | self.leaves[top].trailing_zeros() as usize
            })
        };
        match roomy {
            Some(class) => Some(self.heads[class]),
            // Nothing is surely long enough. What is left may be, in the class of `len` itself.
            None => self
                .class(class_of(len))
                .find(|&node| self.at(node).len >= len),
        }
    }

    /// The free ranges of a class.
    fn class(&self, class: usize) -> impl Iterator<Item = u32> {
        let some = |node: u32| (node != NONE).then_some(node);
        core::iter::successors(some(self.heads[class]), move |&node| {
            some(self.at(node).next)
        })
    }

    /// Makes sure that there are `count` spare nodes (at most two).
    fn reserve(&mut self, count: usize) -> Result<(), Refused> {
        let mut spare = self.spare;
        let mut missing = count;
        while missing > 0 && spare != NONE {
            spare = self.at(spare).after;
            missing -= 1;
        }
        self.nodes.try_reserve(missing).map_err(|_| Refused::Heap)?;
        for _ in 0..missing {
            let index = u32::try_from(self.nodes.len()).unwrap_or(NONE);
            if index == NONE {
                return Err(Refused::Heap);
            }
            self.nodes.push(Node {
                start: 0,
                len: 0,
                owner: None,
                before: NONE,
                after: self.spare,
                prev: NONE,
                next: NONE,
            });
            self.spare = index;
        }
        Ok(())
    }

    /// Turns a spare node, which [`reserve`](Self::reserve) has made sure of, into a range that nobody has.
    fn node(&mut self, start: usize, len: usize, before: u32, after: u32) -> u32 {
        let index = self.spare;
        let node = self.at_mut(index);
        let spare = node.after;
        node.start = start;
        node.len = len;
        node.before = before;
        node.after = after;
        self.spare = spare;
        index
    }

    /// Makes the neighbour `second` a part of `first`. Neither is in a list.
    fn join(&mut self, first: u32, second: u32) {
        let Node { len, after, .. } = *self.at(second);
        let node = self.at_mut(first);
        node.len += len;
        node.after = after;
        if after != NONE {
            self.at_mut(after).before = first;
        }
        self.at_mut(second).after = self.spare;
        self.spare = second;
    }

    fn list(&mut self, node: u32) {
        let class = class_of(self.at(node).len);
        let head = self.heads[class];
        if head != NONE {
            self.at_mut(head).prev = node;
        }
        let listed = self.at_mut(node);
        listed.prev = NONE;
        listed.next = head;
        self.heads[class] = node;
        self.leaves[class >> FINE] |= 1 << (class & (LEAVES - 1));
        self.tops |= 1 << (class >> FINE);
    }

    fn unlist(&mut self, node: u32) {
        let Node {
            len, prev, next, ..
        } = *self.at(node);
        let class = class_of(len);
        if next != NONE {
            self.at_mut(next).prev = prev;
        }
        if prev != NONE {
            self.at_mut(prev).next = next;
            return;
        }
        self.heads[class] = next;
        if next == NONE {
            let top = class >> FINE;
            self.leaves[top] &= !(1 << (class & (LEAVES - 1)));
            if self.leaves[top] == 0 {
                self.tops &= !(1 << top);
            }
        }
    }

    fn is_free(&self, node: u32) -> bool {
        node != NONE && self.at(node).owner.is_none()
    }

    fn at(&self, node: u32) -> &Node<T> {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Node<T> {
        &mut self.nodes[node as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Anywhere.
    const ANY: (u64, u64) = (0, 1);

    fn of(len: usize) -> Ranges<u32> {
        Ranges::new(len).unwrap()
    }

    #[test]
    fn classes_are_worked_out() {
        // (length, the class it is in when free, the first class that surely fits it)
        for (len, of, fits) in [
            (1, 1, 1),
            (7, 7, 7),
            (8, 8, 8),
            (15, 15, 15),
            (16, 16, 16),
            (17, 16, 17),
            (18, 17, 17),
            (19, 17, 18),
            (31, 23, 24),
            (32, 24, 24),
            (1000, 63, 64),
            (1024, 64, 64),
        ] {
            assert_eq!((class_of(len), class_for(len)), (of, fits), "{len}");
        }
        assert!(class_for(usize::MAX) < TOPS * LEAVES);
    }

    #[test]
    fn the_whole_is_one_range_whatever_its_size() {
        for len in [1, 7, 17, 1000, 1_048_577, isize::MAX.unsigned_abs()] {
            let mut ranges = of(len);
            assert_eq!(ranges.largest(), len);
            let (id, start) = ranges.take(len, ANY, 7).unwrap();
            assert_eq!(start, 0);
            assert_eq!(ranges.take(1, ANY, 0), Err(Refused::Space));
            assert_eq!(ranges.largest(), 0);
            assert_eq!(ranges.give(id), (len, Some(7)));
            assert_eq!(ranges.largest(), len);
        }
    }

    #[test]
    fn the_range_just_freed_serves_the_same_request_again() {
        let mut ranges = of(17 * 4);
        let ids = [(); 4].map(|()| ranges.take(17, ANY, 0).unwrap());
        assert_eq!(ids.map(|(_, start)| start), [0, 17, 34, 51]);
        ranges.give(ids[2].0);
        assert_eq!(ranges.take(18, ANY, 0), Err(Refused::Space));
        assert_eq!(ranges.take(17, ANY, 0).unwrap().1, 34);
    }

    #[test]
    fn neighbours_join_on_both_sides() {
        let mut ranges = of(30);
        let [a, b, c] = [(); 3].map(|()| ranges.take(10, ANY, 0).unwrap().0);
        ranges.give(a);
        ranges.give(c);
        assert_eq!(ranges.largest(), 10);
        ranges.give(b);
        assert_eq!(ranges.largest(), 30);
        assert_eq!(ranges.nodes.len(), 3, "and their nodes are used again");
        for _ in 0..3 {
            ranges.take(10, ANY, 0).unwrap();
        }
        assert_eq!(ranges.nodes.len(), 3);
    }

    #[test]
    fn alignment_takes_nothing() {
        // Granule 0 is number 3, so that multiples of 8 are 5, 13, 21.
        let mut ranges = of(32);
        let (a, at) = ranges.take(2, (3, 8), 1).unwrap();
        assert_eq!(at, 5);
        assert_eq!(
            ranges.take(5, ANY, 2).unwrap().1,
            0,
            "what lies before is free"
        );
        let (b, at) = ranges.take(1, (3, 8), 3).unwrap();
        assert_eq!(at, 13);
        assert_eq!(ranges.take(6, ANY, 4).unwrap().1, 7);
        assert_eq!(
            ranges.take(12, (3, 8), 5),
            Err(Refused::Space),
            "18 are left, 11 from 21 on"
        );
        assert_eq!(ranges.take(11, (3, 8), 5).unwrap().1, 21);
        assert_eq!(ranges.take(1, (3, 64), 6), Err(Refused::Space));
        let owners: Vec<_> = ranges
            .owners()
            .map(|(&who, start, len)| (who, start, len))
            .collect();
        assert_eq!(
            owners,
            [(2, 0, 5), (1, 5, 2), (4, 7, 6), (3, 13, 1), (5, 21, 11)]
        );
        assert_eq!(ranges.owner(b), Some((&3, 13, 1)));
        // The range that an aligned one leaves serves the same again.
        ranges.give(a);
        assert_eq!(ranges.take(2, (3, 8), 8).unwrap().1, 5);
    }

    #[test]
    fn alignments_beyond_all_memory_are_no_overflow() {
        let mut ranges = of(64);
        assert_eq!(ranges.take(1, (1, 1 << 63), 0), Err(Refused::Space));
        assert_eq!(ranges.take(1, (u64::MAX, 1 << 63), 0).unwrap().1, 1);
        assert_eq!(ranges.take(usize::MAX, (0, 2), 0), Err(Refused::Space));
        assert_eq!(ranges.take(usize::MAX, (1, 2), 0), Err(Refused::Space));
    }

    proptest! {
        /// Against a bitmap: what is taken is free, aligned and stays whole, and a refusal is never wrong.
        #[test]
        fn a_refusal_means_that_no_free_range_has_room(
            total in 1_usize..300,
            first in prop_oneof![Just(0), 0_u64..100, Just(u64::MAX)],
            steps in prop::collection::vec((0_u32..8, 1_usize..60, 0_u32..7), 1..200),
        ) {
            let mut ranges = of(total);
            let mut taken = vec![false; total];
            let mut live = Vec::new();
            for (who, (step, number, power)) in (0..).zip(steps) {
                if step < 5 || live.is_empty() {
                    let align = if step < 3 { 1 } else { 1_u64 << power };
                    let longest = taken.split(|&bit| bit).map(<[bool]>::len).max().unwrap_or(0);
                    prop_assert_eq!(ranges.largest(), longest);
                    let is_aligned = |start: usize| first.wrapping_add(start as u64).is_multiple_of(align);
                    match ranges.take(number, (first, align), who) {
                        Ok((id, start)) => {
                            prop_assert!(is_aligned(start));
                            let range = &mut taken[start..start + number];
                            prop_assert!(range.iter().all(|&bit| !bit));
                            range.fill(true);
                            live.push((id, start, number, who));
                        }
                        Err(refused) => {
                            prop_assert_eq!(refused, Refused::Space);
                            let fits = taken.windows(number).enumerate().any(|(start, range)| {
                                is_aligned(start) && range.iter().all(|&bit| !bit)
                            });
                            prop_assert!(!fits, "{} refused at multiples of {}", number, align);
                        }
                    }
                } else {
                    let (id, start, len, who) = live.swap_remove(number % live.len());
                    prop_assert_eq!(ranges.give(id), (len, Some(who)));
                    taken[start..start + len].fill(false);
                }
                let owners: Vec<_> = ranges.owners().map(|(&who, start, len)| (start, len, who)).collect();
                let mut expected: Vec<_> =
                    live.iter().map(|&(_, start, len, who)| (start, len, who)).collect();
                expected.sort_unstable();
                prop_assert_eq!(owners, expected);
            }
            for (id, ..) in live {
                ranges.give(id);
            }
            prop_assert_eq!(ranges.largest(), total);
            prop_assert_eq!(ranges.owners().count(), 0);
        }
    }
}
