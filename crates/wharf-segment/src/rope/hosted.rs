//! Ropes in the terms of `std::io`.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};

use wharf_backend::{BackendRef, NotHostAddressable};

use super::Cursor;
use crate::ReadError;

/// Pieces of one vectored write. The standard library's writers take more; what is left goes with the next one.
const PIECES: usize = 16;

/// The most bytes of one piece: some systems count them in 32 bits, and `IoSlice::new` panics there.
const PIECE: usize = 1 << 30;

/// Bytes of a device that are written at a time, by way of the stack.
const BOUNCE: usize = 512;

impl<'a, R: BackendRef> Cursor<'a, R> {
    /// Puts the bytes from here on into `slices`, as many as there is room for, and says how many it has filled: none only at
    /// the end of the rope, or if there is no room at all. Stops before a link in device memory. The cursor stays: `advance` it
    /// by what the writer took.
    ///
    /// # Errors
    /// The next byte is in device memory.
    pub fn io_slices(&self, slices: &mut [IoSlice<'a>]) -> Result<usize, NotHostAddressable> {
        let mut ahead = self.clone();
        let mut filled = 0;
        for slice in slices {
            let chunk = match ahead.chunk() {
                Ok([]) => break,
                Ok(chunk) => piece(chunk, PIECE),
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            };
            *slice = IoSlice::new(chunk);
            ahead.step(chunk.len());
            filled += 1;
        }
        Ok(filled)
    }

    /// Writes the bytes from here on, several links at a time where `writer` can, and moves behind what was written. Bytes on a
    /// device are read and written in pieces of 512 bytes by way of the stack.
    ///
    /// # Errors
    /// The writer's; or [`ErrorKind::WriteZero`] if it takes nothing. The cursor is behind what was written, from where to go
    /// on: when a socket would have blocked, for instance. An interrupted write is tried again.
    pub fn write_to(&mut self, writer: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut bounce = [0; BOUNCE];
        while self.remaining() > 0 {
            let (offered, taken) = match self.io_slices(&mut slices) {
                Ok(filled) => {
                    let slices = slices.get(..filled).unwrap_or_default();
                    let offered = slices
                        .iter()
                        .fold(0_usize, |sum, slice| sum.saturating_add(slice.len()));
                    (offered, writer.write_vectored(slices))
                }
                Err(NotHostAddressable) => {
                    let bytes = self.clone().read_some(&mut bounce)?;
                    (bytes.len(), writer.write(bytes))
                }
            };
            match taken {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) if taken <= offered => self.step(taken),
                Ok(_) => return Err(io::Error::other("a writer took more than it was given")),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// As many bytes of the current link as fit into `buffer`.
    fn read_some<'b>(&mut self, buffer: &'b mut [u8]) -> Result<&'b [u8], ReadError> {
        let len = self.left_in_link().min(buffer.len());
        let bytes = buffer.get_mut(..len).unwrap_or_default();
        self.read(bytes)?;
        Ok(bytes)
    }
}

/// The first `most` bytes, or all.
fn piece(chunk: &[u8], most: usize) -> &[u8] {
    chunk.get(..most).unwrap_or(chunk)
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::OutOfBounds(_) => ErrorKind::UnexpectedEof,
            ReadError::Transfer { .. } => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// Reads from the current link; ends at the end of the rope. Bytes on a device are transferred.
impl<R: BackendRef> Read for Cursor<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_some(buffer)?.len())
    }
}

/// The buffer is the current link; where that is device memory, an error ([`ErrorKind::Unsupported`]).
impl<R: BackendRef> BufRead for Cursor<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.chunk()
            .map_err(|error| io::Error::new(ErrorKind::Unsupported, error))
    }
    /// Moves over `amount` bytes, at most to the end.
    fn consume(&mut self, amount: usize) {
        self.step(amount.min(self.remaining()));
    }
}

/// To places in the rope, or right behind it; others are an error.
impl<R: BackendRef> Seek for Cursor<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => (self.position() as u64).checked_add_signed(by),
            SeekFrom::End(by) => {
                let end = self.position() as u64 + self.remaining() as u64;
                end.checked_add_signed(by)
            }
        };
        let Some(at) = at.and_then(|at| usize::try_from(at).ok()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        Cursor::seek(self, at).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        Ok(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_no_longer_than_systems_count() {
        assert_eq!(piece(b"abcdef", 4), b"abcd");
        assert_eq!(piece(b"abc", 4), b"abc");
        assert!(u32::try_from(PIECE).is_ok());
    }
}
