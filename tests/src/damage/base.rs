//! The directories that are damaged, and what may be read from each afterwards.

use std::collections::BTreeMap;
use std::path::Path;

use esker::{Database, DatabaseOptions};
use esker_base::FileNumber;
use esker_base::filename::FileName;
use esker_base::ledger::Ledger;
use esker_base::table_meta::KeyBounds;
use esker_manifest::VersionSet;
use esker_sstable::{BlockCache, TableContext, TableSource};
use esker_vfs::fs::Fs;
use esker_vfs::mem::{MemFs, Policy};
use esker_vfs::open_files::OpenFiles;
use esker_vfs::sim::Simulation;

use crate::driver::Violation;
use crate::files::{Files, is_log};
use crate::golden::{self, State, fixture};
use crate::layout::{Fragment, LOG_HEADER, fragments};
use crate::oracle::Contents;
use crate::points::Point;
use crate::setup::DIR;

/// In which state the golden database is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The committed copy: killed, with logs that no table holds.
    Killed,
    /// Opened again after that and killed at once: the manifest knows the logs' lengths.
    Recovered,
    /// Opened again and closed in order.
    Closed,
}

/// What a table holds, as the manifest says; of a blob file, what the tables hold that refer to it.
pub struct TableInfo {
    /// The name of its keyspace.
    pub keyspace: String,
    /// Its keys.
    pub bounds: KeyBounds,
    /// Its level.
    pub level: u8,
}

/// A whole directory, and what it holds.
pub struct Base {
    /// The moment.
    pub moment: Moment,
    /// Its files.
    pub files: Files,
    /// Its tables and blob files, by file name.
    pub tables: BTreeMap<String, TableInfo>,
    states: Vec<State>,
}

impl Moment {
    /// All of them.
    pub const ALL: [Moment; 3] = [Moment::Killed, Moment::Recovered, Moment::Closed];
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Moment::Killed => "killed",
            Moment::Recovered => "recovered",
            Moment::Closed => "closed",
        })
    }
}

impl std::str::FromStr for Moment {
    type Err = String;

    fn from_str(name: &str) -> Result<Moment, String> {
        let found = Moment::ALL.into_iter().find(|moment| moment.to_string() == name);
        found.ok_or_else(|| format!("{name:?} is none of killed, recovered, closed"))
    }
}

/// The committed database, opened again and left as `moment` says.
fn files_at(moment: Moment) -> Result<Files, Violation> {
    let files = fixture::files(golden::VERSION)?;
    if moment == Moment::Killed {
        return Ok(files);
    }
    let whole = files.disk();
    let disk = MemFs::simulated();
    disk.create_dir(Path::new(DIR)).map_err(|e| e.to_string())?;
    for (name, bytes) in Files::of_disk(&whole)?.iter() {
        let file = disk.create(&Path::new(DIR).join(name)).map_err(|e| e.to_string())?;
        file.write_at(bytes, 0).map_err(|e| e.to_string())?;
    }
    let world = Simulation::on(disk.clone(), 3);
    let builder = Database::builder(Path::new(DIR)).options(golden::options()).env(world.env());
    let db = builder.open().map_err(|e| e.to_string())?;
    if moment == Moment::Recovered {
        return Files::of_disk(&disk.image_at(disk.trace_len(), Policy::Everything, 0));
    }
    db.close().map_err(|e| e.to_string())?;
    Files::of_disk(&disk)
}

/// The tables and blob files that the manifest in `files` names, and the first log that is needed.
pub(super) fn needed(files: &Files) -> Result<(BTreeMap<String, TableInfo>, FileNumber), Violation> {
    let fs: std::sync::Arc<dyn Fs> = std::sync::Arc::new(files.disk());
    let ledger = std::sync::Arc::new(Ledger::default());
    let context = |database| TableContext {
        files: OpenFiles::new(std::sync::Arc::clone(&fs), usize::MAX),
        dir: DIR.into(),
        database,
        cache: BlockCache::new(0, std::sync::Arc::clone(&ledger)),
        ledger: std::sync::Arc::clone(&ledger),
        source: TableSource::Buffered,
    };
    let (set, _) =
        VersionSet::recover(&fs, Path::new(DIR), context, |_| Ok(()), true).map_err(|e| e.to_string())?;
    let version = set.current();
    let mut tables = BTreeMap::new();
    for keyspace in version.keyspaces() {
        for (level, table) in keyspace.tree.tables() {
            let info =
                TableInfo { keyspace: keyspace.name.clone(), bounds: table.meta.bounds.clone(), level };
            for blob in table.blobs() {
                let name = FileName::Blob(blob.number()).to_string();
                let bounds = match tables.get(&name) {
                    Some(TableInfo { bounds, .. }) => info.bounds.union(bounds),
                    None => info.bounds.clone(),
                };
                tables.insert(name, TableInfo { keyspace: keyspace.name.clone(), bounds, level });
            }
            tables.insert(FileName::Table(table.number()).to_string(), info);
        }
    }
    Ok((tables, version.marks().first_log))
}

