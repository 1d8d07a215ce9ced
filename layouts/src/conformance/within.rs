//! Layouts in the caller's transaction: a view there shows what is stored with the transaction's own writes laid over
//! it, and what was read through one holds until the commit.

use std::fmt::Debug;

use crate::hashed::{HashBy, HashedTable};
use crate::indexed::{Entry, Index, IndexedTable};
use crate::kv::{OrderedKv, ScanOptions};
use crate::namespaces::Directory;
use crate::promoted::PromotedTable;
use crate::salted::{Salt, SaltedTable};
use crate::table::{RowMode, Table};
use crate::tall::TallTable;
use crate::tuple::{Space, pack, unpack};
use crate::vector::{Chunk, Vector};
use crate::wide::{Query, RowChange, WideTable};
use crate::{Error, Result};

use super::limits::Pair;

/// Keys of the layouts' tables.
type Point = (u64, String);

/// Rows 0 to 5 are stored, 0 to 6 without 3 are left.
const STORED: u64 = 6;
const GONE: u64 = 3;
const OWN: u64 = 6;

/// Two sources take turns.
fn point(time: u64) -> Point {
    (time, ["a", "a\0"][usize::from(time % 2 == 1)].to_owned())
}

fn up() -> ScanOptions {
    ScanOptions::new()
}

fn down() -> ScanOptions {
    ScanOptions::new().reverse()
}

/// What a view shows: whether the transaction's own row is there, and the removed one; all rows, both ways.
#[derive(Debug, PartialEq)]
struct Seen<T> {
    own: bool,
    gone: bool,
    up: Vec<T>,
    down: Vec<T>,
}

fn judge<T: Debug + PartialEq>(what: &str, inside: &Seen<T>, mut after: Seen<T>) {
    assert!(inside.own, "{what}: a view in a transaction shows what it wrote");
    assert!(!inside.gone, "{what}: and not what it removed");
    assert_eq!(inside.up.len() as u64, STORED, "{what}: own and stored rows are merged");
    assert_eq!(*inside, after, "{what}: what a transaction saw is what was committed");
    after.down.reverse();
    assert_eq!(after.up, after.down, "{what}: both ways");
}

fn all<T>(rows: Result<impl Iterator<Item = Result<T>>>) -> Result<Vec<T>> {
    rows?.collect()
}

/// Store the rows; then, in one transaction, remove one, replace one and add one, and look both there and
/// afterwards.
macro_rules! check {
    ($what:expr, $store:expr, put: |$tx:ident, $n:ident| $put:expr, delete: |$tx2:ident| $delete:expr,
     look: |$read:ident| $look:expr) => {{
        let stored = $store.update(|$tx| (0..STORED).try_for_each(|$n| $put));
        stored.expect("a commit");
        let inside = $store.update(|tx| {
            for $n in [OWN, 1] {
                let $tx = &mut *tx;
                $put?;
            }
            {
                let $tx2 = &mut *tx;
                $delete?;
            }
            let $read = &*tx;
            $look
        });
        let snapshot = $store.read().expect("a snapshot");
        let $read = &snapshot;
        let look = || -> Result<_> { $look };
        judge($what, &inside.expect("a commit").value, look().expect("reads"));
    }};
}

/// Every layout.
pub(super) fn of_layouts<S: OrderedKv>(store: &S) {
    tall(store);
    for mode in [RowMode::Packed, RowMode::Cells] {
        rows_and_cells(store, mode);
    }
    salted(store);
    promoted(store);
    indexed(store);
    wide(store);
    hashed(store);
    vector(store);
    namespaces(store);
}

