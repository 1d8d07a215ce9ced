//! Reads that may err, and must not lie.

use esker::{Database, Error, Keyspace, Reader};

use super::{Survivor, Told};
use crate::driver::Violation;
use crate::dump::difference;
use crate::ops::{FIXED, Name};
use crate::oracle::{Contents, Model, Rows};

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

/// The rows of a scan, up to its first error if it has one, which is the end of it.
fn collect(
    mut scan: impl Iterator<Item = Result<Row, Error>>,
) -> Result<(Vec<Row>, Option<Error>), Violation> {
    let mut rows = Vec::new();
    while let Some(row) = scan.next() {
        match row {
            Ok(row) => rows.push(row),
            Err(error) => {
                return match scan.next() {
                    None => Ok((rows, Some(error))),
                    Some(_) => Err(format!("a scan goes on after an error: {error}")),
                };
            }
        }
    }
    Ok((rows, None))
}

fn owned<K: AsRef<[u8]>, V: AsRef<[u8]>>(row: Result<(K, V), Error>) -> Result<Row, Error> {
    row.map(|(key, value)| (key.as_ref().to_vec(), value.as_ref().to_vec()))
}

/// All rows of `keyspace`, read both ways.
fn rows(keyspace: &Keyspace) -> Told<Rows> {
    let (forward, error) = collect(keyspace.iter().map(owned))?;
    if let Some(error) = error {
        return Ok(Err(error));
    }
    let (mut backward, error) = collect(keyspace.iter().rev().map(owned))?;
    if let Some(error) = error {
        return Ok(Err(error));
    }
    backward.reverse();
    if forward != backward {
        return Err(format!("a reverse scan of {} differs", keyspace.name()));
    }
    Ok(Ok(forward.into_iter().collect()))
}

/// Everything that `db` shows.
pub fn everything(db: &Database) -> Told<Contents> {
    let mut contents = Contents::new();
    for name in db.keyspaces() {
        let read = db.existing_keyspace(&name).map(|keyspace| rows(&keyspace));
        match read {
            Ok(read) => match read? {
                Ok(rows) => drop(contents.insert(name, rows)),
                Err(error) => return Ok(Err(error)),
            },
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(contents))
}

impl Survivor<'_> {
    pub(super) fn read_keys(&mut self, name: Name, keys: &[Vec<u8>]) -> Result<(), Violation> {
        let Some(open) = &self.open else { return Ok(()) };
        for key in keys {
            match open.keyspaces[name].get(key) {
                Ok(got) => {
                    let may =
                        |model: &Model| model.rows(name).get(key).map(Vec::as_slice) == got.as_deref();
                    if !self.candidates().iter().any(may) {
                        return Err(format!(
                            "a get of {key:?} in {name} finds what it should not: {got:?}"
                        ));
                    }
                }
                Err(error) => {
                    self.counts.unread += 1;
                    self.excused_read(&error)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn read_rows(&mut self, name: Name) -> Result<(), Violation> {
        let Some(open) = &self.open else { return Ok(()) };
        let keyspace = open.keyspaces[name].clone();
        let candidates = self.candidates();
        for backward in [false, true] {
            let scan = keyspace.iter();
            let (rows, error) =
                if backward { collect(scan.rev().map(owned))? } else { collect(scan.map(owned))? };
            let begins = |model: &Model| {
                let (all, whole) = (model.rows(name), error.is_none());
                let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                let same = if backward {
                    all.iter().rev().take(rows.len()).map(pair).eq(rows.iter().cloned())
                } else {
                    all.iter().take(rows.len()).map(pair).eq(rows.iter().cloned())
                };
                same && (!whole || all.len() == rows.len())
            };
            if !candidates.iter().any(begins) {
                let one = |rows: Rows| Contents::from([(name.to_owned(), rows)]);
                let found = one(rows.into_iter().collect());
                let expected = one(self.model.rows(name).clone());
                let how =
                    error.map_or("a scan".to_owned(), |error| format!("a scan that ends with {error}"));
                return Err(format!("{how}: {}", difference(&found, &expected)));
            }
            if let Some(error) = error {
                self.counts.unread += 1;
                self.excused_read(&error)?;
            }
        }
        Ok(())
    }

    pub(super) fn read_snapshot(&mut self) -> Result<(), Violation> {
        let (Some(open), Some((snapshot, models))) = (&self.open, self.snapshot.take()) else {
            return Ok(());
        };
        let mut errors = Vec::new();
        for name in FIXED {
            let Some(keyspace) = open.keyspaces.get(name) else { continue };
            let reader: Reader = keyspace.at(&snapshot).map_err(|e| e.to_string())?;
            let (rows, error) = collect(reader.range::<&[u8]>(..).map(owned))?;
            let shows = |model: &Model| {
                let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
                model.rows(name).iter().take(rows.len()).map(pair).eq(rows.iter().cloned())
                    && (error.is_some() || model.rows(name).len() == rows.len())
            };
            if !models.iter().any(shows) {
                return Err(format!("the snapshot shows {name} otherwise than it was"));
            }
            errors.extend(error);
        }
        for error in errors {
            self.counts.unread += 1;
            self.excused_read(&error)?;
        }
        Ok(())
    }

    /// Reads go on when writes have stopped: only trouble excuses their errors.
    fn excused_read(&self, error: &Error) -> Result<(), Violation> {
        if self.trouble == super::Trouble::None {
            return Err(format!("a read fails while nothing is wrong: {error}"));
        }
        self.excused("a read", error)
    }
}
