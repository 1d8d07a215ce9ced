//! Hostile directories of the real filesystem: something else stands where a file of the golden database
//! should, or the directory itself is not what it says.
//!
//! Each case opens the database in one way and does all that a user might. It ends within a time, shows the
//! golden rows or an error that names what is wrong, takes little memory, and leaves everything outside of
//! the directory as it was.
#![expect(clippy::disallowed_methods, reason = "real directories, made by hand")]

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use esker::salvage::Salvage;
use esker::{Database, DatabaseOptions, Error, inspect};
use esker_base::filename::LOCK;
use parking_lot::Mutex;

use super::run::{forget_peak, peak_kib, within};
use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::damage::base::{Base, Moment};
use crate::driver::Violation;
use crate::files::{holds_rows, is_log};
use crate::points::Point;
use crate::real::Mount;
use crate::survivor::reading::everything;

/// A case takes milliseconds: one that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// The database, in the directory of a case.
const DB: &str = "db";
/// Where what is linked to lies.
const OUTSIDE: &str = "outside";

/// Held by the case that runs.
static ALONE: Mutex<()> = Mutex::new(());

/// What stands where a file should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// A symbolic link to the same bytes, outside.
    Link,
    /// A symbolic link to what is not there, outside.
    Dangling,
    /// A symbolic link to itself.
    Loop,
    /// A symbolic link to the directory that it lies in.
    Cycle,
    /// A pipe that nobody writes to.
    Pipe,
    /// A directory with a file in it.
    Directory,
    /// A device that yields zeros without end (takes root).
    Device,
    /// A second name of a file outside, with the same bytes.
    HardLink,
}

impl Stand {
    /// All of them.
    pub const ALL: [Stand; 8] = [
        Stand::Link,
        Stand::Dangling,
        Stand::Loop,
        Stand::Cycle,
        Stand::Pipe,
        Stand::Directory,
        Stand::Device,
        Stand::HardLink,
    ];

    /// Put it in the place of `at`, whose bytes are also in `outside`. `None` if the system does not let it.
    fn put(self, at: &Path, outside: &Path) -> Result<Option<Guard>, Violation> {
        let told = |e: std::io::Error| format!("{self}: {e}");
        if at.exists() {
            fs::remove_file(at).map_err(told)?;
        }
        let link = |to: &Path| std::os::unix::fs::symlink(to, at).map_err(told);
        let tool = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let status = command.arg(at).args(arguments).stderr(std::process::Stdio::null()).status();
            status.is_ok_and(|status| status.success()).then(|| Box::new(()) as Guard)
        };
        match self {
            Stand::Link => link(outside)?,
            Stand::Dangling => link(&outside.with_file_name("nothing"))?,
            Stand::Loop => link(at)?,
            Stand::Cycle => link(Path::new("."))?,
            Stand::Pipe => return Ok(tool("mkfifo", &[])),
            Stand::Directory => {
                fs::create_dir(at).and_then(|()| fs::write(at.join("inner"), "kept")).map_err(told)?;
            }
            Stand::Device => return Ok(tool("mknod", &["c", "1", "5"])),
            Stand::HardLink => fs::hard_link(outside, at).map_err(told)?,
        }
        Ok(Some(Box::new(())))
    }
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The golden database, and the bytes of each of its files; the lock file is empty.
struct Golden {
    base: Base,
    files: Vec<(String, Vec<u8>)>,
}

impl Golden {
    fn new() -> Result<Golden, Violation> {
        let base = Base::new(Moment::Killed)?;
        let files = base.files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
        let files = files.chain([(LOCK.to_owned(), Vec::new())]).collect();
        Ok(Golden { base, files })
    }

    /// The directories of a case under `root`: the database, and copies of its files outside.
    fn lay_out(&self, root: &Path) -> std::io::Result<()> {
        for dir in [DB, OUTSIDE] {
            fs::create_dir(root.join(dir))?;
            for (name, bytes) in &self.files {
                fs::write(root.join(dir).join(name), bytes)?;
            }
        }
        Ok(())
    }

    fn options(&self, read_only: bool) -> DatabaseOptions {
        DatabaseOptions { read_only, ..self.base.options() }
    }
}

/// Everything under `root` but what is under the database and what was salvaged: links as what they say,
/// files as their bytes.
fn surroundings(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Violation> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).map_err(|e| e.to_string())? {
            let path = entry.map_err(|e| e.to_string())?.path();
            if path == root.join(DB) || path == root.join("new") {
                continue;
            }
            let kind = fs::symlink_metadata(&path).map_err(|e| e.to_string())?.file_type();
            let bytes =
                if kind.is_file() { fs::read(&path).map_err(|e| e.to_string())? } else { Vec::new() };
            if kind.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, bytes);
        }
    }
    Ok(found)
}

/// What holds a case's directory in its state; it is let go of before the directory is removed.
type Guard = Box<dyn Any>;

/// What a case came to: whether the database opened, and what the open said.
type Opened = Result<(), String>;

