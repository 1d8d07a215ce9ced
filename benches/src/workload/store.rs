//! What a worker drives: the engine, or a store that only knows the right answers.

use std::hint::black_box;

use esker::{Database, Keyspace, OpCost, Result, RowCursor};

use super::keys::{Key, increment, key};
use super::values::Values;
use super::worker::is_looked_at;

/// One thread's way into a store.
pub(super) trait Session {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()>;
    fn put_batch(&mut self, rows: &[(Key, &[u8])]) -> Result<()>;
    fn delete(&mut self, key: &Key) -> Result<()>;
    fn delete_batch(&mut self, keys: &[Key]) -> Result<()>;
    /// `check` on the value of `key`, that of row `row`, if there is one.
    fn get(&mut self, row: u64, key: &Key, check: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>>;
    /// Stand on the first row at or after `key`, that of row `row`; whether there is one.
    fn seek(&mut self, row: u64, key: &Key) -> Result<bool>;
    /// Go on to the next row; whether there is one.
    fn next(&mut self) -> Result<bool>;
    /// The row stood on.
    fn row(&self) -> (&[u8], &[u8]);
    /// What seeks and steps have cost.
    fn cost(&mut self) -> OpCost;
}

/// The engine.
pub(super) struct EngineSession {
    db: Database,
    keyspace: Keyspace,
    /// Made by the first seek; sees the database of that moment.
    cursor: Option<RowCursor>,
}

impl EngineSession {
    pub(super) fn new(db: &Database, keyspace: &Keyspace) -> Self {
        EngineSession { db: db.clone(), keyspace: keyspace.clone(), cursor: None }
    }
}

impl Session for EngineSession {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.keyspace.put(key, value)
    }

    fn put_batch(&mut self, rows: &[(Key, &[u8])]) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in rows {
            batch.put(&self.keyspace, key, value)?;
        }
        batch.commit()
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.keyspace.delete(key)
    }

    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        let mut batch = self.db.batch();
        for key in keys {
            batch.delete(&self.keyspace, key)?;
        }
        batch.commit()
    }

    fn get(&mut self, _row: u64, key: &Key, check: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        self.keyspace.get_with(key, check)
    }

    fn seek(&mut self, _row: u64, key: &Key) -> Result<bool> {
        match &mut self.cursor {
            Some(cursor) => cursor.seek(key),
            None => self.cursor.insert(self.keyspace.cursor()?).seek(key),
        }
    }

    fn next(&mut self) -> Result<bool> {
        self.cursor.as_mut().map_or(Ok(false), RowCursor::next)
    }

    fn row(&self) -> (&[u8], &[u8]) {
        self.cursor.as_ref().map_or((&[], &[]), |cursor| (cursor.key(), cursor.value()))
    }

    fn cost(&mut self) -> OpCost {
        self.cursor.as_mut().map(RowCursor::cost).unwrap_or_default()
    }
}

/// Keeps nothing, and gives the answer that the harness takes for right: what is left is the harness, with the work
/// of checking.
pub(super) struct NullSession<'a> {
    values: &'a Values,
    /// The row stood on.
    row: u64,
    key: Key,
    value: &'a [u8],
}

impl<'a> NullSession<'a> {
    pub(super) fn new(values: &'a Values) -> Self {
        NullSession { values, row: 0, key: key(0), value: values.of(0, 0) }
    }
}

impl Session for NullSession<'_> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }
    fn put_batch(&mut self, rows: &[(Key, &[u8])]) -> Result<()> {
        black_box(rows);
        Ok(())
    }
    fn delete(&mut self, key: &Key) -> Result<()> {
        black_box(key);
        Ok(())
    }
    fn delete_batch(&mut self, keys: &[Key]) -> Result<()> {
        black_box(keys);
        Ok(())
    }
    fn get(&mut self, row: u64, key: &Key, check: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        black_box(key);
        Ok(Some(check(black_box(self.values.of(row, 0)))))
    }
    fn seek(&mut self, row: u64, key: &Key) -> Result<bool> {
        (self.row, self.key) = (row, *key);
        self.value = self.values.of(row, 0);
        Ok(true)
    }
    fn next(&mut self) -> Result<bool> {
        self.row += 1;
        increment(&mut self.key);
        // Of the others the harness looks at the length alone, and finding values is no work of its.
        if is_looked_at(self.row) {
            self.value = self.values.of(self.row, 0);
        }
        Ok(black_box(true))
    }
    fn row(&self) -> (&[u8], &[u8]) {
        black_box((&self.key, self.value))
    }
    fn cost(&mut self) -> OpCost {
        OpCost::default()
    }
}
