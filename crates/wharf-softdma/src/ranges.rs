//! Which granules of a channel are taken: an address-ordered list of ranges, and the free ones again
//! in lists by size.
//!
//! Classes of size are three bits wide below the leading one (as in the two-level segregated fit), so
//! a range is found by two bit scans. Two things differ from the allocators of this kind that exist:
//!
//! * A request is refused only if no free range is that long. Rounding a request up to a class, and
//!   stopping there, would refuse to give back the very range that was just freed, and the whole of an
//!   unused memory unless its size happens to be a class. So the request's own class is searched last.
//! * Nothing aborts. [`take`](Ranges::take) grows its table fallibly and before it changes anything;
//!   [`give`](Ranges::give) never allocates. Memory for the table stays at its peak.
//!
//! Invariants: the ranges from `first` on, each behind its `before`, cover `0..len` without gap or
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
    /// No free range is that long.
    Space,
    /// The host's heap refused the table.
    Heap,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    Taken,
}

#[derive(Clone, Copy)]
struct Node {
    start: usize,
    len: usize,
    used: Use,
    /// The range that ends where this one starts.
    before: u32,
    /// The range that starts where this one ends; of a spare node, the next one.
    after: u32,
    /// Neighbours in the list of the class, while free.
    prev: u32,
    next: u32,
}

pub(crate) struct Ranges {
    nodes: Vec<Node>,
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

impl Ranges {
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
            ranges.reserve()?;
            let whole = ranges.node(Node {
                start: 0,
                len,
                used: Use::Free,
                before: NONE,
                after: NONE,
                prev: NONE,
                next: NONE,
            });
            ranges.list(whole);
        }
        Ok(ranges)
    }

    /// Takes `len` granules (at least one) and says where they start.
    pub(crate) fn take(&mut self, len: usize) -> Result<(RangeId, usize), Refused> {
        let found = self.find(len).ok_or(Refused::Space)?;
        let rest = self.at(found).len - len;
        if rest > 0 {
            self.reserve()?;
        }
        self.unlist(found);
        if rest > 0 {
            let Node { start, after, .. } = *self.at(found);
            let remainder = self.node(Node {
                start: start + len,
                len: rest,
                used: Use::Free,
                before: found,
                after,
                prev: NONE,
                next: NONE,
            });
            if after != NONE {
                self.at_mut(after).before = remainder;
            }
            let node = self.at_mut(found);
            node.after = remainder;
            node.len = len;
            self.list(remainder);
        }
        self.at_mut(found).used = Use::Taken;
        Ok((RangeId(found), self.at(found).start))
    }

    /// Gives a taken range back, joins it with its free neighbours, and says how long it was.
    pub(crate) fn give(&mut self, RangeId(id): RangeId) -> usize {
        let given = self.at(id).len;
        debug_assert!(self.at(id).used == Use::Taken, "a range is given back once");
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
        self.at_mut(whole).used = Use::Free;
        self.list(whole);
        given
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

    /// Makes sure that there is a spare node.
    fn reserve(&mut self) -> Result<(), Refused> {
        if self.spare != NONE {
            return Ok(());
        }
        self.nodes.try_reserve(1).map_err(|_| Refused::Heap)?;
        let index = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        if index == NONE {
            return Err(Refused::Heap);
        }
        self.nodes.push(Node {
            start: 0,
            len: 0,
            used: Use::Taken,
            before: NONE,
            after: NONE,
            prev: NONE,
            next: NONE,
        });
        self.spare = index;
        Ok(())
    }

    /// Turns the spare node, which [`reserve`](Self::reserve) has made sure of, into `node`.
    fn node(&mut self, node: Node) -> u32 {
        let index = self.spare;
        self.spare = self.at(index).after;
        *self.at_mut(index) = node;
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
        node != NONE && self.at(node).used == Use::Free
    }

    fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let mut ranges = Ranges::new(len).unwrap();
            assert_eq!(ranges.largest(), len);
            let (id, start) = ranges.take(len).unwrap();
            assert_eq!(start, 0);
            assert_eq!(ranges.take(1), Err(Refused::Space));
            assert_eq!(ranges.largest(), 0);
            assert_eq!(ranges.give(id), len);
            assert_eq!(ranges.largest(), len);
        }
    }

    #[test]
    fn the_range_just_freed_serves_the_same_request_again() {
        let mut ranges = Ranges::new(17 * 4).unwrap();
        let ids = [(); 4].map(|()| ranges.take(17).unwrap());
        assert_eq!(ids.map(|(_, start)| start), [0, 17, 34, 51]);
        ranges.give(ids[2].0);
        assert_eq!(ranges.take(18), Err(Refused::Space));
        assert_eq!(ranges.take(17).unwrap().1, 34);
    }

    #[test]
    fn neighbours_join_on_both_sides() {
        let mut ranges = Ranges::new(30).unwrap();
        let [a, b, c] = [(); 3].map(|()| ranges.take(10).unwrap().0);
        ranges.give(a);
        ranges.give(c);
        assert_eq!(ranges.largest(), 10);
        ranges.give(b);
        assert_eq!(ranges.largest(), 30);
        assert_eq!(ranges.nodes.len(), 3, "and their nodes are used again");
        for _ in 0..3 {
            ranges.take(10).unwrap();
        }
        assert_eq!(ranges.nodes.len(), 3);
    }

    proptest! {
        /// Against a bitmap: what is taken is free and stays whole, and a refusal is never wrong.
        #[test]
        fn a_refusal_means_that_no_free_range_is_that_long(
            total in 1_usize..300,
            steps in prop::collection::vec((any::<bool>(), 1_usize..60), 1..200),
        ) {
            let mut ranges = Ranges::new(total).unwrap();
            let mut taken = vec![false; total];
            let mut live = Vec::new();
            for (take, number) in steps {
                if take || live.is_empty() {
                    let longest = taken.split(|&bit| bit).map(<[bool]>::len).max().unwrap_or(0);
                    prop_assert_eq!(ranges.largest(), longest);
                    match ranges.take(number) {
                        Ok((id, start)) => {
                            let range = &mut taken[start..start + number];
                            prop_assert!(range.iter().all(|&bit| !bit));
                            range.fill(true);
                            live.push((id, start, number));
                        }
                        Err(refused) => {
                            prop_assert_eq!(refused, Refused::Space);
                            prop_assert!(longest < number, "{} refused, {} free", number, longest);
                        }
                    }
                } else {
                    let (id, start, len) = live.swap_remove(number % live.len());
                    prop_assert_eq!(ranges.give(id), len);
                    taken[start..start + len].fill(false);
                }
            }
            for (id, ..) in live {
                ranges.give(id);
            }
            prop_assert_eq!(ranges.largest(), total);
        }
    }
}