/// Open `dir`, read and verify it, and write to it unless it is for reading; look at every file of it; and
/// salvage it. `named` has to be in whatever error there is.
fn attack(golden: &Golden, root: &Path, read_only: bool, named: &[&str]) -> Result<Opened, Violation> {
    let dir = root.join(DB);
    let named_in = |error: &Error| match root_of(error) {
        Error::Io { .. }
        | Error::Corruption { .. }
        | Error::MissingFile { .. }
        | Error::NotADatabase { .. } => {
            let text = error.to_string();
            let told = named.is_empty() || named.iter().any(|name| text.contains(name));
            if told { Ok(()) } else { Err(format!("an error that names none of {named:?}: {error}")) }
        }
        other => Err(format!("an error that tells nothing of it: {other}")),
    };
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        if let Ok(fields) = inspect::file(&entry.path()) {
            fields.map_while(Result::ok).for_each(drop);
        }
    }
    let opened = Database::builder(&dir).options(golden.options(read_only)).open();
    let opened = match opened {
        Err(error) => {
            named_in(&error)?;
            Err(error.to_string())
        }
        Ok(db) => {
            match everything(&db)? {
                Ok(found) if found == *golden.base.whole() => {
                    db.verify().map(drop).or_else(|error| named_in(&error))?;
                }
                Ok(_) => return Err("it shows other rows than it has".to_owned()),
                Err(error) => named_in(&error)?,
            }
            if !read_only {
                use_it(&db);
            }
            let _ = db.close();
            Ok(())
        }
    };
    let _ = Salvage::of(&dir).run(root.join("new"));
    Ok(opened)
}

/// The error that a commit was aborted for.
fn root_of(error: &Error) -> &Error {
    match error {
        Error::Aborted { cause } | Error::Poisoned { cause } => root_of(cause),
        other => other,
    }
}

/// Write, flush and compact: errors are welcome.
fn use_it(db: &Database) {
    for name in db.keyspaces() {
        let Ok(keyspace) = db.existing_keyspace(&name) else { continue };
        let _ = keyspace.put("new", "row");
        let _ = keyspace.delete_range("key-1".."key-15");
        let _ = db.flush();
        let _ = keyspace.compact_range::<&[u8]>(..);
    }
    let _ = db.persist();
}

/// Run `case` in a thread of its own, and wait for it only so long.
fn watched<T: Send + 'static>(
    case: impl FnOnce() -> Result<T, Violation> + Send + 'static,
) -> Result<T, Violation> {
    let (tell, told) = mpsc::channel();
    // A thread that hangs is left behind: the test has failed then.
    std::thread::spawn(move || tell.send(contained(case)));
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(format!("it hangs: nothing for {PATIENCE:?}")))
}

/// A case in directories of its own under `scratch`, which `prepare` makes hostile; `None` if the system does
/// not let it be made. Nothing outside may change, and memory is bounded.
fn case(
    golden: &Arc<Golden>,
    scratch: &Path,
    read_only: bool,
    named: &'static [&'static str],
    prepare: impl FnOnce(&Path) -> Result<Option<Guard>, Violation>,
    name: &str,
) -> Result<Option<Opened>, Violation> {
    // One at a time: the memory is the process's.
    let _alone = ALONE.lock();
    let root = tempfile::tempdir_in(scratch).map_err(|e| e.to_string())?;
    golden.lay_out(root.path()).map_err(|e| e.to_string())?;
    let Some(_guard) = prepare(root.path())? else { return Ok(None) };
    let before = surroundings(root.path())?;
    // A log with two names is one file: what recovery does to it, it does under both.
    let log = root.path().join(OUTSIDE).join(name);
    let is_shared = fs::symlink_metadata(&log).is_ok_and(|it| is_log(name) && it.nlink() > 1);
    forget_peak();
    let used = peak_kib();
    let (shared, path, own) = (Arc::clone(golden), root.path().to_owned(), name.to_owned());
    let opened = watched(move || {
        let named: Vec<&str> =
            named.iter().copied().chain([own.as_str()]).filter(|n| !n.is_empty()).collect();
        attack(&shared, &path, read_only, &named)
    })?;
    let bytes = golden.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    within(peak_kib().saturating_sub(used), bytes, &golden.base)?;
    let after = surroundings(root.path())?;
    let changed = before
        .iter()
        .find(|(path, bytes)| after.get(*path) != Some(bytes) && !(is_shared && **path == log));
    let new = after.keys().find(|path| !before.contains_key(*path));
    match changed.map(|(path, _)| path).or(new) {
        None => Ok(Some(opened)),
        Some(path) => Err(format!("{} outside of the directory was changed", path.display())),
    }
}

/// What the cases came to.
#[derive(Debug, Default)]
pub struct Report {
    /// As other suites have it.
    pub outcome: Outcome,
    /// Opened, and refused.
    pub ends: (u64, u64),
    /// What the system did not let be made.
    pub skipped: Vec<String>,
}

