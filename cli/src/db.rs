//! Running `esker db`: open as little as the action needs, act, print.
//!
//! 1. What was given on the command line is understood before anything is opened: a mistake in it
//!    changes nothing.
//! 2. Actions that only read open read-only: nothing is created, and a database that is open
//!    elsewhere is told as such.
//! 3. Actions that write never create the database that they work on, but for `create-keyspace`; they
//!    return when what they wrote is durable and the database is closed.

mod change;
mod manage;
mod read;
mod salvage;
mod stats;

use std::path::Path;
use std::sync::Arc;

use esker::{Database, DatabaseBuilder, Durability, Error, Keyspace, OpCost};
use esker_layouts::kv::MergeOps;

use crate::args::db::{DbAction, DbArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Out, note};

/// Do what `args` say.
pub(crate) fn run(args: &DbArgs, out: Out<'_>) -> Result<Exit, Failure> {
    match &args.action {
        DbAction::Get { key } => read::get(args, key, out),
        DbAction::Put { key, value, create } => change::put(args, key, value, *create),
        DbAction::Delete { key } => change::delete(args, key),
        DbAction::Scan { .. } => read::scan(args, out),
        DbAction::Stats { json } => stats::stats(args, *json, out),
        DbAction::Verify { json } => manage::verify(args, *json, out),
        DbAction::Checkpoint { into } => manage::checkpoint(args, into),
        DbAction::Salvage { into, json } => salvage::salvage(args, into, *json, out),
        DbAction::Compact { start, end } => manage::compact(args, start.as_deref(), end.as_deref(), out),
        DbAction::Keyspaces { json } => manage::keyspaces(args, *json, out),
        DbAction::CreateKeyspace(new) => manage::create_keyspace(args, new),
        DbAction::DropKeyspace { name } => manage::drop_keyspace(args, name),
    }
}

/// How every action opens: a database knows its merge operators by name only, and those of the layouts are no
/// part of the engine.
fn builder(dir: &Path) -> DatabaseBuilder {
    Database::builder(dir).merge_operator(Arc::new(MergeOps))
}

fn open_to_read(dir: &Path) -> Result<Database, Failure> {
    Ok(builder(dir).read_only(true).open()?)
}

fn open_to_write(dir: &Path) -> Result<Database, Failure> {
    durably(dir, builder(dir).create_if_missing(false))
}

/// Open `dir` for writing by `builder`.
fn durably(dir: &Path, builder: DatabaseBuilder) -> Result<Database, Failure> {
    builder.durability(Durability::Sync).open().map_err(|error| {
        let unknown = match error {
            Error::InvalidArgument { .. } => unknown_operator(dir),
            _ => None,
        };
        let failure = Failure::from(error);
        match unknown {
            Some((keyspace, operator)) => failure.hint(format_args!(
                "{operator:?}, of keyspace {keyspace:?}, is a program's own merge operator: here the database's other \
                 keyspaces can be read, and nothing can be written"
            )),
            None => failure,
        }
    })
}

/// A keyspace with a merge operator that is not known here, and that operator.
fn unknown_operator(dir: &Path) -> Option<(String, String)> {
    let db = builder(dir).read_only(true).open().ok()?;
    db.keyspaces().into_iter().find_map(|name| match db.existing_keyspace(&name) {
        Err(Error::InvalidArgument { .. }) => {
            let operator = db.keyspace_options(&name).ok()?.merge_operator?;
            Some((name, operator))
        }
        _ => None,
    })
}

/// Close `db`, which the caller holds the last handles of. Writes count only if that went well.
fn close(db: Database) -> Result<Exit, Failure> {
    db.close()?;
    Ok(Exit::Done)
}

fn keyspace(db: &Database, args: &DbArgs) -> Result<Keyspace, Failure> {
    db.existing_keyspace(&args.keyspace).map_err(|error| match error {
        Error::InvalidArgument { .. } => Failure::from(error).hint(
            "it is a program's own: here the keyspace cannot be read, the database's others without such an operator can",
        ),
        other => other.into(),
    })
}

/// The key that `given` stands for, short enough for the engine.
fn key(args: &DbArgs, given: &str) -> Result<Vec<u8>, Failure> {
    let key = args.key_format.parse(given)?;
    esker::limits::check_key(&key)?;
    Ok(key)
}

fn optional_key(args: &DbArgs, given: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    given.map(|given| key(args, given)).transpose()
}

/// Show what a call cost, if that was asked for.
fn show_cost(args: &DbArgs, cost: &OpCost) {
    if args.cost {
        for (name, count) in cost.counters().into_iter().filter(|(_, count)| *count > 0) {
            note!("{count:>12} {}", name.replace('_', " "));
        }
    }
}
