//! Salvage: what is readable in a damaged database becomes a new one.
//!
//! 1. The source is only read; it may be damaged in any file, `CURRENT` and manifest included. Tables carry
//!    who they are and what their entries' sequence numbers are: without a manifest, every table and log
//!    in the directory is taken.
//! 2. What is not readable is reported: file, place, and the keys that may be missing or be older than they
//!    were. So is a log that ends before what the manifest says was durable, or before the log that follows it begins,
//!    and one that is missing.
//! 3. The new database is made in a directory that must not exist and that salvage itself makes, once the logs have been read.
//!    After an error nothing of it is left; what somebody else has made of that name meanwhile is not touched.
//!
//! Each key is decided by the sequence numbers of its versions, wherever they were found, as a read does. A merge operand is a
//! version that adds to what lies below it, so it must not be found twice, as itself and in a value that it was folded into.
//! Where nothing says which tables and logs are in force, that cannot be ruled out, and is reported.
//! Values in blob files are found through their rows, and through nothing else: a value whose row is lost may have
//! been overwritten or deleted.
//!
//! Memory: the logs' content, the range tombstones, one block a table at a time, and one value.
//!
//! `catalog` finds out what there is, `sources` and `logs` read it, `write` makes the new database.

mod catalog;
mod logs;
mod sources;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_base::filename::{self, FileName};
use esker_base::{Error, MergeOperator, Result};
use esker_vfs::Env;
use esker_vfs::fs::{EntryKind, FileLock};

use crate::new_directory::NewDirectory;

/// Something that could not be copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// The file that it was in.
    pub file: PathBuf,
    /// The keyspace, where that is known.
    pub keyspace: Option<String>,
    /// The first and the last key that may be missing, or show an older value, where that is known.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// What was wrong, in words.
    pub what: String,
}

/// What [`Salvage::run`] has done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Salvaged {
    /// Rows copied, by keyspace.
    pub rows: BTreeMap<String, u64>,
    /// Tables read, in part at least.
    pub tables: u64,
    /// Log records read.
    pub log_records: u64,
    /// What could not be copied.
    pub losses: Vec<Loss>,
}

/// A salvage about to be done.
///
/// ```
/// use esker::{Database, KeyspaceOptions, salvage::Salvage};
/// # let dir = tempfile::tempdir()?;
/// # let (damaged, new) = (dir.path().join("damaged"), dir.path().join("new"));
/// # let db = Database::open(&damaged)?;
/// # db.keyspace("users", KeyspaceOptions::default())?.put("7", "Olya")?;
/// # db.close()?;
/// let salvaged = Salvage::of(&damaged).run(&new)?;
/// for loss in &salvaged.losses {
///     println!("{}: {}", loss.file.display(), loss.what);
/// }
/// let users = Database::open(&new)?.existing_keyspace("users")?;
/// # assert_eq!(users.get("7")?.as_deref(), Some(&b"Olya"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is read before `run`"]
pub struct Salvage {
    from: PathBuf,
    env: Option<Env>,
    operators: Vec<Arc<dyn MergeOperator>>,
}

impl std::fmt::Debug for Salvage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Salvage").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Salvage {
    /// Of the database in `dir`.
    pub fn of(dir: impl AsRef<Path>) -> Salvage {
        Salvage { from: dir.as_ref().to_path_buf(), env: None, operators: Vec::new() }
    }

    /// Register a merge operator, as with [`Database::builder`](crate::Database::builder).
    ///
    /// A keyspace whose operator is not registered is salvaged as far as that goes. Keys whose newest version is a value
    /// have it. Keys with operands have the value below them, which is older, or are missing if there is none. The new keyspace has no merge
    /// operator, so that the new database opens without it: open it with
    /// [`existing_keyspace`](crate::Database::existing_keyspace), since the options differ. It is one loss, which names the operator
    /// and counts the keys. To have it whole, salvage again with the operator.
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Salvage {
        self.operators.push(operator);
        self
    }

    /// Work in another world than the system's.
    pub fn env(mut self, env: Env) -> Salvage {
        self.env = Some(env);
        self
    }

    /// Copy what is readable into a new database in `into`, which must not exist.
    ///
    /// Where neither `CURRENT` nor the manifest says which tables and logs are in force, all are read. Then rows that were deleted
    /// may be back, rows that were put again after they had been deleted may be missing, rows may be older than they were, and
    /// values of merged keys may count operands twice, if a table has them folded and a log, or another table, has them still. That
    /// is reported, and each log with merges for a keyspace that has tables.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `into` exists, be it since the call began, and for a merge operator's name, as of
    /// [`DatabaseBuilder::merge_operator`](crate::DatabaseBuilder::merge_operator); [`Error::NotADatabase`] if there is no
    /// file of a database; [`Error::Locked`] if somebody has the old database open, or opens one in `into` the moment
    /// that is made; [`Error::Io`], of the new files or of the old. Damage is no error: see [`Salvaged::losses`].
    pub fn run(self, into: impl AsRef<Path>) -> Result<Salvaged> {
        let into = into.as_ref();
        let env = match self.env {
            Some(env) => env,
            None => Env::os(1)?,
        };
        let stop = env.scheduler.clone();
        let outcome = salvage(&env, &self.from, into, self.operators);
        stop.stop();
        outcome
    }
}

fn salvage(
    env: &Env,
    from: &Path,
    into: &Path,
    operators: Vec<Arc<dyn MergeOperator>>,
) -> Result<Salvaged> {
    let fs = &env.fs;
    NewDirectory::check_free(&**fs, into, write::SALVAGE)?;
    let not_there = |why: &str| Error::NotADatabase { path: from.to_path_buf(), why: why.to_owned() };
    match fs.stat(from)? {
        Some(entry) if entry.kind == EntryKind::Directory => {}
        _ => return Err(not_there("there is no such directory")),
    }
    let _lock = lock(env, from)?;
    let mut report = Salvaged::default();
    let catalog = catalog::Catalog::read(&**fs, from, &mut report)?;
    if catalog.is_empty() {
        return Err(not_there("it holds no table and no log of a database"));
    }
    write::write(env, from, into, &catalog, operators, &mut report)?;
    Ok(report)
}

/// Honour the lock of whoever has the source open; nothing is created for it.
fn lock(env: &Env, from: &Path) -> Result<Option<Box<dyn FileLock>>> {
    let lock = from.join(filename::LOCK);
    match env.fs.stat(&lock)? {
        Some(entry) if entry.kind == EntryKind::File => match env.fs.lock(&lock) {
            Ok(held) => Ok(Some(held)),
            // Its file may be damaged as any other. Descriptors others give back.
            Err(error @ Error::Io { .. }) if !error.is_no_descriptors() => Ok(None),
            Err(error) => Err(error),
        },
        _ => Ok(None),
    }
}

impl Salvaged {
    /// Take note that the value of one row is not to be had.
    fn lose_row(&mut self, file: &Path, keyspace: &str, key: &[u8], what: impl std::fmt::Display) {
        self.losses.push(Loss {
            file: file.to_path_buf(),
            keyspace: Some(keyspace.to_owned()),
            keys: Some((key.to_vec(), key.to_vec())),
            what: what.to_string(),
        });
    }

    /// Take note of `error` of the file `name`.
    fn lose(&mut self, dir: &Path, name: FileName, what: impl std::fmt::Display) {
        self.losses.push(Loss {
            file: dir.join(name.to_string()),
            keyspace: None,
            keys: None,
            what: what.to_string(),
        });
    }
}
