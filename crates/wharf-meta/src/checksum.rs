//! Checksums of tensors, computed as the bytes stream by.

use core::fmt;

use wharf_tensor::{Target, Tensor, TensorError};

use crate::stream::stream;

/// Bytes of the stack that [`checksum`] goes through.
const BOUNCE: usize = 256;

/// A sum over bytes that come piece by piece. Implement it for whatever you check with:
///
/// ```
/// use wharf_meta::Checksum;
///
/// #[derive(Default)]
/// struct Parity(u8);
///
/// impl Checksum for Parity {
///     type Sum = u8;
///     fn update(&mut self, bytes: &[u8]) {
///         self.0 = bytes.iter().fold(self.0, |parity, byte| parity ^ byte);
///     }
///     fn finish(self) -> u8 {
///         self.0
///     }
/// }
/// ```
pub trait Checksum {
    /// What comes out.
    type Sum;

    /// Takes the next bytes in. How they are divided into pieces must not matter.
    fn update(&mut self, bytes: &[u8]);

    /// The sum of all bytes so far.
    fn finish(self) -> Self::Sum;
}

/// Adler-32, as in zlib (RFC 1950): what the Neuron runtime sums tensors with. Of no bytes it is 1.
#[derive(Clone, Default)]
pub struct Adler32(adler2::Adler32);

impl Adler32 {
    /// The sum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Checksum for Adler32 {
    type Sum = u32;

    fn update(&mut self, bytes: &[u8]) {
        self.0.write_slice(bytes);
    }

    fn finish(self) -> u32 {
        self.0.checksum()
    }
}

impl fmt::Debug for Adler32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Adler32({:#010x})", self.0.checksum())
    }
}

/// CRC-32, as in Ethernet, gzip and PNG. Its table takes 1 KiB of read-only memory.
#[cfg(feature = "crc")]
#[derive(Clone)]
pub struct Crc32(crc::Digest<'static, u32>);

#[cfg(feature = "crc")]
mod crc32 {
    use super::{Checksum, Crc32, fmt};

    static TABLE: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

    impl Crc32 {
        /// The sum of no bytes.
        #[must_use]
        pub fn new() -> Self {
            Self(TABLE.digest())
        }
    }

    impl Default for Crc32 {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Checksum for Crc32 {
        type Sum = u32;

        fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(self) -> u32 {
            self.0.finalize()
        }
    }

    impl fmt::Debug for Crc32 {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "Crc32({:#010x})", self.0.clone().finalize())
        }
    }
}

/// The sum of all bytes of `tensor`, which may be on a host or a device; they go through 256 bytes of the stack.
///
/// Each piece passes the fence on its own, and blocks as [`Tensor::read`] does: if others may write meanwhile, the sum is of no
/// one moment.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Parts, Tensor};
/// use wharf_meta::{Adler32, checksum};
///
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// let tensor = Tensor::alloc(&target, Heap::new(), 9)?;
/// tensor.write(0, b"Wikipedia")?;
/// assert_eq!(checksum(&tensor, Adler32::new())?, 0x11E6_0398);
/// # Ok::<(), wharf_tensor::TensorError>(())
/// ```
///
/// # Errors
/// The tensor has no storage or refused to be read.
pub fn checksum<T: Target, C: Checksum>(tensor: &Tensor<T>, sum: C) -> Result<C::Sum, TensorError> {
    checksum_through(tensor, sum, &mut [0; BOUNCE])
}

/// [`checksum`] through a buffer of yours: a large one makes fewer transfers, which pays on a device.
///
/// ```compile_fail,E0080
/// # use wharf_meta::{Adler32, checksum_through};
/// # use wharf_tensor::{Target, Tensor, TensorError};
/// fn sum<T: Target>(tensor: &Tensor<T>) -> Result<u32, TensorError> {
///     checksum_through(tensor, Adler32::new(), &mut []) // error: nothing goes through no bytes
/// }
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::Parts;
/// # sum::<Parts<Heap<Unsync>, HeapSource>>(&Tensor::empty());
/// ```
///
/// # Errors
/// As for [`checksum`].
pub fn checksum_through<T: Target, C: Checksum, const N: usize>(
    tensor: &Tensor<T>,
    mut sum: C,
    buffer: &mut [u8; N],
) -> Result<C::Sum, TensorError> {
    stream(tensor, buffer, |bytes| {
        sum.update(bytes);
        Ok::<(), TensorError>(())
    })?;
    Ok(sum.finish())
}
