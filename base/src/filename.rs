//! The names of a database's files.
//!
//! | name | content |
//! |---|---|
//! | `LOCK` | empty; locked while the database is open |
//! | `CURRENT` | which manifest is in force |
//! | `000007.manifest` | edits to the set of files |
//! | `000012.log` | write-ahead log |
//! | `000015.sst` | table |
//! | `000016.blob` | values of tables |
//! | `000015.tmp` | a file being written; removed at open |
//!
//! Any other name is left alone.

use std::cmp::Ordering;

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
    /// A blob file.
    Blob(FileNumber),
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
        let (digits, kind) = name.split_once('.')?;
        // Only as a number is written here: `str::parse` takes a sign as well, and zeros in front.
        let long_enough = match digits.len().cmp(&FileNumber::DIGITS) {
            Ordering::Less => false,
            Ordering::Equal => true,
            Ordering::Greater => !digits.starts_with('0'),
        };
        if !long_enough || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = FileNumber(digits.parse().ok()?);
        match kind {
            "manifest" => Some(FileName::Manifest(number)),
            "log" => Some(FileName::Log(number)),
            "sst" => Some(FileName::Table(number)),
            "blob" => Some(FileName::Blob(number)),
            "tmp" => Some(FileName::Temporary(number)),
            _ => None,
        }
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
            FileName::Blob(number) => write!(f, "{number}.blob"),
            FileName::Temporary(number) => write!(f, "{number}.tmp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_is_written_and_nothing_near_it() {
        let kinds =
            [FileName::Manifest, FileName::Log, FileName::Table, FileName::Blob, FileName::Temporary];
        for number in [0, 1, 12, 99_999, 999_999, 1_000_000, u64::MAX] {
            for kind in kinds {
                let name = kind(FileNumber(number)).to_string();
                assert_eq!(FileName::parse(&name), Some(kind(FileNumber(number))), "{name}");
                let (digits, ending) = name.split_once('.').expect("a dot");
                let near = [
                    format!("0{name}"),
                    format!("+{name}"),
                    format!("-{name}"),
                    format!(" {name}"),
                    format!("{name} "),
                    format!("{name}."),
                    format!(".{name}"),
                    format!("{digits}.{}", ending.to_uppercase()),
                    format!("{digits}{ending}"),
                    format!("+{}.{ending}", &digits[1..]),
                    format!("{digits}x.{ending}"),
                    // A digit, but not of ours.
                    format!("{}\u{0663}.{ending}", &digits[..digits.len() - 1]),
                ];
                for name in near {
                    assert_eq!(FileName::parse(&name), None, "{name:?}");
                }
            }
        }
        for name in
            ["", ".", "..", ".log", "LOCK.", "lock", "CURRENT.log", "00012.log", "18446744073709551616.log"]
        {
            assert_eq!(FileName::parse(name), None, "{name:?}");
        }
        assert_eq!(FileName::parse(LOCK), Some(FileName::Lock));
        assert_eq!(FileName::parse(CURRENT), Some(FileName::Current));
    }
}
