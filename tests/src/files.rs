//! A database's directory as names and bytes: what the damage suites take apart and put together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_base::DatabaseId;
use esker_base::filename::{CURRENT, FileName, LOCK};
use esker_vfs::fs::{Fs, read_all};
use esker_vfs::mem::MemFs;

use crate::driver::Violation;
use crate::setup::DIR;

/// Zeros that a log or manifest keeps behind its last record: its reserved space, cut short.
const ZEROS_KEPT: usize = 64;

/// Whether `name` is that of a log.
pub fn is_log(name: &str) -> bool {
    matches!(FileName::parse(name), Some(FileName::Log(_)))
}

/// Whether `name` is that of a table.
pub fn is_table(name: &str) -> bool {
    matches!(FileName::parse(name), Some(FileName::Table(_)))
}

/// Whether `name` is that of a table or a blob file.
pub fn holds_rows(name: &str) -> bool {
    matches!(FileName::parse(name), Some(FileName::Table(_) | FileName::Blob(_)))
}

/// The files of a directory, by name. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<String, Arc<[u8]>>);

impl Files {
    /// What stands in `dir` of `fs`, without the lock file. Reserved space at the end of logs and manifests
    /// is cut to a few bytes.
    pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Files, Violation> {
        let mut files = Files::default();
        for entry in fs.list(dir).map_err(|e| e.to_string())? {
            if entry.name == LOCK {
                continue;
            }
            let bytes = read_all(fs, &dir.join(&entry.name), u64::MAX).map_err(|e| e.to_string())?;
            let used = match FileName::parse(&entry.name) {
                Some(FileName::Log(_) | FileName::Manifest(_)) => {
                    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                    (used + ZEROS_KEPT).min(bytes.len())
                }
                _ => bytes.len(),
            };
            files.put(&entry.name, bytes[..used].to_vec());
        }
        Ok(files)
    }

    /// The files in [`DIR`] of `disk`.
    pub fn of_disk(disk: &MemFs) -> Result<Files, Violation> {
        Files::read(disk, Path::new(DIR))
    }

    /// A disk with these files in [`DIR`].
    pub fn disk(&self) -> MemFs {
        let disk = MemFs::new();
        let dir = Path::new(DIR);
        let made = disk.create_dir(dir).and_then(|()| {
            self.0.iter().try_for_each(|(name, bytes)| disk.create(&dir.join(name))?.write_at(bytes, 0))
        });
        made.expect("a disk in memory takes files");
        disk
    }

    /// Names and bytes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), &**bytes))
    }

    /// The names.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// The bytes of `name`, if it is there.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(|bytes| &**bytes)
    }

    /// Set the bytes of `name`.
    pub fn put(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_owned(), bytes.into());
    }

    /// Remove `name`.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Change the bytes of `name`, if it is there.
    pub fn edit(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(bytes) = self.0.get_mut(name) {
            let mut changed = bytes.to_vec();
            change(&mut changed);
            *bytes = changed.into();
        }
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|bytes| bytes.len()).sum()
    }

    /// The database's id, as `CURRENT` says it.
    pub fn database(&self) -> Option<DatabaseId> {
        let text = self.get(CURRENT)?;
        esker_manifest::current_file::Current::decode(text, Path::new(CURRENT)).ok().map(|c| c.database)
    }
}
