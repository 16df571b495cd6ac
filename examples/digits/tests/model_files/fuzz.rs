//! Whatever the bytes, reading them ends in a value or an error.

use digits::image;
use digits::load::{OwnedModel, OwnedTestSet};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::forge::{MODEL_FILE, Small, TEST_FILE, entry, file, reseal};

/// Positions and the values put there, then what is cut off or put on at the end.
type Damage = (Vec<(prop::sample::Index, u8)>, prop::sample::Index, Vec<u8>);

fn damage() -> impl Strategy<Value = Damage> {
    (
        vec(any::<(prop::sample::Index, u8)>(), 0..8),
        any::<prop::sample::Index>(),
        vec(any::<u8>(), 0..9),
    )
}

fn damaged(sound: &[u8], (edits, cut, tail): &Damage) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for (n, (at, value)) in edits.iter().enumerate() {
        // Half of them fall into the first 512 bytes, where the headers are.
        let reach = if n % 2 == 0 {
            bytes.len().min(512)
        } else {
            bytes.len()
        };
        bytes[at.index(reach)] = *value;
    }
    // One file in three each is longer, shorter, and of the right length.
    match tail.len() % 3 {
        0 => {}
        1 => bytes.extend(tail),
        _ => bytes.truncate(cut.index(sound.len() + 1)),
    }
    bytes
}

/// Numbers at which sums and products wrap, and the ones that belong there.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(10),
        Just(32),
        Just(64),
        Just(128),
        Just(8192),
        Just(8320),
        Just(9640),
        Just(1 << 31),
        Just(1 << 32),
        Just(1 << 58),
        Just(1 << 62),
        Just(1 << 63),
        Just(u64::MAX),
        any::<u64>(),
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "hidden.weight",
        "hidden.bias",
        "output.weight",
        "output.bias",
        "images",
        "labels",
        "expected",
        "__metadata__",
        "other",
    ])
}

fn forged_entry() -> impl Strategy<Value = String> {
    let dtype = prop::sample::select(vec!["F32", "U8", "F4", "F64", "BOOL"]);
    (name(), dtype, vec(number(), 0..4), number(), number()).prop_map(
        |(name, dtype, shape, begin, end)| entry(name, dtype, &format!("{shape:?}"), begin, end),
    )
}

fn read_all(bytes: &[u8]) {
    let _ = OwnedModel::from_safetensors(bytes);
    let _ = OwnedTestSet::from_safetensors(bytes);
    let _ = image::parse(bytes);
}

proptest! {
    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..2048)) {
        read_all(&bytes);
    }

    #[test]
    fn random_bytes_under_a_true_length(bytes in vec(any::<u8>(), 0..256)) {
        read_all(&[&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat());
    }

    #[test]
    fn damaged_files(damage in damage()) {
        read_all(&damaged(MODEL_FILE, &damage));
        read_all(&damaged(TEST_FILE, &damage));
    }

    #[test]
    fn forged_headers(entries in vec(forged_entry(), 0..8), data in 0..16_384usize) {
        read_all(&file(&format!("{{{}}}", entries.join(",")), &vec![0; data]));
    }

    /// What survives is what was there: a file that still reads as a test set has sound values.
    #[test]
    fn a_damaged_file_reads_as_sound_or_not_at_all(damage in damage()) {
        if let Ok(set) = OwnedTestSet::from_safetensors(&damaged(TEST_FILE, &damage)) {
            let set = set.lend();
            prop_assert_eq!(set.count(), 360);
            prop_assert!(set.images().iter().all(|pixel| *pixel <= 16));
            prop_assert!(set.labels().iter().chain(set.expected()).all(|label| *label <= 9));
        }
    }

    /// The checksum mended, so that the checks behind it are the ones that must hold.
    #[test]
    fn forged_tables(words in vec((3..18usize, number()), 1..6), keep in any::<bool>()) {
        let mut image = Small::new().image();
        let length = u32::try_from(image.len()).unwrap();
        for (word, value) in words {
            reseal(&mut image, 4 * word, u32::try_from(value & 0xffff_ffff).unwrap());
        }
        if keep {
            reseal(&mut image, 12, length);
        }
        read_all(&image);
    }
}
