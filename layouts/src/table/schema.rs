//! The stored schema of a table, and rows of other versions.

use super::{LAYOUT, Row, RowMode, SCHEMA};
use crate::kv::{KvRead, KvTx};
use crate::tuple::{Element, Fields, KeyError, KeyErrorKind, Space, pack, unpack};
use crate::{Error, Result};

/// What is stored about the rows of a table.
struct Schema {
    mode: u64,
    version: u64,
    /// The most fields that any version had: cells may lie in so many places.
    fields_max: u64,
    fields: Vec<String>,
}

impl RowMode {
    fn number(self) -> u64 {
        match self {
            RowMode::Packed => 0,
            RowMode::Cells => 1,
        }
    }
}

fn load(read: &impl KvRead, at: &[u8]) -> Result<Option<Schema>> {
    let Some(stored) = read.get(at)? else { return Ok(None) };
    let decode = || {
        let mut fields = Fields::new(&stored);
        let (mode, version, fields_max) = (fields.field()?, fields.field()?, fields.field()?);
        let mut names = Vec::new();
        while !fields.at_end() {
            names.push(fields.field()?);
        }
        Ok(Schema { mode, version, fields_max, fields: names })
    };
    decode().map(Some).map_err(|error: KeyError| Error::foreign(LAYOUT, at, error))
}

/// Err if `stored` is not for rows `R`; whether it is an older version's.
fn compare<R: Row>(at: &[u8], stored: &Schema) -> Result<bool> {
    let refuse = |why| Err(Error::schema(at, stored.version, R::VERSION, why));
    if stored.version > R::VERSION {
        return refuse("a newer program has written there; use that");
    }
    if stored.version == R::VERSION && stored.fields != R::FIELDS {
        return refuse("the fields are others under the same version; count the version up");
    }
    Ok(stored.version < R::VERSION)
}

/// Write the schema of `R` where there is none or an older one.
pub(super) fn register<R: Row>(tx: &mut impl KvTx, space: &Space, mode: RowMode) -> Result<()> {
    let at = space.key(&(SCHEMA,));
    let stored = load(tx, &at)?;
    if stored.as_ref().is_some_and(|stored| stored.mode != mode.number()) {
        let why = "the table was made with the other mode, in which its rows lie; open it with that";
        return Err(Error::bad_input("row mode", &format!("{mode:?}"), why));
    }
    if stored.as_ref().map_or(Ok(true), |stored| compare::<R>(&at, stored))? {
        let fields_max = stored.map_or(0, |stored| stored.fields_max).max(R::FIELDS.len() as u64);
        let mut record = pack(&(mode.number(), R::VERSION, fields_max));
        record.extend_from_slice(&pack(R::FIELDS));
        tx.put(&at, &record);
    }
    Ok(())
}

/// Err unless the table is one of `R` now; the most fields that its rows ever had.
pub(super) fn check<R: Row>(tx: &mut impl KvTx, space: &Space) -> Result<u64> {
    let at = space.key(&(SCHEMA,));
    match load(tx, &at)? {
        Some(stored) if compare::<R>(&at, &stored)? => {
            let why = "the table went back to an older version; open it anew";
            Err(Error::schema(&at, stored.version, R::VERSION, why))
        }
        Some(stored) => Ok(stored.fields_max),
        None => Err(Error::schema(&at, 0, R::VERSION, "the table is gone; open it anew")),
    }
}

/// The row stored at `at` under `version` with the encoded `fields`.
pub(super) fn decode<R: Row>(at: &[u8], version: u64, fields: &[u8]) -> Result<R> {
    let foreign = |error: KeyError| Error::foreign(LAYOUT, at, error);
    if version == R::VERSION {
        return unpack(fields).map_err(foreign);
    }
    let elements = Element::unpack_all(fields).map_err(foreign)?;
    let upgraded = if version < R::VERSION { R::upgrade(version, &elements) } else { None };
    let why = if version < R::VERSION {
        "this program has no upgrade from that version"
    } else {
        "a newer program has written there; use that"
    };
    upgraded.ok_or_else(|| Error::schema(at, version, R::VERSION, why))
}

/// The version at the beginning of a packed row or in a row's first cell, and the rest.
pub(super) fn open<'v>(at: &[u8], value: &'v [u8]) -> Result<(u64, &'v [u8])> {
    let mut fields = Fields::new(value);
    let version = fields.field().map_err(|error| Error::foreign(LAYOUT, at, error))?;
    Ok((version, value.get(fields.position()..).unwrap_or_default()))
}

/// There is a part of a row missing at `at`.
pub(super) fn incomplete(at: &[u8]) -> Error {
    Error::foreign(LAYOUT, at, KeyError { at: at.len(), kind: KeyErrorKind::Truncated })
}
