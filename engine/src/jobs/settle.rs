//! Has cached blocks lie in huge pages, once they have come to stay.

use std::sync::{Arc, Weak};
use std::time::Duration;

use esker_vfs::scheduler::{Job, Progress};

use crate::core::Core;

/// How often it is looked for memory of the cache that was filled since.
const EVERY: Duration = Duration::from_secs(1);

/// How many times as long as it worked the job rests: readers of a full cache may want all processors. A thread that the
/// system prefers less is no answer, for it could be put aside while page faults wait for it.
const PAUSE: u32 = 3;

/// See the module. Whatever becomes of it, readers can do without.
pub(super) struct Settle {
    core: Weak<Core>,
}

impl Settle {
    /// The job, for as long as there is `core`.
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Settle { core: Arc::downgrade(core) }
    }
}

impl Job for Settle {
    fn name(&self) -> &'static str {
        "settling of the cache"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        if core.health.check().is_err() {
            return Progress::Done;
        }
        let began = core.env.clock.monotonic();
        if !core.cache.settle() {
            return Progress::After(EVERY);
        }
        let took = core.env.clock.monotonic().saturating_sub(began);
        Progress::After(took * PAUSE)
    }

    fn panicked(&mut self, _message: &str) {}
}
