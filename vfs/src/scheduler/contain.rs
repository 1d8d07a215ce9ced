//! What both schedulers do so that a job that panics ends alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Job, Progress};

/// One step; a panic in it is told to the job and ends it.
pub(super) fn step(job: &mut dyn Job) -> Progress {
    match catch_unwind(AssertUnwindSafe(|| job.step())) {
        Ok(progress) => progress,
        Err(panic) => {
            let message = message_of(&*panic);
            // If reporting the panic panics too, the job is beyond help; it is dropped either way.
            let _ = catch_unwind(AssertUnwindSafe(|| job.panicked(&message)));
            Progress::Done
        }
    }
}

/// Drop a job; a panic in its `Drop` goes no further.
pub(super) fn discard(job: Box<dyn Job>) {
    let _ = catch_unwind(AssertUnwindSafe(move || drop(job)));
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
