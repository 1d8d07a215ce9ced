//! What both schedulers do so that a job that panics ends alone.

use esker_base::catch_panic;

use super::{Job, Progress};

/// One step of a job. A panic in it is reported to the job and ends the job.
pub(super) fn step(job: &mut dyn Job) -> Progress {
    catch_panic(|| job.step()).unwrap_or_else(|message| {
        // If reporting the panic panics too, the job is beyond help; it is dropped either way.
        let _ = catch_panic(|| job.panicked(&message));
        Progress::Done
    })
}

/// Drop a job; a panic in its `Drop` goes no further.
pub(super) fn discard(job: Box<dyn Job>) {
    let _ = catch_panic(move || drop(job));
}
