//! The clock seam.

use std::time::Duration;

/// Time, monotonic and of the calendar.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this process; never goes back.
    fn monotonic(&self) -> Duration;
    /// Milliseconds since 1970-01-01 UTC; may jump either way. Only ever stored and shown (creation
    /// times), never used to order anything.
    fn wall_millis(&self) -> u64;
}
