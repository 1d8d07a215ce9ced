//! A version as a database of its own, in another directory.

use std::path::Path;

use esker_base::{DatabaseId, FileNumber, Result};
use esker_vfs::fs::Fs;

use crate::current_file::{self, Current};
use crate::edit;
use crate::manifest_file::ManifestFile;
use crate::version::Version;

#[cfg(test)]
mod tests;

/// Make `version` the state of a new database in `dir`: a manifest, and `CURRENT`. Durable when it returns,
/// with every name that was made in `dir` before.
///
/// The caller holds `version`, has put its tables there already (links will do, tables never change), and
/// the logs from [`first_log`](crate::Marks::first_log) on, new ones: what the version's own logs held durably
/// is forgotten. Files carry their database's id in their
/// checksums: a checkpoint has the id of the database it was taken from.
pub fn write_checkpoint(fs: &dyn Fs, dir: &Path, database: DatabaseId, version: &Version) -> Result<()> {
    // No file of the version has a number from the mark on.
    let number = version.marks().next_file;
    let mut version = version.clone();
    version.marks.next_file = FileNumber(number.0 + 1);
    version.marks.durable_log = None;
    put_into_force(fs, dir, database, number, &version).map(drop)
}

/// Write `version` as manifest `number` and have `CURRENT` name it, each durable before the next.
pub(crate) fn put_into_force(
    fs: &dyn Fs,
    dir: &Path,
    database: DatabaseId,
    number: FileNumber,
    version: &Version,
) -> Result<ManifestFile> {
    let manifest = ManifestFile::create(fs, dir, database, number, &edit::encode(&version.snapshot()))?;
    fs.sync_dir(dir)?;
    current_file::write(fs, dir, &Current { database, manifest: number })?;
    Ok(manifest)
}
