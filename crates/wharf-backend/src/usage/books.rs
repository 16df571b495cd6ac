//! How much is used, for what.

use core::fmt;

use super::UsageClass;
use crate::Census;

/// The census of a channel: in total, and of each class. Counted in bytes.
///
/// It allocates nothing and takes no lock: whoever shares it protects it. Shown, it is a table with a line for every class that
/// ever was asked for:
///
/// ```
/// use wharf_backend::usage::{UsageBooks, UsageClass};
///
/// let mut books = UsageBooks::new(4096);
/// books.take(UsageClass::WEIGHT, 2048);
/// books.take(UsageClass::IO, 512);
/// books.give(UsageClass::IO, 512);
/// books.refuse(UsageClass::IO, 3000);
/// assert_eq!(
///     books.to_string(),
///     "class             in use         peak  refused      largest\n\
///      weight              2048         2048        0            0\n\
///      io                     0          512        1         3000\n\
///      total               2048         2560        1         3000 of 4096 bytes",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UsageBooks {
    capacity: usize,
    total: Line,
    classes: [Line; UsageClass::COUNT],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Line {
    in_use: usize,
    peak: usize,
    refused: usize,
    largest_refused: usize,
}

impl Line {
    const EMPTY: Self = Self {
        in_use: 0,
        peak: 0,
        refused: 0,
        largest_refused: 0,
    };

    /// Sums stop at the ends: a miscount is wrong, but never small for large.
    const fn take(&mut self, bytes: usize) {
        self.in_use = self.in_use.saturating_add(bytes);
        if self.in_use > self.peak {
            self.peak = self.in_use;
        }
    }

    const fn give(&mut self, bytes: usize) {
        self.in_use = self.in_use.saturating_sub(bytes);
    }

    const fn refuse(&mut self, requested: usize) {
        self.refused = self.refused.saturating_add(1);
        if requested > self.largest_refused {
            self.largest_refused = requested;
        }
    }

    const fn census(&self, capacity: usize) -> Census {
        Census {
            unit: 1,
            capacity,
            in_use: self.in_use,
            peak: self.peak,
            refused: self.refused,
            dropped: 0,
            largest_refused: self.largest_refused,
        }
    }
}

impl UsageBooks {
    /// Empty books of a memory of `capacity` bytes.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            total: Line::EMPTY,
            classes: [Line::EMPTY; UsageClass::COUNT],
        }
    }

    const fn line(&mut self, class: UsageClass) -> &mut Line {
        &mut self.classes[class.number() as usize]
    }

    /// `bytes` were taken.
    pub const fn take(&mut self, class: UsageClass, bytes: usize) {
        self.total.take(bytes);
        self.line(class).take(bytes);
    }

    /// `bytes` came back.
    pub const fn give(&mut self, class: UsageClass, bytes: usize) {
        self.total.give(bytes);
        self.line(class).give(bytes);
    }

    /// A request of `requested` bytes was refused.
    pub const fn refuse(&mut self, class: UsageClass, requested: usize) {
        self.total.refuse(requested);
        self.line(class).refuse(requested);
    }

    /// All classes together.
    #[must_use]
    pub const fn total(&self) -> Census {
        self.total.census(self.capacity)
    }

    /// One class. Its capacity is zero: nothing limits it but the channel.
    #[must_use]
    pub const fn class(&self, class: UsageClass) -> Census {
        self.classes[class.number() as usize].census(0)
    }

    /// The classes that ever were asked for.
    pub fn classes(&self) -> impl Iterator<Item = (UsageClass, Census)> {
        UsageClass::all()
            .map(|class| (class, self.class(class)))
            .filter(|(_, census)| census.peak > 0 || census.refused > 0)
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, census: &Census) -> fmt::Result {
    let Census {
        in_use,
        peak,
        refused,
        largest_refused,
        ..
    } = census;
    write!(
        f,
        "{name:<12} {in_use:>11}  {peak:>11}  {refused:>7}  {largest_refused:>11}"
    )
}

impl fmt::Display for UsageBooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [class, in_use, peak, refused, largest] =
            ["class", "in use", "peak", "refused", "largest"];
        writeln!(
            f,
            "{class:<12} {in_use:>11}  {peak:>11}  {refused:>7}  {largest:>11}"
        )?;
        for (class, census) in self.classes() {
            row(f, class.name(), &census)?;
            f.write_str("\n")?;
        }
        row(f, "total", &self.total())?;
        write!(f, " of {} bytes", self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stop_at_the_ends() {
        let mut books = UsageBooks::new(usize::MAX);
        books.take(UsageClass::RING, usize::MAX);
        books.take(UsageClass::RING, 2);
        assert_eq!(books.total().in_use, usize::MAX);
        books.give(UsageClass::RING, usize::MAX);
        books.give(UsageClass::RING, 1);
        assert_eq!(books.class(UsageClass::RING).in_use, 0);
    }
}
