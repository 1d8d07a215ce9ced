//! Makes the part of the log that is written next ready: space and, except where each commit is synced,
//! memory.

use esker_vfs::scheduler::{Job, Progress};
use esker_wal::PreallocateTask;

/// See the module. Whatever becomes of it, writers can do without.
pub(super) struct Preallocate {
    task: Option<PreallocateTask>,
}

impl Preallocate {
    /// The job that does `task`.
    pub(super) fn new(task: PreallocateTask) -> Self {
        Preallocate { task: Some(task) }
    }
}

impl Job for Preallocate {
    fn name(&self) -> &'static str {
        "log preallocation"
    }

    fn step(&mut self) -> Progress {
        if let Some(task) = self.task.take() {
            task.run();
        }
        Progress::Done
    }

    /// Groups go by calls from here on, where they did not.
    fn panicked(&mut self, _message: &str) {}
}
