//! Names of tensors made fit for a file system.
//!
//! 1. [`encode`] maps different names to different ones, as long as nothing is cut: what it escapes with is escaped too.
//! 2. What it makes consists of `A-Za-z0-9_-.%~`, begins with no dot, and is no name that Windows keeps for a device.
//! 3. [`free`] makes what was cut, or differs by case only, different: `~` is appended by it alone.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::string::String;

/// The longest encoded name, in bytes. File systems take 255, of which a number, an extension and the dot and `.part` of an
/// unfinished file need some.
const LONGEST: usize = 200;

/// Names of devices on Windows, where they are taken whatever extension follows.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// A file name for `name` that is not `taken`, and the key under which it will be.
pub(super) fn free(name: &str, extension: &str, taken: &BTreeSet<String>) -> (String, String) {
    let stem = encode(name);
    let mut file = std::format!("{stem}.{extension}");
    let mut key = file.to_ascii_lowercase();
    let mut number = 1_usize;
    while taken.contains(&key) {
        // Ends: of as many numbers as there are names taken, and one more, one is free.
        number += 1;
        file = std::format!("{stem}~{number}.{extension}");
        key = file.to_ascii_lowercase();
    }
    (file, key)
}

fn encode(name: &str) -> String {
    let device = is_device(name);
    let mut encoded = String::new();
    for (i, &byte) in name.as_bytes().iter().enumerate() {
        let plain = match byte {
            b'A'..=b'Z' | b'a'..=b'z' => !(device && i == 0),
            b'0'..=b'9' | b'_' | b'-' => true,
            // Not at the beginning, where it hides a file, nor at the end, where Windows drops it.
            b'.' => i > 0 && i + 1 < name.len(),
            _ => false,
        };
        let longer = if plain { 1 } else { 3 };
        if encoded.len() + longer > LONGEST {
            break;
        }
        if plain {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        // An escape of nothing: no other name becomes this.
        encoded.push('%');
    }
    encoded
}

/// Whether Windows takes `name` for a device: `nul`, `nul.weights`, `COM1`.
fn is_device(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is = |device: &&str| stem.eq_ignore_ascii_case(device);
    let is_numbered = |device: &&str| {
        stem.split_at_checked(3).is_some_and(|(stem, number)| {
            stem.eq_ignore_ascii_case(device) && matches!(number.as_bytes(), [b'0'..=b'9'])
        })
    };
    DEVICES.iter().any(is) || NUMBERED_DEVICES.iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_encoded_as_worked_out() {
        for (name, encoded) in [
            ("layer_0-weight.1", "layer_0-weight.1"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            ("..", "%2E%2E"),
            ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
            (".hidden", "%2Ehidden"),
            ("dot.", "dot%2E"),
            ("nul\0byte", "nul%00byte"),
            ("", "%"),
            ("%", "%25"),
            ("ä", "%C3%A4"),
            ("NUL", "%4EUL"),
            ("nul.weights", "%6Eul.weights"),
            ("null", "null"),
            ("com1", "%63om1"),
            ("LPT9.x", "%4CPT9.x"),
            ("com10", "com10"),
            ("a~2", "a%7E2"),
            ("C:\\x", "C%3A%5Cx"),
        ] {
            assert_eq!(encode(name), encoded, "{name:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_between_escapes_and_numbered() {
        let mut taken = BTreeSet::new();
        let long = "x".repeat(64 << 10);
        let (first, key) = free(&long, "bin", &taken);
        assert_eq!(first, std::format!("{}.bin", "x".repeat(200)));
        taken.insert(key);
        let (second, key) = free(&std::format!("{long}y"), "bin", &taken);
        assert_eq!(second, std::format!("{}~2.bin", "x".repeat(200)));
        taken.insert(key);
        assert_eq!(
            free(&long, "bin", &taken).0,
            std::format!("{}~3.bin", "x".repeat(200))
        );
        // 66 escapes are 198 bytes, a 67th would be 201.
        assert_eq!(encode(&"/".repeat(100)), "%2F".repeat(66));
    }

    #[test]
    fn names_that_differ_by_case_alone_are_told_apart() {
        let mut taken = BTreeSet::new();
        let (upper, key) = free("W", "npy", &taken);
        taken.insert(key);
        let (lower, key) = free("w", "npy", &taken);
        taken.insert(key);
        assert_eq!((upper.as_str(), lower.as_str()), ("W.npy", "w~2.npy"));
        // Another kind of file is another file.
        assert_eq!(free("w", "bin", &taken).0, "w.bin");
    }

    proptest! {
        #[test]
        fn whatever_the_name_the_file_is_harmless_and_nobody_elses(
            names in prop::collection::vec(
                prop_oneof![any::<String>(), "[aA./~%]{0,4}", "(?i)(con|nul|com1)(\\.x)?", "(/|x){90,300}"],
                1..24,
            )
        ) {
            let mut taken = BTreeSet::new();
            for name in &names {
                let (file, key) = free(name, "bin", &taken);
                prop_assert!(file.len() < 240);
                prop_assert!(!file.starts_with('.'));
                prop_assert!(file.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.%~".contains(&b)));
                prop_assert!(!is_device(&file));
                prop_assert!(taken.insert(key), "{name:?} was given {file} again");
            }
        }
    }
}
