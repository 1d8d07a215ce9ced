//! Has cached blocks lie in huge pages, once they have come to stay.

use std::sync::{Arc, Weak};
use std::time::Duration;

use esker_vfs::scheduler::{Job, Progress};

use crate::core::Core;

/// How often it is looked for memory of the cache that was filled since.
const EVERY: Duration = Duration::from_secs(1);

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
        // Half of a thread's time at most: others have work to do.
        Progress::After(core.env.clock.monotonic().saturating_sub(began))
    }

    fn panicked(&mut self, _message: &str) {}
}
