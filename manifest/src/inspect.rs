//! Shows a manifest, or `CURRENT`, to a person: every field with its place, its value and whether it checks.
//!
//! The fields of a manifest's log are shown as `esker-wal` shows them, with each payload taken apart into
//! its edits. Nothing is checked against the state: an edit that does not fit is shown like one that does.
//! Memory is bounded by the longest record; any bytes will do.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use esker_base::error::printable;
use esker_base::filename::CURRENT;
use esker_base::inspect::{Field, Verdict};
use esker_base::{Error, Result};
use esker_vfs::fs::{self, File, Fs};

use crate::current_file::{self, Current};
use crate::edit::{self, Edit};

#[cfg(test)]
mod tests;

/// The fields of the manifest, or `CURRENT`, at `path`, from its start to its end. The fields, in order,
/// cover each byte once. An error of the system ends them.
///
/// ```no_run
/// # fn main() -> esker_base::Result<()> {
/// # let fs: std::sync::Arc<dyn esker_vfs::fs::Fs> = unimplemented!();
/// for field in esker_manifest::inspect(&*fs, "db/000007.manifest".as_ref())? {
///     let field = field?;
///     println!("{:>8} {:<20} {} ({})", field.offset, field.name, field.value, field.verdict);
/// }
/// # Ok(())
/// # }
/// ```
pub fn inspect(fs: &dyn Fs, path: &Path) -> Result<Box<dyn Iterator<Item = Result<Field>>>> {
    let file = fs.open(path)?;
    if is_current(&*file)? || path.file_name().is_some_and(|name| name == CURRENT) {
        let bytes = fs::read_all(fs, path, current_file::BYTES_MAX)?;
        return Ok(Box::new(current(&bytes, path).into_iter().map(Ok)));
    }
    if file.len()? == 0 {
        return Ok(Box::new(std::iter::once(Ok(Field::of_an_empty_file("header")))));
    }
    let fields = Box::new(esker_wal::inspect(fs, path)?);
    Ok(Box::new(Manifest { file, fields, kind: String::new(), edits: VecDeque::new() }))
}

/// Whether the file begins as a `CURRENT` does, whatever its name.
pub fn is_current(file: &dyn File) -> Result<bool> {
    let mut start = [0; current_file::TITLE.len()];
    let read = file.read_at(&mut start, 0)?;
    Ok(start.get(..read) == Some(current_file::TITLE.as_bytes()))
}

/// One field a line.
fn current(bytes: &[u8], path: &Path) -> Vec<Field> {
    if bytes.is_empty() {
        return vec![Field::of_an_empty_file("title and version")];
    }
    let verdict = match Current::decode(bytes, path) {
        Ok(_) => Verdict::Ok,
        Err(Error::FormatTooNew { .. }) => Verdict::Newer,
        Err(_) => Verdict::Bad,
    };
    let mut offset = 0;
    let names = ["title and version", "database", "manifest", "checksum"]
        .into_iter()
        .chain(std::iter::repeat("line"));
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .zip(names)
        .map(|(line, name)| {
            let len = line.len() as u64;
            let field = Field { offset, len, name, value: printable(line.trim_ascii_end()), verdict };
            offset += len;
            field
        })
        .collect()
}

/// The log's fields, payloads taken apart.
struct Manifest {
    file: Arc<dyn File>,
    fields: Box<esker_wal::Inspection>,
    /// The kind of the fragment whose fields are being shown.
    kind: String,
    edits: VecDeque<Field>,
}

impl Iterator for Manifest {
    type Item = Result<Field>;

    fn next(&mut self) -> Option<Result<Field>> {
        if let Some(edit) = self.edits.pop_front() {
            return Some(Ok(edit));
        }
        let field = match self.fields.next()? {
            Ok(field) => field,
            Err(error) => return Some(Err(error)),
        };
        match field.name {
            "kind" => self.kind.clone_from(&field.value),
            // A payload that was cut into fragments is shown as the log shows it.
            "payload" if field.verdict == Verdict::Ok && self.kind.contains("full") => {
                return match self.take_apart(&field) {
                    Ok(edits) => {
                        self.edits = edits;
                        self.next()
                    }
                    Err(error) => Some(Err(error)),
                };
            }
            _ => {}
        }
        Some(Ok(field))
    }
}

