//! Settings: plain data, each with its unit, default and effect; validated once, in `open`.

use std::time::Duration;

use esker_base::coding::{Decoder, put_bytes, put_varint};
use esker_base::{Error, Result};
pub use esker_sstable::Compression;

/// When a write returns, and so what a crash may take.
///
/// | mode | process kill may lose | power loss may lose |
/// |---|---|---|
/// | `Sync` | nothing acknowledged | nothing acknowledged |
/// | `Interval(t)` | nothing acknowledged | a suffix no older than `t` plus one sync |
/// | `Os` | nothing acknowledged | a suffix since the last `persist` |
/// | `NoLog` | a suffix since the last flush | the same |
///
/// Whatever is lost is a suffix of commit order, whole batches only, across all keyspaces.
/// [`Database::persist`](crate::Database::persist) makes everything before it durable in every mode.
///
/// ```
/// use std::time::Duration;
/// use esker::{Database, Durability, KeyspaceOptions};
/// # let dir = tempfile::tempdir()?;
/// // A second's work may be lost with the power, but for what has to be kept.
/// let every_second = Durability::Interval(Duration::from_secs(1));
/// let db = Database::builder(dir.path()).durability(every_second).open()?;
/// let orders = db.keyspace("orders", KeyspaceOptions::default())?;
/// let mut batch = db.batch();
/// batch.durability(Durability::Sync).put(&orders, "7", "paid")?;
/// batch.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A commit returns after its log record is on the device.
    Sync,
    /// A commit returns after the system has its log record; the log is synced every so often. 1 ms … 1 hour.
    Interval(Duration),
    /// A commit returns after the system has its log record. The default, as in most engines.
    Os,
    /// No log: a commit returns after the memtable has it. Chosen per database, never per batch.
    NoLog,
}

impl Durability {
    /// How much it promises, for comparisons: what is stronger keeps all that is weaker.
    pub(crate) fn strength(self) -> u8 {
        match self {
            Durability::NoLog => 0,
            Durability::Os => 1,
            Durability::Interval(_) => 2,
            Durability::Sync => 3,
        }
    }
}

/// Where table blocks are read from.
pub use esker_sstable::TableSource;

/// How a commit hands its log record to the system.
///
/// ```
/// use esker::{DatabaseOptions, LogWrites};
/// let options = DatabaseOptions { log_writes: LogWrites::Mapped, ..DatabaseOptions::default() };
/// assert_ne!(options.log_writes, DatabaseOptions::default().log_writes);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogWrites {
    /// By a call of the system for each group of commits. The default.
    ///
    /// Where it is safe (Linux; ext2 to ext4, XFS and tmpfs) the call copies the record into memory that is mapped to the
    /// file, which takes about half as long as `write(2)`. On other systems and filesystems the call is `write(2)`; and everywhere
    /// while no such memory is ready, for groups of commits of more than 16 KiB on the average, in an extent of the log that
    /// follows a sync (256 KiB to 2 MiB), and in mode `Sync`. What a crash may take is the same either way, and what fails is an error.
    Called,
    /// Without a call, wherever [`LogWrites::Called`] would copy: this process stores into that memory itself. What a
    /// crash may take is the same.
    ///
    /// A small commit takes about half the time. The hazards: a device that fails under the log, or another
    /// program that cuts the log short, ends this process with a signal instead of an error.
    Mapped,
}

/// What a write does where it has to stop for flushes or compactions: at `sealed_memtables_max` and `l0_tables_stop`.
///
/// Before that, where the memtable is filled further than the flush under way has come, or beyond `l0_tables_slowdown`, writes are
/// delayed, whatever this says: small ones by a few milliseconds now and then, long ones by about as long as it takes to flush them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenStalled {
    /// Wait as long as it takes: on a full disk until there is space. The default.
    Wait,
    /// Fail with [`Error::WouldStall`] instead. So do, whatever this says, [listeners](crate::DatabaseBuilder::listener) on the
    /// engine's own threads.
    Fail,
    /// Stop for up to this long, then fail with [`Error::WouldStall`].
    WaitFor(Duration),
}

