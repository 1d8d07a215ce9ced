//! Reads of one keyspace at one moment.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::planted::{self, Planted};
use esker_base::table_meta::KeyBounds;
use esker_base::{OpCost, Result, SeqNo};
use esker_manifest::{KeyspaceState, Level, TableHandle};

use crate::get::View;
use crate::keyspace::Keyspace;
use crate::scan::{RowCursor, Scan, bounds_of, bounds_of_prefix};
use crate::scan_view::ScanView;
use crate::snapshot::Snapshot;
use crate::snapshot_list::Pin;
use crate::superversion::SuperVersion;
use crate::{Key, Value};

/// One keyspace at one moment: all its reads agree with each other, and each can say what it cost.
/// While it lives, what it sees is kept on disk and in memory: make it, read, let it go. It goes on reading after its keyspace was dropped and its
/// database closed. Reads err as [`Keyspace::get`] does.
#[derive(Clone)]
pub struct Reader {
    keyspace: Keyspace,
    superversion: Arc<SuperVersion>,
    state: Arc<KeyspaceState>,
    read_seqno: SeqNo,
    pin: Option<Arc<Pin>>,
}

impl Keyspace {
    /// Run `read` on a view of the keyspace as it is now: without a lock, and without a reference count, which other threads would
    /// write too.
    #[inline]
    pub(crate) fn with_view<R>(&self, read: impl FnOnce(&View<'_>) -> R) -> Result<R> {
        let core = self.core();
        core.health.check_open()?;
        let superversion = core.current.load();
        let read_seqno = superversion.read_seqno(&core.snapshots);
        let view = View::new(&superversion, self.id(), read_seqno).ok_or_else(|| self.gone())?;
        Ok(read(&View { operator: self.operator(), ..view }))
    }

    /// What a reader of this moment keeps, and how far it sees.
    fn moment(&self) -> Result<(Arc<SuperVersion>, SeqNo)> {
        let core = self.core();
        core.health.check_open()?;
        let too_early = planted::is(Planted::NumberFirst).then(|| core.snapshots.visible());
        let superversion = core.current.load_full();
        let read_seqno = too_early.unwrap_or_else(|| superversion.read_seqno(&core.snapshots));
        Ok((superversion, read_seqno))
    }

    /// The keyspace as it is now, for a scan: what a [`Reader`] would give, without the reference counts of one.
    pub(crate) fn scan_view(&self) -> Result<ScanView> {
        let (superversion, read_seqno) = self.moment()?;
        self.view_of(superversion, read_seqno, None)
    }

    /// The keyspace as `superversion` has it, up to `read_seqno`, for a scan.
    pub(crate) fn view_of(
        &self,
        superversion: Arc<SuperVersion>,
        read_seqno: SeqNo,
        pin: Option<Arc<Pin>>,
    ) -> Result<ScanView> {
        let view = ScanView::new(superversion, self.id(), read_seqno).ok_or_else(|| self.gone())?;
        let core = self.core();
        Ok(ScanView {
            operator: self.operator().cloned(),
            _pin: pin,
            fill_cache: true,
            core: Arc::downgrade(core),
            dead_run: core.options.dead_run,
            speaks_for: core.metrics.count_scan(),
            ..view
        })
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("keyspace", &self.keyspace)
            .field("seqno", &self.read_seqno)
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn now(keyspace: &Keyspace) -> Result<Self> {
        let (superversion, read_seqno) = keyspace.moment()?;
        Self::new(keyspace, superversion, read_seqno, None)
    }

    pub(crate) fn at(keyspace: &Keyspace, snapshot: &Snapshot) -> Result<Self> {
        let core = keyspace.core();
        core.health.check_open()?;
        let superversion = core.current.load_full();
        Self::new(keyspace, superversion, snapshot.pin().seqno(), Some(Arc::clone(snapshot.pin())))
    }

    fn new(
        keyspace: &Keyspace,
        superversion: Arc<SuperVersion>,
        read_seqno: SeqNo,
        pin: Option<Arc<Pin>>,
    ) -> Result<Self> {
        let state = superversion.version.keyspace(keyspace.id()).ok_or_else(|| keyspace.gone())?;
        let state = Arc::clone(state);
        Ok(Reader { keyspace: keyspace.clone(), superversion, state, read_seqno, pin })
    }

    /// The keyspace that it reads.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The number of the last operation that it sees: what [`Snapshot::seqno`] says of a snapshot.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// let (reader, snapshot) = (letters.reader()?, db.snapshot());
    /// letters.put("a", "1")?;
    /// assert_eq!(reader.seqno(), snapshot.seqno());
    /// assert!(letters.reader()?.seqno() > reader.seqno());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seqno(&self) -> SeqNo {
        self.read_seqno
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            superversion: &self.superversion,
            keyspace: self.keyspace.id(),
            tree: &self.state.tree,
            operator: self.keyspace.operator(),
            read_seqno: self.read_seqno,
            own: None,
        }
    }

