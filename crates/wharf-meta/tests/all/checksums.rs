//! Checksums of tensors, against values from the specifications and against sums of plain bytes.

use crate::common::{Device, Host, host, pattern};
use proptest::prelude::*;
use wharf_meta::{Adler32, Checksum, checksum, checksum_through};
use wharf_tensor::{Tensor, TensorError};

/// RFC 1950, section 9, done byte by byte.
fn adler(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}

#[test]
fn adler32_is_that_of_the_rfc() {
    // 1 + 0x57 + … = 0x398; the sum of these sums is 0x11E6.
    assert_eq!(
        checksum(&host(b"Wikipedia"), Adler32::new()),
        Ok(0x11E6_0398)
    );
    assert_eq!(checksum(&host(b""), Adler32::new()), Ok(1));
    assert_eq!(adler(b"Wikipedia"), 0x11E6_0398);
}

#[cfg(feature = "crc")]
#[test]
fn crc32_is_that_of_its_check_value() {
    use wharf_meta::Crc32;
    assert_eq!(checksum(&host(b"123456789"), Crc32::new()), Ok(0xCBF4_3926));
    assert_eq!(checksum(&host(b""), Crc32::default()), Ok(0));
    let bytes = pattern(1000);
    let mut whole = Crc32::new();
    whole.update(&bytes);
    assert_eq!(checksum(&host(&bytes), Crc32::new()), Ok(whole.finish()));
}

#[test]
fn the_sum_is_of_the_whole_window_and_no_more() {
    let storage = host(&pattern(3000));
    let window = storage.slice(100..2500).unwrap();
    assert_eq!(
        checksum(&window, Adler32::new()),
        Ok(adler(&pattern(3000)[100..2500]))
    );
    let device = Device::open();
    let on_device = device.tensor(&pattern(3000)).slice(1..2999).unwrap();
    assert_eq!(
        checksum(&on_device, Adler32::new()),
        Ok(adler(&pattern(3000)[1..2999]))
    );
}

#[test]
fn what_cannot_be_read_has_no_sum() {
    let nothing = Tensor::<Host>::empty();
    assert_eq!(
        checksum(&nothing, Adler32::new()),
        Err(TensorError::NoStorage)
    );
    let tensor = host(b"123");
    let guard = tensor.lend_mut().unwrap();
    assert!(matches!(
        checksum(&tensor, Adler32::new()),
        Err(TensorError::Guarded { .. })
    ));
    drop(guard);
    assert!(checksum(&tensor, Adler32::new()).is_ok());
}

/// The pieces that it was given.
#[derive(Default)]
struct Pieces(Vec<usize>);

impl Checksum for Pieces {
    type Sum = Vec<usize>;
    fn update(&mut self, bytes: &[u8]) {
        self.0.push(bytes.len());
    }
    fn finish(self) -> Vec<usize> {
        self.0
    }
}

#[test]
fn a_buffer_bounds_the_pieces() {
    let tensor = host(&[0; 1000]);
    let pieces = checksum(&tensor, Pieces::default()).unwrap();
    assert_eq!(pieces, [256, 256, 256, 232]);
    let pieces = checksum_through(&tensor, Pieces::default(), &mut [0; 999]).unwrap();
    assert_eq!(pieces, [999, 1]);
    let pieces = checksum_through(&tensor, Pieces::default(), &mut [0; 4096]).unwrap();
    assert_eq!(pieces, [1000]);
}

proptest! {
    #[test]
    fn pieces_do_not_change_the_sum(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let tensor = host(&bytes);
        let expected = adler(&bytes);
        prop_assert_eq!(checksum(&tensor, Adler32::new()), Ok(expected));
        prop_assert_eq!(checksum_through(&tensor, Adler32::new(), &mut [0; 1]), Ok(expected));
        prop_assert_eq!(checksum_through(&tensor, Adler32::new(), &mut [0; 77]), Ok(expected));
    }
}
