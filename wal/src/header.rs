//! The first 64 bytes of a log: what it is, whose it is, and which log came before it.
//!
//! The layout is frozen for all versions, so that an older build can tell "newer" from "damaged". The
//! header's checksum is seeded with the identity written in the header itself. So a header that checks can
//! be believed about whose it is, and a header of another database or another number is refused as that,
//! instead of being taken for a torn one.

use std::path::Path;

use esker_base::checksum::ChecksumSeed;
use esker_base::coding::{DecodeError, Decoder};
use esker_base::filename::FileName;
use esker_base::format::{LOG_MAGIC, LOG_VERSION, MANIFEST_MAGIC, MANIFEST_VERSION};
use esker_base::{DatabaseId, Error, FileNumber, Result};

use crate::record::Layout;

/// Length of the header in bytes: the offset of a log's first record.
pub const HEADER_LEN: usize = 64;

/// How much of the header its checksum covers.
const CHECKED_LEN: usize = HEADER_LEN - 4;

/// Offsets of the fields that a mismatch is reported at.
const DATABASE_AT: u64 = 16;
const NUMBER_AT: u64 = 32;

/// The first versions in which headers of records are short.
const LOG_VERSION_COMPACT: u32 = 2;
const MANIFEST_VERSION_COMPACT: u32 = 4;

/// What a log is kept for; picks its magic number, its version and its file name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    /// A write-ahead log.
    WriteAhead,
    /// A manifest.
    Manifest,
}

impl LogKind {
    /// The first eight bytes of such a file.
    pub fn magic(self) -> [u8; 8] {
        match self {
            LogKind::WriteAhead => LOG_MAGIC,
            LogKind::Manifest => MANIFEST_MAGIC,
        }
    }

    /// The newest version of it that this build reads, and the one it writes.
    pub fn version(self) -> u32 {
        match self {
            LogKind::WriteAhead => LOG_VERSION,
            LogKind::Manifest => MANIFEST_VERSION,
        }
    }

    /// The first version in which headers of records are short.
    fn compact_since(self) -> u32 {
        match self {
            LogKind::WriteAhead => LOG_VERSION_COMPACT,
            LogKind::Manifest => MANIFEST_VERSION_COMPACT,
        }
    }

    /// The kind with this magic number.
    pub(crate) fn from_magic(magic: [u8; 8]) -> Option<LogKind> {
        [LogKind::WriteAhead, LogKind::Manifest].into_iter().find(|kind| kind.magic() == magic)
    }
}

impl std::fmt::Display for LogKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LogKind::WriteAhead => "a write-ahead log",
            LogKind::Manifest => "a manifest",
        })
    }
}

/// Whose log it is. Seeds every checksum in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogIdentity {
    /// The database it belongs to.
    pub database: DatabaseId,
    /// The number in its name.
    pub number: FileNumber,
    /// What it is kept for.
    pub kind: LogKind,
}

impl LogIdentity {
    /// The name of its file.
    ///
    /// ```
    /// use esker_base::{DatabaseId, FileNumber};
    /// use esker_wal::{LogIdentity, LogKind};
    /// let identity = LogIdentity {
    ///     database: DatabaseId([7; 16]),
    ///     number: FileNumber(12),
    ///     kind: LogKind::WriteAhead,
    /// };
    /// assert_eq!(identity.file_name().to_string(), "000012.log");
    /// ```
    pub fn file_name(&self) -> FileName {
        match self.kind {
            LogKind::WriteAhead => FileName::Log(self.number),
            LogKind::Manifest => FileName::Manifest(self.number),
        }
    }

    /// The seed of every checksum in the file.
    pub(crate) fn seed(&self) -> ChecksumSeed {
        ChecksumSeed::new(self.database, self.number)
    }
}

/// The log before this one, as this one's header records it: it shows when a log is missing or was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Predecessor {
    /// Its number.
    pub number: FileNumber,
    /// Its final length in bytes: the end of its last record.
    pub len: u64,
}

/// The fields of a header, as they stand there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) has_predecessor: u32,
    pub(crate) database: DatabaseId,
    pub(crate) number: FileNumber,
    pub(crate) predecessor: Predecessor,
    pub(crate) reserved: u32,
    pub(crate) checksum: u32,
}

/// The database that the log or manifest which starts with `bytes` was made in; `None` if its header, of [`HEADER_LEN`] bytes,
/// is not whole or does not check.
pub fn database_of(bytes: &[u8]) -> Option<DatabaseId> {
    LogHeader::decode(bytes).map(|header| header.database)
}

