//! Shows a file of a database to a person: every field with its offset, its value and whether its
//! checksum holds.
//!
//! What a file is says its content (the magic number); where that is damaged, its name. Nothing is
//! judged against the database, which need not be whole and may be open elsewhere; bytes that are
//! being appended meanwhile may show as a torn end. Memory is bounded by one block or one record; any
//! bytes will do.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use esker_base::coding::Decoder;
use esker_base::error::printable;
use esker_base::filename::{self, FileName};
use esker_base::format::{BLOB_MAGIC, LOG_MAGIC, MANIFEST_MAGIC, TABLE_MAGIC};
pub use esker_base::inspect::{Field, Verdict};
use esker_base::{Error, Kind, Result};
use esker_vfs::fs::{self, File, Fs};

use crate::batch::{Op, decode_op};

#[cfg(test)]
mod tests;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A write-ahead log.
    Log,
    /// A table.
    Table,
    /// Values of tables.
    Blob,
    /// Edits to the set of tables.
    Manifest,
    /// The name of the manifest in force.
    Current,
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileKind::Log => "write-ahead log",
            FileKind::Table => "table",
            FileKind::Blob => "blob file",
            FileKind::Manifest => "manifest",
            FileKind::Current => "CURRENT",
        })
    }
}

impl FileKind {
    /// What the magic number at the file's start or end says.
    fn by_content(file: &dyn File) -> Result<Option<FileKind>> {
        let mut magic = [0; 8];
        if file.read_at(&mut magic, 0)? == magic.len() {
            match magic {
                LOG_MAGIC => return Ok(Some(FileKind::Log)),
                MANIFEST_MAGIC => return Ok(Some(FileKind::Manifest)),
                BLOB_MAGIC => return Ok(Some(FileKind::Blob)),
                _ => {}
            }
        }
        if let Some(end) = file.len()?.checked_sub(magic.len() as u64)
            && file.read_at(&mut magic, end)? == magic.len()
            && magic == TABLE_MAGIC
        {
            return Ok(Some(FileKind::Table));
        }
        Ok(esker_manifest::inspect::is_current(file)?.then_some(FileKind::Current))
    }

    fn by_name(path: &Path) -> Option<FileKind> {
        match FileName::parse(path.file_name()?.to_str()?)? {
            FileName::Log(_) => Some(FileKind::Log),
            FileName::Table(_) => Some(FileKind::Table),
            FileName::Blob(_) => Some(FileKind::Blob),
            FileName::Manifest(_) => Some(FileKind::Manifest),
            FileName::Current => Some(FileKind::Current),
            FileName::Lock | FileName::Temporary(_) => None,
        }
    }
}

/// The fields of a file, in order, each byte covered once. Made by [`file()`].
///
/// An error of the system ends it; damage is a field like any other, with its verdict.
pub struct Inspection {
    kind: FileKind,
    misnamed: bool,
    fields: Box<dyn Iterator<Item = Result<Field>>>,
}

impl std::fmt::Debug for Inspection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspection").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Inspection {
    /// What the file is.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Whether its name says something else: no database will read it under that name.
    pub fn is_misnamed(&self) -> bool {
        self.misnamed
    }
}

impl Iterator for Inspection {
    type Item = Result<Field>;
    fn next(&mut self) -> Option<Self::Item> {
        self.fields.next()
    }
}

/// The fields of the file at `path`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// # db.close()?;
/// let fields = esker::inspect::file(&dir.path().join("CURRENT"))?;
/// assert_eq!(fields.kind(), esker::inspect::FileKind::Current);
/// for field in fields {
///     let field = field?;
///     println!("{:>8} {:<20} {} ({})", field.offset, field.name, field.value, field.verdict);
///     # assert_eq!(field.verdict, esker::inspect::Verdict::Ok);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Io`] if it cannot be read; [`Error::InvalidArgument`] if neither content nor name are
/// those of a database's file.
pub fn file(path: &Path) -> Result<Inspection> {
    file_in(&esker_vfs::os::OsFs::new(), path)
}

