//! What sources and pools count.

use core::fmt;

/// What a source or a pool has, holds and had to refuse.
///
/// A snapshot is not atomic as a whole where several contexts allocate: read differences. What a
/// field means for one kind of source is written there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Census {
    /// Bytes in a counted unit: 1 for sources, the stride of a slot for pools, 0 for what counts
    /// nothing.
    pub unit: usize,
    /// Units that really limit it; 0 if nothing does, or nobody knows.
    pub capacity: usize,
    /// Units that are taken.
    pub in_use: usize,
    /// Most units that were ever taken at once.
    pub peak: usize,
    /// Requests that were refused, so that the caller was told.
    pub refused: usize,
    /// What was lost without anybody being told.
    pub dropped: usize,
    /// The largest refused request, in the bytes that the caller asked for.
    pub largest_refused: usize,
}

impl Census {
    /// That of a source that counts nothing.
    pub const NOTHING: Self = Self {
        unit: 0,
        capacity: 0,
        in_use: 0,
        peak: 0,
        refused: 0,
        dropped: 0,
        largest_refused: 0,
    };

    /// `in_use` in bytes.
    #[must_use]
    pub const fn bytes_in_use(&self) -> usize {
        self.in_use.saturating_mul(self.unit)
    }

    /// `peak` in bytes.
    #[must_use]
    pub const fn bytes_peak(&self) -> usize {
        self.peak.saturating_mul(self.unit)
    }

    /// `capacity` in bytes.
    #[must_use]
    pub const fn bytes_capacity(&self) -> usize {
        self.capacity.saturating_mul(self.unit)
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NOTHING {
            return f.write_str("counts nothing");
        }
        if (self.unit, self.capacity, self.in_use, self.peak) == (0, 0, 0, 0) {
            // Over what counts nothing, somebody else counts refusals.
            write!(f, "use is not counted, {} refused", self.refused)?;
        } else {
            write!(f, "{}", self.in_use)?;
            if self.capacity != 0 {
                write!(f, " of {}", self.capacity)?;
            }
            if self.unit == 1 {
                f.write_str(" bytes")?;
            } else {
                write!(f, " units of {} bytes", self.unit)?;
            }
            write!(f, " in use, peak {}, {} refused", self.peak, self.refused)?;
        }
        // Somebody may have waited for it and got it, so that it was no refusal.
        if self.refused != 0 || self.largest_refused != 0 {
            write!(f, " (largest {} bytes)", self.largest_refused)?;
        }
        if self.dropped != 0 {
            write!(f, ", {} dropped", self.dropped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_person_can_read_it() {
        let source = Census {
            unit: 1,
            capacity: 4096,
            in_use: 96,
            peak: 128,
            ..Census::NOTHING
        };
        assert_eq!(
            source.to_string(),
            "96 of 4096 bytes in use, peak 128, 0 refused"
        );
        let pool = Census {
            unit: 80,
            in_use: 3,
            peak: 5,
            refused: 2,
            largest_refused: 5000,
            dropped: 1,
            ..Census::NOTHING
        };
        assert_eq!(
            pool.to_string(),
            "3 units of 80 bytes in use, peak 5, 2 refused (largest 5000 bytes), 1 dropped"
        );
        assert_eq!(Census::NOTHING.to_string(), "counts nothing");
    }

    #[test]
    fn bytes_saturate() {
        let census = Census {
            unit: usize::MAX,
            capacity: 1,
            in_use: 2,
            peak: 3,
            ..Census::NOTHING
        };
        assert_eq!(census.bytes_capacity(), usize::MAX);
        assert_eq!(census.bytes_in_use(), usize::MAX);
        assert_eq!(census.bytes_peak(), usize::MAX);
        assert_eq!(Census::default(), Census::NOTHING);
    }
}
