//! What flushes and merges make of imagined tables.

use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};

use super::{Order, Workload};
use crate::outputs::Cut;
use crate::plan::Plan;

/// A piece of the key space `[from, to)` with the number of entries in it, evenly spread.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: f64,
    to: f64,
    entries: f64,
}

/// The keys written so far, and the numbers in use.
pub(super) struct Model {
    keys: f64,
    entry_bytes: u64,
    order: Order,
    memtable_bytes: u64,
    written_entries: f64,
    next_file: u64,
    next_seqno: u64,
}

fn key_of(at: f64) -> Vec<u8> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "keys are numbers below 2^63"
    )]
    let number = at.round() as u64;
    number.to_be_bytes().to_vec()
}

fn number_of(key: &[u8]) -> f64 {
    key.first_chunk().map_or(0.0, |bytes| u64::from_be_bytes(*bytes) as f64)
}

/// The piece of key space that bounds span.
fn span(bounds: &KeyBounds) -> (f64, f64) {
    (number_of(&bounds.smallest), number_of(&bounds.largest))
}

impl Model {
    pub(super) fn new(workload: &Workload) -> Model {
        Model {
            keys: workload.keys as f64,
            entry_bytes: workload.entry_bytes,
            order: workload.order,
            memtable_bytes: workload.memtable_bytes,
            written_entries: 0.0,
            next_file: 1,
            next_seqno: 1,
        }
    }

    /// Bytes of the newest versions of all keys ever written.
    pub(super) fn live_bytes(&self) -> u64 {
        let keys = match self.order {
            Order::Random => self.keys * (1.0 - (-self.written_entries / self.keys).exp()),
            Order::Ascending => self.written_entries.min(self.keys),
        };
        self.bytes(keys)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are not negative")]
    fn bytes(&self, entries: f64) -> u64 {
        entries.round() as u64 * self.entry_bytes
    }

    /// The tables of one memtable.
    pub(super) fn flush(&mut self, cut: &Cut) -> Vec<TableMeta> {
        let entries = (self.memtable_bytes / self.entry_bytes) as f64;
        let piece = match self.order {
            Order::Random => {
                let distinct = self.keys * (1.0 - (-entries / self.keys).exp());
                Piece { from: 0.0, to: self.keys, entries: distinct }
            }
            Order::Ascending => {
                let from = self.written_entries % self.keys;
                let to = (from + entries).min(self.keys);
                Piece { from, to, entries: to - from }
            }
        };
        self.written_entries += entries;
        self.next_seqno += 1;
        let seqno = SeqNo(self.next_seqno);
        self.cut_up(vec![piece], cut, seqno)
    }

    /// The tables that come of `plan`.
    pub(super) fn merge(&mut self, plan: &Plan) -> Vec<TableMeta> {
        let inputs: Vec<(f64, f64, f64)> = plan
            .tables()
            .map(|(_, table)| {
                let (from, to) = span(&table.meta.bounds);
                (from, to, table.meta.entries as f64 / (to - from).max(1.0))
            })
            .collect();
        let mut ends: Vec<f64> = inputs.iter().flat_map(|&(from, to, _)| [from, to]).collect();
        ends.extend(plan.cut.before.iter().map(|key| number_of(key)));
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let pieces = ends
            .windows(2)
            .map(|ends| {
                let (from, to) = (ends[0], ends[1]);
                let over = inputs.iter().filter(|(left, right, _)| *left <= from && to <= *right);
                let missing: f64 = over.map(|(_, _, density)| 1.0 - density.min(1.0)).product();
                Piece { from, to, entries: (to - from) * (1.0 - missing) }
            })
            .collect();
        let newest = plan.tables().map(|(_, table)| table.meta.largest_seqno).max().unwrap_or_default();
        self.cut_up(pieces, &plan.cut, newest)
    }

    /// Cut ascending pieces into tables, about as [`Cut`] would.
    fn cut_up(&mut self, pieces: Vec<Piece>, cut: &Cut, newest: SeqNo) -> Vec<TableMeta> {
        let full = cut.table_bytes as f64 / self.entry_bytes as f64;
        let boundary = cut.boundary_bytes as f64 / self.entry_bytes as f64;
        let mut boundaries: Vec<f64> = cut.before.iter().map(|key| number_of(key)).collect();
        boundaries.reverse();
        let mut tables = Vec::new();
        let mut current: Option<Piece> = None;
        for piece in pieces.into_iter().filter(|piece| piece.entries > 0.0) {
            let density = piece.entries / (piece.to - piece.from);
            let mut from = piece.from;
            while from < piece.to {
                while boundaries.last().is_some_and(|&at| at <= from) {
                    boundaries.pop();
                    if current.is_some_and(|table| table.entries >= boundary) {
                        tables.extend(current.take());
                    }
                }
                let table = current.get_or_insert(Piece { from, to: from, entries: 0.0 });
                let room = ((full - table.entries) / density).max(1.0);
                let next = boundaries.last().copied().unwrap_or(f64::INFINITY);
                let to = (from + room).min(piece.to).min(next).ceil();
                table.entries += (to - from) * density;
                table.to = to;
                from = to;
                if table.entries >= full {
                    tables.extend(current.take());
                }
            }
        }
        tables.extend(current);
        tables.into_iter().map(|table| self.describe(table, newest)).collect()
    }

    fn describe(&mut self, table: Piece, newest: SeqNo) -> TableMeta {
        let number = FileNumber(self.next_file);
        self.next_file += 1;
        let file_bytes = self.bytes(table.entries).max(1);
        TableMeta {
            number,
            keyspace: KeyspaceId(1),
            file_bytes,
            bounds: KeyBounds {
                smallest: key_of(table.from),
                largest: key_of(table.to),
                largest_exclusive: true,
            },
            smallest_seqno: newest,
            largest_seqno: newest,
            entries: file_bytes / self.entry_bytes,
            point_tombstones: 0,
            merge_operands: 0,
            hidden_versions: 0,
            range_tombstones: 0,
            key_bytes: 0,
            value_bytes: file_bytes,
            content_hash: 0,
            created_millis: 0,
            blobs: Vec::new(),
        }
    }
}