/// [`file()`], in another filesystem than the system's.
pub fn file_in(fs: &dyn Fs, path: &Path) -> Result<Inspection> {
    let opened = fs.open(path)?;
    let (by_content, by_name) = (FileKind::by_content(&*opened)?, FileKind::by_name(path));
    let kind = by_content.or(by_name).ok_or_else(|| {
        Error::invalid(format!(
            "{} is none of a database's files: neither its content nor its name say log (.log), table (.sst), \
             blob file (.blob), manifest (.manifest) or {}",
            path.display(),
            filename::CURRENT
        ))
    })?;
    let fields: Box<dyn Iterator<Item = Result<Field>>> = match kind {
        FileKind::Log => Box::new(Log {
            file: opened,
            fields: esker_wal::inspect(fs, path)?,
            whole: false,
            tag: 0,
            parts: VecDeque::new(),
        }),
        FileKind::Table => Box::new(esker_sstable::inspect(fs, path)?),
        FileKind::Blob => Box::new(esker_sstable::inspect_blob(fs, path)?),
        FileKind::Manifest | FileKind::Current => esker_manifest::inspect(fs, path)?,
    };
    Ok(Inspection { kind, misnamed: by_name.is_some_and(|name| name != kind), fields })
}

/// The fields of a write-ahead log, its payloads taken apart into the operations they hold.
struct Log {
    file: Arc<dyn File>,
    fields: esker_wal::Inspection,
    /// Whether the record being shown lies in one fragment.
    whole: bool,
    /// Its tag: the sequence number of its first operation.
    tag: u64,
    parts: VecDeque<Field>,
}

impl Iterator for Log {
    type Item = Result<Field>;

    fn next(&mut self) -> Option<Result<Field>> {
        if let Some(part) = self.parts.pop_front() {
            return Some(Ok(part));
        }
        let field = match self.fields.next()? {
            Ok(field) => field,
            Err(error) => return Some(Err(error)),
        };
        match field.name {
            "kind" => self.whole = field.value.contains("full"),
            "tag" => self.tag = field.value.parse().unwrap_or_default(),
            // A batch that was cut into fragments is shown as the log shows it.
            "payload" if field.verdict == Verdict::Ok && self.whole => {
                if let Err(error) = self.take_apart(&field) {
                    return Some(Err(error));
                }
                return self.next();
            }
            _ => {}
        }
        Some(Ok(field))
    }
}

impl Log {
    /// One field an operation.
    fn take_apart(&mut self, payload: &Field) -> Result<()> {
        let what = "a record is longer than memory reaches";
        let len = usize::try_from(payload.len)
            .map_err(|_| Error::corruption(self.file.path(), payload.offset, what))?;
        let bytes = fs::read_exact_at(&*self.file, payload.offset, len)?;
        let mut decoder = Decoder::new(&bytes);
        let mut seqno = self.tag;
        loop {
            let start = decoder.position();
            let (end, name, value, verdict) = match decode_op(&mut decoder) {
                Ok(None) => return Ok(()),
                Ok(Some(op)) => (decoder.position(), name_of(op.kind), shown(op, seqno), Verdict::Ok),
                Err(error) => {
                    let value = format!("{} at byte {} of the payload", error.what, error.at);
                    (len, "no operation", value, Verdict::Bad)
                }
            };
            let offset = payload.offset.saturating_add(start as u64);
            self.parts.push_back(Field { offset, len: (end - start) as u64, name, value, verdict });
            seqno = seqno.saturating_add(1);
            if end == len {
                return Ok(());
            }
        }
    }
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Put => "put",
        Kind::BlobPut => "put in a blob file",
        Kind::Delete => "delete",
        Kind::Merge => "merge",
        Kind::RangeDelete => "delete range",
    }
}

fn shown(op: Op<'_>, seqno: u64) -> String {
    let (key, value) = (printable(op.key), printable(op.value));
    let what = match op.kind {
        Kind::Put | Kind::BlobPut => format!("\"{key}\" = \"{value}\", {} bytes", op.value.len()),
        Kind::Delete => format!("\"{key}\""),
        Kind::Merge => format!("\"{key}\" with \"{value}\", {} bytes", op.value.len()),
        Kind::RangeDelete => format!("\"{key}\" up to before \"{value}\""),
    };
    format!("@{seqno} keyspace {}: {what}", op.keyspace.0)
}
