//! Where each byte of an image lies.

use digits::image::{ALIGN, encode, parse};

use crate::forge::{Small, crc32};

#[test]
fn the_header_is_as_documented() {
    let image = Small::new().image();
    assert_eq!(image[..4], *b"WDIG");
    let words: Vec<u32> = image[4..72]
        .as_chunks()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect();
    assert_eq!(words[0], 1, "version");
    assert_eq!(words[1], crc32(&image[12..]), "checksum");
    // 72 of header, the sections, and three zeros before the last one.
    assert_eq!(words[2], 9781, "length");
    let table = [
        [72, 8192],
        [8264, 128],
        [8392, 1280],
        [9672, 40],
        [9712, 64],
        [9776, 1],
        [9780, 1],
    ];
    assert_eq!(words[3..].as_chunks().0, table);
    assert_eq!(image.len(), 9781);
    assert_eq!(image[9776..], [7, 0, 0, 0, 8]);
}

#[test]
fn an_image_lends_the_bytes_it_was_made_of() {
    let small = Small::new();
    let image = small.image();
    let (model, test_set) = parse(&image).unwrap();
    assert_eq!(model, small.model());
    assert_eq!(test_set, small.test_set());
    assert_eq!(encode(&model, &test_set), image);
    // Borrowed, not copied: the first weights are where the table says.
    assert!(std::ptr::eq(
        model.hidden_weight(),
        &raw const image[72..8264]
    ));
    assert_eq!(72 % ALIGN, 0);
}
