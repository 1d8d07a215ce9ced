//! Reading every byte of a table and checking everything it says.

use esker_base::blob::BlobPointer;
use esker_base::checksum::{entry_hash, key_hash};
use esker_base::{InternalKey, Kind, OpCost, Result, SeqNo};

use crate::block::{Block, BlockCursor, Known, tag};
use crate::cache::Fill;
use crate::properties::counts_hidden;
use crate::reader::{Parts, TableReader};
use crate::totals::{Totals, disagreement};

/// Bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;

impl TableReader {
    /// Read every byte of the file again, past the cache and the mapping, and check: checksums, the
    /// order of the entries, that every entry is found by index, block search and tag, that the filter
    /// knows every key, and that counts, bounds and content hash are those described. Reads go into
    /// `cost`.
    ///
    /// The first thing found wrong is [`Error::Corruption`](esker_base::Error::Corruption).
    pub fn verify(&self, cost: &mut OpCost) -> Result<()> {
        let identity = self.identity();
        let parts = Parts::read(self.file(), Some((identity.database, identity.number)))?;
        cost.bytes_from_disk += parts.footer.file_bytes - parts.footer.data_bytes();
        let properties_at = parts.footer.properties.offset;
        let wrong = |what: String| esker_base::Error::corruption(self.path(), properties_at, what);
        if parts.footer != *self.footer() || parts.properties != *self.properties() {
            return Err(wrong("the table's description changed since it was opened".into()));
        }
        let mut walk = Walk {
            table: self,
            parts: &parts,
            totals: Totals::default(),
            first: None,
            last: None,
            distinct: 0,
            raw_bytes: 0,
        };
        let index = &parts.index;
        let mut block = 0;
        while block < index.blocks() {
            let end = index.end_within(block, PIECE_BYTES);
            let start = index.offset(block);
            let len = usize::try_from(index.offset(end) - start).unwrap_or_default();
            let piece = bytes::Bytes::from(self.file().read(start, len)?);
            cost.bytes_from_disk += len as u64;
            // The device reads the next piece while this one is checked.
            self.file().prefetch_bytes(
                index.offset(end),
                PIECE_BYTES.min(index.offset(index.blocks()) - index.offset(end)),
            );
            for block in block..end {
                let at = usize::try_from(index.offset(block) - start).unwrap_or_default();
                let stored = piece.slice(at..at + index.stored_len(block));
                walk.block(block, &self.open_slice(block, &stored, Fill::No, cost)?)?;
            }
            block = end;
        }
        let fragments = parts.tombstones.list();
        for fragment in fragments {
            walk.totals.fragment(fragment);
        }
        let (first, last) =
            (walk.first.unwrap_or_default(), walk.last.map(|(key, _)| key).unwrap_or_default());
        let own = &parts.properties.meta;
        let mut found =
            walk.totals.describe(identity, (&first, &last), fragments, own.file_bytes, own.created_millis);
        if let Some(found) = &mut found
            && !counts_hidden(&parts.footer)
        {
            found.hidden_versions = 0;
        }
        let difference = match &found {
            Some(found) => disagreement(own, found, "its content"),
            None => Some("the table holds nothing".into()),
        };
        if let Some(difference) = difference {
            return Err(wrong(difference));
        }
        let filter_keys = if parts.filter.is_active() { walk.distinct } else { 0 };
        if (walk.raw_bytes, filter_keys) != (parts.properties.raw_bytes, parts.properties.filter_keys) {
            return Err(wrong("the properties count other bytes or keys than the table holds".into()));
        }
        Ok(())
    }
}

/// What was seen so far.
struct Walk<'a> {
    table: &'a TableReader,
    parts: &'a Parts,
    totals: Totals,
    first: Option<Vec<u8>>,
    last: Option<(Vec<u8>, SeqNo)>,
    distinct: u64,
    raw_bytes: u64,
}

impl Walk<'_> {
    fn block(&mut self, block: usize, opened: &Block) -> Result<()> {
        let location = self.table.location(block);
        self.raw_bytes += opened.len() as u64;
        let mut cursor = BlockCursor::default();
        cursor.set(opened.clone(), Known::default());
        cursor.stand(0);
        for row in 0..cursor.rows() {
            let key = InternalKey::new(cursor.key(), cursor.seqno());
            let wrong = |what: &str| {
                let key = esker_base::error::printable(key.user);
                location.damaged(0, format!("row {row} of the block, key {key}: {what}"))
            };
            let hash = key_hash(key.user);
            let mut same_key = false;
            if let Some((user, seqno)) = &self.last {
                if InternalKey::new(user, *seqno) >= key {
                    return Err(wrong("it is not behind the row before it"));
                }
                same_key = user == key.user;
            }
            // Separators ascend and so do rows: what holds for the first and the last row holds for those
            // between.
            let outer = row == 0 || row + 1 == cursor.rows();
            if outer && self.parts.index.find(key) != block {
                return Err(wrong("the index does not lead to it"));
            }
            if cursor.lower_bound(key) != row {
                return Err(wrong("searching the block does not lead to it"));
            }
            if opened.view().tag(row) != tag(hash) {
                return Err(wrong("its tag is wrong"));
            }
            if !self.parts.filter.may_contain(hash) {
                return Err(wrong("the filter denies it"));
            }
            self.distinct += u64::from(!same_key);
            let (kind, value) = (cursor.kind(), cursor.value());
            let content = entry_hash(key.user, key.seqno.0, kind as u8, value);
            self.totals.entry(key.user, same_key, key.seqno, kind, value, content);
            if kind == Kind::BlobPut {
                self.totals.refer(BlobPointer::decode(value).map_err(|error| wrong(error.what))?);
            }
            if self.first.is_none() {
                self.first = Some(key.user.to_vec());
            }
            let (user, seqno) = self.last.get_or_insert_default();
            user.clear();
            user.extend_from_slice(key.user);
            *seqno = key.seqno;
            cursor.next();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
