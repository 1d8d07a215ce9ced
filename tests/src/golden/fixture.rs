//! The committed copies of the golden database, one a format version.
#![expect(clippy::disallowed_methods, reason = "test data is read from the source tree")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use esker_base::checksum::key_hash;
use esker_base::error::printable;

use crate::driver::Violation;
use crate::files::Files;
use crate::oracle::Contents;

/// Where the copies lie.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))
}

/// The committed database of format version `version`.
///
/// # Errors
/// If it cannot be read.
pub fn files(version: u32) -> Result<Files, Violation> {
    let dir = root().join(format!("v{version}"));
    let mut files = Files::default();
    let listed = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for entry in listed {
        let entry = entry.map_err(|e| e.to_string())?;
        let bytes = fs::read(entry.path()).map_err(|e| format!("{}: {e}", entry.path().display()))?;
        files.put(&entry.file_name().to_string_lossy(), bytes);
    }
    Ok(files)
}

/// The committed answers of format version `version`: a line a row, as [`listing`] writes them.
///
/// # Errors
/// If they cannot be read.
pub fn answers(version: u32) -> Result<String, Violation> {
    let path = root().join(format!("v{version}.txt"));
    fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// All rows, a line each: keyspace, key, length and XXH3-64 of the value.
pub fn listing(contents: &Contents) -> String {
    let mut text = String::new();
    for (name, rows) in contents {
        for (key, value) in rows {
            let hash = key_hash(value);
            let _ = writeln!(text, "{name} {} {} {hash:016x}", printable(key), value.len());
        }
    }
    text
}

/// Write the copy of format version `version` anew: once in its life, when the version comes.
///
/// # Errors
/// If it is there already, or cannot be written.
pub fn commit(version: u32, files: &Files, contents: &Contents) -> Result<(), Violation> {
    let dir = root().join(format!("v{version}"));
    fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for (name, bytes) in files.iter() {
        fs::write(dir.join(name), bytes).map_err(|e| e.to_string())?;
    }
    fs::write(root().join(format!("v{version}.txt")), listing(contents)).map_err(|e| e.to_string())
}
