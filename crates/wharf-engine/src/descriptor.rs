//! What an engine is asked to do.

use core::fmt;

use heapless::Vec;
use wharf_backend::{DeviceAddress, Place};

use crate::{Extent, Limits, SubmitError};

/// The most operands of one descriptor.
pub const MAX_OPERANDS: usize = 8;

/// What the engine does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it, and may read it first.
    Write,
}

/// A range of memory that a descriptor names. Inert: the engine's `submit` says what it relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The first byte.
    pub place: Place,
    /// Bytes.
    pub len: usize,
    /// Read or written.
    pub access: Access,
}

impl Operand {
    /// `len` bytes at `place`, to be read.
    #[must_use]
    pub const fn read(place: Place, len: usize) -> Self {
        Self {
            place,
            len,
            access: Access::Read,
        }
    }

    /// `len` bytes at `place`, to be written.
    #[must_use]
    pub const fn write(place: Place, len: usize) -> Self {
        Self {
            place,
            len,
            access: Access::Write,
        }
    }

    /// The range of addresses, as a device sees it that has host memory where the CPU has it.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let start = match self.place {
            Place::Host(base) => DeviceAddress::new(base.addr().get() as u64),
            Place::Device(base) => base,
        };
        Extent::new(start, self.len as u64)
    }

    /// First and one-past-last address, saturating at the end of the space; `None` if empty.
    fn span(&self) -> Option<(bool, u64, u64)> {
        let (host, start) = match self.place {
            Place::Host(base) => (true, base.addr().get() as u64),
            Place::Device(base) => (false, base.get()),
        };
        (self.len > 0).then(|| (host, start, start.saturating_add(self.len as u64)))
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self.span(), other.span()) {
            (Some((space, start, end)), Some((other_space, other_start, other_end))) => {
                space == other_space && start < other_end && other_start < end
            }
            _ => false,
        }
    }
}

/// An operand as a kernel sees it: bytes lent for the duration of the call.
#[derive(Debug)]
pub enum Lent<'a> {
    /// An operand to read.
    Read(&'a [u8]),
    /// An operand to write.
    Write(&'a mut [u8]),
}

/// A computation on operands, in the order in which they were submitted. It runs where the engine
/// runs: on a worker thread, in an interrupt, or inline.
///
/// A plain function on purpose: it captures nothing, so nothing can dangle. What it needs is an operand.
///
/// A kernel must not wait for what comes after it: not for a submission to its own engine, which runs when the kernel has
/// returned, and not for access to a tensor of its own launch, which is given back then. On an engine that runs inline
/// it would wait for itself.
pub type Kernel = fn(&mut [Lent<'_>]) -> Result<(), KernelFault>;

/// A kernel's own reason to give up; the number is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KernelFault(pub u32);

impl KernelFault {
    /// The operands are not those that the kernel works on: the usual `else` of its `let`.
    pub const OPERANDS: Self = Self(u32::MAX);
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel gave up with code {}", self.0)
    }
}

impl core::error::Error for KernelFault {}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// Copies the first operand (read) into the second (written), of equal length.
    Copy,
    /// Sets every byte of the only operand (written).
    Fill(u8),
    /// Runs a kernel on all operands.
    Kernel(Kernel),
}

/// One unit of work: a command and its operands, checked against each other.
#[derive(Clone, Debug)]
pub struct Descriptor {
    command: Command,
    operands: Vec<Operand, MAX_OPERANDS>,
}

impl Descriptor {
    /// A descriptor.
    ///
    /// # Errors
    /// There are too many operands, they do not fit the command, or one that is written overlaps another: a kernel
    /// is lent `&mut` to what it writes, so nothing else may point there.
    pub fn new(command: Command, operands: &[Operand]) -> Result<Self, DescriptorError> {
        let operands = Vec::from_slice(operands).map_err(|_| DescriptorError::TooManyOperands {
            operands: operands.len(),
        })?;
        for (second, b) in operands.iter().enumerate() {
            for (first, a) in operands.iter().enumerate().take(second) {
                let written = a.access == Access::Write || b.access == Access::Write;
                if written && a.overlaps(b) {
                    return Err(DescriptorError::Overlap { first, second });
                }
            }
        }
        let fits = match (command, operands.as_slice()) {
            (Command::Kernel(_), _) => true,
            (Command::Copy, [from, to]) => {
                let fits = from.access == Access::Read && to.access == Access::Write;
                if fits && from.len != to.len {
                    return Err(DescriptorError::Lengths {
                        from: from.len,
                        to: to.len,
                    });
                }
                fits
            }
            (Command::Fill(_), [to]) => to.access == Access::Write,
            _ => false,
        };
        if fits {
            Ok(Self { command, operands })
        } else {
            Err(DescriptorError::Shape {
                operands: operands.len(),
            })
        }
    }

    /// Whether an engine with these limits can cut every operand, for the beginning of its `submit`.
    ///
    /// # Errors
    /// The first operand that it cannot, and why.
    pub fn check(&self, limits: &Limits) -> Result<(), SubmitError> {
        for (operand, one) in self.operands.iter().enumerate() {
            limits
                .split(one.extent())
                .map_err(|error| SubmitError::Limits { operand, error })?;
        }
        Ok(())
    }

    /// What to do.
    #[must_use]
    pub const fn command(&self) -> Command {
        self.command
    }

    /// With what.
    #[must_use]
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }
}

