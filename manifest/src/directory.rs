//! What stands in a database's directory, by one listing.

use std::collections::BTreeMap;
use std::path::Path;

use esker_base::filename::FileName;
use esker_base::{FileNumber, Result};
use esker_vfs::fs::{DirEntry, EntryKind, Fs};

use crate::limits::may_be_ours;

/// The files of a database's making in one directory. Files with other names are left alone, and so are
/// files with numbers that no database reaches.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Whether `CURRENT` is there.
    pub(crate) has_current: bool,
    /// Tables: for each, whether it is a regular file, and its length in bytes.
    pub(crate) tables: BTreeMap<FileNumber, (EntryKind, u64)>,
    /// Blob files, likewise.
    pub(crate) blobs: BTreeMap<FileNumber, (EntryKind, u64)>,
    /// Write-ahead logs, with their length in bytes.
    pub(crate) logs: BTreeMap<FileNumber, u64>,
    pub(crate) manifests: Vec<FileNumber>,
    pub(crate) temporaries: Vec<FileNumber>,
    /// The greatest number in any of the names, 0 if there is none.
    pub(crate) greatest: u64,
}

impl Directory {
    /// List `dir`.
    pub(crate) fn list(fs: &dyn Fs, dir: &Path) -> Result<Directory> {
        let mut directory = Directory::default();
        for entry in fs.list(dir)? {
            if let Some(name) = FileName::parse(&entry.name) {
                directory.add(name, &entry);
            }
        }
        Ok(directory)
    }

    fn add(&mut self, name: FileName, entry: &DirEntry) {
        let number = match name {
            FileName::Lock => return,
            FileName::Current => {
                self.has_current = true;
                return;
            }
            FileName::Manifest(n)
            | FileName::Log(n)
            | FileName::Table(n)
            | FileName::Blob(n)
            | FileName::Temporary(n) => n,
        };
        if !may_be_ours(number) {
            return;
        }
        self.greatest = self.greatest.max(number.0);
        let regular = entry.kind == EntryKind::File;
        match name {
            FileName::Table(_) => {
                self.tables.insert(number, (entry.kind, entry.len));
            }
            FileName::Blob(_) => {
                self.blobs.insert(number, (entry.kind, entry.len));
            }
            FileName::Log(_) => {
                self.logs.insert(number, entry.len);
            }
            FileName::Manifest(_) if regular => self.manifests.push(number),
            FileName::Temporary(_) if regular => self.temporaries.push(number),
            _ => {}
        }
    }

    /// Whether these files are at most what is left of a creation that a crash cut short. Nothing in such
    /// files was ever in force, because the first manifest is `first`, and `CURRENT` comes before any log
    /// or table.
    pub(crate) fn is_unborn(&self, first: FileNumber) -> bool {
        self.tables.is_empty()
            && self.blobs.is_empty()
            && self.logs.is_empty()
            && self.manifests.iter().all(|&number| number == first)
    }
}
