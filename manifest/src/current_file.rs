//! `CURRENT`: the file that names the manifest in force, and says which database this is.
//!
//! 1. The text is written in one way only; reading compares with that, byte for byte (see `FORMAT.md`).
//! 2. It is replaced whole or not at all, and only after the manifest it names is durable: [`write()`] is the
//!    last step of whoever makes a manifest.

use std::path::Path;

use esker_base::checksum::ChecksumSeed;
use esker_base::filename::{CURRENT, FileName};
use esker_base::{DatabaseId, Error, FileNumber, Result};
use esker_vfs::fs::{self, Fs};

use crate::limits::FILE_NUMBER_END;

#[cfg(test)]
mod tests;

/// The newest version of this file's format that this build reads and writes.
pub const CURRENT_VERSION: u32 = 1;

/// No version's text is longer, in bytes.
pub(crate) const BYTES_MAX: u64 = 4096;

/// How the file begins, in every version.
pub(crate) const TITLE: &str = "esker database, format ";

/// What `CURRENT` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The database's id.
    pub database: DatabaseId,
    /// The number of the manifest in force.
    pub manifest: FileNumber,
}

impl Current {
    /// The text of the file.
    ///
    /// ```
    /// use esker_base::{DatabaseId, FileNumber};
    /// use esker_manifest::current_file::Current;
    /// let current = Current { database: DatabaseId([7; 16]), manifest: FileNumber(3) };
    /// assert!(current.encode().starts_with("esker database, format 1\nid 0707"));
    /// ```
    pub fn encode(&self) -> String {
        let id = u128::from_be_bytes(self.database.0);
        let text = format!("{TITLE}{CURRENT_VERSION}\nid {id:032x}\nmanifest {}\n", self.manifest);
        let check = ChecksumSeed::new(self.database, self.manifest).checksum(0, &[text.as_bytes()]);
        format!("{text}check {check:08x}\n")
    }

    /// What the text in the file at `path` says.
    ///
    /// # Errors
    /// [`Error::FormatTooNew`]; [`Error::Corruption`] for anything that [`encode`](Current::encode)
    /// does not write.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Current> {
        let damaged = |what| Error::corruption(path, 0, what);
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let mut lines = text.lines();
        let version: Option<u32> =
            lines.next().and_then(|line| line.strip_prefix(TITLE)).and_then(|digits| digits.parse().ok());
        match version {
            None => return Err(damaged("it does not begin as the CURRENT of a database does")),
            Some(found) if found > CURRENT_VERSION => {
                let path = path.to_path_buf();
                return Err(Error::FormatTooNew { path, found, supported: CURRENT_VERSION });
            }
            Some(_) => {}
        }
        let id = lines.next().and_then(|line| line.strip_prefix("id ")).and_then(parse_id);
        let number =
            lines.next().and_then(|line| line.strip_prefix("manifest ")).and_then(|n| n.parse().ok());
        let (Some(database), Some(number)) = (id, number) else {
            return Err(damaged("it names no database or no manifest"));
        };
        let current = Current { database, manifest: FileNumber(number) };
        if number >= FILE_NUMBER_END || current.encode().as_bytes() != bytes {
            return Err(damaged("its text or its checksum is not as it was written"));
        }
        Ok(current)
    }
}

fn parse_id(hex: &str) -> Option<DatabaseId> {
    // The length first: an id is 128 bits, which is what a u128 is parsed from.
    let number = u128::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 32)?;
    Some(DatabaseId(number.to_be_bytes()))
}

/// Read `CURRENT` in `dir`.
///
/// # Errors
/// As [`Current::decode`]; [`Error::Io`], among them that it is not there.
pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Current> {
    let path = dir.join(CURRENT);
    Current::decode(&fs::read_all(fs, &path, BYTES_MAX)?, &path)
}

/// Make `CURRENT` in `dir` say `current`, durably. After an error it says that or what it said before.
pub fn write(fs: &dyn Fs, dir: &Path, current: &Current) -> Result<()> {
    fs::replace(fs, dir, CURRENT, &temporary(current.manifest), current.encode().as_bytes())
}

/// The first half of [`write()`]: prepare it. After an error `CURRENT` is untouched.
pub(crate) fn stage(fs: &dyn Fs, dir: &Path, current: &Current) -> Result<()> {
    fs::stage(fs, dir, &temporary(current.manifest), current.encode().as_bytes())
}

/// The second half: put what was prepared in its place.
pub(crate) fn put_in_place(fs: &dyn Fs, dir: &Path, current: &Current) -> Result<()> {
    fs::put_in_place(fs, dir, &temporary(current.manifest), CURRENT)
}

/// The name under which a `CURRENT` that names `manifest` is prepared.
pub(crate) fn temporary(manifest: FileNumber) -> String {
    FileName::Temporary(manifest).to_string()
}