impl Report {
    fn take(&mut self, what: &str, came: Result<Option<Opened>, Violation>) {
        match came {
            Ok(None) => self.skipped.push(what.to_owned()),
            Ok(Some(opened)) => {
                self.outcome.cases += 1;
                self.outcome.hits.count(Point::Recovery);
                if opened.is_ok() { self.ends.0 += 1 } else { self.ends.1 += 1 }
            }
            Err(why) => {
                self.outcome.cases += 1;
                let failure = Failure { replay: String::new(), what: format!("{what}: {why}") };
                self.outcome.failures.push(failure);
            }
        }
    }
}

/// Every stand in the place of every file, opened for reading and for writing, in directories under `scratch`.
///
/// # Errors
/// If the golden database cannot be had.
pub fn stands(scratch: &Path) -> Result<Report, Violation> {
    let golden = Arc::new(Golden::new()?);
    let mut report = Report::default();
    for (name, _) in &golden.files {
        for (stand, read_only) in Stand::ALL.into_iter().flat_map(|stand| [(stand, true), (stand, false)]) {
            let what = format!("{stand} for {name}, read_only {read_only}");
            let put = |root: &Path| stand.put(&root.join(DB).join(name), &root.join(OUTSIDE).join(name));
            let came = case(&golden, scratch, read_only, &[], put, name);
            let opened = matches!(came, Ok(Some(Ok(()))));
            report.take(&what, came);
            // Who opens for reading does without the lock, and of tables only those in the manifest matter.
            let needed = !holds_rows(name) || golden.base.tables.contains_key(name);
            if needed && opened && stand != Stand::HardLink && !(read_only && name == LOCK) {
                report.take(&what, Err(format!("{name} was opened though it is no file")));
            }
        }
    }
    Ok(report)
}

/// The directory itself is a link, or no directory. A link is followed by nobody: whoever wants that resolves
/// it first.
///
/// # Errors
/// If the golden database cannot be had.
pub fn roots(scratch: &Path) -> Result<Report, Violation> {
    let golden = Arc::new(Golden::new()?);
    let mut report = Report::default();
    for stand in [Stand::Link, Stand::Dangling, Stand::Loop, Stand::Cycle, Stand::Pipe, Stand::Device] {
        for read_only in [true, false] {
            let put = |root: &Path| {
                fs::rename(root.join(DB), root.join(OUTSIDE).join(DB)).map_err(|e| e.to_string())?;
                stand.put(&root.join(DB), &root.join(OUTSIDE).join(DB))
            };
            let came = case(&golden, scratch, read_only, &[], put, DB);
            let opened = matches!(came, Ok(Some(Ok(()))));
            let what = format!("{stand} for the directory, read_only {read_only}");
            report.take(&what, came);
            if opened {
                report.take(&what, Err("it was opened though it is no directory".to_owned()));
            }
        }
    }
    Ok(report)
}

/// What may not be written (row 17): every file alone made immutable, the directory, and all of it on a mount
/// for reading. Opened for reading it shows everything; for writing it errs, or has no need of that file.
///
/// # Errors
/// If the golden database cannot be had.
pub fn unwritable(scratch: &Path) -> Result<Report, Violation> {
    let golden = Arc::new(Golden::new()?);
    let mut report = Report::default();
    let mut locked: Vec<&str> = golden.files.iter().map(|(name, _)| name.as_str()).collect();
    locked.push("");
    for name in locked {
        for read_only in [true, false] {
            let put = |root: &Path| {
                Ok(Immutable::make(&root.join(DB).join(name)).map(|it| Box::new(it) as Guard))
            };
            // Any file may be named: which is written first is the engine's affair.
            let came = case(&golden, scratch, read_only, &[DB], put, name);
            let refused = matches!(came, Ok(Some(Err(_))));
            let what = format!("{name:?} is immutable, read_only {read_only}");
            report.take(&what, came);
            if refused && read_only {
                report.take(&what, Err("it may be read, and was refused".to_owned()));
            }
        }
    }
    for read_only in [true, false] {
        let put = |root: &Path| Ok(Some(Box::new(Mount::read_only(&root.join(DB))?) as Guard));
        let came = case(&golden, scratch, read_only, &[DB], put, "");
        let opened = matches!(came, Ok(Some(Ok(()))));
        let what = format!("a mount for reading, read_only {read_only}");
        report.take(&what, came);
        if opened != read_only {
            report.take(&what, Err(format!("opened: {opened}")));
        }
    }
    Ok(report)
}

/// A file that may not be changed, not by root either; dropping it takes that back.
struct Immutable(PathBuf);

impl Immutable {
    fn make(path: &Path) -> Option<Immutable> {
        chattr("+i", path).then(|| Immutable(path.to_owned()))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        chattr("-i", &self.0);
    }
}

fn chattr(flag: &str, path: &Path) -> bool {
    let status = Command::new("chattr").arg(flag).arg(path).stderr(std::process::Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
