//! What was measured, as it is kept: one JSON document a run, rewritten after every child process.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::store::{Result, shared_settings};

/// One workload's figures: a line that a child process prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The workload's name.
    pub(crate) workload: String,
    /// Operations, or rows.
    pub(crate) operations: u64,
    /// How long they took.
    pub(crate) seconds: f64,
    /// Whatever else was measured; the name's end is the unit (`_us`, `_ms`, `_mib`, …).
    pub(crate) measures: BTreeMap<String, f64>,
}

impl Figure {
    /// Operations a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// The same figures and one more.
    pub(crate) fn with(mut self, name: &str, value: f64) -> Figure {
        self.measures.insert(name.to_owned(), value);
        self
    }
}

/// What one child process measured: one engine, one sequence of workloads, one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Counted from 0.
    pub(crate) round: u32,
    /// The engine's name.
    pub(crate) engine: String,
    /// The sequence's name.
    pub(crate) sequence: String,
    /// When it began, in seconds since 1970 (UTC); absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began_unix_seconds: Option<u64>,
    /// Its workloads.
    pub(crate) figures: Vec<Figure>,
}

/// All runs, and what they ran on: the same for each of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Rows of the full-sized workloads.
    pub(crate) rows: u64,
    /// Processor and kernel.
    pub(crate) machine: String,
    /// The engines' versions, from the lock file.
    pub(crate) versions: BTreeMap<String, String>,
    /// What esker and the harness were built from: commit, compiler, flags, settings for C. Empty in older records, as the
    /// next.
    #[serde(default)]
    pub(crate) build: BTreeMap<String, String>,
    /// The settings that every engine gets.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, u64>,
    /// In the order in which they were made.
    pub(crate) runs: Vec<Run>,
}

impl Record {
    /// The record in `path`, to be continued here, or an empty one if there is no such file.
    ///
    /// # Errors
    /// A file that is no record, or one of runs with other rows or settings, of another build, or on another machine:
    /// their ratios would be those of the two.
    pub(crate) fn load(path: &Path, rows: u64) -> Result<Record> {
        let here = Record {
            rows,
            machine: crate::machine::description(),
            versions: versions(),
            build: build(),
            settings: shared_settings(),
            runs: Vec::new(),
        };
        let record = match Record::read(path) {
            Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(is_absent) => return Ok(here),
            other => other?,
        };
        for (what, theirs, ours) in [
            ("rows", record.rows.to_string(), here.rows.to_string()),
            ("machine", record.machine.clone(), here.machine),
            ("versions", listed(&record.versions), listed(&here.versions)),
            ("build", listed(&record.build), listed(&here.build)),
            ("settings", listed(&record.settings), listed(&here.settings)),
        ] {
            if theirs != ours {
                let theirs = if theirs.is_empty() { "not told" } else { &theirs };
                let path = path.display();
                return Err(format!(
                    "{path} cannot be continued here. Its {what}: {theirs}; here: {ours}. Name another file"
                )
                .into());
            }
        }
        Ok(record)
    }

    /// The record in `path`.
    pub(crate) fn read(path: &Path) -> Result<Record> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Replace the file at `path`: a run that is interrupted leaves the old one.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let beside = path.with_extension("json.new");
        let mut text = serde_json::to_string(self)?;
        // A line a run: versions of a record can be compared.
        text = text.replace("{\"round\":", "\n{\"round\":");
        text.push('\n');
        fs::write(&beside, text)?;
        Ok(fs::rename(&beside, path)?)
    }

    /// Whether this run was made already.
    pub(crate) fn has(&self, round: u32, engine: &str, sequence: &str) -> bool {
        self.runs.iter().any(|run| run.round == round && run.engine == engine && run.sequence == sequence)
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// Names and what they stand for, on a line.
pub(crate) fn listed(named: &BTreeMap<String, impl Display>) -> String {
    let all: Vec<String> = named.iter().map(|(name, value)| format!("{name} {value}")).collect();
    all.join(", ")
}

/// What this program was built from, as its build script saw it.
fn build() -> BTreeMap<String, String> {
    [
        ("commit", env!("PEERS_COMMIT")),
        ("rustc", env!("PEERS_RUSTC")),
        ("rustflags", env!("PEERS_RUSTFLAGS")),
        ("c", env!("PEERS_C_SETTINGS")),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The engines' versions, from this package's lock file.
fn versions() -> BTreeMap<String, String> {
    let lines: Vec<&str> = include_str!("../Cargo.lock").lines().collect();
    let packages = ["esker", "fjall", "heed", "librocksdb-sys", "lmdb-master-sys", "redb"];
    let version = |package: &str| {
        let name = format!("name = \"{package}\"");
        let at = lines.iter().position(|line| **line == name)?;
        lines.get(at + 1)?.strip_prefix("version = \"")?.strip_suffix('"')
    };
    packages
        .iter()
        .filter_map(|package| Some(((*package).to_owned(), version(package)?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_knows_its_runs() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("record.json");
        let mut record = Record::load(&path, 10).expect("a new record");
        let figure =
            Figure { workload: "a".into(), operations: 3, seconds: 1.5, measures: BTreeMap::new() };
        let figures = vec![figure.with("p99_us", 2.0)];
        let (engine, sequence) = ("e".to_owned(), "s".to_owned());
        record.runs.push(Run { round: 1, engine, sequence, began_unix_seconds: Some(7), figures });
        record.save(&path).expect("saved");
        let again = Record::load(&path, 10).expect("read");
        assert!(again.has(1, "e", "s") && !again.has(0, "e", "s"));
        assert!((again.runs[0].figures[0].per_second() - 2.0).abs() < 1e-9);
        assert!(Record::load(&path, 11).is_err(), "another number of rows");
    }

    #[test]
    fn a_record_of_something_else_is_not_continued() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("record.json");
        let here = Record::load(&path, 10).expect("a new record");
        let refused = |record: &Record, what: &str| {
            record.save(&path).expect("saved");
            let error = Record::load(&path, 10).map(|_| ()).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        };
        let mut other = here.clone();
        other.versions.insert("esker".to_owned(), "0.0.1".to_owned());
        refused(&other, "versions");
        let mut other = here.clone();
        other.machine.push_str(" of another name");
        refused(&other, "machine");
        let mut other = here.clone();
        other.build.insert("commit".to_owned(), "another".to_owned());
        refused(&other, "commit another");
        other.build.clear();
        refused(&other, "not told");
        here.save(&path).expect("saved");
        Record::load(&path, 10).expect("the same again");
    }

    #[test]
    fn a_record_that_does_not_tell_its_build_is_read() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("record.json");
        let text = r#"{"rows":10,"machine":"m","versions":{},"runs":[
            {"round":0,"engine":"e","sequence":"s","figures":[]}]}"#;
        fs::write(&path, text).expect("written");
        let record = Record::read(&path).expect("read");
        assert!(record.has(0, "e", "s") && record.build.is_empty());
    }

    #[test]
    fn every_engine_has_a_version() {
        assert_eq!(versions().len(), 6, "{:?}", versions());
    }
}
