//! Shows a table to a person: every field with its place, its value and whether it checks.
//!
//! Goes on after what does not check, to show as much as there is, and takes the table's identity from
//! its footer. Without a footer that decodes nothing else can be placed: the file is one bad field then.
//! Memory is bounded by the index and one block; any bytes will do.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use esker_base::coding::DecodeError;
use esker_base::error::printable;
use esker_base::{Error, Result};
use esker_vfs::fs::Fs;

use crate::block::{Block, View};
use crate::compression::decompress;
use crate::filter::Filter;
use crate::footer::{BlockHandle, FOOTER_BYTES, Footer};
use crate::index::Index;
use crate::properties::Properties;
use crate::source::TableFile;
use crate::stored::{Location, TRAILER_BYTES, check, check_plain};
use crate::tombstones;

pub use esker_base::inspect::{Field, Verdict};

/// The fields of the table at `path`, from its start to its end. An error of the system ends them.
///
/// ```no_run
/// # fn show(fs: std::sync::Arc<dyn esker_vfs::fs::Fs>) -> esker_base::Result<()> {
/// for field in esker_sstable::inspect(&*fs, "db/000015.sst".as_ref())? {
///     let field = field?;
///     println!("{:>8} {:<16} {} ({})", field.offset, field.name, field.value, field.verdict);
/// }
/// # Ok(()) }
/// ```
pub fn inspect(fs: &dyn Fs, path: &Path) -> Result<Inspection> {
    let file = TableFile::new(fs.open(path)?);
    let file_bytes = file.len()?;
    let tail_bytes = file_bytes.min(4096);
    let tail = file.read(file_bytes - tail_bytes, usize::try_from(tail_bytes).unwrap_or_default())?;
    let mut inspection = Inspection {
        file,
        footer: None,
        index: Index::default(),
        block: 0,
        at: 0,
        rest_done: false,
        fields: VecDeque::new(),
    };
    match Footer::decode(path, &tail, file_bytes, None) {
        Ok(footer) => inspection.footer = Some(footer),
        Err(error) => {
            let verdict =
                if let Error::FormatTooNew { .. } = error { Verdict::Newer } else { Verdict::Bad };
            inspection.push(file_bytes, "table", error.to_string(), verdict);
            inspection.rest_done = true;
        }
    }
    if let Some(footer) = inspection.footer {
        let stored = inspection.read_part(footer.index)?;
        let decoded = inspection
            .plain(footer.index, "index", &stored, |payload| Index::decode(payload, footer.data_bytes()));
        match decoded {
            Ok(index) => inspection.index = index,
            Err(_) if footer.data_bytes() > 0 => {
                let what = "cannot be told apart without the index".to_string();
                inspection.push(footer.data_bytes(), "data blocks", what, Verdict::Unchecked);
            }
            Err(_) => {}
        }
    }
    Ok(inspection)
}

/// An iterator over the fields of a table. Made by [`inspect`].
pub struct Inspection {
    file: TableFile,
    footer: Option<Footer>,
    index: Index,
    /// The next data block.
    block: usize,
    /// Everything before this offset has been turned into fields.
    at: u64,
    rest_done: bool,
    /// Fields not yet handed out.
    fields: VecDeque<Field>,
}

impl Iterator for Inspection {
    type Item = Result<Field>;

    fn next(&mut self) -> Option<Result<Field>> {
        if self.fields.is_empty()
            && let Some(footer) = self.footer
        {
            let step = if self.block < self.index.blocks() {
                self.data_block(&footer)
            } else if self.rest_done {
                Ok(())
            } else {
                self.rest_done = true;
                self.rest(&footer)
            };
            if let Err(error) = step {
                self.footer = None;
                return Some(Err(error));
            }
        }
        self.fields.pop_front().map(Ok)
    }
}

impl Inspection {
    /// Hand out the next `len` bytes as a field.
    fn push(&mut self, len: u64, name: &'static str, value: String, verdict: Verdict) {
        self.fields.push_back(Field { offset: self.at, len, name, value, verdict });
        self.at = self.at.saturating_add(len);
    }

    fn read_part(&self, part: BlockHandle) -> Result<Vec<u8>> {
        self.file.read(part.offset, part.len as usize)
    }

