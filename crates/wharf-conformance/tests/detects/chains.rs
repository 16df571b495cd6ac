//! Views and ropes over memory that breaks a law each.

use wharf_conformance::{gather_failures, rope, view};
use wharf_sync::Unsync;

use crate::Failures;
use crate::devices::{Faulty, Wrong};

fn views(wrong: Wrong) -> Failures {
    let mut report = Failures::default();
    let _ = view("faulty", Faulty::<Unsync>::new(wrong), &mut report);
    report
}

fn ropes(wrong: Wrong) -> Failures {
    let mut report = Failures::default();
    let _ = rope("faulty", Faulty::<Unsync>::new(wrong), &mut report);
    report
}

#[test]
fn broken_views_are_found() {
    views(Wrong::Nothing).none();
    let laws = [
        (Wrong::ReadsOneFurther, "a view is split without a copy"),
        (Wrong::ReadsNothing, "a view gives up either end"),
        (Wrong::NeverAgain, "a cut out of bounds changes nothing"),
        (Wrong::WriteHooksSpoil, "neighbours are joined"),
        (Wrong::WritesNothing, "chunks are all of a view"),
        (
            Wrong::WritesInPlaceOfTheFirst,
            "the only view writes its window",
        ),
        (Wrong::FillsAll, "the only view writes its window"),
        (Wrong::FillsLess, "the only view writes its window"),
        (Wrong::OtherSpace, "the only view writes its window"),
        (Wrong::NeverFalls, "neighbours are joined"),
        (Wrong::NeverAgain, "views say what they keep"),
        (
            Wrong::WritesOneFurther,
            "a view is moved into as much as it shows",
        ),
    ];
    for (wrong, law) in laws {
        views(wrong).name(law);
    }
    views(Wrong::Nothing).all_covered(&laws.map(|(_, law)| law), &[]);
}

#[test]
fn broken_ropes_are_found() {
    ropes(Wrong::Nothing).none();
    let laws = [
        (Wrong::Wanders, "a rope is its links"),
        (Wrong::NeverFalls, "a rope is its links"),
        (Wrong::NeverAgain, "what does not fit comes back"),
        (
            Wrong::WritesNothing,
            "links beyond the inline ones are the source's",
        ),
        (Wrong::NeverAgain, "a rope is concatenated, with itself too"),
        (Wrong::ReadsOneFurther, "a slice goes across links"),
        (Wrong::ReadsNothing, "a rope is cut anywhere"),
        (
            Wrong::WritesOneFurther,
            "a range out of bounds changes nothing",
        ),
        (Wrong::ReadsOneFurther, "a cursor reads across links"),
        (
            Wrong::WritesInPlaceOfTheFirst,
            "the bytes are gathered into one segment",
        ),
        (
            Wrong::NeverFalls,
            "a rope that cannot be gathered is as it was",
        ),
        (
            Wrong::ReadHooksSpoil,
            "a rope that a device reads lands again",
        ),
    ];
    for (wrong, law) in laws {
        ropes(wrong).name(law);
    }
    ropes(Wrong::Nothing).all_covered(&laws.map(|(_, law)| law), &[]);
}

/// On memory whose transfers end, or do not.
fn failing(wrong: Wrong, ends: bool) -> Failures {
    let mut report = Failures::default();
    let device = Faulty::<Unsync>::new(wrong);
    let breaks = |after| {
        if ends {
            device.breaks(after);
        }
    };
    let _ = gather_failures("faulty", device, breaks, &mut report);
    report
}

#[test]
fn broken_failures_of_a_rope_are_found() {
    failing(Wrong::Nothing, true).none();
    let (told, untouched) = (
        "a transfer that fails says how far it was",
        "a rope that was not gathered is as it was",
    );
    failing(Wrong::Nothing, false).name(told);
    failing(Wrong::WritesNothing, true).name(untouched);
    failing(Wrong::NeverAgain, true).name(untouched);
    failing(Wrong::Nothing, true).all_covered(&[told, untouched], &[]);
}
