//! An error that has a cause names it.

use std::error::Error;

use wharf_backend::TransferError;
use wharf_segment::{GatherError, OutOfBounds, PushError, ReadError, SliceError};
use wharf_source::SourceError;

/// What somebody reads who follows the causes.
fn cause(error: &dyn Error) -> Option<String> {
    error.source().map(ToString::to_string)
}

#[test]
fn causes_are_told_and_nothing_else_is_one() {
    let refusal = SourceError::Exhausted {
        requested: 96,
        available: 32,
    };
    let (outside, closed) = (
        OutOfBounds {
            start: 5,
            end: 9,
            len: 6,
        },
        TransferError::Closed,
    );
    let (links, at, read) = (3, 4, 4);
    for (error, expected) in [
        (
            &PushError::NoRoom { links, refusal } as &dyn Error,
            Some(refusal.to_string()),
        ),
        (&PushError::TooLong { len: 1, added: 2 }, None),
        (
            &SliceError::NoRoom { links, refusal },
            Some(refusal.to_string()),
        ),
        (&SliceError::from(outside), Some(outside.to_string())),
        (&ReadError::from(outside), Some(outside.to_string())),
        (
            &ReadError::Transfer {
                read,
                error: closed,
            },
            Some(closed.to_string()),
        ),
        (
            &GatherError::Read { at, error: closed },
            Some(closed.to_string()),
        ),
        (
            &GatherError::Write { at, error: closed },
            Some(closed.to_string()),
        ),
        (&GatherError::Empty, None),
    ] {
        assert_eq!(cause(error), expected, "{error}");
    }
}
