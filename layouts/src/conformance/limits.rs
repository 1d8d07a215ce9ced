//! Limits: whatever they are, what a scan returns is a beginning of what it returns without them, and it ends
//! at the row that reaches them. Of the store's own scans, and of every layout's over them.

use std::fmt::Debug;

use crate::indexed::{Entry, Hit, Index, IndexedTable};
use crate::kv::{Bytes, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::promoted::PromotedTable;
use crate::salted::{Salt, SaltedTable};
use crate::table::{Row, RowMode, Table};
use crate::tall::TallTable;
use crate::tuple::{Fields, KeyError, Pack, Space, Unpack, pack, unpack};
use crate::wide::{Query, RowChange, WideTable};
use crate::{Error, Result};

/// Keys of the layouts' tables: a time and a device.
type Point = (u64, String);

/// Three devices take turns, and four of longer names come behind them, with a row each: the sources of a merge
/// differ in how many rows they have, how long those are, and when they end.
fn points() -> Vec<(Point, Vec<u8>)> {
    let device = |time: u64| match time {
        0..12 => ["a", "b", "a\0c"][usize::try_from(time % 3).unwrap_or_default()].to_owned(),
        _ => format!("{time:>20}"),
    };
    (0..16)
        .map(|time| ((time, device(time)), vec![b'v'; usize::try_from(time % 4).unwrap_or_default()]))
        .collect()
}

fn rows<T>(scan: Result<impl Iterator<Item = Result<T>>>) -> Vec<T> {
    scan.and_then(Iterator::collect).expect("a scan")
}

/// `scan` keeps the promise, where `bytes` is what a row counts for.
fn hold<T: Debug + PartialEq>(
    what: &str,
    bytes: impl Fn(&T) -> usize,
    mut scan: impl FnMut(ScanOptions) -> Vec<T>,
) {
    let new = ScanOptions::new();
    for plain in [new, new.reverse(), new.keys_only(), new.reverse().keys_only()] {
        let all = scan(plain);
        assert!(all.len() > 2, "{what}: there is something to limit");
        // The bytes reached with each row.
        let reached: Vec<u64> = all
            .iter()
            .scan(0, |sum, row| {
                *sum += bytes(row) as u64;
                Some(*sum)
            })
            .collect();
        let within = |limit: u64| all.len().min(1 + reached.partition_point(|sum| *sum < limit));
        let last = reached.last().copied().unwrap_or_default();
        let edges = reached.iter().flat_map(|sum| [sum - 1, *sum, sum + 1]);
        for limit in (1..last + 3).step_by(5).chain(edges).filter(|limit| *limit > 0) {
            let options = plain.bytes_limit(limit);
            assert_eq!(scan(options), all[..within(limit)], "{what} with {options:?}");
        }
        for limit in 0..all.len() + 2 {
            let options = plain.limit(limit);
            assert_eq!(scan(options), all[..limit.min(all.len())], "{what} with {options:?}");
            let options = options.bytes_limit(last / 2);
            let both = limit.min(within(last / 2));
            assert_eq!(scan(options), all[..both], "{what} with {options:?}");
        }
        assert_eq!(scan(plain.bytes_limit(0)), [], "{what}: a limit of nothing");
    }
}

/// Snapshots and transactions, these with writes of their own among the rows.
pub(super) fn of_scans<K: OrderedKv>(store: &K) {
    let rows_of = |read: &dyn Fn(ScanOptions) -> Vec<(Bytes, Bytes)>, what: &str| {
        hold(what, |(key, value): &(Bytes, Bytes)| key.len() + value.len(), read);
    };
    let range = || KeyRange::prefix(b"row");
    let done = store.update(|tx| {
        for n in 0..20u8 {
            tx.put(&[b"row", [n].as_slice()].concat(), &vec![n; usize::from(n % 5)]);
        }
        Ok(())
    });
    done.expect("a commit");
    let read = store.read().expect("snapshot");
    rows_of(&|options| rows(read.scan(range(), options)), "a scan");
    let done = store.update(|tx| {
        for n in 0..20u8 {
            let key = [b"row", [n].as_slice()].concat();
            match n % 4 {
                0 => tx.delete(&key),
                1 => tx.put(&key, b"changed"),
                2 => tx.put(&[key.as_slice(), b"+"].concat(), b"new"),
                _ => {}
            }
        }
        rows_of(&|options| rows(tx.scan(range(), options)), "a scan of a transaction");
        Ok(())
    });
    done.expect("a commit");
}

/// Every layout that takes limits.
pub(super) fn of_layouts<K: OrderedKv>(store: &K) {
    salted(store);
    promoted(store);
    tall(store);
    for mode in [RowMode::Packed, RowMode::Cells] {
        rows_and_cells(store, mode);
    }
    indexed(store);
    wide(store);
}

/// What a row counts for where keys are counted by their fields.
fn by_fields<K: Pack>((key, value): &(K, Bytes)) -> usize {
    pack(key).len() + value.len()
}

/// Call `put` for each of the points in one transaction.
fn fill<S: OrderedKv>(store: &S, mut put: impl FnMut(&mut S::Tx<'_>, &Point, &[u8]) -> Result<()>) {
    let points = points();
    let done = store.update(|tx| points.iter().try_for_each(|(key, value)| put(tx, key, value)));
    done.expect("a commit");
}

fn salted<S: OrderedKv>(store: &S) {
    let space = Space::new(&("limits", "salted"));
    let table: SaltedTable<_, Point> = SaltedTable::open(store, &space, &Salt::new(8, &[1])).expect("open");
    fill(store, |tx, key, value| table.put_in(tx, key, value));
    for epochs in 1..=2 {
        let view = table.view().expect("view");
        let what = format!("salted, of {epochs} epochs");
        hold(&what, by_fields, |options| rows(view.rows(&(), options)));
        let some = (2, String::new())..(14, String::new());
        hold(&what, by_fields, |options| rows(view.between(some.clone(), options)));
        if epochs == 1 {
            assert!(table.rebucket(&Salt::new(300, &[0])).expect("another epoch"));
            table.move_rows(5).expect("rows in both epochs");
        }
    }
    let space = Space::new(&("limits", "salted by the first field"));
    let table: SaltedTable<_, (String, u64)> =
        SaltedTable::open(store, &space, &Salt::new(8, &[0])).expect("open");
    fill(store, |tx, (time, _), value| table.put_in(tx, &("a".to_owned(), *time), value));
    let view = table.view().expect("view");
    assert_eq!(view.rows(&("a",), ScanOptions::new()).expect("scan").fan_out(), 1);
    hold("salted, one bucket", by_fields, |options| rows(view.rows(&("a",), options)));
}

fn promoted<S: OrderedKv>(store: &S) {
    for place in 0..2 {
        let space = Space::new(&("limits", "promoted", place));
        let table: PromotedTable<_, Point> = PromotedTable::open(store, &space, place).expect("open");
        fill(store, |tx, key, value| table.put_in(tx, key, value));
        let view = table.view().expect("view");
        hold("promoted", by_fields, |options| rows(view.between::<()>(.., options)));
        hold("promoted, some", by_fields, |options| rows(view.between((2u64,)..(14,), options)));
        if place == 1 {
            hold("promoted, one value", by_fields, |options| rows(view.of(&"a", options)));
        }
    }
}

fn tall<S: OrderedKv>(store: &S) {
    let space = Space::new(&("limits", "tall"));
    let table: TallTable<_, Point> = TallTable::open(store, &space).expect("open");
    fill(store, |tx, key, value| table.put_in(tx, key, value));
    let view = table.view().expect("view");
    let all = || table.keys().under(&());
    let bytes = |(key, value): &(Point, Bytes)| table.keys().key(key).len() + value.len();
    hold("tall", bytes, |options| rows(view.rows(all(), options)));
    hold("pages of tall", bytes, |options| match view.page(all(), options) {
        Err(Error::BadInput { what: "limit", .. }) => Vec::new(),
        page => page.expect("a page").rows,
    });
}

/// A row of two fields.
#[derive(Debug, PartialEq)]
pub(super) struct Pair(pub(super) String, pub(super) u64);

impl Pack for Pair {
    fn pack_at(&self, out: &mut Vec<u8>, depth: usize) {
        (self.0.as_str(), self.1).pack_at(out, depth);
    }
}

impl Unpack for Pair {
    fn unpack_from(fields: &mut Fields<'_>) -> Result<Self, KeyError> {
        <(String, u64)>::unpack_from(fields).map(|(text, number)| Pair(text, number))
    }
}

impl Row for Pair {
    const VERSION: u64 = 1;
    const FIELDS: &'static [&'static str] = &["text", "number"];
}

fn rows_and_cells<S: OrderedKv>(store: &S, mode: RowMode) {
    let space = Space::new(&("limits", format!("{mode:?}")));
    let table: Table<_, Point, Pair> = Table::open(store, &space, mode).expect("open");
    fill(store, |tx, key, value| table.put_in(tx, key, &Pair("t".repeat(value.len()), key.0 * 100)));
    let read = store.read().expect("snapshot");
    let stored = |(key, _): &(Point, Pair)| {
        let stored = rows(read.scan(table.keys().under(key), ScanOptions::new()));
        stored.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let view = table.view().expect("view");
    let what = format!("rows, {mode:?}");
    hold(&what, stored, |options| rows(view.rows(table.keys().under(&()), options)));
}

fn indexed<S: OrderedKv>(store: &S) {
    // A row is the device and what the entry includes.
    let by_device = || {
        Index::multi("device", 1, |_: &(u64,), row| {
            let (device, included): (String, Vec<u8>) = unpack(row)?;
            Ok(vec![Entry::new(&(device,)).including(&included)])
        })
    };
    for (name, index) in [("in step", by_device()), ("verified", by_device().verified_on_read())] {
        let space = Space::new(&("limits", "indexed", name));
        let table = IndexedTable::open(store, &space, vec![index]).expect("open");
        // Stale entries, if they are verified on read, before, between and behind the live ones.
        for round in ["0", "a\0b", "z", ""] {
            fill(store, |tx, (time, device), value| {
                let device = if round.is_empty() || time % 4 == 3 { device } else { round };
                table.put_in(tx, &(*time,), &pack(&(device, value)))
            });
        }
        let view = table.view().expect("view");
        let what = format!("lookups, {name}");
        hold(&what, Hit::entry_bytes, |options| view.lookup("device", &(), options).expect("lookup"));
        hold(&what, Hit::entry_bytes, |options| {
            view.between("device", ("a",)..("b\0",), options).expect("lookup")
        });
        // Limits count the entries, not the rows.
        for plain in [ScanOptions::new(), ScanOptions::new().reverse()] {
            for limited in (1..300).step_by(7).map(|bytes| plain.bytes_limit(bytes)) {
                let hits = view.lookup("device", &(), limited).expect("lookup");
                let rows = view.rows("device", &(), limited).expect("rows");
                let keys: Vec<_> = hits.into_iter().map(|hit| hit.key).collect();
                assert_eq!(rows.into_iter().map(|row| row.0).collect::<Vec<_>>(), keys, "{what}");
            }
        }
    }
}

fn wide<S: OrderedKv>(store: &S) {
    let families = ["a", "a longer name"];
    let table = WideTable::open(store, &Space::new(&("limits", "wide")), &families).expect("open");
    fill(store, |tx, (time, device), value| {
        let family = families[usize::from(time % 3 == 0)];
        table.apply_in(
            tx,
            &[b'0' + u8::try_from(time % 4).unwrap_or_default()],
            &RowChange::new().put(family, device.as_bytes(), value),
        )
    });
    let view = table.view().expect("view");
    let bytes = |cell: &crate::wide::Cell| cell.row.len() + cell.column.len() + cell.value.len();
    hold("pages of wide", bytes, |options| {
        let mut query = Query::all();
        query = if options.reverse { query.reverse() } else { query };
        query = if options.keys_only { query.keys_only() } else { query };
        query = options.limit.map_or(query.clone(), |cells| query.limit_cells(cells));
        query = options.bytes_limit.map_or(query.clone(), |bytes| query.limit_bytes(bytes));
        match view.page(&query) {
            Err(Error::BadInput { what: "limit", .. }) => Vec::new(),
            page => page.expect("a page").cells,
        }
    });
}
