//! `put` and `delete`.

use esker::{Database, Error, Keyspace, KeyspaceOptions, OpCost};

use super::{close, key, keyspace, open_to_write, show_cost};
use crate::args::db::DbArgs;
use crate::exit::Exit;
use crate::failure::Failure;

pub(super) fn put(args: &DbArgs, given: &str, value: &str, create: bool) -> Result<Exit, Failure> {
    let key = key(args, given)?;
    let value = args.value_format.read(value)?;
    if create {
        super::manage::check_name(&args.keyspace)?;
    }
    let db = open_to_write(&args.dir)?;
    let mut cost = OpCost::default();
    to_write(&db, args, create)?.put_costed(&key, &value, &mut cost)?;
    show_cost(args, &cost);
    close(db)
}

pub(super) fn delete(args: &DbArgs, given: &str) -> Result<Exit, Failure> {
    let key = key(args, given)?;
    let db = open_to_write(&args.dir)?;
    let mut cost = OpCost::default();
    keyspace(&db, args)?.delete_costed(&key, &mut cost)?;
    show_cost(args, &cost);
    close(db)
}

/// The keyspace, created if there is none and that was asked for.
fn to_write(db: &Database, args: &DbArgs, create: bool) -> Result<Keyspace, Failure> {
    match db.existing_keyspace(&args.keyspace) {
        Err(Error::NoSuchKeyspace { .. }) if create => {
            Ok(db.keyspace(&args.keyspace, KeyspaceOptions::default())?)
        }
        Err(error @ Error::NoSuchKeyspace { .. }) => {
            Err(Failure::from(error).hint("with --create, put creates it"))
        }
        other => Ok(other?),
    }
}
