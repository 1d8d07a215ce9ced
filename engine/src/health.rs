//! Whether this handle still takes writes: the first fatal failure stops them, reads go on. A forked child's
//! copy of the handle takes none from the start, and nobody's is written where the directory is another one by now.

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU8, Ordering};
use esker_base::{Error, Result};
use esker_vfs::os::process::Process;

use crate::core::Core;

const GOOD: u8 = 0;
const POISONED: u8 = 1;
const CLOSED: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Health {
    state: AtomicU8,
    cause: Mutex<Option<Error>>,
    /// Where the database was opened.
    process: Process,
}

impl Health {
    pub(crate) fn new() -> Self {
        Health { state: AtomicU8::new(GOOD), cause: Mutex::new(None), process: Process::current() }
    }

    /// Err once writes are stopped or the database is closed, and in a forked child.
    ///
    /// No system call: this stands before each write.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) == GOOD && self.process.is_current() {
            return Ok(());
        }
        Err(self.reason())
    }

    /// Err once the database is closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) == CLOSED { Err(self.reason()) } else { Ok(()) }
    }

    /// Stop writes because of `cause`; the first cause stays. Whether this call was the first.
    pub(crate) fn poison(&self, cause: &Error) -> bool {
        let mut first = self.cause.lock();
        if first.is_some() {
            return false;
        }
        *first = Some(match cause {
            Error::Poisoned { .. } => cause.clone(),
            other => Error::Poisoned { cause: Box::new(other.clone()) },
        });
        let _ = self.state.compare_exchange(GOOD, POISONED, Ordering::AcqRel, Ordering::Acquire);
        true
    }

    /// Refuse every later call. Whether this call was the first to close.
    pub(crate) fn close(&self) -> bool {
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    /// What a forked child hears, if this is one: it shares the logs' descriptors with its parent and has none
    /// of the threads. A system call, for the children that [`Health::check`] takes for their parents; so it is
    /// asked where the disk is waited for or files are made.
    pub(crate) fn forked(&self) -> Option<Error> {
        (!self.process.is_surely_current()).then(forked_child)
    }

    /// What stopped writes, if anything did.
    pub(crate) fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    fn reason(&self) -> Error {
        if self.state.load(Ordering::Acquire) == CLOSED {
            return closed();
        }
        // Before any lock: in a child it may be held by a thread that is not there.
        if !self.process.is_current() {
            return forked_child();
        }
        self.cause().unwrap_or(Error::Closed { why: "writes were stopped" })
    }
}

impl Core {
    /// Err unless this handle may write.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.health.check()
    }

    /// A failed manifest commit: the version set says by poisoning itself whether writes must stop. They do
    /// at once: the directory's sync that failed there was one for the logs' names too, and the next would
    /// say Ok and prove nothing.
    pub(crate) fn note_manifest_failure(&self, error: &Error) {
        let stopped = matches!(error, Error::Poisoned { .. } | Error::InDoubt { .. })
            || self.versions.poisoned().is_some();
        if stopped && self.health.check_open().is_ok() {
            self.stop_writes(error);
        }
    }

    /// Err, and stop writes, in a forked child.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.health.forked().map_or(Ok(()), |error| {
            self.stop_writes(&error);
            Err(error)
        })
    }

    /// Err, and stop writes, if the directory or its lock file is not where this handle has locked it any more
    /// (it was moved or replaced), or if this is a forked child: what is there now is not ours to change.
    /// Asked before each commit of the manifest, and before each table, blob file and log is made. That the
    /// directory is replaced between the answer and the call that follows is not seen. The new one then has a file more, and loses
    /// none where files are made, since that is done only where none is; but a log that is to be written over is found by its name, and so is
    /// what a manifest that is written anew replaces.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        self.in_place().inspect_err(|error| {
            if matches!(error, Error::Poisoned { .. }) {
                self.stop_writes(error);
            }
        })
    }

    /// [`Core::check_in_place`] for a caller that holds a lock: writes are not stopped, which [`Error::Poisoned`] asks for. Not
    /// to know is [`Error::Aborted`]: whoever asks has written nothing yet. Once the lock was given up, the directory may be
    /// another handle's: [`Error::Closed`].
    pub(crate) fn in_place(&self) -> Result<()> {
        let in_place = match &*self.lock.lock() {
            Some(lock) => lock.still_in_place(),
            None => return Err(closed()),
        };
        if in_place.map_err(|cause| Error::Aborted { cause: Box::new(cause) })? {
            return Ok(());
        }
        let why = "the database's directory was moved or replaced, and is to be opened where it is now; or this is a \
                   forked child, which must not write";
        Err(Error::Poisoned { cause: Box::new(Error::Closed { why }) })
    }
}

/// The error of a call that comes after `close`.
pub(crate) fn closed() -> Error {
    Error::Closed { why: "close() was called on this handle or a clone of it" }
}

fn forked_child() -> Error {
    let why = "this is a forked child, and only the process that opened the database may write to it; fork before the \
               first open, or have the child start a program anew (exec)";
    Error::Poisoned { cause: Box::new(Error::Closed { why }) }
}
