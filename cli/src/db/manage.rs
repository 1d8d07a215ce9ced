//! What concerns a database as a whole: its keyspaces, its health, its compaction.
#![expect(clippy::disallowed_methods, reason = "a directory is looked at before a database is made in it")]

use std::ops::Bound;
use std::path::Path;

use esker::{DatabaseMetrics, Error, KeyspaceOptions, limits};
use serde::Serialize;

use super::{builder, close, durably, keyspace, open_to_read, open_to_write, optional_key};
use crate::args::db::{DbArgs, NewKeyspace};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Out, say};

pub(super) fn keyspaces(args: &DbArgs, json: bool, out: Out<'_>) -> Result<Exit, Failure> {
    let names = open_to_read(&args.dir)?.keyspaces();
    if json {
        output::json(out, &names)?;
        return Ok(Exit::Done);
    }
    for name in names {
        say!(out, "{}", crate::keys::text::show(name.as_bytes()))?;
    }
    Ok(Exit::Done)
}

pub(super) fn create_keyspace(args: &DbArgs, new: &NewKeyspace) -> Result<Exit, Failure> {
    check_name(&new.name)?;
    let options = KeyspaceOptions {
        block_bytes: new.block_bytes,
        filter_bits_per_key: new.filter_bits,
        compression: vec![new.compression.into()],
        merge_operator: new.merge_operator.clone(),
        blob_bytes_min: new.blob_bytes_min,
    };
    check_target(&args.dir)?;
    let db = durably(&args.dir, builder(&args.dir))?;
    db.keyspace(&new.name, options)?;
    close(db)
}

/// Refuse a keyspace name before anything is opened or created.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::usage("a keyspace's name must not be empty"));
    }
    Ok(limits::check("keyspace name", name.len(), limits::KEYSPACE_NAME_BYTES_MAX)?)
}

/// A database is made in a directory of its own, not among somebody's files: it must be new, empty, or
/// hold a database (or the lock file of one whose making was cut short).
fn check_target(dir: &Path) -> Result<(), Failure> {
    let Ok(mut names) = std::fs::read_dir(dir) else {
        // Not there, or for the engine to say why not.
        return Ok(());
    };
    let ours = ["CURRENT", "LOCK"].iter().any(|name| dir.join(name).symlink_metadata().is_ok());
    if ours || names.next().is_none() {
        return Ok(());
    }
    let what =
        format!("{} is not empty and holds no database; name a new or an empty directory", dir.display());
    Err(Failure::new(Exit::Failed, what))
}

pub(super) fn drop_keyspace(args: &DbArgs, name: &str) -> Result<Exit, Failure> {
    let db = open_to_write(&args.dir)?;
    db.drop_keyspace(name)?;
    close(db)
}

/// The copy is flushed tables and nothing else, so the database is opened for writing.
pub(super) fn checkpoint(args: &DbArgs, into: &Path) -> Result<Exit, Failure> {
    // The engine refuses too, but once it is open, and an open writes.
    if into.symlink_metadata().is_ok() {
        let what =
            format!("cannot make a checkpoint in {}: it exists; name a new directory", into.display());
        return Err(Failure::usage(what));
    }
    let db = open_to_write(&args.dir)?;
    db.checkpoint(into)?;
    close(db)
}

pub(super) fn compact(
    args: &DbArgs,
    start: Option<&str>,
    end: Option<&str>,
    out: Out<'_>,
) -> Result<Exit, Failure> {
    let (start, end) = (optional_key(args, start)?, optional_key(args, end)?);
    let db = open_to_write(&args.dir)?;
    let keyspace = keyspace(&db, args)?;
    db.flush()?;
    let before = tables_of(&db.metrics(), &args.keyspace);
    keyspace.compact_range::<Vec<u8>>((
        start.map_or(Bound::Unbounded, Bound::Included),
        end.map_or(Bound::Unbounded, Bound::Excluded),
    ))?;
    let after = tables_of(&db.metrics(), &args.keyspace);
    drop(keyspace);
    let exit = close(db)?;
    say!(out, "keyspace {:?}: before {before}; after {after}", args.keyspace)?;
    Ok(exit)
}

/// `3 tables, 12.3 MiB`.
fn tables_of(metrics: &DatabaseMetrics, name: &str) -> String {
    let levels = metrics.keyspaces.iter().filter(|keyspace| keyspace.name == name).flat_map(|k| &k.levels);
    let (tables, bytes) = levels.fold((0, 0), |sum, level| (sum.0 + level.tables, sum.1 + level.bytes));
    format!("{}, {}", output::counted(tables, "table"), output::bytes(bytes))
}

/// What `verify --json` says.
#[derive(Serialize, Default)]
struct Report {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Opening has read the manifest and the logs; the engine reads the tables.
pub(super) fn verify(args: &DbArgs, json: bool, out: Out<'_>) -> Result<Exit, Failure> {
    let opened = builder(&args.dir).read_only(true).open();
    let verified = match opened.and_then(|db| db.verify()) {
        Ok(verified) => verified,
        Err(error) => {
            if json {
                // What was found is told by the exit code too, also where nobody reads the report.
                let _ = output::json(out, &damage(&error));
            }
            return Err(error.into());
        }
    };
    if json {
        let report = Report {
            ok: true,
            tables: Some(verified.tables),
            entries: Some(verified.entries),
            blobs: Some(verified.blobs),
            log_records: Some(verified.log_records),
            bytes: Some(verified.bytes),
            ..Report::default()
        };
        output::json(out, &report)?;
        return Ok(Exit::Done);
    }
    say!(
        out,
        "ok: manifest, {}, {} with {}, {}, {}",
        output::counted(verified.log_records, "log record"),
        output::counted(verified.tables, "table"),
        output::counted(verified.entries, "entry"),
        output::counted(verified.blobs, "blob file"),
        output::bytes(verified.bytes)
    )?;
    Ok(Exit::Done)
}

fn damage(error: &Error) -> Report {
    let (file, offset) = match error {
        Error::Corruption { path, offset, .. } => (Some(path), Some(*offset)),
        Error::MissingFile { path, .. } => (Some(path), None),
        _ => (None, None),
    };
    let file = file.map(|path| path.display().to_string());
    Report { file, offset, error: Some(error.to_string()), ..Report::default() }
}