/// Settings of a database. Sizes are in bytes. End a literal with `..DatabaseOptions::default()`: fields may be added.
///
/// ```
/// use esker::{Database, DatabaseOptions, Durability};
/// # let dir = tempfile::tempdir()?;
/// let options = DatabaseOptions { durability: Durability::Sync, cache_bytes: 64 << 20, ..DatabaseOptions::default() };
/// let db = Database::builder(dir.path()).options(options).open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Create the database if the directory holds none. Default: true.
    pub create_if_missing: bool,
    /// Open without changing a byte: no log, no flush, no compaction; what is in logs alone is read into memory at each open. It takes the
    /// database's lock all the same, if the lock's file is there and may be opened: [`Error::Locked`] while anybody has it open, another reader
    /// too. To read beside a writer, open a [`checkpoint`](crate::Database::checkpoint). Default: false.
    pub read_only: bool,
    /// See [`Durability`]. Default: [`Durability::Os`].
    pub durability: Durability,
    /// See [`LogWrites`]. Default: [`LogWrites::Called`].
    pub log_writes: LogWrites,
    /// See [`WhenStalled`]. Default: wait.
    pub when_stalled: WhenStalled,
    /// Memory for a memtable, its log and its flush. It is sealed and flushed when it takes eleven sixteenths of this itself, or when it
    /// has 1,000 range deletions; keyspaces share it. Writers as fast as flushes come to two memtables. Of
    /// one that is filled with short rows in random order, and read meanwhile, about a fifth is index nodes that others have replaced. (Reads may have one at rest
    /// flushed sooner: [`compact_for_reads`](Self::compact_for_reads).)
    /// Larger means fewer, larger level-0 tables and a longer log to replay. 1 KiB … 64 GiB, of which 64 KiB … 4 GiB are sensible.
    /// Memtables that were flushed leave up to one and a half times as much to the next ones, until two to four seconds have passed
    /// without any being needed, or somebody waits until the database has settled. Default: 64 MiB.
    pub memtable_bytes_max: u64,
    /// Sealed memtables that may wait for their flush before writers wait. Writers are slowed to the pace of the flush under way once
    /// they are ahead of it, and further the more memtables wait. 1 … 16. Default: 3.
    pub sealed_memtables_max: usize,
    /// Block cache, shared by all keyspaces: the bytes of blocks in it, and of values of blob files that gets have read. Its memory may be a third larger, for
    /// the places left between blocks of different lengths (more once most blocks have changed their length). While it grows, memory is brought in
    /// ahead: 16 MiB, or a quarter of what it has if that is less; what is not used is given back after a second.
    /// What flushes and compactions write comes into it, as far as there is room, if at least half of what was there before is
    /// cached. 0 (nothing is cached) … 16 TiB. Default: 256 MiB.
    pub cache_bytes: u64,
    /// Tables and blob files that are open at once; what is read beyond that is opened again, for some microseconds a read, and whatever was not read
    /// lately is closed for it. Logs, the manifest and what flushes and compactions write come on top: some tens. 1 … 1,000,000, or `None`: half
    /// of the files that the process may have open (`ulimit -n`) when the database is opened, 512 where that is not known. Default: `None`.
    pub open_files_max: Option<u32>,
    /// Where table blocks are read from. Default: [`TableSource::Buffered`].
    ///
    /// `Mapped` suits data that fits in memory, long values above all, which then take no room in the cache; gets of short rows take
    /// about a tenth longer by it than from a cache that holds them all, and seeks a third. Its hazards: an
    /// I/O error under a mapping, or another process that cuts a table short, ends this process with a
    /// signal instead of an error. A long value that a get has handed out keeps the mapping of its whole file, and the file's space
    /// on the disk, should that be removed meanwhile.
    pub table_source: TableSource,
    /// Threads that compact. 1 … 64. Default: 1 (and one for flushes, which helps with large compactions while
    /// no flush is due and somebody waits for them, one that removes files, and one for upkeep). Where these and the flush's are as many as there are
    /// processors, or more, they keep off the one of a thread that writes on and on while no other works beside it (Linux).
    pub compaction_threads: usize,
    /// Level 0 is compacted when this many of its tables lie over one key and none has come for five
    /// seconds; while flushes follow one another, when it is five times as many (or
    /// `l0_tables_slowdown`, if that is less), so that more of them share a merge. (See
    /// [`compact_for_reads`](Self::compact_for_reads) too.) 1 … 64. Default: 4.
    pub l0_tables_trigger: usize,
    /// Writers are slowed, in proportion, when more than this many level-0 tables lie over one key. `l0_tables_trigger` … 1000.
    /// Default: 30.
    pub l0_tables_slowdown: usize,
    /// Writers wait when this many level-0 tables lie over one key. `l0_tables_slowdown` … 1000. Default: 50.
    pub l0_tables_stop: usize,
    /// Flush the memtable, and merge level 0, once reads have spent about as much time in them as that takes. Only where
    /// hardly anybody has written to the database for five seconds (so little that it would take more than a minute to double
    /// the memtable, and to fill a sixteenth of one), and where at most `1 + level_fanout` bytes are written for each that lies
    /// there. `false`: reads never have anything written. Default: true.
    pub compact_for_reads: bool,
    /// The smallest size worth a level of its own between level 0 and the last, in bytes: larger makes fewer levels. Less than `table_bytes` counts
    /// as that. 1 KiB … 16 TiB, or `None`: four times `memtable_bytes_max`, about a fourth of what level 0 hands down at a time while
    /// flushes follow one another. Default: `None`.
    pub level_base_bytes: Option<u64>,
    /// Each further level is this many times larger. 2 … 100. Default: 10.
    pub level_fanout: u64,
    /// Tables are cut at this size, or sooner where filter, index and range tombstones come to 2 GiB. 1 KiB … 16 GiB. Default: 32 MiB.
    pub table_bytes: u64,
    /// A scan that passes this many deleted rows in a row asks whether the range is known to be dead, and
    /// after four times as many has it remembered: the next one crosses it at once. Behind a writer that deletes row by row the engine does that walk
    /// itself, after each 32 × `dead_run`² deletes (131,072). 1 … 1,000,000. Default: 64.
    pub dead_run: u32,
}

