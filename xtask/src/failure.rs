//! How a task ends badly: one line for a person and one exit code for a script.

/// The end of a task that could not do what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl Failure {
    /// Something that should have worked did not: exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 1,
        }
    }

    /// The command line or an input file is wrong: exit code 2.
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 2,
        }
    }
}