fn tall<S: OrderedKv>(store: &S) {
    let table: TallTable<_, Point> = TallTable::open(store, &Space::new(&("in", "tall"))).expect("open");
    check!("tall", store,
    put: |tx, n| table.put_in(tx, &point(n), b"v"),
    delete: |tx| table.delete_in(tx, &point(GONE)),
    look: |read| {
        let view = table.view_in(read);
        let rows = |options| all(view.rows(table.keys().under(&()), options));
        let own = view.get(&point(OWN))?.is_some() && view.exists(&point(OWN))?;
        Ok(Seen { own, gone: view.exists(&point(GONE))?, up: rows(up())?, down: rows(down())? })
    });
    let done = store.update(|tx| {
        table.delete_under_in(tx, &(1u64,));
        table.view_in(&*tx).exists(&point(1))
    });
    assert!(!done.expect("a commit").value, "a removed prefix");
}

fn rows_and_cells<S: OrderedKv>(store: &S, mode: RowMode) {
    let space = Space::new(&("in", format!("{mode:?}")));
    let table: Table<_, Point, Pair> = Table::open(store, &space, mode).expect("open");
    check!(&format!("rows, {mode:?}"), store,
    put: |tx, n| table.put_in(tx, &point(n), &Pair("t".to_owned(), n)),
    delete: |tx| table.remove_in(tx, &point(GONE)),
    look: |read| {
        let view = table.view_in(read);
        let rows = |options| all(view.rows(table.keys().under(&()), options));
        let own = view.get(&point(OWN))? == Some(Pair("t".to_owned(), OWN));
        Ok(Seen { own, gone: view.exists(&point(GONE))?, up: rows(up())?, down: rows(down())? })
    });
}

fn salted<S: OrderedKv>(store: &S) {
    let space = Space::new(&("in", "salted"));
    let table: SaltedTable<_, Point> = SaltedTable::open(store, &space, &Salt::new(4, &[1])).expect("open");
    check!("salted", store,
    put: |tx, n| table.put_in(tx, &point(n), b"v"),
    delete: |tx| table.delete_in(tx, &point(GONE)),
    look: |read| {
        let view = table.view_in(read)?;
        let rows = |options| all(view.rows(&(), options));
        let (own, gone) = (view.get(&point(OWN))?.is_some(), view.get(&point(GONE))?.is_some());
        Ok(Seen { own, gone, up: rows(up())?, down: rows(down())? })
    });
}

fn promoted<S: OrderedKv>(store: &S) {
    let space = Space::new(&("in", "promoted"));
    let table: PromotedTable<_, Point> = PromotedTable::open(store, &space, 1).expect("open");
    check!("promoted", store,
    put: |tx, n| table.put_in(tx, &point(n), b"v"),
    delete: |tx| table.delete_in(tx, &point(GONE)),
    look: |read| {
        let view = table.view_in(read);
        let rows = |options| all(view.between::<()>(.., options));
        let (own, gone) = (view.get(&point(OWN))?.is_some(), view.get(&point(GONE))?.is_some());
        Ok(Seen { own, gone, up: rows(up())?, down: rows(down())? })
    });
}

/// By a text that begins with the number's last digit, and which rows share.
fn by_text() -> Index<(u64,)> {
    Index::multi("text", 1, |_: &(u64,), row| {
        let (text, _): (String, u64) = unpack(row)?;
        Ok(vec![Entry::new(&(text,))])
    })
}

fn indexed<S: OrderedKv>(store: &S) {
    for (name, index) in [("in step", by_text()), ("verified", by_text().verified_on_read())] {
        let space = Space::new(&("in", "indexed", name));
        let unique = Index::unique("number", 1, |_: &(u64,), row| {
            let (_, number): (String, u64) = unpack(row)?;
            Ok(vec![Entry::new(&(number,))])
        });
        let table: IndexedTable<_, (u64,)> =
            IndexedTable::open(store, &space, vec![index, unique]).expect("open");
        check!(name, store,
        put: |tx, n| table.put_in(tx, &(n,), &pack(&("text", n))),
        delete: |tx| table.delete_in(tx, &(GONE,)),
        look: |read| {
            let view = table.view_in(read)?;
            let rows = |options| view.rows("text", &("text",), options);
            let own = view.lookup("number", &(OWN,), up())?.len() == 1 && view.get(&(OWN,))?.is_some();
            let gone = !view.lookup("number", &(GONE,), up())?.is_empty() || view.get(&(GONE,))?.is_some();
            assert_eq!(view.verify()?.count, 0, "{name}");
            Ok(Seen { own, gone, up: rows(up())?, down: rows(down())? })
        });
        let done = store.update(|tx| {
            let there = table.insert_in(tx, &(OWN,), &pack(&("text", 100u64)));
            assert!(matches!(there, Err(Error::Unexpected { .. })), "{name}: it sees the row");
            let taken = table.insert_in(tx, &(200,), &pack(&("text", OWN)));
            assert!(matches!(taken, Err(Error::Duplicate { .. })), "{name}: it sees the entry");
            Ok(table.view_in(&*tx)?.verify()?.count)
        });
        assert_eq!(done.expect("a commit").value, 0, "{name}: refused rows leave nothing");
    }
}

