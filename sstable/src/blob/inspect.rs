//! Shows a blob file to a person: header, records, footer, each with its place and whether it checks.
//!
//! Goes on after a record whose value is damaged, as long as its lengths lead somewhere. Memory is bounded by the
//! longest record; any bytes will do.

use std::path::Path;
use std::sync::Arc;

use esker_base::checksum::ChecksumSeed;
use esker_base::error::printable;
use esker_base::inspect::{Field, Verdict};
use esker_base::{Error, Result};
use esker_vfs::fs::{File, Fs, read_exact_at};

use super::layout::{
    FOOTER_BYTES, HEADER_BYTES, RECORD_BYTES, RECORD_BYTES_MAX, check, decode_footer, decode_header,
    lengths, record_bytes,
};
use crate::options::TableIdentity;
use crate::stored::Location;

/// The fields of the blob file at `path`, from its start to its end. An error of the system ends them.
pub fn inspect_blob(fs: &dyn Fs, path: &Path) -> Result<BlobInspection> {
    let file = fs.open(path)?;
    let len = file.len()?;
    Ok(BlobInspection { file, len, at: 0, identity: None, unknown: Verdict::Unchecked, done: false })
}

/// An iterator over the fields of a blob file. Made by [`inspect_blob`].
pub struct BlobInspection {
    file: Arc<dyn File>,
    len: u64,
    /// Everything before this offset has been shown.
    at: u64,
    /// What the header says, if it checks.
    identity: Option<TableIdentity>,
    /// What is said of the records if it does not.
    unknown: Verdict,
    done: bool,
}

impl Iterator for BlobInspection {
    type Item = Result<Field>;

    fn next(&mut self) -> Option<Result<Field>> {
        if self.done {
            return None;
        }
        let field = self.field();
        if let Ok(field) = &field {
            self.at += field.len;
        }
        self.done = field.is_err() || self.at >= self.len;
        Some(field)
    }
}

impl BlobInspection {
    fn show(&self, len: u64, name: &'static str, value: String, verdict: Verdict) -> Field {
        Field { offset: self.at, len, name, value, verdict }
    }

    /// Everything that is left, as one field.
    fn rest(&self, name: &'static str, value: String, verdict: Verdict) -> Field {
        self.show(self.len - self.at, name, value, verdict)
    }

    fn field(&mut self) -> Result<Field> {
        let end = self.len.saturating_sub(FOOTER_BYTES as u64);
        if self.at == 0 {
            return self.header();
        }
        let Some(identity) = self.identity else {
            let what = "cannot be told apart without the header".to_owned();
            return Ok(self.rest("records", what, self.unknown));
        };
        if self.at == end {
            let bytes = read_exact_at(&*self.file, end, FOOTER_BYTES)?;
            return Ok(match decode_footer(self.file.path(), &bytes, identity, self.len) {
                Ok(meta) => {
                    let value = format!("{} values, {} bytes", meta.values, meta.value_bytes);
                    self.rest("footer", value, Verdict::Ok)
                }
                Err(error) => self.rest("footer", error.to_string(), Verdict::Bad),
            });
        }
        self.record(identity, end)
    }

    fn header(&mut self) -> Result<Field> {
        if self.len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            let what = format!("a blob file is longer than {} bytes", self.len);
            return Ok(self.rest("blob file", what, Verdict::Bad));
        }
        let bytes = read_exact_at(&*self.file, 0, HEADER_BYTES)?;
        Ok(match decode_header(self.file.path(), &bytes, None) {
            Ok(identity) => {
                self.identity = Some(identity);
                let database = u128::from_be_bytes(identity.database.0);
                let value = format!(
                    "blob file {} of keyspace {} in database {database:032x}",
                    identity.number, identity.keyspace.0
                );
                self.show(HEADER_BYTES as u64, "header", value, Verdict::Ok)
            }
            Err(error) => {
                let mut verdict = Verdict::Bad;
                if let Error::FormatTooNew { .. } = error {
                    (verdict, self.unknown) = (Verdict::Newer, Verdict::Newer);
                }
                self.show(HEADER_BYTES as u64, "header", error.to_string(), verdict)
            }
        })
    }

    fn record(&self, identity: TableIdentity, end: u64) -> Result<Field> {
        let left = end - self.at;
        let start = read_exact_at(&*self.file, self.at, RECORD_BYTES)?;
        let len = lengths(&start).map(|(key, value)| record_bytes(key.into(), value));
        let Some(len) = len.filter(|len| *len <= left.min(RECORD_BYTES_MAX)) else {
            let what =
                "a record that is longer than any, or reaches beyond the end of the records".to_owned();
            return Ok(self.rest("records", what, Verdict::Bad));
        };
        let bytes = read_exact_at(&*self.file, self.at, usize::try_from(len).unwrap_or(usize::MAX))?;
        let seed = ChecksumSeed::new(identity.database, identity.number);
        let location = Location { path: self.file.path(), seed, offset: self.at };
        Ok(match check(location, &bytes) {
            Ok(record) => {
                let value = format!("value of {} bytes of {}", record.value.len(), printable(record.key));
                self.show(len, "record", value, Verdict::Ok)
            }
            Err(error) => self.show(len, "record", error.to_string(), Verdict::Bad),
        })
    }
}
