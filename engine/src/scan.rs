//! The two faces of a scan, over the rows that its sources yield: [`Scan`], an iterator from both ends, and [`RowCursor`], which
//! lends.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use esker_base::bounds::Bounds;
use esker_base::{OpCost, Result};

use crate::rows::Rows;
use crate::scan_view::ScanView;
use crate::{Key, Value};

/// The bounds of a range of anything byte-like.
pub(crate) fn bounds_of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let own = |bound: Bound<&K>| match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key.as_ref().to_vec()),
        Bound::Excluded(key) => Bound::Excluded(key.as_ref().to_vec()),
    };
    Bounds { start: own(range.start_bound()), end: own(range.end_bound()) }
}

/// The bounds of all keys that start with `prefix`.
pub(crate) fn bounds_of_prefix(prefix: &[u8]) -> Bounds {
    let end = esker_base::key::prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
    Bounds { start: Bound::Included(prefix.to_vec()), end }
}

/// Rows in key order, from either end or both at once, read lazily: nothing is opened before the
/// first call, and a row is read when it is asked for. Sees the moment it was made.
///
/// An error is yielded once, and ends it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
/// for key in ["a", "b", "c", "d"] {
///     letters.put(key, "x")?;
/// }
/// let mut scan = letters.range("a".."d");
/// assert_eq!(&*scan.next().unwrap()?.0, b"a");
/// assert_eq!(&*scan.next_back().unwrap()?.0, b"c");
/// assert_eq!(&*scan.next().unwrap()?.0, b"b");
/// assert!(scan.next().is_none() && scan.next_back().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scan {
    /// Where to read, or why that cannot be: told at the first step.
    view: Result<Arc<ScanView>>,
    bounds: Arc<Bounds>,
    keys_only: bool,
    front: Option<Rows>,
    back: Option<Rows>,
    finished: bool,
    /// How many rows were given out, and the bytes of their keys and values.
    given: (u64, u64),
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("bounds", &self.bounds)
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}

impl Scan {
    pub(crate) fn new(view: Result<ScanView>, bounds: Bounds) -> Self {
        Scan {
            view: view.map(Arc::new),
            bounds: Arc::new(bounds),
            keys_only: false,
            front: None,
            back: None,
            finished: false,
            given: (0, 0),
        }
    }

    /// Leave values out: all are empty. Long ones, which lie in files of their own
    /// ([`blob_bytes_min`](crate::KeyspaceOptions::blob_bytes_min)), are not read then, and short ones not copied.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let images = db.keyspace("images", esker::KeyspaceOptions::default())?;
    /// images.put("cover", vec![7; 100_000])?;
    /// let row = images.prefix("c").keys_only().next().unwrap()?;
    /// assert_eq!((&*row.0, &*row.1), (&b"cover"[..], &b""[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self.front.iter_mut().chain(&mut self.back).for_each(Rows::read_keys_only);
        self
    }

    /// What the scan has cost so far: one call, from whichever ends it was asked.
    pub fn cost(&mut self) -> OpCost {
        let mut cost = OpCost::default();
        for rows in [&mut self.front, &mut self.back].into_iter().flatten() {
            cost.add(&rows.cost());
        }
        // An end also stands on the row at which they meet, and on values that are left out.
        let (keys_read, bytes_read) = self.given;
        OpCost { calls: cost.calls.min(1), keys_read, bytes_read, ..cost }
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        let (mine, other) =
            if forward { (&mut self.front, &mut self.back) } else { (&mut self.back, &mut self.front) };
        match mine {
            Some(rows) if forward => rows.next()?,
            Some(rows) => rows.prev()?,
            None => {
                let view = self.view.as_ref().map_err(Clone::clone)?;
                let rows = mine.insert(Rows::of(view, Arc::clone(&self.bounds))?);
                if self.keys_only {
                    rows.read_keys_only();
                }
                if forward { rows.seek_first()? } else { rows.seek_last()? }
            }
        }
        let Some(mine) = mine.as_ref().filter(|rows| rows.valid()) else { return Ok(false) };
        // The ends have met when this one reaches what the other has given out.
        Ok(match other.as_ref().filter(|rows| rows.valid()) {
            None => true,
            Some(other) if forward => mine.key() < other.key(),
            Some(other) => mine.key() > other.key(),
        })
    }

    fn take(&mut self, forward: bool) -> Option<Result<(Key, Value)>> {
        if self.finished {
            return None;
        }
        let row = self.step(forward).and_then(|stands| if stands { self.row(forward) } else { Ok(None) });
        self.finished = !matches!(row, Ok(Some(_)));
        row.transpose()
    }

    /// A copy of the row that an end stands on.
    fn row(&mut self, forward: bool) -> Result<Option<(Key, Value)>> {
        let rows = if forward { self.front.as_ref() } else { self.back.as_ref() };
        let Some(rows) = rows else { return Ok(None) };
        let value = if self.keys_only { &[] } else { rows.value() };
        let (key, value) = (Bytes::copy_from_slice(rows.key()), crate::get::owned(value)?);
        self.given.0 += 1;
        self.given.1 += (key.len() + value.len()) as u64;
        Ok(Some((key, value)))
    }

    /// Whether there is nothing more to come.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Give out nothing more.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Iterator for Scan {
    type Item = Result<(Key, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.take(true)
    }
}

