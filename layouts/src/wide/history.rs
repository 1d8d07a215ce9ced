//! Versions of cells: the history of a column as a declared part of its name.
//!
//! A family can keep the last so many values of every column, each with a time that the writer gives. The
//! time is a field of the column's name, newest first, apart from the store's own versions: writers order
//! history, not the moments at which commits happened to arrive, and it goes on through backups and copies.
//!
//! How many versions count is written down when the family is declared and *applied by every read*. What is
//! older than those can no more be seen, whether it still lies there or not; [`trim`](History::trim) removes
//! it to save space, at any time, without changing an answer. Nothing else removes it: to compaction each version is a row of its own.
//!
//! ```
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tuple::Space;
//! use esker_layouts::wide::{History, RowChange, WideTable};
//!
//! let store = MapStore::new();
//! let mail = WideTable::open(&store, &Space::new(&("mail",)), &["head", "body"])?;
//! let bodies = History::declare(&mail, "body", 2)?;
//! for (time, body) in [(10, "Hi Lars"), (12, "Hi Lars,"), (11, "Hi Lasr")] {
//!     // One change with the rest of the row.
//!     let change = RowChange::new().put("head", b"5fc38314", b"draft");
//!     mail.apply(b"12345", &bodies.put(change, b"5fc38314", time, body.as_bytes()))?;
//! }
//! let view = mail.view()?;
//! let newest = bodies.newest(&view, b"12345", b"5fc38314")?.expect("it was written");
//! assert_eq!((newest.time, newest.value.as_ref()), (12, &b"Hi Lars,"[..]));
//! assert_eq!(bodies.as_of(&view, b"12345", b"5fc38314", 11)?.map(|version| version.time), Some(11));
//! assert_eq!(bodies.as_of(&view, b"12345", b"5fc38314", 10)?, None, "two versions count");
//! # Ok::<(), esker_layouts::Error>(())
//! ```

use super::{Family, HISTORY, LAYOUT, RowChange, WideTable, WideView};
use crate::kv::{Bytes, Costed, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::tuple::{Desc, KeyError, Space, pack, unpack};
use crate::{Error, Result};

/// A family whose columns keep versions. Plain data, to be kept beside the table in which it was declared: what takes a
/// table, or a view of one, errs with [`Error::BadInput`] for one that lies elsewhere or was opened without the family.
/// Stores are not told apart: a table in the same space of another store passes.
#[derive(Clone, Debug)]
pub struct History {
    family: Family,
    versions_max: u32,
}

/// A version of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The time that its writer gave it.
    pub time: i64,
    /// The value.
    pub value: Bytes,
}

/// The name under which a version of a column lies.
fn name(column: &[u8], time: i64) -> Vec<u8> {
    pack(&(column, Desc(time)))
}

impl History {
    /// The history of `family` of `table`, of which the `versions_max` newest versions of a column count. Declared once,
    /// on a family that holds nothing else; columns without times are not to be written there.
    ///
    /// [`Error::BadInput`] for no versions, for a family that the table was not opened with, or if it was
    /// declared with another number.
    pub fn declare<S: OrderedKv>(table: &WideTable<S>, family: &str, versions_max: u32) -> Result<Self> {
        if versions_max == 0 {
            return Err(Error::bad_input("number of versions", "0", "a column has at least one"));
        }
        let family = table.family(family)?.clone();
        let at = table.space.key(&(HISTORY, family.number));
        let stored = table.store.update(|tx| {
            if let Some(stored) = tx.get(&at)? {
                return unpack::<(u32,)>(&stored).map_err(|error| Error::foreign(LAYOUT, &at, error));
            }
            tx.put(&at, &pack(&(versions_max,)));
            Ok((versions_max,))
        })?;
        if stored.value != (versions_max,) {
            let why = format!("the family keeps {}; declare that", stored.value.0);
            return Err(Error::bad_input("number of versions", &versions_max.to_string(), why));
        }
        Ok(History { family, versions_max })
    }

    /// Refuse a table that this is no history of: its rows would be taken for versions.
    fn check<S: OrderedKv>(&self, table: &WideTable<S>) -> Result<()> {
        if table.families.iter().any(|family| family.cells == self.family.cells) {
            return Ok(());
        }
        let why = "its history was declared in another table; declare one in this, or give that";
        Err(Error::bad_input("family", &self.family.name, why))
    }

    /// `change` and a version of `column` at `time`. The value at the same time, if there is one, is replaced;
    /// a time before the newest is a late version and takes its place in the order.
    #[must_use]
    pub fn put(&self, change: RowChange, column: &[u8], time: i64, value: &[u8]) -> RowChange {
        change.put(&self.family.name, &name(column, time), value)
    }

    /// `change` and the end of `column` with all its versions, as one range delete.
    #[must_use]
    pub fn delete(&self, change: RowChange, column: &[u8]) -> RowChange {
        change.delete_columns(&self.family.name, Space::root().under(&(column,)))
    }

    /// The newest version of `column`: one scan that ends at the first key.
    pub fn newest<S: OrderedKv>(
        &self,
        view: &WideView<'_, S, impl KvRead>,
        row: &[u8],
        column: &[u8],
    ) -> Result<Option<Version>> {
        self.check(view.table)?;
        self.first(&view.read, row, column, 1)?.next().transpose()
    }

