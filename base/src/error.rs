//! The one error type of every floor. Each message names what happened, where (file, offset or
//! key), and what to do.
//!
//! A failed commit is either [`Error::Aborted`] (it will never appear) or [`Error::InDoubt`] (it may
//! appear, whole, after the next open; the handle takes no more writes). Everything else that a write
//! returns was refused before it touched the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::KeyspaceId;

/// The result of every fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. `Clone`, so that a cursor or a poisoned handle can report its first error again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused or failed a file operation.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb: "read", "sync", "rename".
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// Bytes on disk are not what was written. The message says which file and where.
    #[error("{} is damaged at byte {offset}: {what}; restore it from a backup, or salvage what is readable", path.display())]
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Offset of the damaged structure, in bytes from the start of the file.
        offset: u64,
        /// What was wrong there.
        what: String,
    },
    /// A file that the database needs is not there.
    #[error("{} is missing: {why}; restore it from a backup, or salvage what is readable", path.display())]
    MissingFile {
        /// The missing file.
        path: PathBuf,
        /// Why it is needed.
        why: String,
    },
    /// The file was written by a newer version of this software.
    #[error("{} has format version {found}, this build reads up to {supported}; open it with a newer version", path.display())]
    FormatTooNew {
        /// The file.
        path: PathBuf,
        /// The version it claims.
        found: u32,
        /// The newest version this build reads.
        supported: u32,
    },
    /// The directory holds no database (and the caller did not ask to create one).
    #[error("{} is not an esker database: {why}; check the path, or have an open for writing create one (`create_if_missing`)", path.display())]
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// What was missing or in the way.
        why: String,
    },
    /// Another process or another handle of this process has the database open.
    #[error("{} is locked: {holder} has it open; close that handle first or open read-only copies from a checkpoint", path.display())]
    Locked {
        /// The database's directory.
        path: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
    },
    /// An option, name or argument is out of its bounds, or the call cannot be made from there or at this moment. No row was
    /// changed.
    #[error("{what}")]
    InvalidArgument {
        /// Which argument, its value, and its bounds.
        what: String,
    },
    /// A key, value or batch is larger than the engine takes. Nothing was changed.
    #[error("{what} of {len} bytes is too long, the limit is {max} bytes; shorten or split it")]
    TooLarge {
        /// "key", "value", "batch", "keyspace name".
        what: &'static str,
        /// Its size in bytes.
        len: u64,
        /// The largest accepted size in bytes.
        max: u64,
    },
    /// No keyspace has this name, or it was dropped.
    #[error("there is no keyspace {name:?}; `keyspaces` lists those that exist")]
    NoSuchKeyspace {
        /// The name asked for.
        name: String,
    },
    /// A batch or a transaction writes to a keyspace that was dropped. Nothing was changed.
    #[error("keyspace number {} was dropped; leave it out, or write to one that exists", id.0)]
    KeyspaceDropped {
        /// Its number.
        id: KeyspaceId,
    },
    /// A keyspace exists with other options than those given.
    #[error(
        "keyspace {name:?} was created with {option} = {stored}, not {given}; open it with the stored value"
    )]
    OptionMismatch {
        /// The keyspace.
        name: String,
        /// The option.
        option: &'static str,
        /// The persisted value.
        stored: String,
        /// The value in this call.
        given: String,
    },
    /// The database was opened read-only.
    #[error("the database was opened for reading only; open it without `read_only` to write")]
    ReadOnly,
    /// The handle was closed. As the cause of [`Error::Poisoned`]: this is a forked child, or the database's directory was
    /// moved or replaced.
    #[error("the database is closed: {why}")]
    Closed {
        /// How it came to be closed.
        why: &'static str,
    },
    /// The commit failed and will never appear. The handle goes on; trying again is safe.
    #[error("the commit was aborted and will never appear: {cause}")]
    Aborted {
        /// What made it fail.
        cause: Box<Error>,
    },
    /// The commit's fate is open: it may appear, whole, after the next open. The handle takes no
    /// more writes; reads go on.
    #[error("the commit is in doubt (after reopening it is there whole or not at all): {cause}")]
    InDoubt {
        /// What made it fail.
        cause: Box<Error>,
    },
    /// Writes are stopped on this handle: by an earlier failure (reopen to write again), or because it is a forked child's.
    /// Reads go on.
    #[error("{}", stopped(cause))]
    Poisoned {
        /// The first failure.
        cause: Box<Error>,
    },
    /// A transaction read something that another commit changed before it could commit.
    #[error("the transaction conflicts with a later commit; try it again (it was tried {attempts} times)")]
    Conflict {
        /// How often it has been tried.
        attempts: u32,
    },
    /// The writer asked not to wait (or to wait no longer), and back-pressure would make it wait.
    #[error(
        "the write would have to wait for {reason} ({waited:?} so far); try again later or wait without a deadline"
    )]
    WouldStall {
        /// What it would wait for.
        reason: &'static str,
        /// How long it has waited.
        waited: Duration,
    },
    /// A merge operator refused an operand (overflow, wrong length) or made too long a value, or the keyspace of an operand has
    /// no operator.
    #[error("merge of key {key:?} with operator {operator:?} failed: {why}")]
    Merge {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// The operator's name.
        operator: String,
        /// What it refused.
        why: String,
    },
    /// A merge operator panicked. A read had no effect; as the cause of [`Error::InDoubt`] or
    /// [`Error::Poisoned`] it means what they mean. A panic of a listener is no such error: it is only
    /// counted.
    #[error("{callback} panicked: {message}; mend that code, or report it if it is esker's")]
    CallbackPanicked {
        /// Which callback.
        callback: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The system has no memory for something large: a batch, a block, a value. The call has changed nothing
    /// and may be tried again. Inside of [`Error::Aborted`] if a commit got as far as its log.
    #[error(
        "out of memory: {what} needs {bytes} bytes, and the system has none; try something smaller, or raise its limit"
    )]
    OutOfMemory {
        /// What wanted the memory.
        what: &'static str,
        /// How much it wanted, in bytes.
        bytes: u64,
    },
}

