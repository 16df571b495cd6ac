//! What a person reads of a census: every number that says something, and none that does not.

use proptest::prelude::*;
use wharf_source::Census;

/// The numbers in a text, in order.
fn numbers(text: &str) -> Vec<usize> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.parse().expect("digits"))
        .collect()
}

#[test]
fn every_number_is_named() {
    let census = Census {
        unit: 96,
        capacity: 16,
        in_use: 3,
        peak: 11,
        refused: 7,
        dropped: 2,
        largest_refused: 1500,
    };
    assert_eq!(
        census.to_string(),
        "3 of 16 units of 96 bytes in use, peak 11, 7 refused (largest 1500 bytes), 2 dropped"
    );
}

#[test]
fn refusals_of_what_counts_nothing_else_are_told() {
    let census = Census {
        refused: 2,
        largest_refused: 64,
        ..Census::NOTHING
    };
    assert_eq!(
        census.to_string(),
        "use is not counted, 2 refused (largest 64 bytes)"
    );
    let waited_for = Census {
        unit: 1,
        capacity: 128,
        largest_refused: 100,
        ..Census::NOTHING
    };
    assert_eq!(
        waited_for.to_string(),
        "0 of 128 bytes in use, peak 0, 0 refused (largest 100 bytes)"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the numbers are, those that are not zero are there, in their order.
    #[test]
    fn no_number_is_lost(fields in prop::array::uniform7(prop_oneof![Just(0_usize), 2..usize::MAX])) {
        let [in_use, capacity, unit, peak, refused, largest_refused, dropped] = fields;
        let census = Census { unit, capacity, in_use, peak, refused, dropped, largest_refused };
        let said: Vec<_> = fields.into_iter().filter(|&number| number != 0).collect();
        let found: Vec<_> = numbers(&census.to_string()).into_iter().filter(|&number| number != 0).collect();
        prop_assert_eq!(found, said, "{}", census);
    }
}