    /// The versions of `column` that count, newest first.
    pub fn versions<S: OrderedKv>(
        &self,
        view: &WideView<'_, S, impl KvRead>,
        row: &[u8],
        column: &[u8],
    ) -> Result<Vec<Version>> {
        self.check(view.table)?;
        self.first(&view.read, row, column, self.versions_max)?.collect()
    }

    /// The newest version of `column` at `time` or before, among those that count. Reads them down to that
    /// one: whether older versions are still stored makes no difference.
    pub fn as_of<S: OrderedKv>(
        &self,
        view: &WideView<'_, S, impl KvRead>,
        row: &[u8],
        column: &[u8],
        time: i64,
    ) -> Result<Option<Version>> {
        self.check(view.table)?;
        let mut versions = self.first(&view.read, row, column, self.versions_max)?;
        versions.find(|version| version.as_ref().map_or(true, |version| version.time <= time)).transpose()
    }

    /// Column and time of the version stored at `at`.
    fn open(&self, at: &[u8]) -> Result<(Vec<u8>, i64)> {
        let open = || {
            let (_, name): (Vec<u8>, Vec<u8>) = self.family.cells.unpack(at)?;
            let (column, Desc(time)) = unpack(&name)?;
            Ok((column, time))
        };
        open().map_err(|error: KeyError| Error::foreign(LAYOUT, at, error))
    }

    /// The `count` newest versions of `column`, read as they are asked for.
    fn first<R: KvRead>(
        &self,
        read: &R,
        row: &[u8],
        column: &[u8],
        count: u32,
    ) -> Result<impl Iterator<Item = Result<Version>>> {
        let range = self.family.columns(row, &Space::root().under(&(column,)));
        let options = ScanOptions::new().limit(usize::try_from(count).unwrap_or(usize::MAX));
        let version = |cell: Result<(Bytes, Bytes)>| {
            let (at, value) = cell?;
            Ok(Version { time: self.open(&at)?.1, value })
        };
        Ok(read.scan(range, options)?.map(version))
    }

    /// The columns of `row` with their versions that count: one scan, and a seek past the rest of each column
    /// that has more.
    pub fn row<S: OrderedKv>(
        &self,
        view: &WideView<'_, S, impl KvRead>,
        row: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<Version>)>> {
        self.check(view.table)?;
        let mut columns: Vec<(Vec<u8>, Vec<Version>)> = Vec::new();
        let counting = |cell: &(Bytes, Bytes)| {
            let (column, time) = self.open(&cell.0)?;
            let version = Version { time, value: cell.1.clone() };
            match columns.last_mut() {
                Some((last, versions)) if *last == column => versions.push(version),
                _ => columns.push((column, vec![version])),
            }
            Ok(())
        };
        self.walk(&view.read, row, counting, |_, _| {})?;
        Ok(columns)
    }

    /// Remove from `row` of `table`, in which the history was declared, what no read can see any more, in one
    /// transaction; how many columns had such versions. It may run at any time or never: reads answer the same. Of
    /// each column the versions that count are read, so a version written meanwhile conflicts.
    pub fn trim<S: OrderedKv>(&self, table: &WideTable<S>, row: &[u8]) -> Result<Costed<usize>> {
        self.check(table)?;
        table.store.update(|tx| self.trim_in(tx, row))
    }

    /// [`trim`](Self::trim) in the caller's transaction, which must be of the store of the table that the history was
    /// declared in.
    pub fn trim_in(&self, tx: &mut impl KvTx, row: &[u8]) -> Result<usize> {
        let mut surplus = Vec::new();
        self.walk(&*tx, row, |_| Ok(()), |start, end| surplus.push(KeyRange { start, end: Some(end) }))?;
        let columns = surplus.len();
        for range in surplus {
            tx.delete_range(range);
        }
        Ok(columns)
    }

    /// Call `counting` for each version of `row` that counts, and `surplus` with the range of each column's
    /// versions that do not, if there are any.
    fn walk(
        &self,
        read: &impl KvRead,
        row: &[u8],
        mut counting: impl FnMut(&(Bytes, Bytes)) -> Result<()>,
        mut surplus: impl FnMut(Vec<u8>, Vec<u8>),
    ) -> Result<()> {
        let mut rest = self.family.columns(row, &KeyRange::all());
        let (mut column, mut seen): (Option<Vec<u8>>, u32) = (None, 0);
        'seek: loop {
            for cell in read.scan(rest.clone(), ScanOptions::new())? {
                let cell = cell?;
                let (own, _) = self.open(&cell.0)?;
                if column.as_ref() == Some(&own) {
                    seen += 1;
                } else {
                    seen = 1;
                }
                if seen > self.versions_max {
                    let end = self.family.columns(row, &Space::root().under(&(own.as_slice(),))).end;
                    let end = end.unwrap_or_default();
                    surplus(cell.0.to_vec(), end.clone());
                    rest.start = end;
                    column = None;
                    continue 'seek;
                }
                counting(&cell)?;
                column = Some(own);
            }
            return Ok(());
        }
    }
}