/// [`DatabaseOptions::level_base_bytes`] where it is not said, in full memtables.
const LEVEL_BASE_MEMTABLES: u64 = 4;
/// [`DatabaseOptions::open_files_max`] where the system does not tell how many there may be.
const OPEN_FILES: u64 = 512;
/// The most that it may be.
const OPEN_FILES_MAX: u64 = 1_000_000;

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions {
            create_if_missing: true,
            read_only: false,
            durability: Durability::Os,
            log_writes: LogWrites::Called,
            when_stalled: WhenStalled::Wait,
            memtable_bytes_max: 64 << 20,
            sealed_memtables_max: 3,
            cache_bytes: 256 << 20,
            open_files_max: None,
            table_source: TableSource::Buffered,
            compaction_threads: 1,
            l0_tables_trigger: 4,
            l0_tables_slowdown: 30,
            l0_tables_stop: 50,
            compact_for_reads: true,
            level_base_bytes: None,
            level_fanout: 10,
            table_bytes: 32 << 20,
            dead_run: 64,
        }
    }
}

impl DatabaseOptions {
    /// Refuse what is out of bounds, naming the option, its value and the bounds.
    pub(crate) fn validate(&self) -> Result<()> {
        within("memtable_bytes_max", self.memtable_bytes_max, 1 << 10, 64 << 30)?;
        within("sealed_memtables_max", self.sealed_memtables_max as u64, 1, 16)?;
        within("cache_bytes", self.cache_bytes, 0, 1 << 44)?;
        within("open_files_max", u64::from(self.open_files_max.unwrap_or(1)), 1, OPEN_FILES_MAX)?;
        within("compaction_threads", self.compaction_threads as u64, 1, 64)?;
        within("l0_tables_trigger", self.l0_tables_trigger as u64, 1, 64)?;
        within("l0_tables_slowdown", self.l0_tables_slowdown as u64, self.l0_tables_trigger as u64, 1000)?;
        within("l0_tables_stop", self.l0_tables_stop as u64, self.l0_tables_slowdown as u64, 1000)?;
        within("level_base_bytes", self.level_base(), 1 << 10, 1 << 44)?;
        within("level_fanout", self.level_fanout, 2, 100)?;
        within("dead_run", u64::from(self.dead_run), 1, 1_000_000)?;
        within("table_bytes", self.table_bytes, 1 << 10, 1 << 34)?;
        if let Durability::Interval(every) = self.durability {
            within("durability interval in milliseconds", millis(every), 1, 3_600_000)?;
        }
        Ok(())
    }
}

