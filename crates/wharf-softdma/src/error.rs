//! What can go wrong, with the numbers.

use core::fmt;
use std::io;

use wharf_backend::DeviceAddress;
use wharf_backend::usage::ChannelId;
use wharf_engine::TooManyStreams;

use crate::MAX_CHANNELS;

/// Why a device was not opened. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// A channel has at least one byte of memory.
    NoMemory,
    /// More channels than a device has.
    TooManyChannels {
        /// How many were asked for.
        asked: usize,
    },
    /// A channel starts at a whole granule.
    BaseUnaligned {
        /// The address asked for.
        base: DeviceAddress,
        /// Bytes of a granule.
        granule: usize,
    },
    /// The channel would run past the end of all addresses.
    AddressesWrap {
        /// The address asked for.
        base: DeviceAddress,
        /// Bytes of the channel.
        len: usize,
    },
    /// A live channel of this program, perhaps of another device, has some of these addresses. An engine could not tell
    /// whose memory it is given.
    AddressesTaken {
        /// The address asked for.
        base: DeviceAddress,
        /// Bytes of the channel.
        len: usize,
        /// Who has them.
        owner: ChannelId,
    },
    /// No allocation of this host is ever that large.
    TooLarge {
        /// Bytes asked.
        requested: usize,
        /// Bytes that a device has at most.
        max: usize,
    },
    /// The host's heap refused the device's memory.
    Memory {
        /// Bytes asked.
        requested: usize,
    },
    /// All device addresses were given to other devices of this program; they are not used again.
    NoAddresses {
        /// Bytes asked.
        requested: usize,
    },
    /// Every stream of the program is claimed.
    Streams(TooManyStreams),
    /// The system refused the worker thread.
    Worker {
        /// Its reason.
        #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
        kind: io::ErrorKind,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("a channel needs at least one byte of memory"),
            Self::TooManyChannels { asked } => write!(
                f,
                "{asked} channels asked, a device has at most {MAX_CHANNELS}"
            ),
            Self::BaseUnaligned { base, granule } => {
                write!(
                    f,
                    "a channel cannot start at {base}, which is no multiple of {granule}"
                )
            }
            Self::AddressesWrap { base, len } => {
                write!(
                    f,
                    "{len} bytes from {base} on run past the end of all addresses"
                )
            }
            Self::AddressesTaken { base, len, owner } => {
                write!(f, "{owner} has some of the {len} addresses from {base} on")
            }
            Self::TooLarge { requested, max } => write!(
                f,
                "{requested} bytes of device memory asked, a device of this host has at most {max}"
            ),
            Self::Memory { requested } => {
                write!(
                    f,
                    "the heap refused {requested} bytes for the device's memory"
                )
            }
            Self::NoAddresses { requested } => {
                write!(f, "no device addresses are left for {requested} bytes")
            }
            Self::Streams(error) => error.fmt(f),
            Self::Worker { kind } => write!(f, "the system refused the worker thread: {kind}"),
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Streams(error) => Some(error),
            _ => None,
        }
    }
}

impl From<TooManyStreams> for OpenError {
    fn from(error: TooManyStreams) -> Self {
        Self::Streams(error)
    }
}
