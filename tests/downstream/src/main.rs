//! The public face, used as its documentation says, in a database that is gone afterwards.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use esker::{Database, Durability, KeyspaceOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Temporary(std::env::temp_dir().join(format!("esker-downstream-{}", std::process::id())));
    write(&dir.0)?;
    reopen(&dir.0)?;
    println!("ok");
    Ok(())
}

/// Every way to write and read, in a fresh database.
fn write(path: &Path) -> esker::Result<()> {
    let db = Database::builder(path).cache_bytes(1 << 20).durability(Durability::Sync).open()?;
    let users = db.keyspace("users", KeyspaceOptions::default())?;
    let visits = db.keyspace("visits", KeyspaceOptions::default())?;

    users.put(b"anna", b"Graz")?;
    users.put(b"boris", b"Riga")?;
    assert_eq!(users.get(b"anna")?.as_deref(), Some(&b"Graz"[..]));
    assert_eq!(users.get(b"clara")?, None);
    assert!(users.contains(b"boris")?);
    users.delete(b"boris")?;
    assert!(!users.contains(b"boris")?);

    let before = db.snapshot();
    let mut batch = db.batch();
    batch.put(&users, b"clara", b"Oslo")?;
    batch.put(&visits, b"clara/1", b"Rome")?;
    batch.delete(&users, b"anna")?;
    batch.commit()?;
    assert_eq!(users.at(&before)?.get(b"anna")?.as_deref(), Some(&b"Graz"[..]), "a snapshot stands still");
    assert_eq!(users.get(b"anna")?, None);

    db.transact(|tx| {
        let city = tx.get(&users, b"clara")?.expect("the batch wrote it");
        tx.put(&visits, b"clara/2", &city)?;
        Ok(())
    })?;
    db.persist()
}

/// What was written is there after a close, in order both ways.
fn reopen(path: &Path) -> esker::Result<()> {
    let db = Database::open(path)?;
    let visits = db.keyspace("visits", KeyspaceOptions::default())?;
    let rows =
        visits.range(b"clara/".as_slice()..b"clara0".as_slice()).collect::<esker::Result<Vec<_>>>()?;
    let keys: Vec<&[u8]> = rows.iter().map(|(key, _)| key.as_ref()).collect();
    assert_eq!(keys, [b"clara/1", b"clara/2"]);
    let (last, _) = visits.prefix(b"clara/").next_back().expect("two rows")?;
    assert_eq!(last.as_ref(), b"clara/2");
    visits.delete_prefix(b"clara/")?;
    assert_eq!(visits.iter().count(), 0);
    db.verify()?;
    Ok(())
}

/// A directory that goes when the run ends, however it ends.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A directory that was never made need not be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
