//! The one place of the lab that touches files: edge lists in, reports out, and the machine's name.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads inputs and writes reports, no database"
)]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tempfile::NamedTempFile;

use super::{LabError, Result};

fn failed<'a>(op: &'static str, file: &'a Path) -> impl FnOnce(std::io::Error) -> LabError + 'a {
    move |source| LabError::File { op, file: file.to_path_buf(), source }
}

/// The text of `file`, unpacked if it is gzip (told by its first bytes, not by its name).
pub(super) fn open_text(file: &Path) -> Result<Box<dyn BufRead>> {
    let mut reader = BufReader::new(File::open(file).map_err(failed("open", file))?);
    let start = reader.fill_buf().map_err(failed("read", file))?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// The longest line of a file of facts, in bytes.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 10;

/// Hand every line of `text` that is not blank to `take`, with neither its end nor a byte order mark. What
/// `take` finds wrong with it becomes [`LabError::BadFact`] with the line's number in `file`.
pub(super) fn each_line(
    mut text: impl BufRead,
    file: &Path,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        let bad = |what: String| LabError::BadFact { file: file.to_path_buf(), line: number, what };
        line.clear();
        let read = text.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        let len = read.map_err(failed("read", file))?;
        if len == 0 {
            break;
        }
        if len as u64 > LINE_BYTES_MAX {
            return Err(bad(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        let content = std::str::from_utf8(&line).map_err(|_| bad("it is not UTF-8".into()))?;
        let content = content.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']);
        if !content.trim().is_empty() {
            take(content).map_err(bad)?;
        }
    }
    Ok(())
}

/// Write `text` to `file`, making its directory. A file that is there is replaced as a whole, or not at all, where
/// that can be: not a pipe or a device, and not where somebody holds on to the name.
pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    let place = place(file);
    make_directory(&place).map_err(failed("create the directory of", file))?;
    if let Some(mut new) = replacement(&place) {
        new.write_all(text.as_bytes()).map_err(failed("write", file))?;
        if new.persist(&place).is_ok() {
            return Ok(());
        }
    }
    fs::write(&place, text).map_err(failed("write", file))
}

/// An error if [`write`] could not write `file` as things are. Leaves nothing behind.
pub(super) fn probe(file: &Path) -> Result<()> {
    let place = place(file);
    if place.exists() {
        // A pipe would wait for its reader.
        return match fs::metadata(&place) {
            Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
            _ => File::options().write(true).open(&place).map(drop).map_err(failed("write", file)),
        };
    }
    let missing: Vec<&Path> =
        place.ancestors().skip(1).take_while(|directory| !is_there(directory)).collect();
    let probed = make_directory(&place).and_then(|()| File::create_new(&place).map(drop));
    if probed.is_ok() {
        let _ = fs::remove_file(&place);
    }
    for directory in missing {
        let _ = fs::remove_dir(directory);
    }
    probed.map_err(failed("write", file))
}

fn is_there(directory: &Path) -> bool {
    directory.as_os_str().is_empty() || directory.exists()
}

/// Where `file` lies: what a link leads to is written, and the link stays.
fn place(file: &Path) -> PathBuf {
    let followed = fs::canonicalize(file).or_else(|_| Ok(parent(file).join(fs::read_link(file)?)));
    followed.unwrap_or_else(|_: io::Error| file.to_path_buf())
}

fn parent(file: &Path) -> &Path {
    file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn make_directory(file: &Path) -> io::Result<()> {
    fs::create_dir_all(parent(file))
}

/// An empty file beside `place` that may take its name, with the rights of the one that has it; it goes unless it is renamed.
fn replacement(place: &Path) -> Option<NamedTempFile<File>> {
    let old = fs::metadata(place).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return None;
    }
    let mut named = tempfile::Builder::new();
    named.prefix(".esker-lab-");
    let new = named.make_in(parent(place), |new| File::create_new(new)).ok()?;
    if let Some(old) = old {
        new.as_file().set_permissions(old.permissions()).ok()?;
    }
    Some(new)
}

/// The machine in a few words: processor, cores, memory, system.
pub(super) fn machine() -> String {
    let first = |file: &str, name: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = first("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = first("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(String::new(), |kib| format!(", {} GiB", kib.div_ceil(1 << 20)));
    format!("{processor}, {cores} cores{memory}, {}", std::env::consts::OS)
}

/// Begin a new peak of memory from what is held now, where the system can.
pub(super) fn forget_peak_memory() {
    // Linux: 5 resets the peak. Elsewhere, and where it is forbidden, the peak is that of the whole run.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory this process has held since [`forget_peak_memory`], in bytes; `None` where the system
/// does not tell.
pub(super) fn peak_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}