impl Error {
    /// An I/O error of operation `op` on `path`.
    pub fn io(op: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io { op, path: path.into(), source: Arc::new(source) }
    }

    /// Damage in `path` at `offset`.
    pub fn corruption(path: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { path: path.as_ref().to_path_buf(), offset, what: what.into() }
    }

    /// A bad argument; `what` says which, its value and its bounds.
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::InvalidArgument { what: what.into() }
    }

    /// Whether the cause, at any depth, is a full disk or quota.
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::Io { source, .. } => matches!(
                source.kind(),
                std::io::ErrorKind::StorageFull
                    | std::io::ErrorKind::QuotaExceeded
                    | std::io::ErrorKind::FileTooLarge
            ),
            Error::Aborted { cause } | Error::InDoubt { cause } | Error::Poisoned { cause } => {
                cause.is_no_space()
            }
            _ => false,
        }
    }

    /// Whether the cause, at any depth, is that the process or the system has no descriptor left.
    pub fn is_no_descriptors(&self) -> bool {
        match self {
            // There is no `ErrorKind` for these; the numbers are the same on every Unix.
            #[cfg(unix)]
            Error::Io { source, .. } => matches!(source.raw_os_error(), Some(ENFILE | EMFILE)),
            Error::Aborted { cause } | Error::InDoubt { cause } | Error::Poisoned { cause } => {
                cause.is_no_descriptors()
            }
            _ => false,
        }
    }

    /// Whether the cause is that a file is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
            || matches!(self, Error::MissingFile { .. })
    }

    /// Whether bytes on disk were damaged or missing, as opposed to a failure of the system.
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption { .. } | Error::MissingFile { .. })
    }
}

/// What [`Error::Poisoned`] says. Where nothing has failed and the cause says what to do, it says the cause
/// alone.
fn stopped(cause: &Error) -> String {
    match cause {
        Error::Closed { why } => format!("this handle takes no writes: {why}"),
        cause => {
            format!(
                "writes are stopped since an earlier failure, reopen the database to write again: {cause}"
            )
        }
    }
}

/// No descriptor left in the system, and in the process.
#[cfg(unix)]
const ENFILE: i32 = 23;
#[cfg(unix)]
const EMFILE: i32 = 24;

/// A key as people read it: printable ASCII as is, everything else as `\xNN`, cut at 64 bytes.
///
/// ```
/// use esker_base::error::printable;
/// assert_eq!(printable(b"user\x00\xff"), "user\\x00\\xff");
/// ```
pub fn printable(key: &[u8]) -> String {
    let mut text: String = key.iter().take(64).flat_map(|b| b.escape_ascii()).map(char::from).collect();
    if key.len() > 64 {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To reopen the database helps where something has failed, and nowhere else.
    #[test]
    fn what_stopped_writes_decides_what_to_do() {
        let poisoned = |cause: Error| Error::Poisoned { cause: Box::new(cause) }.to_string();
        let why = "this is a forked child";
        assert_eq!(poisoned(Error::Closed { why }), format!("this handle takes no writes: {why}"));
        let failed = Error::corruption("f", 7, "bad");
        let told = poisoned(failed.clone());
        assert!(told.contains("reopen the database") && told.ends_with(&failed.to_string()), "{told}");
    }
}
