//! Opening a damaged directory and reading all of it: every answer is the model's or a typed error.

use std::path::Path;

use esker::{Database, DatabaseOptions, Durability, Error, Keyspace, TableSource};
use esker_base::error::printable;
use esker_base::filename::FileName;
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;

use super::base::Base;
use crate::driver::Violation;
use crate::files::{Files, holds_rows};
use crate::lies::LyingFs;
use crate::oracle::{Contents, Rows};
use crate::planted::Bug;
use crate::setup::DIR;

/// In which way a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Or for writing.
    pub read_only: bool,
    /// Where blocks come from.
    pub source: TableSource,
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was read.
    Whole,
    /// The end of a log was taken for what never was durable, and nothing shows otherwise.
    Shorter,
    /// It was opened, and what is damaged said so.
    Errors,
    /// It was not opened.
    Refused,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [
        Way { read_only: true, source: TableSource::Buffered },
        Way { read_only: true, source: TableSource::Mapped },
        Way { read_only: false, source: TableSource::Buffered },
        Way { read_only: false, source: TableSource::Mapped },
    ];
}

/// A damaged directory.
pub struct Scene<'a> {
    /// What it was.
    pub base: &'a Base,
    /// What is left.
    pub files: &'a Files,
    /// Which files are not as they were.
    pub differing: Vec<String>,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
}

/// The cause of an error that stops writes.
fn root(error: &Error) -> &Error {
    match error {
        Error::Aborted { cause } | Error::InDoubt { cause } | Error::Poisoned { cause } => root(cause),
        other => other,
    }
}

