//! Everything a database shows, and whether its ways of reading agree.

use esker::{Database, Error, Keyspace};

use crate::driver::Violation;
use crate::oracle::{Contents, Rows};

/// All rows of all keyspaces by scan, forward; the scan in reverse must agree.
pub fn dump(db: &Database) -> Result<Contents, Violation> {
    let mut contents = Contents::new();
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).map_err(|e| format!("keyspace {name}: {e}"))?;
        contents.insert(name.clone(), rows(&keyspace)?);
    }
    Ok(contents)
}

/// All rows of one keyspace, read both ways.
pub fn rows(keyspace: &Keyspace) -> Result<Rows, Violation> {
    let name = keyspace.name();
    let told = |e: &Error| format!("scan of {name}: {e}");
    let mut rows = Rows::new();
    let mut order: Vec<Vec<u8>> = Vec::new();
    for row in keyspace {
        let (key, value) = row.map_err(|e| told(&e))?;
        if order.last().is_some_and(|last| last.as_slice() >= &*key) {
            return Err(format!("a scan of {name} yields {:?} out of order", printable(&key)));
        }
        order.push(key.to_vec());
        rows.insert(key.to_vec(), value.to_vec());
    }
    let mut expected = rows.iter().rev();
    for row in keyspace.iter().rev() {
        let (key, value) = row.map_err(|e| told(&e))?;
        if expected.next() != Some((&key.to_vec(), &value.to_vec())) {
            return Err(format!("a reverse scan of {name} differs at {:?}", printable(&key)));
        }
    }
    match expected.next() {
        None => Ok(rows),
        Some((key, _)) => Err(format!("a reverse scan of {name} ends before {:?}", printable(key))),
    }
}

/// Gets of `keys` must find what `expected` holds.
pub fn compare_gets<K: AsRef<[u8]>>(
    keyspace: &Keyspace,
    keys: &[K],
    expected: &Rows,
) -> Result<(), Violation> {
    for key in keys {
        let key = key.as_ref();
        let got = keyspace.get(key).map_err(|e| format!("get {:?}: {e}", printable(key)))?;
        if got.as_deref() != expected.get(key).map(Vec::as_slice) {
            return Err(format!(
                "get of {:?} in {} finds {}, not {}",
                printable(key),
                keyspace.name(),
                value_text(got.as_deref()),
                value_text(expected.get(key).map(Vec::as_slice)),
            ));
        }
    }
    Ok(())
}

/// A scan must yield what `expected` holds.
pub fn compare_scan(keyspace: &Keyspace, expected: &Rows) -> Result<(), Violation> {
    let found = rows(keyspace)?;
    if found == *expected {
        return Ok(());
    }
    let one = |rows: &Rows| Contents::from([(keyspace.name().to_owned(), rows.clone())]);
    Err(format!("a scan: {}", difference(&one(&found), &one(expected))))
}

/// The first differences between two contents, for messages.
pub fn difference(found: &Contents, expected: &Contents) -> String {
    let mut lines = Vec::new();
    let names: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    for name in names {
        let (Some(found), Some(expected)) = (found.get(name), expected.get(name)) else {
            let there = if found.contains_key(name) { "is there" } else { "is gone" };
            lines.push(format!("keyspace {name} {there}"));
            continue;
        };
        let keys: std::collections::BTreeSet<&Vec<u8>> = found.keys().chain(expected.keys()).collect();
        for key in keys.into_iter().filter(|key| found.get(*key) != expected.get(*key)) {
            lines.push(format!(
                "{name} {:?}: {}, not {}",
                printable(key),
                value_text(found.get(key).map(Vec::as_slice)),
                value_text(expected.get(key).map(Vec::as_slice))
            ));
        }
    }
    let more = lines.len().saturating_sub(6);
    lines.truncate(6);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    if lines.is_empty() { "equal".to_owned() } else { lines.join("; ") }
}

fn value_text(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let head: Vec<u8> = value.iter().copied().take(6).collect();
            format!("{} bytes {head:02x?}", value.len())
        }
    }
}

fn printable(key: &[u8]) -> String {
    esker_base::error::printable(key)
}
