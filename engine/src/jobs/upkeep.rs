//! Upkeep: the timed log sync of `Durability::Interval`, the removal of tables that readers held
//! on to after they had been compacted away, the return of memory that no memtable takes and of space that no log takes, and
//! flushes and compactions that reads have paid for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use esker_vfs::scheduler::{Job, Progress};

use super::tell_failure;
use crate::core::Core;
use crate::options::Durability;
use crate::read_costs::ReadAccounts;

const JOB: &str = "upkeep";

/// How often garbage, and work for compactions, is looked for.
const EVERY: Duration = Duration::from_secs(1);

/// Memory for memtables, and the space of a log, that were not needed for so long are given back.
const SPARE: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Upkeep {
    core: Weak<Core>,
    /// In mode `Interval`: how often the log is synced, and when it is due next.
    sync: Option<(Duration, Duration)>,
    rested: bool,
    /// When garbage was last looked for.
    looked: Duration,
    /// When unused memory and log space were last looked for.
    spare_since: Duration,
    read_accounts: ReadAccounts,
}

impl Upkeep {
    /// The job, or `None` for a database that changes nothing.
    pub(super) fn new(core: &Arc<Core>) -> Option<Self> {
        if core.options.read_only {
            return None;
        }
        let now = core.env.clock.monotonic();
        let sync = match core.options.durability {
            Durability::Interval(every) => Some((every, now.saturating_add(every))),
            _ => None,
        };
        Some(Upkeep {
            core: Arc::downgrade(core),
            sync,
            rested: false,
            looked: now,
            spare_since: now,
            read_accounts: ReadAccounts::default(),
        })
    }

    /// Come again when the next thing is due.
    fn rest(&self, now: Duration) -> Progress {
        let look = self.looked.saturating_add(EVERY);
        let due = self.sync.map_or(look, |(_, due)| due.min(look));
        Progress::After(due.saturating_sub(now))
    }

    /// Writes have stopped, for whatever reason, and reads may go on for long: what was acknowledged before must not wait
    /// longer than the interval for that.
    fn end(&self, core: &Core) -> Progress {
        if self.sync.is_some() && core.health.check_open().is_ok() {
            core.sync_at_last();
        }
        Progress::Done
    }
}

impl Job for Upkeep {
    fn name(&self) -> &'static str {
        JOB
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        let now = core.env.clock.monotonic();
        if !self.rested {
            self.rested = true;
            return self.rest(now);
        }
        if core.health.check().is_err() {
            return self.end(&core);
        }
        if let Some((every, due)) = &mut self.sync
            && *due <= now
        {
            *due = now.saturating_add(*every);
            if let Err(error) = core.persist() {
                // If that has stopped writes, the next writer hears why.
                let will_retry = core.health.check().is_ok();
                tell_failure(&core, JOB, &error, will_retry);
                return if will_retry { self.rest(now) } else { self.end(&core) };
            }
        }
        if now.saturating_sub(self.looked) < EVERY {
            return self.rest(core.env.clock.monotonic());
        }
        self.looked = now;
        core.jobs.collect_garbage();
        if now.saturating_sub(self.spare_since) >= SPARE {
            self.spare_since = now;
            core.spare.rest();
            if core.recycled_log.rests() {
                core.give_log_space_back();
            }
        }
        if let Err(error) = self.read_accounts.weigh(&core) {
            tell_failure(&core, JOB, &error, false);
        }
        // Reads may have paid for a merge, and a snapshot that was dropped may have left garbage to clean up.
        core.jobs.start_compactions();
        self.rest(core.env.clock.monotonic())
    }

    fn panicked(&mut self, message: &str) {
        let Some(core) = self.core.upgrade() else { return };
        let message = message.to_string();
        core.stop_writes(&esker_base::Error::CallbackPanicked { callback: "the upkeep job", message });
    }
}