impl DatabaseOptions {
    /// How much a memtable takes, in bytes, when it is sealed: the rest of `memtable_bytes_max` is for what is in memory along with it, with
    /// the default some 4 MiB of its log, some of its flush, and part of the next memtable, which fast writers fill meanwhile.
    #[inline]
    pub(crate) fn memtable_full_bytes(&self) -> u64 {
        self.memtable_bytes_max / 16 * 11
    }

    /// What `level_base_bytes` stands for.
    pub(crate) fn level_base(&self) -> u64 {
        self.level_base_bytes.unwrap_or(LEVEL_BASE_MEMTABLES.saturating_mul(self.memtable_bytes_max))
    }

    /// What `open_files_max` stands for in a process that may have `process_max` files open.
    pub(crate) fn open_files(&self, process_max: Option<u64>) -> usize {
        let half = process_max.map_or(OPEN_FILES, |max| (max / 2).min(OPEN_FILES_MAX));
        let files = self.open_files_max.map_or(half, u64::from);
        usize::try_from(files).unwrap_or(usize::MAX)
    }
}

/// Err, naming the `option`, its value and the bounds, if it is not `low` to `high`.
fn within(option: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("option {option} is {value}, it must be {low} to {high}")))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The default of [`KeyspaceOptions::blob_bytes_min`].
const BLOB_BYTES_MIN: u32 = 4096;

/// Settings of a keyspace, stored when it is created and checked at every later open. End a literal with
/// `..KeyspaceOptions::default()`: fields may be added.
///
/// ```
/// use esker::{Compression, KeyspaceOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// let options = KeyspaceOptions::default().with_compression(Compression::Lz4);
/// db.keyspace("archive", options.clone())?;
/// // Later opens give the same, or err: what is stored was written with these.
/// assert!(db.keyspace("archive", KeyspaceOptions::default()).is_err());
/// assert_eq!(db.keyspace_options("archive")?, options);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Size at which a data block is cut, in bytes, before compression. 256 … 1 MiB. Default: 4096. Whole pages are best:
    /// a block that is not compressed then lies on pages of its own, and is read from the device without its neighbours.
    pub block_bytes: u32,
    /// Bits a key in the bloom filters; 0 for none. 0 … 32. Default: 10.
    pub filter_bits_per_key: u8,
    /// Compression of each level's tables, level 0 first; levels beyond the list use its last entry. 1 to 7 entries;
    /// levels of zstd are -7 … 22, and want a build with the feature `zstd`. On any level it turns blob files off:
    /// see [`blob_bytes_min`](Self::blob_bytes_min). Default: none on every level.
    pub compression: Vec<Compression>,
    /// Name of the merge operator that [`Keyspace::merge`](crate::Keyspace::merge) uses, or `None`.
    /// Built in: `add-i64`, `add-u64`, `min`, `max`, `append`; others are registered with the builder.
    pub merge_operator: Option<String>,
    /// Values of at least this many bytes are written by flushes and compactions to files of their own (*blob
    /// files*), and their rows refer to them there: compactions then write such a value once, instead of once a
    /// level, and a get reads it with one read more, after which it is in the block cache if it takes no more than a
    /// sixteenth of that. 0 for never; else 16 … 1 GiB. Default: 4096. Larger keeps more values in the tables, where they lie in key order.
    ///
    /// Blob files are not compressed: a keyspace with [`compression`](Self::compression) on any level keeps its
    /// values in its tables, whatever this says.
    pub blob_bytes_min: u32,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions {
            block_bytes: 4096,
            filter_bits_per_key: 10,
            compression: vec![Compression::None],
            merge_operator: None,
            blob_bytes_min: BLOB_BYTES_MIN,
        }
    }
}

