//! Removes files of which nobody needs a byte any more.
//!
//! A file's end takes long: the system lets go of its pages one by one, and where a filesystem is mounted with `discard`, waits
//! until the device has been told, 4 ms or more for a table of 32 MiB. So whoever leaves garbage goes on with what is more urgent, and this job removes one
//! file a step, on a thread that has nothing else to do.
//!
//! Failing to remove a file is no failure of the database: the next open tries again.

use std::sync::{Arc, Weak};

use esker_base::blob::BlobMeta;
use esker_base::filename::FileName;
use esker_base::table_meta::TableMeta;
use esker_base::{Error, Result};
use esker_vfs::scheduler::{Job, Lane, Progress};

use super::Jobs;
use crate::core::Core;

/// What waits to be removed.
#[derive(Default)]
pub(super) struct Waste {
    files: Vec<FileName>,
    /// Whether a job is at it.
    removing: bool,
}

impl Waste {
    /// Whether nothing waits.
    pub(super) fn is_gone(&self) -> bool {
        !self.removing
    }
}

impl Jobs {
    /// Have tables and blob files removed, before long, that no version and no reader refers to any more.
    pub(crate) fn collect_garbage(&self) {
        let Some(core) = self.core() else { return };
        self.remove_later(core.versions.take_garbage());
    }

    /// Have these files removed before long.
    pub(crate) fn remove_later(&self, names: impl IntoIterator<Item = FileName>) {
        let Some(core) = self.core() else { return };
        {
            let mut state = self.state.lock();
            state.waste.files.extend(names);
            if state.waste.removing || state.waste.files.is_empty() || state.closing {
                return;
            }
            state.waste.removing = true;
        }
        core.env.scheduler.spawn(Lane::Removal, Box::new(Garbage { core: Arc::downgrade(&core) }));
    }

    /// The next file to remove; without any, the job ends.
    fn next_garbage(&self) -> Option<FileName> {
        let waste = &mut self.state.lock().waste;
        let next = waste.files.pop();
        waste.removing = next.is_some();
        next
    }
}

impl Core {
    /// Return when no file is left to be removed.
    pub(crate) fn wait_for_removal(&self) -> Result<()> {
        loop {
            let seen = self.progress.epoch();
            self.health.check()?;
            if self.jobs.state.lock().waste.is_gone() {
                return Ok(());
            }
            self.jobs.check_open()?;
            self.env.scheduler.wait(&self.progress, seen, None);
        }
    }
}

/// Remove at once what [`Jobs::collect_garbage`] would remove before long.
pub(crate) fn collect_garbage_now(core: &Core) {
    let waste = std::mem::take(&mut core.jobs.state.lock().waste.files);
    remove_files(core, waste.into_iter().chain(core.versions.take_garbage()));
}

/// Remove these files, of which nobody needs a byte any more; none if the directory may be another one by now or
/// somebody else's (its lock was given up), where somebody may need files of these names.
pub(crate) fn remove_files(core: &Core, names: impl IntoIterator<Item = FileName>) {
    for name in names {
        let locked =
            core.lock.lock().as_ref().is_some_and(|lock| matches!(lock.still_in_place(), Ok(true)));
        if !locked {
            return;
        }
        let _ = core.env.fs.remove(&core.dir.join(name.to_string()));
    }
}

/// Remove what was written and will not be installed.
pub(super) fn remove_written(core: &Core, tables: &[TableMeta], blobs: &[BlobMeta]) {
    let tables = tables.iter().map(|table| FileName::Table(table.number));
    remove_files(core, tables.chain(blobs.iter().map(|blob| FileName::Blob(blob.number))));
}

/// The commit that was to install these files has failed with `error`: stop writes if it must, and remove them, unless the
/// next open may need them.
pub(super) fn not_installed(core: &Core, error: &Error, tables: &[TableMeta], blobs: &[BlobMeta]) {
    core.note_manifest_failure(error);
    if !matches!(error, Error::InDoubt { .. }) {
        remove_written(core, tables, blobs);
    }
}

/// See the module.
struct Garbage {
    core: Weak<Core>,
}

impl Job for Garbage {
    fn name(&self) -> &'static str {
        "removal of files"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade() else { return Progress::Done };
        let Some(name) = core.jobs.next_garbage() else {
            // Whoever waits for idleness looks again.
            core.progress.notify_all();
            return Progress::Done;
        };
        remove_files(&core, [name]);
        Progress::More
    }

    /// What is left is removed when the database is closed, or opened.
    fn panicked(&mut self, _message: &str) {
        let Some(core) = self.core.upgrade() else { return };
        core.jobs.state.lock().waste.removing = false;
        core.progress.notify_all();
    }
}
