//! Makes the part of the log that is written next ready: space and, except where each commit is synced,
//! memory.

use esker_vfs::scheduler::{Job, Progress};
use esker_wal::PreallocateTask;

/// See the module. Whatever becomes of it, writers can do without.
pub(super) struct Prepare {
    preparation: Option<PreallocateTask>,
}

impl Prepare {
    /// The job that does `preparation`.
    pub(super) fn new(preparation: PreallocateTask) -> Self {
        Prepare { preparation: Some(preparation) }
    }
}

impl Job for Prepare {
    fn name(&self) -> &'static str {
        "log preparation"
    }

    fn step(&mut self) -> Progress {
        if let Some(preparation) = self.preparation.take() {
            preparation.run();
        }
        Progress::Done
    }

    /// Groups go by calls from here on, where they did not.
    fn panicked(&mut self, _message: &str) {}
}
