//! Why a command did not do what it was asked: a message for people, an exit code for scripts.

use std::fmt::Display;
use std::io;

use esker::Error;
use esker_bench::workload::WorkloadError;

use crate::exit::Exit;
use crate::keys::ParseError;

/// An end other than success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What happened, where, and what to do; `None` where silence is right.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: Some(message.into()) }
    }

    /// The command line asks for what cannot be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message)
    }

    /// The same, with a word on what to do about it.
    pub(crate) fn hint(mut self, what: impl Display) -> Self {
        if let Some(message) = &mut self.message {
            *message = format!("{message}\n  {what}");
        }
        self
    }

    /// The same beside what was found before it: a verdict stands, whether or not it could be written down.
    pub(crate) fn beside(self, found: Exit) -> Self {
        if found == Exit::Done { self } else { Failure { exit: found, ..self } }
    }

    /// An answer could not be written. Nobody reads on (`esker … | head`): that is an end like any other.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { exit: Exit::Done, message: None };
        }
        Failure::new(Exit::Failed, format!("cannot write to standard output: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Failure::new(exit_of(&error), error.to_string());
        match &error {
            Error::NotADatabase { path, .. } => failure.hint(format_args!(
                "`esker db {} create-keyspace default` makes one there",
                path.display()
            )),
            Error::Corruption { path, .. } => {
                failure.hint(format_args!("`esker inspect {}` shows it field by field", path.display()))
            }
            _ => failure,
        }
    }
}

/// What a script learns of `error`.
fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Corruption { .. } | Error::MissingFile { .. } => Exit::Damaged,
        Error::Locked { .. } => Exit::Locked,
        Error::NoSuchKeyspace { .. } | Error::KeyspaceDropped { .. } => Exit::NotFound,
        Error::InvalidArgument { .. } | Error::TooLarge { .. } | Error::OptionMismatch { .. } => {
            Exit::Usage
        }
        Error::Aborted { cause } | Error::InDoubt { cause } | Error::Poisoned { cause } => {
            match exit_of(cause) {
                Exit::Damaged => Exit::Damaged,
                _ => Exit::Failed,
            }
        }
        _ => Exit::Failed,
    }
}

impl From<ParseError> for Failure {
    fn from(error: ParseError) -> Self {
        Failure::usage(error.to_string())
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        let exit = match &error {
            WorkloadError::BadOption(_) | WorkloadError::NotEmpty(_) => Exit::Usage,
            WorkloadError::Engine { source, .. } => exit_of(source),
            _ => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_the_cause() {
        let corruption = Error::corruption("f", 7, "bad");
        let poisoned = |cause: Error| Error::Poisoned { cause: Box::new(cause) };
        let io = Error::io("read", "f", io::Error::from(io::ErrorKind::StorageFull));
        let cases = [
            (corruption.clone(), Exit::Damaged),
            (poisoned(corruption), Exit::Damaged),
            (poisoned(io.clone()), Exit::Failed),
            (io, Exit::Failed),
            (Error::invalid("x is 1"), Exit::Usage),
            (Error::NoSuchKeyspace { name: "k".into() }, Exit::NotFound),
            (Error::Locked { path: "d".into(), holder: "x".into() }, Exit::Locked),
        ];
        for (error, exit) in cases {
            assert_eq!(Failure::from(error.clone()).exit, exit, "{error}");
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = Failure::output(&io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message), (Exit::Done, None));
        let failure = || Failure::output(&io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(failure().beside(Exit::Damaged).exit, Exit::Damaged);
        assert_eq!(failure().beside(Exit::Done).exit, Exit::Done);
        let full = Failure::output(&io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.exit, Exit::Failed);
        let full = full.beside(Exit::Damaged);
        assert!(full.exit == Exit::Damaged && full.message.is_some(), "both are told");
    }
}