impl Manifest {
    fn take_apart(&self, payload: &Field) -> Result<VecDeque<Field>> {
        let what = "a record is longer than memory reaches";
        let len = usize::try_from(payload.len)
            .map_err(|_| Error::corruption(self.file.path(), payload.offset, what))?;
        let bytes = fs::read_exact_at(&*self.file, payload.offset, len)?;
        let mut fields = VecDeque::new();
        let mut edits = edit::decode(&bytes);
        let mut start = 0;
        while let Some(edit) = edits.next() {
            let (end, name, value, verdict) = match edit {
                Ok(edit) => (edits.position(), edit.name(), edit.to_string(), Verdict::Ok),
                Err(error) => {
                    let value = format!("{} at byte {} of the payload", error.what, error.at);
                    (len, "no edit", value, Verdict::Bad)
                }
            };
            let offset = payload.offset.saturating_add(start as u64);
            fields.push_back(Field { offset, len: (end - start) as u64, name, value, verdict });
            start = end;
        }
        Ok(fields)
    }
}

impl Edit {
    /// The kind's name in `FORMAT.md`.
    pub fn name(&self) -> &'static str {
        match self {
            Edit::DropKeyspace { .. } => "drop keyspace",
            Edit::CreateKeyspace { .. } => "create keyspace",
            Edit::RemoveTable { .. } => "remove table",
            Edit::AddTable { .. } => "add table",
            Edit::AddBlob { .. } => "add blob file",
            Edit::ClosedLog { .. } => "closed log",
            Edit::ForgetLogs { .. } => "forget logs",
            Edit::LastSeqNo(_) => "last sequence number",
            Edit::NextFile(_) => "next file",
            Edit::NextKeyspace(_) => "next keyspace",
            Edit::CleanClose { .. } => "clean close",
            Edit::DurableLog { .. } => "durable log",
        }
    }
}

/// The fields, for people.
impl std::fmt::Display for Edit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Edit::DropKeyspace { id } | Edit::NextKeyspace(id) => write!(f, "{}", id.0),
            Edit::CreateKeyspace { id, name, options } => {
                write!(f, "{} {name:?}, {} bytes of options", id.0, options.len())
            }
            Edit::RemoveTable { keyspace, level, number } => {
                write!(f, "{number} from level {level} of keyspace {}", keyspace.0)
            }
            Edit::AddBlob { meta } => write!(
                f,
                "{} of keyspace {}: {} bytes, {} values of {} bytes",
                meta.number, meta.keyspace.0, meta.file_bytes, meta.values, meta.value_bytes
            ),
            Edit::AddTable { level, meta } => {
                let bounds = &meta.bounds;
                write!(
                    f,
                    "{} to level {level} of keyspace {}: {} bytes, keys \"{}\" {} \"{}\", sequence numbers {} to {}, \
                     {} entries ({} tombstones, {} operands, {} hidden versions), {} range tombstones",
                    meta.number,
                    meta.keyspace.0,
                    meta.file_bytes,
                    printable(&bounds.smallest),
                    if bounds.largest_exclusive { "up to before" } else { "to" },
                    printable(&bounds.largest),
                    meta.smallest_seqno,
                    meta.largest_seqno,
                    meta.entries,
                    meta.point_tombstones,
                    meta.merge_operands,
                    meta.hidden_versions,
                    meta.range_tombstones,
                )?;
                for blob in &meta.blobs {
                    write!(
                        f,
                        ", {} values of {} bytes in blob file {}",
                        blob.values, blob.value_bytes, blob.number
                    )?;
                }
                Ok(())
            }
            Edit::ClosedLog { number, len }
            | Edit::DurableLog { number, len }
            | Edit::CleanClose { log: number, len } => {
                write!(f, "{number}, {len} bytes")
            }
            Edit::ForgetLogs { before } => write!(f, "before {before}"),
            Edit::LastSeqNo(seqno) => write!(f, "{seqno}"),
            Edit::NextFile(number) => write!(f, "{number}"),
        }
    }
}