/// Why operands make no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DescriptorError {
    /// More than [`MAX_OPERANDS`].
    TooManyOperands {
        /// How many.
        operands: usize,
    },
    /// An operand that is written overlaps another.
    Overlap {
        /// Index of the one.
        first: usize,
        /// Index of the other.
        second: usize,
    },
    /// A copy takes one operand to read and one to write; a fill takes one to write.
    Shape {
        /// How many there were.
        operands: usize,
    },
    /// A copy moves as many bytes as it is to read, and these are not as many as it is to write.
    Lengths {
        /// Bytes to be read.
        from: usize,
        /// Bytes to be written.
        to: usize,
    },
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyOperands { operands } => {
                write!(
                    f,
                    "{operands} operands, a descriptor has at most {MAX_OPERANDS}"
                )
            }
            Self::Overlap { first, second } => {
                write!(
                    f,
                    "operands {first} and {second} overlap, and one is written"
                )
            }
            Self::Shape { operands } => {
                write!(f, "{operands} such operands do not fit the command")
            }
            Self::Lengths { from, to } => {
                write!(f, "{from} bytes cannot be copied to {to}")
            }
        }
    }
}

impl core::error::Error for DescriptorError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u64, len: usize, access: Access) -> Operand {
        Operand {
            place: Place::Device(DeviceAddress::new(address)),
            len,
            access,
        }
    }

    #[test]
    fn what_is_written_overlaps_nothing() {
        let kernel = Command::Kernel(|_| Ok(()));
        let make = |a, b| Descriptor::new(kernel, &[a, b]).map(|_| ());
        let overlap = Err(DescriptorError::Overlap {
            first: 0,
            second: 1,
        });
        let (read, write) = (Access::Read, Access::Write);
        assert_eq!(make(at(0, 16, read), at(8, 16, read)), Ok(()));
        assert_eq!(make(at(0, 16, read), at(15, 1, write)), overlap);
        assert_eq!(make(at(0, 16, write), at(15, 1, read)), overlap);
        assert_eq!(make(at(0, 16, write), at(16, 1, write)), Ok(()));
        assert_eq!(
            make(at(8, 0, write), at(0, 16, write)),
            Ok(()),
            "no bytes overlap nothing"
        );
        assert_eq!(
            make(at(u64::MAX - 3, 16, write), at(u64::MAX - 1, 1, read)),
            overlap
        );
    }

    #[test]
    fn copies_and_fills_have_a_shape() {
        let read = at(0, 8, Access::Read);
        let write = at(8, 8, Access::Write);
        assert!(Descriptor::new(Command::Copy, &[read, write]).is_ok());
        assert!(Descriptor::new(Command::Fill(0), &[write]).is_ok());
        for (command, operands) in [
            (Command::Copy, &[write, read][..]),
            (Command::Copy, &[read]),
            (Command::Fill(0), &[read]),
            (Command::Fill(0), &[]),
        ] {
            let error = Descriptor::new(command, operands).unwrap_err();
            assert_eq!(
                error,
                DescriptorError::Shape {
                    operands: operands.len()
                }
            );
        }
    }

    #[test]
    fn a_copy_moves_as_many_bytes_as_it_reads() {
        let copy = [at(0, 8, Access::Read), at(8, 7, Access::Write)];
        let error = Descriptor::new(Command::Copy, &copy).unwrap_err();
        assert_eq!(error, DescriptorError::Lengths { from: 8, to: 7 });
    }

    #[test]
    fn nine_operands_are_one_too_many() {
        let operands = [at(0, 1, Access::Read); 9];
        let error = Descriptor::new(Command::Kernel(|_| Ok(())), &operands).unwrap_err();
        assert_eq!(error, DescriptorError::TooManyOperands { operands: 9 });
    }
}