impl Base {
    /// The golden database at `moment`.
    ///
    /// # Errors
    /// If the committed copy is gone or does not open.
    pub fn new(moment: Moment) -> Result<Base, Violation> {
        let files = files_at(moment)?;
        Ok(Base { moment, tables: needed(&files)?.0, files, states: golden::states(golden::VERSION) })
    }

    /// Everything that it holds.
    pub fn whole(&self) -> &Contents {
        &self.states[self.states.len() - 1].contents
    }

    /// The options it is opened with.
    pub fn options(&self) -> DatabaseOptions {
        golden::options()
    }

    /// The logs, oldest first.
    fn logs(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().filter(|(name, _)| is_log(name))
    }

    /// What a database may hold whose files are `damaged`: everything; and if logs have lost their end, and
    /// nothing that is left shows that it had been durable, what came before that.
    pub fn allowed(&self, damaged: &Files) -> Vec<&Contents> {
        let mut allowed = vec![self.whole()];
        let logs: Vec<(&str, &[u8])> = self.logs().collect();
        for (nth, (name, bytes)) in logs.iter().enumerate() {
            let found = damaged.get(name).unwrap_or_default();
            let same = |from: usize, to: usize| found.get(from..to) == bytes.get(from..to);
            let all = fragments(bytes);
            let is_whole = |fragment: &&Fragment| same(fragment.offset, fragment.end);
            let broken = all.iter().find(|fragment| !same(0, LOG_HEADER) || !is_whole(fragment));
            let Some(broken) = broken else { continue };
            let proves = |fragment: &&Fragment| {
                same(fragment.offset, fragment.payload) && fragment.durable > broken.offset as u64
            };
            // The manifest knows the lengths of the logs that a recovery has closed.
            let closed = self.moment != Moment::Killed && nth + 1 < logs.len();
            let in_later = logs[nth + 1..].iter().any(|(name, bytes)| self.proves(damaged, name, bytes));
            if !closed && !in_later && !all.iter().any(|fragment| proves(&fragment)) {
                let before = self.states.iter().rev().find(|state| state.last_seqno < broken.tag);
                allowed.extend(before.map(|state| &state.contents));
            }
            break;
        }
        allowed
    }

    /// Whether the log `name` still shows that something in it had been durable.
    #[expect(clippy::unused_self, reason = "it is about this database's logs")]
    fn proves(&self, damaged: &Files, name: &str, bytes: &[u8]) -> bool {
        let found = damaged.get(name).unwrap_or_default();
        let same = |from: usize, to: usize| found.get(from..to) == bytes.get(from..to);
        same(0, LOG_HEADER)
            && fragments(bytes)
                .iter()
                .take_while(|fragment| same(fragment.offset, fragment.end))
                .any(|fragment| fragment.durable > 0)
    }

    /// Which files differ in `damaged`, or are not in both.
    pub fn differing(&self, damaged: &Files) -> Vec<String> {
        let mut names = self.files.names();
        names.extend(damaged.names());
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.files.get(name) != damaged.get(name));
        names
    }

    /// By whose work the file `name` came to be.
    pub fn point(&self, name: &str) -> Point {
        match (FileName::parse(name), self.tables.get(name)) {
            (Some(FileName::Table(_) | FileName::Blob(_)), Some(table)) if table.level == 0 => Point::Flush,
            (Some(FileName::Table(_) | FileName::Blob(_)), Some(_)) => Point::Compaction,
            (Some(FileName::Log(_)), _) if self.logs().last().is_some_and(|(last, _)| last == name) => {
                Point::Log
            }
            (Some(FileName::Log(_)), _) => Point::Rotation,
            (Some(FileName::Manifest(_) | FileName::Current), _) => Point::Manifest,
            _ => Point::Other,
        }
    }
}