impl<'a> Scene<'a> {
    /// `files`, made from `base`.
    pub fn new(base: &'a Base, files: &'a Files, bug: Option<Bug>) -> Scene<'a> {
        Scene { base, files, differing: base.differing(files), bug }
    }

    /// `error` is one of damage, and names a file: the damaged one where that is a table's or where it
    /// alone is damaged.
    fn typed(&self, error: &Error) -> Result<(), Violation> {
        let path = match root(error) {
            Error::Corruption { path, .. }
            | Error::MissingFile { path, .. }
            | Error::FormatTooNew { path, .. } => path,
            other => return Err(format!("an error that tells nothing of the damage: {other}")),
        };
        let name = path.strip_prefix(DIR).ok().and_then(Path::to_str).unwrap_or_default();
        // A table, log or manifest that is gone from the manifest's or a log's account is told by the others.
        let told = self.differing.iter().any(|differing| differing == name)
            || self.differing.iter().any(|name| !holds_rows(name));
        if told && FileName::parse(name).is_some() {
            return Ok(());
        }
        Err(format!("an error that names the wrong file: {error}"))
    }

    /// [`Scene::typed`] of an error that keeps the database from being opened. Damage to the content of tables and blob
    /// files never does: it is met where they are read.
    fn refused(&self, error: &Error) -> Result<(), Violation> {
        self.typed(error)?;
        let contained = |name: &String| {
            let len = |files: &Files| files.get(name).map(<[u8]>::len);
            holds_rows(name)
                && (len(self.files) == len(&self.base.files) || !self.base.tables.contains_key(name))
        };
        if self.differing.iter().all(contained) {
            return Err(format!(
                "it is not opened, although only the content of tables is damaged: {error}"
            ));
        }
        Ok(())
    }

    fn open(&self, disk: &MemFs, way: Way, seed: u64) -> Result<Database, Error> {
        let world = Simulation::on(disk.clone(), seed);
        if let Some(bug) = self.bug {
            bug.plant_in_engine();
        }
        let env = match self.bug.and_then(Bug::lie) {
            None => world.env(),
            Some(lie) => world.env_over(std::sync::Arc::new(LyingFs::new(world.env().fs, lie))),
        };
        let options = DatabaseOptions {
            read_only: way.read_only,
            table_source: way.source,
            durability: Durability::Sync,
            ..self.base.options()
        };
        Database::builder(Path::new(DIR)).options(options).env(env).open()
    }

    /// Open it in this way, read everything, verify; if it is writable, write, flush, compact and open again.
    pub fn check(&self, way: Way, seed: u64) -> Result<Verdict, Violation> {
        let disk = self.files.disk();
        let allowed = self.base.allowed(self.files);
        let db = match self.open(&disk, way, seed) {
            Ok(db) => db,
            Err(error) => return self.refused(&error).map(|()| Verdict::Refused),
        };
        let (state, errors) = self.agree_with_one(&db, &allowed)?;
        self.verified(&db, errors)?;
        let verdict = match errors {
            true => Verdict::Errors,
            false if state == self.base.whole() => Verdict::Whole,
            false => Verdict::Shorter,
        };
        if !way.read_only {
            let contents = self.write(&db, state)?;
            drop(db);
            match self.open(&disk, way, seed ^ 1) {
                Err(error) => self.refused(&error).map_err(|what| format!("opened again: {what}"))?,
                Ok(db) => {
                    self.agree(&db, &contents).map_err(|what| format!("opened again: {what}"))?;
                }
            }
        }
        Ok(verdict)
    }

    /// What was read must be one of the `allowed`; whether there were errors.
    fn agree_with_one<'c>(
        &self,
        db: &Database,
        allowed: &[&'c Contents],
    ) -> Result<(&'c Contents, bool), Violation> {
        let mut first = None;
        for contents in allowed {
            match self.agree(db, contents) {
                Ok(errors) => return Ok((contents, errors)),
                Err(what) => first = first.or(Some(what)),
            }
        }
        Err(first.unwrap_or_default())
    }

    /// Every way of reading gives what `contents` has, or errs; whether something erred.
    fn agree(&self, db: &Database, contents: &Contents) -> Result<bool, Violation> {
        let names: Vec<&String> = contents.keys().collect();
        if db.keyspaces().iter().collect::<Vec<_>>() != names {
            return Err(format!("the keyspaces are {:?}, not {names:?}", db.keyspaces()));
        }
        let mut errors = false;
        for (name, rows) in contents {
            let keyspace = db.existing_keyspace(name).map_err(|e| e.to_string())?;
            errors |= self.gets(&keyspace, rows)?;
            errors |= self.scans(&keyspace, rows)?;
        }
        Ok(errors)
    }

    /// Whether a read of `key` may meet a damaged table.
    fn may_fail(&self, keyspace: &str, key: &[u8]) -> bool {
        self.differing
            .iter()
            .filter_map(|name| self.base.tables.get(name))
            .any(|table| table.keyspace == keyspace && table.bounds.contains(key))
    }

    fn gets(&self, keyspace: &Keyspace, rows: &Rows) -> Result<bool, Violation> {
        let mut errors = false;
        let whole = &self.base.whole()[keyspace.name()];
        let absent: [&[u8]; 4] = [b"", b"key-", b"key-0999", b"zzz"];
        for key in whole.keys().chain(rows.keys()).map(Vec::as_slice).chain(absent) {
            match keyspace.get(key) {
                Ok(found) if found.as_deref() == rows.get(key).map(Vec::as_slice) => {}
                Ok(found) => {
                    let found =
                        found.map_or("nothing".to_owned(), |value| format!("{} bytes", value.len()));
                    return Err(format!("get of {} finds {found}", printable(key)));
                }
                Err(error) => {
                    self.typed(&error)?;
                    if !self.may_fail(keyspace.name(), key) {
                        return Err(format!("get of {}, which no damage touches: {error}", printable(key)));
                    }
                    errors = true;
                }
            }
        }
        Ok(errors)
    }

    fn scans(&self, keyspace: &Keyspace, rows: &Rows) -> Result<bool, Violation> {
        let mut forward = rows.iter();
        let mut erred = self.scan(keyspace.iter(), &mut forward)?;
        let mut backward = rows.iter().rev();
        erred |= self.scan(keyspace.iter().rev(), &mut backward)?;
        if !erred {
            return Ok(false);
        }
        // What lies on neither side of a damaged table can still be scanned.
        let bounds: Vec<_> = self
            .differing
            .iter()
            .filter_map(|name| self.base.tables.get(name))
            .filter(|table| table.keyspace == keyspace.name())
            .map(|table| &table.bounds)
            .collect();
        if let Some(first) = bounds.iter().map(|bounds| &bounds.smallest).min() {
            let mut before = rows.range(..first.clone());
            if self.scan(keyspace.range(..first.clone()), &mut before)? {
                return Err("a scan of what lies before all damage errs".to_owned());
            }
        }
        if let Some(last) = bounds.iter().map(|bounds| &bounds.largest).max() {
            let after = [last.as_slice(), &[0]].concat();
            let mut behind = rows.range(after.clone()..);
            if self.scan(keyspace.range(after..), &mut behind)? {
                return Err("a scan of what lies behind all damage errs".to_owned());
            }
        }
        Ok(true)
    }

    /// A scan yields `expected` up to its end or its first error, which stays.
    fn scan<'r>(
        &self,
        mut scan: impl Iterator<Item = esker::Result<(esker::Key, esker::Value)>>,
        expected: &mut dyn Iterator<Item = (&'r Vec<u8>, &'r Vec<u8>)>,
    ) -> Result<bool, Violation> {
        loop {
            match (scan.next(), expected.next()) {
                (None, None) => return Ok(false),
                (Some(Ok((key, value))), Some((k, v))) if *key == **k && *value == **v => {}
                (Some(Err(error)), _) => {
                    self.typed(&error)?;
                    return match scan.next() {
                        Some(Err(again)) if again.to_string() == error.to_string() => Ok(true),
                        Some(Ok(_)) => Err("a scan goes on behind its error".to_owned()),
                        Some(Err(other)) => Err(format!("a scan's error changes: {error}, then {other}")),
                        // Ended: nothing can be taken for the rest.
                        None => Ok(true),
                    };
                }
                (found, expected) => {
                    let key = |key: Option<&[u8]>| key.map_or("its end".to_owned(), printable);
                    return Err(format!(
                        "a scan has {} where {} is expected",
                        key(found.and_then(Result::ok).map(|row| row.0.to_vec()).as_deref()),
                        key(expected.map(|row| row.0.as_slice())),
                    ));
                }
            }
        }
    }

    /// `verify` finds damage in tables, wherever it is, and everything that a read has met.
    fn verified(&self, db: &Database, errors: bool) -> Result<(), Violation> {
        let damaged = self.differing.iter().any(|name| self.base.tables.contains_key(name));
        match db.verify() {
            Err(error) => self.typed(&error).map_err(|what| format!("verify: {what}")),
            Ok(_) if errors => Err("verify finds nothing, although reads err".to_owned()),
            Ok(_) if damaged => Err("verify finds nothing in a damaged table".to_owned()),
            Ok(_) => Ok(()),
        }
    }

    /// Write a row, flush and compact everything, as far as the damage lets; what is there then.
    fn write(&self, db: &Database, contents: &Contents) -> Result<Contents, Violation> {
        let mut contents = contents.clone();
        let tolerate = |result: esker::Result<()>| match result {
            Ok(()) => Ok(true),
            Err(error) => self.typed(&error).map(|()| false).map_err(|what| format!("a write: {what}")),
        };
        for (name, rows) in &mut contents {
            let keyspace = db.existing_keyspace(name).map_err(|e| e.to_string())?;
            if tolerate(keyspace.put("new", "row"))? {
                rows.insert(b"new".to_vec(), b"row".to_vec());
            }
        }
        for name in contents.keys() {
            let keyspace = db.existing_keyspace(name).map_err(|e| e.to_string())?;
            tolerate(keyspace.compact_range::<&[u8]>(..))?;
        }
        self.agree(db, &contents).map_err(|what| format!("after a compaction: {what}"))?;
        Ok(contents)
    }
}
