//! The stored schema of a table, and rows of other versions.

use super::{FIELDS_MAX, LAYOUT, Row, RowMode, SCHEMA};
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
    read.get(at)?.map(|stored| decode_schema(at, &stored)).transpose()
}

fn decode_schema(at: &[u8], stored: &[u8]) -> Result<Schema> {
    let decode = || {
        let mut fields = Fields::new(stored);
        let (mode, version, fields_max) = (fields.field()?, fields.field()?, fields.field()?);
        let mut names = Vec::new();
        while !fields.at_end() {
            names.push(fields.field()?);
        }
        // No table was ever opened with more, and the most is not less than there are now.
        if !(names.len() as u64..=FIELDS_MAX as u64).contains(&fields_max) {
            return Err(KeyError {
                at: 0,
                kind: KeyErrorKind::IntegerRange("the fields that a row may have"),
            });
        }
        Ok(Schema { mode, version, fields_max, fields: names })
    };
    decode().map_err(|error: KeyError| Error::foreign(LAYOUT, at, error))
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

/// The schema that a table had when it was opened.
pub(super) struct Known {
    at: Vec<u8>,
    record: Vec<u8>,
    fields_max: u64,
}

/// Write the schema of `R` where there is none or an older one.
pub(super) fn register<R: Row>(tx: &mut impl KvTx, space: &Space, mode: RowMode) -> Result<Known> {
    if R::FIELDS.len() > FIELDS_MAX {
        let why = format!("a row has at most {FIELDS_MAX} fields; put some of them together into tuples");
        return Err(Error::bad_input("number of fields", &R::FIELDS.len().to_string(), why));
    }
    let at = space.key(&(SCHEMA,));
    let stored = load(tx, &at)?;
    if stored.as_ref().is_some_and(|stored| stored.mode != mode.number()) {
        let why = "the table was made with the other mode, in which its rows lie; open it with that";
        return Err(Error::bad_input("row mode", &format!("{mode:?}"), why));
    }
    let is_older = stored.as_ref().map_or(Ok(true), |stored| compare::<R>(&at, stored))?;
    let fields_max = stored.map_or(0, |stored| stored.fields_max).max(R::FIELDS.len() as u64);
    let mut record = pack(&(mode.number(), R::VERSION, fields_max));
    record.extend_from_slice(&pack(R::FIELDS));
    if is_older {
        tx.put(&at, &record);
    }
    Ok(Known { at, record, fields_max })
}

impl Known {
    /// Err unless the table is one of `R` now; the most fields that its rows ever had.
    pub(super) fn check<R: Row>(&self, tx: &mut impl KvTx) -> Result<u64> {
        let at = self.at.as_slice();
        let stored = tx.get(at)?;
        if stored.as_deref() == Some(self.record.as_slice()) {
            return Ok(self.fields_max);
        }
        match stored.map(|stored| decode_schema(at, &stored)).transpose()? {
            Some(stored) if compare::<R>(at, &stored)? => {
                let why = "the table went back to an older version; open it anew";
                Err(Error::schema(at, stored.version, R::VERSION, why))
            }
            Some(stored) => Ok(stored.fields_max),
            None => Err(Error::schema(at, 0, R::VERSION, "the table is gone; open it anew")),
        }
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
