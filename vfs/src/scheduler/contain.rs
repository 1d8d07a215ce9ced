//! What both schedulers do so that a job that panics ends alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Job, Progress};

/// One step; a panic in it is told to the job and ends it.
pub(super) fn step(job: &mut dyn Job) -> Progress {
    contained(|| job.step()).unwrap_or_else(|message| {
        // If reporting the panic panics too, the job is beyond help; it is dropped either way.
        let _ = contained(|| job.panicked(&message));
        Progress::Done
    })
}

/// Drop a job; a panic in its `Drop` goes no further.
pub(super) fn discard(job: Box<dyn Job>) {
    let _ = contained(move || drop(job));
}

/// Call what may be the user's code; a panic's text becomes the error.
fn contained<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let message = message_of(&*panic);
        // The payload is a value of whoever panicked: dropping it may panic as well, even more than once.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        message
    })
}

/// What a panic said.
fn message_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}
