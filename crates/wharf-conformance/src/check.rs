//! One behaviour, and how it may turn out. Nothing here panics: firmware cannot unwind.

use core::fmt;

use wharf_backend::{AllocError, TransferError};
use wharf_engine::{DescriptorError, Fault, SubmitError};
use wharf_segment::{GatherError, JoinError, OutOfBounds, PushError, ReadError, SliceError};
use wharf_source::SourceError;
use wharf_tensor::{BatchError, CompletionError, CopyError, LaunchError, TensorError, WaitError};

use crate::{Report, Subject, Tally};

/// One behaviour that a `T` must have.
#[derive(Debug)]
pub struct Check<T: ?Sized> {
    /// The behaviour, said in a few words; it appears in reports.
    pub name: &'static str,
    /// Tries it.
    pub run: fn(&T) -> Outcome,
}

/// How a check turned out: `Ok` where the behaviour was seen.
pub type Outcome = Result<(), Stop>;

/// Why a check did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The subject behaves otherwise.
    Failed(Failure),
    /// The subject does not claim this behaviour, for the reason given. It counts neither way.
    Inapplicable(&'static str),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What was expected, and what was found instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    what: &'static str,
    detail: Detail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    None,
    Numbers {
        expected: u64,
        found: u64,
    },
    Refused(Cause),
    Answered {
        expected: Cause,
        found: Option<Cause>,
    },
}

impl Failure {
    /// `what` did not hold.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self {
            what,
            detail: Detail::None,
        }
    }

    /// `what` came to another number.
    #[must_use]
    pub const fn numbers(what: &'static str, expected: u64, found: u64) -> Self {
        Self {
            what,
            detail: Detail::Numbers { expected, found },
        }
    }

    /// `what` was refused because of `cause`.
    #[must_use]
    pub const fn refused(what: &'static str, cause: Cause) -> Self {
        Self {
            what,
            detail: Detail::Refused(cause),
        }
    }

    /// What did not hold.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        self.what
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match &self.detail {
            Detail::None => Ok(()),
            Detail::Numbers { expected, found } => {
                write!(f, ": expected {expected}, found {found}")
            }
            Detail::Refused(cause) => write!(f, ": refused ({cause})"),
            Detail::Answered {
                expected,
                found: None,
            } => write!(f, ": expected an error ({expected}), found none"),
            Detail::Answered {
                expected,
                found: Some(found),
            } => write!(f, ": expected the error ({expected}), found ({found})"),
        }
    }
}

impl core::error::Error for Failure {}

macro_rules! causes {
    ($($variant:ident($error:ty), $what:literal;)*) => {
        /// An error of the layer that a check looks at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Cause {
            $(#[doc = $what] $variant($error),)*
        }
        $(impl From<$error> for Cause {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
        impl fmt::Display for Cause {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(error) => error.fmt(f),)*
                }
            }
        }
    };
}

causes! {
    Source(SourceError), "From a block source.";
    Alloc(AllocError), "From a backend that vends.";
    Transfer(TransferError), "From a transfer.";
    Descriptor(DescriptorError), "From the making of a descriptor.";
    Submit(SubmitError), "From an engine that was handed a descriptor.";
    Fault(Fault), "From an engine that ran one.";
    Bounds(OutOfBounds), "From the cutting of a view.";
    Join(JoinError), "From two views that were to be one.";
    Push(PushError), "From a rope that was to be longer.";
    Slice(SliceError), "From a rope that was cut.";
    Read(ReadError), "From the reading of a rope.";
    Gather(GatherError), "From the gathering of views.";
    Tensor(TensorError), "From a tensor.";
    Batch(BatchError), "From a batch.";
    Completion(CompletionError), "From a wait for completions.";
    Launch(LaunchError), "From a launch.";
    Wait(WaitError), "From a wait for what was launched.";
    Copy(CopyError), "From a copy through other memory.";
}

