//! Many rows, written by a real process that is killed; every row is read again.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;

use esker::{Database, DatabaseOptions, KeyspaceOptions};

use crate::driver::Violation;
use crate::kill::{kill, start};

/// Rows in a batch.
pub const BATCH: u64 = 500;
/// Odd, so that multiplying by it permutes the numbers of 64 bits: rows come in no order.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

fn key(row: u64) -> [u8; 8] {
    row.wrapping_mul(SCATTER).to_be_bytes()
}

/// The row that has the key `key`.
fn row_of(key: [u8; 8]) -> u64 {
    // Newton's iteration for the inverse: each step doubles the number of right bits.
    let inverse = (0..6).fold(SCATTER, |inverse: u64, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(SCATTER.wrapping_mul(inverse)))
    });
    u64::from_be_bytes(key).wrapping_mul(inverse)
}

fn value(row: u64) -> Vec<u8> {
    let mut value = esker_base::checksum::key_hash(&row.to_le_bytes()).to_le_bytes().to_vec();
    value.resize(8 + usize::try_from(row % 93).unwrap_or(0), row.to_le_bytes()[0]);
    value
}

fn options(rows: u64) -> DatabaseOptions {
    // Small enough that a few hundred thousand rows are flushed and compacted many times.
    let memtable = if rows < 1_000_000 { 1 << 20 } else { 64 << 20 };
    DatabaseOptions {
        memtable_bytes_max: memtable,
        level_base_bytes: Some(memtable),
        table_bytes: memtable / 2,
        ..DatabaseOptions::default()
    }
}

/// What the child does: put `rows` rows in batches, a line after each batch, then wait for the kill.
pub fn work(dir: &Path, rows: u64) -> Result<(), Violation> {
    let db = Database::builder(dir).options(options(rows)).open().map_err(|e| e.to_string())?;
    let map = db.keyspace("rows", KeyspaceOptions::default()).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout().lock();
    for first in (0..rows).step_by(usize::try_from(BATCH).expect("small")) {
        let mut batch = db.batch();
        for row in first..(first + BATCH).min(rows) {
            batch.put(&map, key(row), value(row)).map_err(|e| e.to_string())?;
        }
        batch.commit().map_err(|e| e.to_string())?;
        writeln!(out, "ok").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    }
    std::io::stdin().read_line(&mut String::new()).map(drop).map_err(|e| e.to_string())
}

/// Let a child of `exe` write `rows` rows into `dir`, kill it after the last was acknowledged and while
/// compactions run, and read all of them. The rows read.
pub fn write_kill_verify(exe: &Path, dir: &Path, rows: u64) -> Result<u64, Violation> {
    let arguments = ["rows-child", "--count", &rows.to_string(), "--dir", &dir.display().to_string()];
    let mut child = start(exe, &arguments.map(str::to_owned))?;
    let out = child.stdout.take().ok_or("the child has no output")?;
    let batches = usize::try_from(rows.div_ceil(BATCH)).expect("fits");
    let acknowledged = BufReader::new(out).lines().map_while(Result::ok).take(batches).count();
    kill(&mut child, false)?;
    if acknowledged < batches {
        return Err(format!("the child wrote {acknowledged} of {batches} batches"));
    }
    let db = Database::builder(dir).options(options(rows)).open().map_err(|e| format!("open: {e}"))?;
    let map = db.existing_keyspace("rows").map_err(|e| e.to_string())?;
    let mut count = 0;
    for read in &map {
        let (key, found) = read.map_err(|e| format!("scan: {e}"))?;
        let key: [u8; 8] = (*key).try_into().map_err(|_| "a key that was never written")?;
        let row = row_of(key);
        if row >= rows || *found != value(row) {
            return Err(format!("row {row} has {} bytes that were never written", found.len()));
        }
        count += 1;
    }
    if count != rows {
        return Err(format!("{count} of {rows} rows are there"));
    }
    for row in (0..rows).step_by(usize::try_from(rows / 1000 + 1).expect("fits")) {
        let found = map.get(key(row)).map_err(|e| format!("get: {e}"))?;
        if found.as_deref() != Some(&value(row)[..]) {
            return Err(format!("get does not find row {row}, a scan does"));
        }
    }
    db.verify().map_err(|e| format!("verify: {e}"))?;
    db.close().map_err(|e| format!("close: {e}"))?;
    Ok(count)
}
