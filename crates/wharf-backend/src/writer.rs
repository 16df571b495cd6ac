//! Filling a segment whose length is known only when it is full: a frame that arrives.
//!
//! Invariants of a [`SegmentWriter`]:
//! 1. `written <= valued <= segment.len()`;
//! 2. the first `valued` bytes have values.
#![allow(
    unsafe_code,
    reason = "tells which bytes have values; the invariants above"
)]

use core::fmt;
use core::mem::MaybeUninit;

use crate::{BackendRef, HostBackend, SegmentMut, Shortens, Uninit, VendsUninit};

/// A fresh segment of host memory, and how much of it is written: from the first byte on, by copies, by a reader, or by a
/// device.
///
/// | by | how |
/// |---|---|
/// | bytes | [`append`](Self::append), [`append_some`](Self::append_some), [`push`](Self::push), [`extend`](Self::extend), `write!` |
/// | a driver that fills a `&mut [u8]` and tells how far | [`read_from`](Self::read_from) |
/// | a device, or foreign code, that fills raw memory | [`unwritten`](Self::unwritten) and [`advance`](Self::advance) |
///
/// It ends as an initialised segment: [`finish`](Self::finish), which is as long as what was written, and costs nothing, of the slots of
/// a pool; [`finish_padded`](Self::finish_padded), with zeros behind it, of any host memory. Dropped, it gives the memory back.
///
/// ```
/// use wharf_backend::{BackendExt, StaticPool};
/// use wharf_sync::Unsync;
/// # struct Uart(&'static [u8]);
/// # impl Uart {
/// #     fn read(&mut self, to: &mut [u8]) -> Result<usize, core::convert::Infallible> {
/// #         let some = to.len().min(3).min(self.0.len());
/// #         let (now, later) = self.0.split_at(some);
/// #         to[..some].copy_from_slice(now);
/// #         self.0 = later;
/// #         Ok(some)
/// #     }
/// # }
/// # let mut uart = Uart(b"$GPGGA,123519\r\n");
///
/// let lines = StaticPool::<Unsync, 128, 4>::new();
/// let mut line = lines.alloc(128)?.writer();
/// line.append(b"> ")?;
/// while !line.written().ends_with(b"\r\n") {
///     line.read_from(|room| uart.read(room))?; // any driver's `read(&mut [u8]) -> Result<usize, _>`
/// }
/// let line = line.finish();
/// assert_eq!(*line, *b"> $GPGGA,123519\r\n");
/// assert_eq!(line.len(), 17, "the slot's other 111 bytes go back with it");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "dropping it gives the memory back"]
pub struct SegmentWriter<R: BackendRef> {
    segment: SegmentMut<R, Uninit>,
    written: usize,
    /// A reader was lent so many, so they need no zeros when the next one is.
    valued: usize,
}

/// There is less room than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoRoom {
    /// Bytes that were to be written; of an iterator, as many as it has at least.
    pub asked: usize,
    /// Bytes that there is room for.
    pub room: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, room } = self;
        write!(f, "{asked} bytes do not fit into the {room} that are left")
    }
}

impl core::error::Error for NoRoom {}

/// Why [`SegmentWriter::read_from`] wrote nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ReadFromError<E> {
    /// The reader failed.
    Reader(E),
    /// The reader claims to have read more than it was lent: which of the bytes are real, nobody knows.
    Claimed(NoRoom),
}

impl<E: fmt::Display> fmt::Display for ReadFromError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reader(error) => error.fmt(f),
            Self::Claimed(NoRoom { asked, room }) => {
                write!(f, "the reader claims {asked} bytes, and was lent {room}")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for ReadFromError<E> {}

impl<R: BackendRef> SegmentMut<R, Uninit>
where
    R::Backend: HostBackend,
{
    /// To be filled from its first byte on, as far as it goes.
    pub const fn writer(self) -> SegmentWriter<R> {
        SegmentWriter {
            segment: self,
            written: 0,
            valued: 0,
        }
    }
}

impl<R: BackendRef> SegmentWriter<R> {
    /// Bytes written.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.written
    }

    /// Whether nothing is written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Bytes of the segment.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.segment.len()
    }

    /// Bytes that there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        // No wrap: invariant 1.
        self.segment.len() - self.written
    }

    /// Takes back what was written from `len` on. Where there is less, nothing happens.
    pub fn truncate(&mut self, len: usize) {
        self.written = self.written.min(len);
    }

    /// The segment as it was.
    pub fn into_uninit(self) -> SegmentMut<R, Uninit> {
        self.segment
    }

    fn fits(&self, asked: usize) -> Result<(), NoRoom> {
        let room = self.room();
        if asked > room {
            return Err(NoRoom { asked, room });
        }
        Ok(())
    }

    /// So many more are written, for which there is room, and which have values.
    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        self.valued = self.valued.max(self.written);
    }
}

