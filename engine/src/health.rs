//! Whether this handle still takes writes: the first fatal failure stops them, reads go on.

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU8, Ordering};
use esker_base::{Error, Result};

const GOOD: u8 = 0;
const POISONED: u8 = 1;
const CLOSED: u8 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: AtomicU8,
    cause: Mutex<Option<Error>>,
}

impl Health {
    /// Err once writes are stopped or the database is closed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) == GOOD {
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

    /// What stopped writes, if anything did.
    pub(crate) fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    fn reason(&self) -> Error {
        if self.state.load(Ordering::Acquire) == CLOSED {
            return Error::Closed { why: "close() was called on this handle or a clone of it" };
        }
        self.cause().unwrap_or(Error::Closed { why: "writes were stopped" })
    }
}