fn wide<S: OrderedKv>(store: &S) {
    let table = WideTable::open(store, &Space::new(&("in", "wide")), &["a", "b"]).expect("open");
    let family = |n: u64| ["a", "b"][usize::from(n.is_multiple_of(2))];
    let column = u64::to_be_bytes;
    check!("wide", store,
    put: |tx, n| table.apply_in(tx, b"r", &RowChange::new().put(family(n), &column(n), b"v")),
    delete: |tx| table.apply_in(tx, b"r", &RowChange::new().delete(family(GONE), &column(GONE))),
    look: |read| {
        let view = table.view_in(read);
        let own = view.get(b"r", family(OWN), &column(OWN))?.is_some();
        let gone = view.exists(b"r", family(GONE), &column(GONE))?;
        let (up, down) = (view.page(&Query::row(b"r"))?, view.page(&Query::row(b"r").reverse())?);
        Ok(Seen { own, gone, up: up.cells, down: down.cells })
    });
    let done = store.update(|tx| {
        let sums =
            [table.increment_in(tx, b"n", "a", b"n", 2)?, table.increment_in(tx, b"n", "a", b"n", 3)?];
        let check = crate::wide::Check::value(&5i64.to_le_bytes());
        let change = RowChange::new().put("b", b"five", b"");
        let holds = table.check_and_apply_in(tx, b"n", "a", b"n", &check, &change)?;
        Ok((sums, holds, table.view_in(&*tx).exists(b"n", "b", b"five")?))
    });
    assert_eq!(done.expect("a commit").value, ([2, 5], true, true), "conditions see what was written");
    let done = store.update(|tx| {
        table.clear_family_in(tx, "b")?;
        table.apply_in(tx, b"n", &RowChange::new().put("b", b"six", b""))?;
        let cells = table.view_in(&*tx).page(&Query::all().family("b"))?.cells;
        Ok(cells.into_iter().map(|cell| cell.column).collect::<Vec<_>>())
    });
    assert_eq!(done.expect("a commit").value, [b"six"], "a family is emptied, and goes on");
    let left = table.view().and_then(|view| view.page(&Query::all())).expect("a page").cells;
    let left = |family| left.iter().filter(|cell| cell.family == family).count();
    assert_eq!((left("a"), left("b")), (3, 1), "the other one stays");
}

fn hashed<S: OrderedKv>(store: &S) {
    let space = Space::new(&("in", "hashed"));
    let table: HashedTable<_, Point> = HashedTable::open(store, &space, HashBy::PerField).expect("open");
    check!("hashed", store,
    put: |tx, n| table.put_in(tx, &point(n), b"v"),
    delete: |tx| table.delete_in(tx, &point(GONE)),
    look: |read| {
        let up = table.under_in(read, &())?;
        // It has one way only.
        let mut down = up.clone();
        down.reverse();
        let own = table.get_in(read, &point(OWN))?.is_some();
        Ok(Seen { own, gone: table.get_in(read, &point(GONE))?.is_some(), up, down })
    });
}

