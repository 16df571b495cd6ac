//! The table of shapes: which free list holds blocks of which shape.
//!
//! A coalesced hash table. The key's hash names its home slot; a key whose home is taken goes to any free
//! slot, which is then chained to the home. Keys are never removed. A hit costs 1.8 steps and a miss
//! 2.1 on average when the table is *full*, whatever its length; plain open addressing grows with the
//! length there, and a table with exactly as many slots as the program has shapes is the usual case.

use core::cell::Cell;

use wharf_sync::ConstInit;

use super::shape::Shape;

/// A slot of the table that a pool keeps its shapes in. Empty ones are all that a caller makes.
#[derive(Debug)]
pub struct SizeClass {
    /// [`Shape::key`], or 0 where the slot is vacant.
    key: Cell<usize>,
    /// The first free block of the shape, as its offset in the slab plus one; 0 for none.
    head: Cell<usize>,
    /// The next slot of the chain, as its index plus one; 0 for none.
    next: Cell<usize>,
}

impl SizeClass {
    /// A slot that no shape has claimed. All zero bytes.
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "an initial value, to be copied"
    )]
    pub const EMPTY: Self = Self {
        key: Cell::new(0),
        head: Cell::new(0),
        next: Cell::new(0),
    };

    /// The link to the first free block: its offset plus one, or 0.
    #[inline]
    pub(super) fn head(&self) -> usize {
        self.head.get()
    }

    #[inline]
    pub(super) fn set_head(&self, link: usize) {
        self.head.set(link);
    }

    #[inline]
    fn next<'t>(&self, table: &'t [Self]) -> Option<&'t Self> {
        // 0 wraps to an index that no table has.
        table.get(self.next.get().wrapping_sub(1))
    }
}

impl ConstInit for SizeClass {
    const INIT: Self = Self::EMPTY;
}

impl Default for SizeClass {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Where a key's chain begins: below `len`, unless that is 0.
///
/// Multiply and shift, no division: the upper half of a product with the golden ratio is spread over the
/// table by a second product. Both fit in 32 bits, which is one instruction each also on a
/// Cortex-M0. Shapes whose sizes differ by a multiple of 4 GiB share a home, and are told apart by their keys.
#[inline]
fn home(key: usize, len: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a hash may forget the upper half"
    )]
    let hash = (key as u32).wrapping_mul(0x9E37_79B1) >> 16;
    ((hash as usize) * len.min(0xFFFF)) >> 16
}

/// The slot that `shape` has claimed.
#[inline]
pub(super) fn find(table: &[SizeClass], shape: Shape) -> Option<&SizeClass> {
    let key = shape.key();
    let mut slot = table.get(home(key, table.len()))?;
    while slot.key.get() != key {
        slot = slot.next(table)?;
    }
    Some(slot)
}

/// Claims a slot for `shape`, which has none. `None` where the table is full.
#[cold]
pub(super) fn claim(table: &[SizeClass], shape: Shape) -> Option<&SizeClass> {
    let key = shape.key();
    let mut tail = table.get(home(key, table.len()))?;
    if tail.key.get() == 0 {
        tail.key.set(key);
        return Some(tail);
    }
    // From the end, away from where the few shapes of a large table have their homes.
    let mut vacant = table.iter().enumerate().rev();
    let (index, slot) = vacant.find(|(_, slot)| slot.key.get() == 0)?;
    while let Some(next) = tail.next(table) {
        tail = next;
    }
    // No wrap: a slot has bytes, so an index is below `isize::MAX`.
    tail.next.set(index + 1);
    slot.key.set(key);
    Some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn shapes() -> impl Iterator<Item = Shape> {
        (0..).flat_map(|count| {
            [8, 64].map(|align| Shape {
                size: (count + 1) * align,
                align,
            })
        })
    }

    fn steps(table: &[SizeClass], shape: Shape) -> usize {
        let key = shape.key();
        let mut slot = table.get(home(key, table.len()));
        let mut steps = 0;
        while let Some(here) = slot {
            steps += 1;
            if here.key.get() == key {
                break;
            }
            slot = here.next(table);
        }
        steps
    }

    #[test]
    fn an_empty_table_has_no_class() {
        let shape = Shape { size: 8, align: 8 };
        assert!(find(&[], shape).is_none());
        assert!(claim(&[], shape).is_none());
    }

    #[test]
    fn every_slot_is_claimed_and_found_again() {
        for len in [1, 2, 3, 5, 8, 12, 13, 64, 1000] {
            let table: Vec<SizeClass> = (0..len).map(|_| SizeClass::EMPTY).collect();
            for (count, shape) in shapes().take(len).enumerate() {
                assert!(find(&table, shape).is_none(), "{len}: {shape:?}");
                claim(&table, shape).unwrap().set_head(count);
            }
            for (count, shape) in shapes().take(len).enumerate() {
                assert_eq!(find(&table, shape).unwrap().head(), count);
            }
            let next = shapes().nth(len).unwrap();
            assert!(find(&table, next).is_none());
            assert!(claim(&table, next).is_none(), "{len}: full");
        }
    }

    #[test]
    fn a_full_table_is_not_slower_when_it_is_longer() {
        for len in [12usize, 128, 4096] {
            let table: Vec<SizeClass> = (0..len).map(|_| SizeClass::EMPTY).collect();
            for shape in shapes().take(len) {
                claim(&table, shape).unwrap();
            }
            let hits: usize = shapes().take(len).map(|s| steps(&table, s)).sum();
            let misses: usize = shapes().skip(len).take(len).map(|s| steps(&table, s)).sum();
            assert!(hits <= 2 * len, "{len}: {hits} steps");
            assert!(misses <= 3 * len, "{len}: {misses} steps");
        }
    }

    #[test]
    fn a_home_is_inside_its_table() {
        for len in [1, 2, 12, 0xFFFF, 0x1_0000, usize::MAX] {
            for key in [0, 1, 12, usize::MAX / 3, usize::MAX] {
                assert!(home(key, len) < len);
            }
        }
    }
}
