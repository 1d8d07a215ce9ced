//! The names of a database's files.
//!
//! | name | content |
//! |---|---|
//! | `LOCK` | empty; locked while the database is open |
//! | `CURRENT` | which manifest is in force |
//! | `000007.manifest` | edits to the set of files |
//! | `000012.log` | write-ahead log |
//! | `000015.sst` | table |
//! | `000015.tmp` | a file being written; removed at open |
//!
//! Any other name is left alone.

use crate::FileNumber;

/// The file that is locked while a database is open.
pub const LOCK: &str = "LOCK";
/// The file that names the manifest in force.
pub const CURRENT: &str = "CURRENT";

/// What a file is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileName {
    /// [`LOCK`].
    Lock,
    /// [`CURRENT`].
    Current,
    /// A manifest.
    Manifest(FileNumber),
    /// A write-ahead log.
    Log(FileNumber),
    /// A table.
    Table(FileNumber),
    /// An unfinished file.
    Temporary(FileNumber),
}

impl FileName {
    /// What `name` is, or `None` if no database writes such a name.
    ///
    /// ```
    /// use esker_base::filename::FileName;
    /// use esker_base::FileNumber;
    /// assert_eq!(FileName::parse("000012.log"), Some(FileName::Log(FileNumber(12))));
    /// assert_eq!(FileName::parse("12.log"), None); // not as we write it
    /// ```
    pub fn parse(name: &str) -> Option<FileName> {
        match name {
            LOCK => return Some(FileName::Lock),
            CURRENT => return Some(FileName::Current),
            _ => {}
        }
        let (digits, _) = name.split_once('.')?;
        let number = FileNumber(digits.parse().ok()?);
        [FileName::Manifest, FileName::Log, FileName::Table, FileName::Temporary]
            .into_iter()
            .map(|make| make(number))
            .find(|candidate| candidate.to_string() == name)
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileName::Lock => f.write_str(LOCK),
            FileName::Current => f.write_str(CURRENT),
            FileName::Manifest(number) => write!(f, "{number}.manifest"),
            FileName::Log(number) => write!(f, "{number}.log"),
            FileName::Table(number) => write!(f, "{number}.sst"),
            FileName::Temporary(number) => write!(f, "{number}.tmp"),
        }
    }
}
