//! Ropes in `std::io`: vectored writes that take less than they are given, reads, seeks.

use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};

use wharf_segment::{Cursor, Rope};
use wharf_source::HeapSource;

use super::device::{close_after, device, whole_erased};
use super::{Erased, Pool, erased, piece};

/// Takes at most `most` bytes at a time, and answers what it is told to before that.
struct Narrow {
    taken: Vec<u8>,
    most: usize,
    calls: usize,
    pieces: usize,
    first: Option<io::Result<usize>>,
}

fn narrow(most: usize) -> Narrow {
    Narrow {
        taken: Vec::new(),
        most,
        calls: 0,
        pieces: 0,
        first: None,
    }
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls += 1;
        self.pieces = self.pieces.max(slices.len());
        if let Some(first) = self.first.take() {
            return first;
        }
        let before = self.taken.len();
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
        self.taken.extend(bytes.take(self.most));
        Ok(self.taken.len() - before)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn rope(pool: &Pool) -> Rope<&Pool, HeapSource> {
    let mut rope = Rope::with_source(HeapSource);
    rope.try_extend([&b"abc"[..], b"d", b"efgh"].map(|bytes| piece(pool, bytes)))
        .unwrap();
    rope
}

#[test]
fn slices_are_the_links_from_here_on() {
    let pool = Pool::new();
    let rope = rope(&pool);
    let mut cursor = rope.cursor();
    cursor.advance(1).unwrap();
    let mut slices = [IoSlice::new(b"?"); 4];
    assert_eq!(cursor.io_slices(&mut slices), Ok(3));
    assert_eq!(
        slices.map(|slice| slice.to_vec()),
        [&b"bc"[..], b"d", b"efgh", b"?"]
    );
    assert_eq!(cursor.io_slices(&mut slices[..2]), Ok(2));
    assert_eq!(cursor.io_slices(&mut []), Ok(0));
    assert_eq!(cursor.position(), 1, "it stays");
    cursor.advance(7).unwrap();
    assert_eq!(cursor.io_slices(&mut slices), Ok(0));
}

#[test]
fn everything_is_written_however_little_is_taken() {
    let pool = Pool::new();
    let rope = rope(&pool);
    for most in 1..=9 {
        let mut writer = narrow(most);
        let mut cursor = rope.cursor();
        cursor.write_to(&mut writer).unwrap();
        assert_eq!(
            (&writer.taken[..], writer.calls),
            (&b"abcdefgh"[..], 8_usize.div_ceil(most))
        );
        assert_eq!(
            (cursor.remaining(), writer.pieces),
            (0, 3),
            "in one write, if it is taken"
        );
        cursor.write_to(&mut writer).unwrap();
        assert_eq!(writer.taken.len(), 8, "nothing is left");
    }
}

#[test]
fn more_links_than_go_with_one_write_go_with_the_next() {
    let pool = Pool::new();
    let (a, b) = (piece(&pool, b"a"), piece(&pool, b"b"));
    let mut rope = Rope::with_source(HeapSource);
    for _ in 0..20 {
        rope.push(a.clone()).unwrap();
        rope.push(b.clone()).unwrap();
    }
    let mut writer = narrow(usize::MAX);
    rope.cursor().write_to(&mut writer).unwrap();
    assert_eq!(
        (writer.taken, writer.calls, writer.pieces),
        (b"ab".repeat(20), 3, 16)
    );
}

#[test]
fn a_write_that_fails_leaves_the_cursor_where_to_go_on() {
    let pool = Pool::new();
    let rope = rope(&pool);
    let failing = |first, at| {
        let mut writer = Narrow {
            first: Some(first),
            ..narrow(8)
        };
        let mut cursor = rope.cursor();
        cursor.advance(at).unwrap();
        let result = cursor.write_to(&mut writer);
        (
            result.map_err(|error| error.kind()),
            cursor.position(),
            writer.taken,
        )
    };
    let would_block = failing(Err(ErrorKind::WouldBlock.into()), 2);
    assert_eq!(would_block, (Err(ErrorKind::WouldBlock), 2, vec![]));
    let nothing = failing(Ok(0), 2);
    assert_eq!(nothing, (Err(ErrorKind::WriteZero), 2, vec![]));
    let interrupted = failing(Err(ErrorKind::Interrupted.into()), 2);
    assert_eq!(interrupted, (Ok(()), 8, b"cdefgh".to_vec()));
    let partly = failing(Ok(3), 2);
    assert_eq!(partly, (Ok(()), 8, b"fgh".to_vec()));
    // One that claims more than there was is not believed.
    let lying = failing(Ok(7), 2);
    assert_eq!(lying, (Err(ErrorKind::Other), 2, vec![]));
}

#[test]
fn bytes_of_a_device_go_by_way_of_the_stack() {
    let (pool, device) = (Pool::new(), device(&[b'd'; 1200]));
    let mut rope = Rope::<Erased<'_>, _>::with_source(HeapSource);
    rope.push(erased(&pool, b"host:")).unwrap();
    rope.push(whole_erased(&device)).unwrap();
    rope.push(erased(&pool, b".")).unwrap();
    let mut expected = b"host:".to_vec();
    expected.extend([b'd'; 1200]);
    expected.push(b'.');
    for most in [1, 100, 5000] {
        let mut writer = narrow(most);
        rope.cursor().write_to(&mut writer).unwrap();
        assert_eq!(writer.taken, expected);
    }
    let mut slices = [IoSlice::new(b"?"); 4];
    let mut cursor = rope.cursor();
    assert_eq!(cursor.io_slices(&mut slices), Ok(1), "up to the device");
    cursor.advance(5).unwrap();
    assert!(cursor.io_slices(&mut slices).is_err());
    assert_eq!(
        cursor.fill_buf().unwrap_err().kind(),
        ErrorKind::Unsupported
    );

    let mut read = Vec::new();
    cursor.read_to_end(&mut read).unwrap();
    assert_eq!(read, expected[5..]);

    // It ends in its second piece.
    close_after(&device, 1);
    let (mut cursor, mut writer) = (rope.cursor(), narrow(5000));
    let error = cursor.write_to(&mut writer).unwrap_err();
    assert_eq!(
        (error.kind(), cursor.position(), writer.taken.len()),
        (ErrorKind::Other, 517, 517)
    );
    assert_eq!(
        error.to_string(),
        "read failed after 0 bytes: the device is closed"
    );
}

#[test]
fn a_cursor_is_a_reader() {
    let pool = Pool::new();
    let mut rope = Rope::with_source(HeapSource);
    rope.try_extend([&b"one\ntw"[..], b"o\n", b"three"].map(|bytes| piece(&pool, bytes)))
        .unwrap();
    let lines: Vec<_> = rope.cursor().lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["one", "two", "three"]);

    let mut copy = Vec::new();
    assert_eq!(io::copy(&mut rope.cursor(), &mut copy).unwrap(), 13);
    assert_eq!(copy, b"one\ntwo\nthree");

    let mut cursor = rope.cursor();
    let mut bytes = [0; 8];
    assert_eq!(
        Read::read(&mut cursor, &mut bytes).unwrap(),
        6,
        "to the end of the link"
    );
    assert_eq!(Read::read(&mut cursor, &mut bytes[..1]).unwrap(), 1);
    cursor.read_exact(&mut bytes[..5]).unwrap();
    assert_eq!(&bytes[..5], b"\nthre");
    assert_eq!(
        cursor.read_exact(&mut bytes).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(Read::read(&mut cursor, &mut bytes).unwrap(), 0);
    cursor.consume(usize::MAX);
    assert_eq!(cursor.position(), 13);
}

#[test]
fn a_cursor_seeks_to_what_is_there() {
    let pool = Pool::new();
    let rope = rope(&pool);
    let mut cursor = rope.cursor();
    for (to, at) in [
        (SeekFrom::Start(5), 5),
        (SeekFrom::Current(-3), 2),
        (SeekFrom::Current(4), 6),
        (SeekFrom::End(-8), 0),
        (SeekFrom::End(0), 8),
    ] {
        assert_eq!(Seek::seek(&mut cursor, to).unwrap(), at);
        assert_eq!(cursor.position() as u64, at);
    }
    Cursor::seek(&mut cursor, 3).unwrap();
    for to in [
        SeekFrom::Start(9),
        SeekFrom::Start(u64::MAX),
        SeekFrom::Current(-4),
        SeekFrom::Current(6),
        SeekFrom::Current(i64::MIN),
        SeekFrom::Current(i64::MAX),
        SeekFrom::End(1),
        SeekFrom::End(-9),
        SeekFrom::End(i64::MIN),
    ] {
        assert_eq!(
            Seek::seek(&mut cursor, to).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(cursor.position(), 3, "{to:?}");
    }
    assert_eq!(cursor.read_array(), Ok(*b"de"));
}