impl<R: BackendRef> SegmentWriter<R>
where
    R::Backend: HostBackend,
{
    /// What is written.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        match self.segment.place() {
            crate::Place::Host(base) => {
                // SAFETY: the bytes are the segment's, which is ours alone, and have values (invariants 1 and 2).
                unsafe { core::slice::from_raw_parts(base.as_ptr(), self.written) }
            }
            // A host backend has none.
            crate::Place::Device(_) => &[],
        }
    }

    /// What is written, to be changed: a length field at the front, say.
    #[must_use]
    pub fn written_mut(&mut self) -> &mut [u8] {
        let written = self.written;
        let bytes = &mut self.segment.fresh_bytes()[..written];
        // SAFETY: they have values (invariants 1 and 2).
        unsafe { bytes.assume_init_mut() }
    }

    /// Copies all of `bytes` behind what is written.
    ///
    /// # Errors
    /// There is no room for all of them. None was written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.fits(bytes.len())?;
        self.rest_mut()[..bytes.len()].write_copy_of_slice(bytes);
        self.wrote(bytes.len());
        Ok(())
    }

    /// Copies as many of `bytes` as there is room for behind what is written, and tells how many.
    #[must_use = "how many of the bytes were written"]
    pub fn append_some(&mut self, bytes: &[u8]) -> usize {
        let some = bytes.len().min(self.room());
        self.rest_mut()[..some].write_copy_of_slice(&bytes[..some]);
        self.wrote(some);
        some
    }

    /// Writes one byte behind what is written.
    ///
    /// # Errors
    /// There is no room.
    pub fn push(&mut self, byte: u8) -> Result<(), NoRoom> {
        self.append(&[byte])
    }

    /// Writes what an iterator has. Not [`core::iter::Extend`], which cannot say that there is no room.
    ///
    /// # Errors
    /// It has more than there is room for. Those before are written; the first one for which there was none is lost.
    pub fn extend(&mut self, bytes: impl IntoIterator<Item = u8>) -> Result<(), NoRoom> {
        let room = self.room();
        for (done, byte) in bytes.into_iter().enumerate() {
            // No wrap: not more than the room.
            let full = |_| NoRoom {
                asked: done + 1,
                room,
            };
            self.push(byte).map_err(full)?;
        }
        Ok(())
    }

    /// Lends all that is left to `reader`, which answers how many bytes it has read to the front of it, and tells that number.
    ///
    /// The room that a reader is lent has values, zeros at first: that is a fill of all that is left the first time, and nothing from
    /// then on. Where that is too much, see [`unwritten`](Self::unwritten).
    ///
    /// # Errors
    /// What the reader failed with, or it claims more than it was lent. Nothing counts as written.
    pub fn read_from<E>(
        &mut self,
        reader: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, ReadFromError<E>> {
        let (written, valued, room) = (self.written, self.valued, self.room());
        let bytes = self.segment.fresh_bytes();
        for byte in &mut bytes[valued..] {
            byte.write(0);
        }
        self.valued = bytes.len();
        // SAFETY: those before `valued` have values (invariant 2), and the others were just written.
        let rest = unsafe { bytes[written..].assume_init_mut() };
        let read = reader(rest).map_err(ReadFromError::Reader)?;
        if read > room {
            let asked = read;
            return Err(ReadFromError::Claimed(NoRoom { asked, room }));
        }
        self.wrote(read);
        Ok(read)
    }

    /// What is left, for whoever writes raw memory: hand its pointer over, and [`advance`](Self::advance) by what has arrived.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use wharf_backend::{BackendExt, StaticPool};
    /// use wharf_sync::Unsync;
    /// # unsafe fn emac_receive(to: *mut u8, len: usize) -> usize {
    /// #     let frame = b"frame";
    /// #     unsafe { to.copy_from_nonoverlapping(frame.as_ptr(), frame.len().min(len)) };
    /// #     frame.len()
    /// # }
    ///
    /// let frames = StaticPool::<Unsync, 1536, 4>::new();
    /// let mut frame = frames.alloc(1536)?.writer();
    /// let room = frame.unwritten();
    /// // SAFETY: so many bytes may be written there.
    /// let arrived = unsafe { emac_receive(room.as_mut_ptr().cast(), room.len()) };
    /// // SAFETY: it has written so many.
    /// unsafe { frame.advance(arrived) }?;
    /// assert_eq!(*frame.finish(), *b"frame");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn unwritten(&mut self) -> &mut [MaybeUninit<u8>]
    where
        R::Backend: VendsUninit,
    {
        // It may take the values away that a reader has left there.
        self.valued = self.written;
        self.rest_mut()
    }

    /// What is left. Whoever asks puts values there, and takes none away.
    fn rest_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.segment.fresh_bytes()[self.written..]
    }

    /// Declares the next `bytes` written: by somebody who was given [`unwritten`](Self::unwritten), or by a device that had the segment
    /// [in flight](SegmentMut::hand_over).
    ///
    /// # Safety
    /// They are: so many bytes behind what was written have values.
    ///
    /// # Errors
    /// There is no room for so many. Nothing has changed.
    pub unsafe fn advance(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.fits(bytes)?;
        self.wrote(bytes);
        Ok(())
    }

    /// The segment, as long as what was written. What is behind goes back with it. Costs nothing.
    pub fn finish(mut self) -> SegmentMut<R>
    where
        R::Backend: Shortens,
    {
        let written = self.written;
        // Not longer than it is (invariant 1).
        let shortened = self.segment.truncate(written);
        debug_assert!(shortened.is_ok(), "invariant 1");
        // SAFETY: all that it still has was written (invariant 2).
        unsafe { self.segment.assume_init() }
    }

    /// The segment as long as it was, with zeros behind what was written, and how much that was. Costs a fill of what is left.
    pub fn finish_padded(mut self) -> (SegmentMut<R>, usize) {
        let written = self.written;
        for byte in self.rest_mut() {
            byte.write(0);
        }
        // SAFETY: those before were written (invariant 2), and those behind just now.
        (unsafe { self.segment.assume_init() }, written)
    }
}

/// Text, all of a piece or nothing of it.
impl<R: BackendRef> fmt::Write for SegmentWriter<R>
where
    R::Backend: HostBackend,
{
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

impl<R: BackendRef> fmt::Debug for SegmentWriter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentWriter")
            .field("segment", &self.segment)
            .field("written", &self.written)
            .finish()
    }
}