fn vector<S: OrderedKv>(store: &S) {
    let table: Vector<_, u64> =
        Vector::open(store, &Space::new(&("in", "vector")), Chunk::Of(4)).expect("open");
    let done = store.update(|tx| (0..5).try_for_each(|n| table.push_in(tx, &n).map(drop)));
    done.expect("a commit");
    let inside = store.update(|tx| {
        table.push_in(tx, &5)?;
        table.set_in(tx, 1, &11)?;
        table.swap_remove_in(tx, 2)?;
        Ok((table.len_in(tx)?, table.get_in(tx, 1)?, table.slice_in(tx, ..)?))
    });
    let inside = inside.expect("a commit").value;
    assert_eq!(inside, (5, Some(11), vec![0, 11, 5, 3, 4]));
    let read = store.read().expect("a snapshot");
    let after = (table.len_in(&read), table.get_in(&read, 1), table.slice_in(&read, ..));
    let after = (after.0.expect("len"), after.1.expect("get"), after.2.expect("slice"));
    assert_eq!(inside, after, "what a transaction saw is what was committed");
}

fn namespaces<S: OrderedKv>(store: &S) {
    let directory = Directory::open(store, &Space::new(&("in", "namespaces"))).expect("open");
    let inside = store.update(|tx| {
        directory.create_in(tx, &["a", "b"])?;
        directory.create_in(tx, &["c"])?;
        directory.rename_in(tx, &["a", "b"], &["d"])?;
        directory.remove_in(tx, &["c"])?;
        directory.clear_in(tx, &["d"])?;
        Ok((directory.list_in(tx, &[])?, directory.find_in(tx, &["d"])?))
    });
    let inside = inside.expect("a commit").value;
    assert_eq!(inside.0, ["a", "d"]);
    let after = (directory.list(&[]).expect("list"), directory.find(&["d"]).expect("find"));
    assert_eq!(inside, after, "what a transaction saw is what was committed");
}

/// Four threads count up what they read through views.
#[expect(clippy::disallowed_methods, reason = "the promise is about concurrent writers")]
pub(super) fn nothing_is_lost<S: OrderedKv>(store: &S) {
    const EACH: u64 = 25;
    let space = |name: &str| Space::new(&("count", name));
    let tall: TallTable<_, (u64,)> = TallTable::open(store, &space("tall")).expect("open");
    let cells: Table<_, (u64,), Pair> = Table::open(store, &space("cells"), RowMode::Cells).expect("open");
    let texts: IndexedTable<_, (u64,)> =
        IndexedTable::open(store, &space("indexed"), vec![by_text()]).expect("open");
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
    let count_up = || {
        let done = store.update(|tx| {
            let n = tall.view_in(&*tx).get(&(1,))?.map_or(0, |bytes| number(&bytes)) + 1;
            tall.put_in(tx, &(1,), &n.to_be_bytes())?;
            let n = cells.view_in(&*tx).get(&(1,))?.map_or(0, |row| row.1) + 1;
            cells.put_in(tx, &(1,), &Pair("n".to_owned(), n))?;
            let rows = texts.view_in(&*tx)?.rows("text", &("n",), up())?;
            let n = rows.first().map_or(Ok(0), |(_, row)| unpack(row).map(|row: (String, u64)| row.1))? + 1;
            texts.put_in(tx, &(1,), &pack(&("n", n)))
        });
        done.expect("it commits in the end");
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..EACH).for_each(|_| count_up()));
        }
    });
    let sum = 4 * EACH;
    let read = store.read().expect("a snapshot");
    let found = tall.view_in(&read).get(&(1,)).expect("get").map(|bytes| number(&bytes));
    assert_eq!(found, Some(sum), "no increment is lost");
    assert_eq!(cells.view_in(&read).get(&(1,)).expect("get"), Some(Pair("n".to_owned(), sum)));
    let rows = texts.view_in(&read).and_then(|view| view.rows("text", &("n",), up())).expect("lookup");
    assert_eq!(rows.first().map(|(_, row)| row.to_vec()), Some(pack(&("n", sum))));
}
