//! Whether this handle still takes writes: the first fatal failure stops them, reads go on. A forked child's
//! copy of the handle takes none from the start.

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU8, Ordering};
use esker_base::{Error, Result};
use esker_vfs::os::process::Process;

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
            return Error::Closed { why: "close() was called on this handle or a clone of it" };
        }
        // Before any lock: in a child it may be held by a thread that is not there.
        if !self.process.is_current() {
            return forked_child();
        }
        self.cause().unwrap_or(Error::Closed { why: "writes were stopped" })
    }
}

fn forked_child() -> Error {
    let why = "this is a forked child of the process that opened it, which goes on with it";
    Error::Poisoned { cause: Box::new(Error::Closed { why }) }
}
