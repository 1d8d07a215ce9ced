//! A sample of a database's rows, and what has to be in them.

use std::collections::BTreeMap;

use super::main_sequence::expect;
use crate::keys::{Draw, key};
use crate::store::{Reader, Result, Store};
use crate::values::Values;

/// Rows that are drawn; where there are few, some more than once.
const DRAWN: u64 = 10_000;

/// Rows, each with the version that was written last.
pub(super) struct Sample {
    versions: BTreeMap<u64, u64>,
}

impl Sample {
    /// Of `0..rows`, written once.
    pub(super) fn of(rows: u64) -> Sample {
        let mut draw = Draw::new(rows, 6);
        Sample { versions: (0..DRAWN).map(|_| (draw.next(), 0)).collect() }
    }

    /// After the first `puts` rows of `draw` were written in `version`.
    pub(super) fn overwritten(mut self, mut draw: Draw, puts: u64, version: u64) -> Sample {
        for _ in 0..puts {
            if let Some(last) = self.versions.get_mut(&draw.next()) {
                *last = version;
            }
        }
        self
    }

    /// Fail unless `store` holds each row in its last version.
    pub(super) fn check<S: Store>(&self, store: &S, values: &Values) -> Result<()> {
        let mut reader = store.reader()?;
        for (row, version) in &self.versions {
            let mut right = S::NULL;
            reader.get(&key(*row), |value| right |= value == values.of(*row, *version))?;
            expect(right, || format!("row {row} is not as it was written last"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Settings;
    use crate::stores::esker::Esker;
    use crate::workloads::{VALUE_BYTES, fresh, put_rows};

    #[test]
    fn a_row_that_is_gone_or_of_an_older_version_is_noticed() {
        const ROWS: u64 = 1000;
        let (dir, values) = (tempfile::tempdir().expect("directory"), Values::new(VALUE_BYTES));
        let store: Esker = fresh(dir.path(), Settings::default()).expect("a store");
        put_rows(&store, &values, 0, 0..ROWS, 1).expect("written");
        Sample::of(ROWS).check(&store, &values).expect("all as it was written");

        let draw = Draw::new(ROWS, 7);
        let overwritten = || Sample::of(ROWS).overwritten(draw, ROWS, 1);
        assert!(overwritten().check(&store, &values).is_err(), "nothing was overwritten");
        let mut rows = draw;
        put_rows(&store, &values, 1, (0..ROWS).map(|_| rows.next()), 1).expect("written");
        overwritten().check(&store, &values).expect("all as it was written");
        assert!(Sample::of(ROWS).check(&store, &values).is_err(), "some were overwritten");

        let (mut rows, row) = (draw, draw.clone().next());
        store.put(&key(row), values.of(row, 0)).expect("the old version");
        assert!(overwritten().check(&store, &values).is_err(), "one row is old");
        store.put(&key(row), values.of(row, 1)).expect("the new version");
        overwritten().check(&store, &values).expect("all as it was written");
        store.delete(&key(rows.next())).expect("deleted");
        assert!(overwritten().check(&store, &values).is_err(), "one row is gone");
        store.close().expect("closed");
    }
}