    /// Decode an uncompressed part.
    fn plain<T>(
        &self,
        part: BlockHandle,
        name: &'static str,
        stored: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T> {
        let seed = self.footer.map(|footer| footer.seed());
        let Some(seed) = seed else { return Err(Error::invalid("a part is decoded behind its footer")) };
        let location = Location { path: self.file.path(), seed, offset: part.offset };
        decode(check_plain(location, name, stored)?).map_err(|e| location.undecodable(name, e))
    }

    fn data_block(&mut self, footer: &Footer) -> Result<()> {
        let offset = self.index.offset(self.block);
        let stored = self.file.read(offset, self.index.stored_len(self.block))?;
        let location = Location { path: self.file.path(), seed: footer.seed(), offset };
        let opened = check(location, "block", &stored).and_then(|checked| {
            let raw = decompress(location, checked)?;
            let block = Block::new(raw.into()).map_err(|e| location.undecodable("block", e))?;
            Ok((checked.codec, block))
        });
        match opened {
            Ok((codec, block)) => {
                let view = block.view();
                let rows = view.rows();
                let value = format!(
                    "{rows} rows from {} to {}, {} bytes, codec {codec:?}{}",
                    entry(view, 0),
                    entry(view, rows - 1),
                    block.len(),
                    until(&self.index, self.block),
                );
                self.push(stored.len() as u64, "data block", value, Verdict::Ok);
            }
            Err(error) => self.push(stored.len() as u64, "data block", error.to_string(), Verdict::Bad),
        }
        self.block += 1;
        Ok(())
    }

    /// Everything after the data blocks.
    fn rest(&mut self, footer: &Footer) -> Result<()> {
        for (name, part) in footer.parts() {
            if part.len == 0 {
                continue;
            }
            let stored = self.read_part(part)?;
            let shown = match name {
                "tombstones" => self.plain(part, name, &stored, tombstones::decode).map(|fragments| {
                    let mut text = format!("{} fragments:", fragments.list().len());
                    for f in fragments.list().iter().take(8) {
                        let numbers: Vec<u64> = f.seqnos.iter().take(8).map(|n| n.0).collect();
                        // Writing to a string cannot fail.
                        let _ = write!(text, " {}..{} {numbers:?}", printable(&f.start), printable(&f.end));
                    }
                    text
                }),
                "filter" => self.plain(part, name, &stored, Filter::decode).map(|filter| {
                    format!("{} lines of 64 bytes, {} probes", filter.memory() / 64, filter.probes())
                }),
                "index" => self
                    .plain(part, name, &stored, |payload| Index::decode(payload, footer.data_bytes()))
                    .map(|index| format!("{} data blocks", index.blocks())),
                _ => self
                    .plain(part, name, &stored, |payload| Properties::decode(payload, footer))
                    .map(|properties| described(&properties)),
            };
            let payload = u64::from(part.len).saturating_sub(TRAILER_BYTES as u64);
            match shown {
                Ok(value) => {
                    self.push(payload, name, value, Verdict::Ok);
                    self.push(TRAILER_BYTES as u64, "trailer", "codec None".into(), Verdict::Ok);
                }
                Err(error) => self.push(part.len.into(), name, error.to_string(), Verdict::Bad),
            }
        }
        let id = footer.identity;
        let database = u128::from_be_bytes(id.database.0);
        let value = format!(
            "table {} of keyspace {} in database {database:032x}, version {}",
            id.number, id.keyspace.0, footer.version
        );
        self.push(FOOTER_BYTES as u64, "footer", value, Verdict::Ok);
        Ok(())
    }
}

/// A table's properties in words.
fn described(properties: &Properties) -> String {
    let Properties { meta, options, raw_bytes, filter_keys } = properties;
    let bounds = &meta.bounds;
    format!(
        "keys {} {} {}, {} entries ({} tombstones, {} operands, {} hidden versions), {} range tombstones, sequence numbers {} to {}, \
         {} bytes of keys, {} of values, content hash {:016x}, made {} ms after 1970, blocks of {} bytes ({raw_bytes} \
         in all), compression {:?}, {} filter bits for each of {filter_keys} keys",
        printable(&bounds.smallest),
        if bounds.largest_exclusive { "up to before" } else { "to" },
        printable(&bounds.largest),
        meta.entries,
        meta.point_tombstones,
        meta.merge_operands,
        meta.hidden_versions,
        meta.range_tombstones,
        meta.smallest_seqno,
        meta.largest_seqno,
        meta.key_bytes,
        meta.value_bytes,
        meta.content_hash,
        meta.created_millis,
        options.block_bytes,
        options.compression,
        options.filter_bits_per_key,
    )
}

/// Key and number of a row.
fn entry(view: View<'_>, row: u32) -> String {
    let mut key = Vec::new();
    view.key_into(row, &mut key);
    format!("{} @{} {:?}", printable(&key), view.seqno(row), view.kind(row))
}

/// What the index says of a block's end.
fn until(index: &Index, block: usize) -> String {
    let separator = printable(&index.separator(block));
    match index.seqno(block).0 {
        0 => format!(", separator {separator}"),
        seqno => format!(", separator {separator} @{seqno}"),
    }
}