impl KeyspaceOptions {
    /// The same options with the merge operator `name`.
    ///
    /// ```
    /// let counters = esker::KeyspaceOptions::default().with_merge_operator("add-i64");
    /// assert_eq!(counters.merge_operator.as_deref(), Some("add-i64"));
    /// ```
    pub fn with_merge_operator(mut self, name: &str) -> Self {
        self.merge_operator = Some(name.to_string());
        self
    }

    /// The same options with data blocks cut at `bytes`: see [`block_bytes`](Self::block_bytes).
    ///
    /// ```
    /// let long_rows = esker::KeyspaceOptions::default().with_block_bytes(16 << 10);
    /// assert_eq!(long_rows.block_bytes, 16_384);
    /// ```
    pub fn with_block_bytes(mut self, bytes: u32) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// The same options with `bits` a key in the bloom filters; 0 for none: see [`filter_bits_per_key`](Self::filter_bits_per_key).
    ///
    /// ```
    /// // One that is only scanned has no use for filters.
    /// let archive = esker::KeyspaceOptions::default().with_filter_bits_per_key(0);
    /// assert_eq!(archive.filter_bits_per_key, 0);
    /// ```
    pub fn with_filter_bits_per_key(mut self, bits: u8) -> Self {
        self.filter_bits_per_key = bits;
        self
    }