    pub(crate) fn scan_view(&self) -> Result<ScanView> {
        let superversion = Arc::clone(&self.superversion);
        self.keyspace.view_of(superversion, self.read_seqno, self.pin.clone())
    }

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_costed(key, &mut OpCost::default())
    }

    /// [`Reader::get`], adding to `cost` what it took.
    pub fn get_costed(&self, key: impl AsRef<[u8]>, cost: &mut OpCost) -> Result<Option<Value>> {
        self.counted(cost, |view, cost| view.get_bytes(key.as_ref(), cost))
    }

    /// Hand the value of `key` to `take` without copying it. The bytes live for the call only.
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, take: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_with_costed(key, &mut OpCost::default(), take)
    }

    /// [`Reader::get_with`], adding to `cost` what it took.
    pub fn get_with_costed<R>(
        &self,
        key: impl AsRef<[u8]>,
        cost: &mut OpCost,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.counted(cost, |view, cost| view.get(key.as_ref(), cost, take))
    }

    /// Whether `key` has a value. One in a blob file is not read.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_costed(key, &mut OpCost::default())
    }

    /// [`contains`](Self::contains), adding to `cost` what it took.
    pub fn contains_costed(&self, key: impl AsRef<[u8]>, cost: &mut OpCost) -> Result<bool> {
        self.counted(cost, |view, cost| view.contains(key.as_ref(), cost))
    }

    /// What a read costs goes into `cost` and the metrics.
    #[inline]
    fn counted<R>(
        &self,
        cost: &mut OpCost,
        read: impl FnOnce(&View<'_>, &mut OpCost) -> Result<R>,
    ) -> Result<R> {
        let log = self.superversion.active.log;
        self.keyspace
            .core()
            .count_read(self.keyspace.id(), Some(log), cost, |cost| read(&self.view(), cost))
    }

    /// The values of `keys`, in their order. They are looked up in key order, so that neighbours share
    /// blocks.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.multi_get_costed(keys, &mut OpCost::default())
    }

    /// [`Reader::multi_get`], adding to `cost` what it took.
    pub fn multi_get_costed<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        cost: &mut OpCost,
    ) -> Result<Vec<Option<Value>>> {
        self.counted(cost, |view, cost| view.multi_get(keys, cost))
    }

    /// The rows in `range`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        Scan::new(self.scan_view(), bounds_of(&range))
    }

    /// The rows whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.scan_view(), bounds_of_prefix(prefix.as_ref()))
    }

    /// All rows.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// letters.put("a", "1")?;
    /// let reader = letters.reader()?;
    /// letters.put("b", "2")?;
    /// assert_eq!((reader.iter().count(), letters.iter().count()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Scan {
        self.range::<&[u8]>(..)
    }

    /// A repositionable, lending cursor over all rows.
    pub fn cursor(&self) -> Result<RowCursor> {
        self.cursor_over::<&[u8]>(..)
    }

    /// A repositionable, lending cursor over the rows in `range`: it stands nowhere outside it.
    pub fn cursor_over<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<RowCursor> {
        RowCursor::new(self.scan_view()?, bounds_of(&range))
    }

    /// About how many bytes the keys in `range` take in the tables and blob files that this reader sees, as
    /// [`Keyspace::approximate_size`] counts them: the ones that were replaced since, not the ones that replace them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let log = db.keyspace("log", esker::KeyspaceOptions::default())?;
    /// let before = log.reader()?;
    /// log.put("2026-01-01", "snow")?;
    /// db.flush()?;
    /// assert_eq!(before.approximate_size("2026".."2027")?, 0);
    /// assert!(log.reader()?.approximate_size("2026".."2027")? > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        let bounds = &bounds_of(&range);
        let mut bytes = 0;
        let tables = self.state.tree.levels.iter().flat_map(Level::tables);
        for table in tables.filter(|table| table.meta.bounds.meets(bounds)) {
            let within = bytes_within(table, bounds)?;
            // Of its values in blob files as large a part as of the table.
            let apart: u64 = table.meta.blobs.iter().map(|part| part.value_bytes).sum();
            let share = u128::from(apart) * u128::from(within) / u128::from(table.meta.file_bytes.max(1));
            bytes += within + u64::try_from(share).unwrap_or(u64::MAX);
        }
        Ok(bytes)
    }
}

impl IntoIterator for &Reader {
    type Item = Result<(Key, Value)>;
    type IntoIter = Scan;
    fn into_iter(self) -> Scan {
        self.iter()
    }
}

/// About how many bytes of `table` the keys in `bounds` take: all of it, or a part of its data.
fn bytes_within(table: &TableHandle, bounds: &Bounds) -> Result<u64> {
    let KeyBounds { smallest, largest, .. } = &table.meta.bounds;
    if !bounds.before_start(smallest) && !bounds.past_end(largest) {
        return Ok(table.meta.file_bytes);
    }
    let reader = table.reader()?;
    let offset = |bound: &Bound<Vec<u8>>, unbounded| match bound {
        Bound::Unbounded => unbounded,
        Bound::Included(key) | Bound::Excluded(key) => reader.approximate_offset(key),
    };
    Ok(offset(&bounds.end, reader.data_bytes()).saturating_sub(offset(&bounds.start, 0)))
}