impl LogHeader {
    /// The bytes of a new log's header.
    pub(crate) fn encode(identity: &LogIdentity, predecessor: Option<Predecessor>) -> Vec<u8> {
        let none = Predecessor { number: FileNumber(0), len: 0 };
        let Predecessor { number, len } = predecessor.unwrap_or(none);
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(&identity.kind.magic());
        bytes.extend_from_slice(&identity.kind.version().to_le_bytes());
        bytes.extend_from_slice(&u32::from(predecessor.is_some()).to_le_bytes());
        bytes.extend_from_slice(&identity.database.0);
        bytes.extend_from_slice(&identity.number.0.to_le_bytes());
        bytes.extend_from_slice(&number.0.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        let checksum = identity.seed().checksum(0, &[&bytes]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        debug_assert_eq!(bytes.len(), HEADER_LEN);
        bytes
    }

    /// The fields at the start of `bytes`, unchecked.
    pub(crate) fn parse(bytes: &[u8]) -> Result<LogHeader, DecodeError> {
        let mut input = Decoder::new(bytes);
        Ok(LogHeader {
            magic: input.array("magic")?,
            version: input.u32("version")?,
            has_predecessor: input.u32("has predecessor")?,
            database: DatabaseId(input.array("database")?),
            number: FileNumber(input.u64("number")?),
            predecessor: Predecessor {
                number: FileNumber(input.u64("predecessor")?),
                len: input.u64("predecessor length")?,
            },
            reserved: input.u32("reserved")?,
            checksum: input.u32("checksum")?,
        })
    }

    /// The checksum that `bytes`, which hold these fields, ought to carry.
    pub(crate) fn expected_checksum(&self, bytes: &[u8]) -> u32 {
        let covered = bytes.get(..CHECKED_LEN).unwrap_or(bytes);
        ChecksumSeed::new(self.database, self.number).checksum(0, &[covered])
    }

    /// The header at the start of `bytes` if it is whole and checks, whatever it says. `None` for a
    /// header that was never durable, or is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<LogHeader> {
        let header = LogHeader::parse(bytes).ok()?;
        (header.checksum == header.expected_checksum(bytes)).then_some(header)
    }

    /// Refuse a header, which checks, that says something else than `identity`.
    pub(crate) fn verify(&self, path: &Path, identity: &LogIdentity) -> Result<()> {
        if self.magic != identity.kind.magic() {
            let found = match LogKind::from_magic(self.magic) {
                Some(kind) => kind.to_string(),
                None => format!("a file with the magic number {}", self.magic.escape_ascii()),
            };
            return Err(Error::corruption(
                path,
                0,
                format!("{} was expected, this is {found}", identity.kind),
            ));
        }
        let supported = identity.kind.version();
        if self.version > supported {
            return Err(Error::FormatTooNew { path: path.to_path_buf(), found: self.version, supported });
        }
        if self.version == 0 || self.has_predecessor > 1 || self.reserved != 0 {
            let what = format!(
                "its header checks, yet no build writes version {} with the flags {} and {}",
                self.version, self.has_predecessor, self.reserved
            );
            return Err(Error::corruption(path, 8, what));
        }
        if self.database != identity.database {
            let what = format!(
                "it belongs to database {}, this is database {}",
                hex(&self.database.0),
                hex(&identity.database.0)
            );
            return Err(Error::corruption(path, DATABASE_AT, what));
        }
        if self.number != identity.number {
            let what = format!("it was written as file {}, not as {}", self.number, identity.number);
            return Err(Error::corruption(path, NUMBER_AT, what));
        }
        Ok(())
    }

    /// How the headers of records are laid out in a log of this header, which says that it is a `kind` of a version this build
    /// knows.
    pub(crate) fn layouts(&self, kind: LogKind) -> &'static [Layout] {
        if self.version < kind.compact_since() { &[Layout::Wide] } else { &[Layout::Compact] }
    }

    /// Whether this header, which checks, is that of a log before `forgotten`, of whose file the log `identity` was made.
    pub(crate) fn is_left_over(&self, identity: &LogIdentity, forgotten: FileNumber) -> bool {
        let of_such_a_log = self.magic == identity.kind.magic() && self.database == identity.database;
        of_such_a_log && self.number < forgotten.min(identity.number)
    }

    /// The predecessor, if one is recorded.
    pub(crate) fn predecessor(&self) -> Option<Predecessor> {
        (self.has_predecessor == 1).then_some(self.predecessor)
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