/// Runs `checks` on `target`, one after the other, and reports each.
///
/// The suites of this crate are made with it, and so may be one of your own.
///
/// ```
/// use wharf_conformance::{Check, Failure, Printer, Subject, run};
///
/// let even = Check::<u32> {
///     name: "is even",
///     run: |number| match number % 2 {
///         0 => Ok(()),
///         odd => Err(Failure::numbers("the remainder", 0, odd.into()).into()),
///     },
/// };
/// let mut report = Printer::new(String::new());
/// let tally = run(Subject { policy: "None", suite: "numbers", name: "seven" }, &7, &[even], &mut report);
/// assert_eq!((tally.passed, tally.failed), (0, 1));
/// assert_eq!(
///     report.finish()?,
///     "conformance: FAILED None/numbers/seven/is even: the remainder: expected 0, found 1\n\
///      conformance: None/numbers/seven: 0 passed, 1 failed\n"
/// );
/// # Ok::<(), core::fmt::Error>(())
/// ```
pub fn run<T: ?Sized>(
    subject: Subject,
    target: &T,
    checks: &[Check<T>],
    report: &mut dyn Report,
) -> Tally {
    let mut session = Session::begin(subject, report);
    for check in checks {
        session.check(check.name, &(check.run)(target));
    }
    session.end()
}

/// The checks of one subject, reported one by one.
pub(crate) struct Session<'r> {
    subject: Subject,
    report: &'r mut dyn Report,
    tally: Tally,
}

impl<'r> Session<'r> {
    pub(crate) fn begin(subject: Subject, report: &'r mut dyn Report) -> Self {
        let tally = Tally::default();
        Self {
            subject,
            report,
            tally,
        }
    }

    pub(crate) fn check(&mut self, name: &'static str, outcome: &Outcome) {
        self.tally.count(outcome);
        self.report.check(self.subject, name, outcome);
    }

    pub(crate) fn end(self) -> Tally {
        self.report.subject(self.subject, self.tally);
        self.tally
    }
}

/// `what` holds.
pub(crate) const fn ensure(holds: bool, what: &'static str) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(what))
    }
}

/// The behaviour is one that the subject claims.
pub(crate) const fn applies(claimed: bool, otherwise: &'static str) -> Outcome {
    if claimed {
        Ok(())
    } else {
        Err(Stop::Inapplicable(otherwise))
    }
}

/// A number that fits a failure.
pub(crate) trait Number: Copy {
    fn wide(self) -> u64;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            #[allow(clippy::cast_lossless, reason = "there is no `From<usize>`")]
            fn wide(self) -> u64 {
                self as u64
            }
        }
    )*};
}
numbers!(u8, u32, u64, usize);

/// `what` comes to `expected`.
pub(crate) fn equal<N: Number>(what: &'static str, found: N, expected: N) -> Result<(), Failure> {
    let (found, expected) = (found.wide(), expected.wide());
    if found == expected {
        Ok(())
    } else {
        Err(unequal(what, expected, found))
    }
}

// Out of line, because there are hundreds of places where it may be made.
#[cold]
#[inline(never)]
const fn unequal(what: &'static str, expected: u64, found: u64) -> Failure {
    Failure::numbers(what, expected, found)
}

/// `what` is refused, with exactly this error.
pub(crate) fn refused<T, E>(
    what: &'static str,
    result: Result<T, E>,
    expected: E,
) -> Result<(), Failure>
where
    E: PartialEq + Into<Cause>,
{
    let found = match result {
        Err(error) if error == expected => return Ok(()),
        Err(error) => Some(error.into()),
        Ok(_) => None,
    };
    Err(Failure {
        what,
        detail: Detail::Answered {
            expected: expected.into(),
            found,
        },
    })
}

/// Takes what a step must give.
pub(crate) trait Demand<T> {
    /// The value, or a failure of `what`.
    fn demand(self, what: &'static str) -> Result<T, Failure>;
}

impl<T, E: Into<Cause>> Demand<T> for Result<T, E> {
    fn demand(self, what: &'static str) -> Result<T, Failure> {
        self.map_err(|error| Failure::refused(what, error.into()))
    }
}

impl<T> Demand<T> for Option<T> {
    fn demand(self, what: &'static str) -> Result<T, Failure> {
        self.ok_or(Failure::new(what))
    }
}