impl std::iter::FusedIterator for Scan {}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(false)
    }
}

/// A repositionable cursor over a keyspace's rows, which lends keys and values without copying. Sees
/// the moment it was made. Moves answer whether the cursor now stands on a row; after an error every
/// later move returns that error.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
/// letters.put("b", "2")?;
/// letters.put("d", "4")?;
/// let mut cursor = letters.cursor()?;
/// assert!(cursor.seek(b"c")?);
/// assert_eq!((cursor.key(), cursor.value()), (&b"d"[..], &b"4"[..]));
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.key(), b"b");
/// assert!(!cursor.prev()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RowCursor {
    rows: Rows,
}

impl std::fmt::Debug for RowCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

impl RowCursor {
    pub(crate) fn new(view: ScanView, bounds: Bounds) -> Result<Self> {
        Ok(RowCursor { rows: Rows::of(&Arc::new(view), Arc::new(bounds))? })
    }

    /// Read keys alone: long values, which lie in files of their own
    /// ([`blob_bytes_min`](crate::KeyspaceOptions::blob_bytes_min)), are not read from here on, and empty. Short ones lie beside
    /// their keys and are lent all the same.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let images = db.keyspace("images", esker::KeyspaceOptions::default())?;
    /// images.put("cover", vec![7; 100_000])?;
    /// db.flush()?;
    /// let mut cursor = images.cursor()?.keys_only();
    /// assert!(cursor.seek_first()?);
    /// assert_eq!(cursor.key(), b"cover");
    /// assert_eq!((cursor.value().len(), cursor.cost().blob_values), (0, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.rows.read_keys_only();
        self
    }

    /// Stand on the first row of the cursor's range; whether there is one. If not, the cursor stands on none.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get). An error is final: every later move returns it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// let mut cursor = letters.cursor()?;
    /// assert!(!cursor.seek_first()?);
    /// letters.put("a", "1")?;
    /// letters.put("b", "2")?;
    /// let mut cursor = letters.cursor()?;
    /// let mut rows = 0;
    /// let mut on_row = cursor.seek_first()?;
    /// while on_row {
    ///     rows += 1;
    ///     on_row = cursor.next()?;
    /// }
    /// assert_eq!(rows, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seek_first(&mut self) -> Result<bool> {
        self.rows.seek_first()?;
        Ok(self.rows.valid())
    }

    /// Stand on the last row of the cursor's range; whether there is one. If not, the cursor stands on none.
    ///
    /// # Errors
    /// As [`RowCursor::seek_first`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// letters.put("a", "1")?;
    /// letters.put("b", "2")?;
    /// let mut cursor = letters.reader()?.cursor_over(..="a")?;
    /// assert!(cursor.seek_last()?);
    /// assert_eq!(cursor.key(), b"a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seek_last(&mut self) -> Result<bool> {
        self.rows.seek_last()?;
        Ok(self.rows.valid())
    }

    /// Stand on the first row whose key is `key` or comes after it; whether there is one within the cursor's range. If not,
    /// the cursor stands on none. A `key` before the range counts as its start.
    ///
    /// # Errors
    /// As [`RowCursor::seek_first`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// letters.put("b", "2")?;
    /// let mut cursor = letters.cursor()?;
    /// assert!(cursor.seek("a")?);
    /// assert_eq!(cursor.key(), b"b");
    /// assert!(!cursor.seek("c")?);
    /// assert!(!cursor.valid());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.rows.seek(key.as_ref())?;
        Ok(self.rows.valid())
    }

    /// Stand on the last row whose key is `key` or comes before it; whether there is one within the cursor's range. If not,
    /// the cursor stands on none. A `key` behind the range counts as its end.
    ///
    /// # Errors
    /// As [`RowCursor::seek_first`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let prices = db.keyspace("prices", esker::KeyspaceOptions::default())?;
    /// prices.put("2026-01-01", "10")?;
    /// prices.put("2026-03-01", "12")?;
    /// let mut cursor = prices.cursor()?;
    /// assert!(cursor.seek_for_prev("2026-02-14")?); // the price of that day
    /// assert_eq!(cursor.value(), b"10");
    /// assert!(!cursor.seek_for_prev("2025-12-31")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.rows.seek_for_prev(key.as_ref())?;
        Ok(self.rows.valid())
    }

    /// Step to the next row. Errs as [`Keyspace::get`](crate::Keyspace::get) does.
    ///
    /// # Panics
    /// If the cursor stands on none, unless a move before has failed: then it errs with that.
    #[expect(clippy::should_implement_trait, reason = "a lending step cannot be an Iterator's")]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        self.rows.next()?;
        Ok(self.rows.valid())
    }

    /// Step to the row before. Errs as [`Keyspace::get`](crate::Keyspace::get) does.
    ///
    /// # Panics
    /// If the cursor stands on none, unless a move before has failed: then it errs with that.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        self.rows.prev()?;
        Ok(self.rows.valid())
    }

    /// Whether the cursor stands on a row.
    pub fn valid(&self) -> bool {
        self.rows.valid()
    }

    /// The row's key. Panics if the cursor stands on none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.rows.key()
    }

    /// The row's value. Panics if the cursor stands on none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.rows.value()
    }

    /// What the cursor has cost so far.
    pub fn cost(&mut self) -> OpCost {
        self.rows.cost()
    }
}