    /// The same options with `compression` on every level. Anything but `None` keeps long values in tables, whatever
    /// [`blob_bytes_min`](Self::blob_bytes_min) says.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = vec![compression];
        self
    }

    /// How tables of `level` are compressed.
    pub(crate) fn compression_at(&self, level: u8) -> Compression {
        let last = self.compression.last().copied().unwrap_or(Compression::None);
        self.compression.get(usize::from(level)).copied().unwrap_or(last)
    }

    /// The same options with values of at least `bytes` in blob files; 0 for none.
    ///
    /// ```
    /// let inline = esker::KeyspaceOptions::default().with_blob_bytes_min(0);
    /// assert_eq!(inline.blob_bytes_min, 0);
    /// ```
    pub fn with_blob_bytes_min(mut self, bytes: u32) -> Self {
        self.blob_bytes_min = bytes;
        self
    }

    /// How long a value is at least that goes to a blob file; `None` if none does.
    pub(crate) fn blob_threshold(&self) -> Option<u32> {
        let compressed = self.compression.iter().any(|compression| *compression != Compression::None);
        (self.blob_bytes_min > 0 && !compressed).then_some(self.blob_bytes_min)
    }

    /// Refuse what is out of bounds, or wants what this build lacks.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.wants_missing_codec() {
            return Err(Error::invalid(
                "this build has no zstd; build esker with the feature `zstd`, or choose LZ4",
            ));
        }
        self.check_bounds()
    }

    /// Whether a level is compressed with zstd, and this build lacks it.
    pub(crate) fn wants_missing_codec(&self) -> bool {
        let is_zstd = |compression: &Compression| matches!(compression, Compression::Zstd { .. });
        !cfg!(feature = "zstd") && self.compression.iter().any(is_zstd)
    }

    /// Refuse what is out of bounds in every build.
    fn check_bounds(&self) -> Result<()> {
        if self.blob_bytes_min != 0 && !(16..=1 << 30).contains(&self.blob_bytes_min) {
            return Err(Error::invalid(format!(
                "option blob_bytes_min is {}, it must be 0, or 16 to 1073741824",
                self.blob_bytes_min
            )));
        }
        within("block_bytes", u64::from(self.block_bytes), 256, 1 << 20)?;
        within("filter_bits_per_key", u64::from(self.filter_bits_per_key), 0, 32)?;
        if self.compression.is_empty() || self.compression.len() > esker_manifest::LEVELS {
            return Err(Error::invalid(format!(
                "option compression lists {} levels, it must list 1 to {}",
                self.compression.len(),
                esker_manifest::LEVELS
            )));
        }
        for compression in &self.compression {
            if let Compression::Zstd { level } = compression
                && !(-7..=22).contains(level)
            {
                return Err(Error::invalid(format!("zstd level is {level}, it must be -7 to 22")));
            }
        }
        Ok(())
    }

    /// As stored in the manifest: see `FORMAT.md`, "Keyspace options".
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(self.block_bytes));
        out.push(self.filter_bits_per_key);
        put_varint(&mut out, self.compression.len() as u64);
        for compression in &self.compression {
            let (codec, level) = match *compression {
                Compression::None => (0, 0),
                Compression::Lz4 => (1, 0),
                Compression::Zstd { level } => (2, level),
            };
            out.push(codec);
            // Zigzag: zstd has negative levels.
            put_varint(&mut out, u64::from(((level << 1) ^ (level >> 31)).cast_unsigned()));
        }
        put_bytes(&mut out, self.merge_operator.as_deref().unwrap_or("").as_bytes());
        put_varint(&mut out, u64::from(self.blob_bytes_min));
        out
    }

    /// The options that `stored` holds, whether or not this build has their codec; or what is wrong with it.
    pub(crate) fn decode(stored: &[u8]) -> Result<Self, String> {
        let mut d = Decoder::new(stored);
        let mut read = || -> Result<Self, esker_base::coding::DecodeError> {
            let block_bytes = d.varint("block size")?;
            let block_bytes = u32::try_from(block_bytes).map_err(|_| d.error("block size"))?;
            let filter_bits_per_key = d.u8("filter bits")?;
            let levels = d.varint_max(esker_manifest::LEVELS, "compression levels")?;
            let mut compression = Vec::with_capacity(levels);
            for _ in 0..levels {
                let codec = d.u8("codec")?;
                let zigzag = u32::try_from(d.varint("codec level")?).map_err(|_| d.error("codec level"))?;
                let level = (zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed());
                compression.push(match codec {
                    0 => Compression::None,
                    1 => Compression::Lz4,
                    2 => Compression::Zstd { level },
                    _ => return Err(d.error("codec")),
                });
            }
            let name = d.bytes("merge operator")?;
            let name = std::str::from_utf8(name).map_err(|_| d.error("merge operator"))?;
            let merge_operator = (!name.is_empty()).then(|| name.to_string());
            // What was stored before there were blob files ends here.
            let blob_bytes_min = if d.is_empty() {
                BLOB_BYTES_MIN
            } else {
                let bytes = d.varint("blob threshold")?;
                u32::try_from(bytes).map_err(|_| d.error("blob threshold"))?
            };
            Ok(KeyspaceOptions {
                block_bytes,
                filter_bits_per_key,
                compression,
                merge_operator,
                blob_bytes_min,
            })
        };
        let options =
            read().map_err(|e| format!("its options' {} at byte {} cannot be read", e.what, e.at))?;
        options.check_bounds().map_err(|e| e.to_string())?;
        Ok(options)
    }

    /// Refuse to open with `given` a keyspace stored with `self`.
    pub(crate) fn check_same(&self, name: &str, given: &KeyspaceOptions) -> Result<()> {
        let differ = |option: &'static str, stored: String, given: String| {
            if stored == given {
                return Ok(());
            }
            Err(Error::OptionMismatch { name: name.to_string(), option, stored, given })
        };
        differ("block_bytes", self.block_bytes.to_string(), given.block_bytes.to_string())?;
        differ(
            "filter_bits_per_key",
            self.filter_bits_per_key.to_string(),
            given.filter_bits_per_key.to_string(),
        )?;
        differ("compression", format!("{:?}", self.compression), format!("{:?}", given.compression))?;
        differ(
            "merge_operator",
            format!("{:?}", self.merge_operator),
            format!("{:?}", given.merge_operator),
        )?;
        differ("blob_bytes_min", self.blob_bytes_min.to_string(), given.blob_bytes_min.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option, none left out: one without a setter does not compile here.
    #[test]
    fn the_builder_sets_every_option() {
        let options = DatabaseOptions {
            create_if_missing: false,
            read_only: true,
            durability: Durability::Sync,
            log_writes: LogWrites::Mapped,
            when_stalled: WhenStalled::Fail,
            memtable_bytes_max: 1 << 20,
            sealed_memtables_max: 2,
            cache_bytes: 3 << 20,
            open_files_max: Some(4),
            table_source: TableSource::Mapped,
            compaction_threads: 5,
            l0_tables_trigger: 6,
            l0_tables_slowdown: 7,
            l0_tables_stop: 8,
            compact_for_reads: false,
            level_base_bytes: Some(9 << 20),
            level_fanout: 11,
            table_bytes: 12 << 20,
            dead_run: 13,
        };
        let builder = crate::Database::builder("anywhere")
            .create_if_missing(false)
            .read_only(true)
            .durability(Durability::Sync)
            .log_writes(LogWrites::Mapped)
            .when_stalled(WhenStalled::Fail)
            .memtable_bytes_max(1 << 20)
            .sealed_memtables_max(2)
            .cache_bytes(3 << 20)
            .open_files_max(4)
            .table_source(TableSource::Mapped)
            .compaction_threads(5)
            .l0_tables_trigger(6)
            .l0_tables_slowdown(7)
            .l0_tables_stop(8)
            .compact_for_reads(false)
            .level_base_bytes(9 << 20)
            .level_fanout(11)
            .table_bytes(12 << 20)
            .dead_run(13);
        let (builder, options) = (format!("{builder:?}"), format!("{options:?}"));
        assert!(builder.contains(&options), "{builder}\n{options}");
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let error = |options: KeyspaceOptions| options.validate().expect_err("out of bounds").to_string();
        let short = error(KeyspaceOptions::default().with_block_bytes(255));
        assert!(short.contains("option block_bytes is 255, it must be 256 to 1048576"), "{short}");
        let many = error(KeyspaceOptions::default().with_filter_bits_per_key(33));
        assert!(many.contains("option filter_bits_per_key is 33, it must be 0 to 32"), "{many}");
        let allowed = KeyspaceOptions::default().with_block_bytes(1 << 20).with_filter_bits_per_key(32);
        allowed.validate().expect("within bounds");
    }

    /// However large memtables are: what they may be gives a base that is allowed.
    #[test]
    fn the_base_level_follows_the_memtables_unless_told() {
        for memtable_bytes_max in [1 << 10, 8 << 20, 64 << 20, 64 << 30] {
            let options = DatabaseOptions { memtable_bytes_max, ..DatabaseOptions::default() };
            assert_eq!(options.level_base(), 4 * memtable_bytes_max);
            options.validate().expect("within bounds");
            let told = DatabaseOptions { level_base_bytes: Some(1 << 20), ..options };
            assert_eq!(told.level_base(), 1 << 20);
        }
        let small = DatabaseOptions { level_base_bytes: Some(1), ..DatabaseOptions::default() };
        let error = small.validate().expect_err("below a kibibyte").to_string();
        assert!(error.contains("level_base_bytes is 1"), "{error}");
    }

    /// What is stored reads the same in every build; what no build writes is damage.
    #[test]
    fn stored_codecs_read_whether_or_not_this_build_has_them() {
        let of = |level| KeyspaceOptions::default().with_compression(Compression::Zstd { level });
        let stored = of(3).encode();
        assert_eq!(KeyspaceOptions::decode(&stored), Ok(of(3)));
        let beyond = KeyspaceOptions::decode(&of(23).encode()).expect_err("no such level");
        assert!(beyond.contains("zstd level is 23"), "{beyond}");
        let mut unknown = stored;
        let codec = unknown.iter().position(|byte| *byte == 2).expect("zstd's number");
        unknown[codec] = 3;
        let unknown = KeyspaceOptions::decode(&unknown).expect_err("no such codec");
        assert!(unknown.contains("codec"), "{unknown}");
    }
}
