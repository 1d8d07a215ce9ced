//! What is lent can be read wherever the rows have gone meanwhile, until they move on.

use std::ops::Bound;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::{KeyspaceId, Kind, OpCost, Result, SeqNo};

use crate::memtable::Memtable;
use crate::operators::Operators;
use crate::rows::{Rows, Sight};
use crate::source::{Source, SourceInfo, Sources};
use crate::{Database, KeyspaceOptions};

const SPACE: KeyspaceId = KeyspaceId(1);

/// Rows of two memtables: "a" and "c" as they stand, "b" overwritten, "d" deleted, and operands for "e" to be folded.
fn rows() -> Rows {
    let (newer, mut writer) = Memtable::new();
    writer.insert(SPACE, b"b", SeqNo(9), Kind::Put, b"new");
    writer.insert(SPACE, b"d", SeqNo(8), Kind::Delete, b"");
    writer.insert(SPACE, b"e", SeqNo(7), Kind::Merge, b"+");
    let (older, mut writer) = Memtable::new();
    for (n, key) in [b"a", b"b", b"c", b"d", b"e"].into_iter().enumerate() {
        writer.insert(SPACE, key, SeqNo(1 + n as u64), Kind::Put, b"old");
    }
    let mut sources = Sources::with_capacity(2);
    for memtable in [&newer, &older] {
        let info = SourceInfo { level: None, largest_seqno: SeqNo::MAX, tombstones: Vec::new() };
        sources.push(Source::Memtable(memtable.cursor(SPACE)), info);
    }
    let bounds = Bounds { start: Bound::Unbounded, end: Bound::Unbounded };
    let sight = Sight { read_seqno: SeqNo(100), own: SeqNo::ZERO };
    let append = Operators::new(Vec::new()).and_then(|operators| operators.find("append"));
    Rows::new(sources, sight, Arc::new(bounds), append.ok())
}

const EXPECTED: [(&[u8], &[u8]); 4] = [(b"a", b"old"), (b"b", b"new"), (b"c", b"old"), (b"e", b"old+")];

#[test]
fn a_row_stays_lent_while_the_rows_are_moved_about() -> Result<()> {
    for forward in [true, false] {
        let mut rows = Box::new(rows());
        let mut seen = Vec::new();
        if forward {
            rows.seek_first()?;
        } else {
            rows.seek_last()?;
        }
        let mut cost = OpCost::default();
        while rows.valid() {
            let (key, value) = (rows.key().as_ptr(), rows.value().as_ptr());
            // Out of its box, and into one elsewhere.
            let moved = *rows;
            let mut back = Box::new(moved);
            cost = back.cost();
            assert_eq!((back.key().as_ptr(), back.value().as_ptr()), (key, value));
            seen.push((back.key().to_vec(), back.value().to_vec()));
            if forward {
                back.next()?;
            } else {
                back.prev()?;
            }
            rows = back;
        }
        if !forward {
            seen.reverse();
        }
        let expected: Vec<_> = EXPECTED.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert_eq!(seen, expected);
        assert_eq!(cost.keys_read, EXPECTED.len() as u64);
    }
    Ok(())
}

/// Wherever a value is read, it is read through a borrow, so that threads may share it.
#[test]
fn rows_go_where_their_sources_go() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Source>();
    is_send_and_sync::<Rows>();
}

#[test]
fn a_turn_takes_the_loan_along() -> Result<()> {
    let mut rows = rows();
    rows.seek(b"c")?;
    for (step, expected) in [(false, 1), (true, 2), (true, 3), (false, 2), (false, 1), (false, 0)] {
        if step {
            rows.next()?;
        } else {
            rows.prev()?;
        }
        assert_eq!((rows.key(), rows.value()), EXPECTED[expected]);
    }
    Ok(())
}

#[test]
#[should_panic(expected = "stands on no row")]
fn nothing_is_lent_behind_the_end() {
    let mut rows = rows();
    rows.seek(b"f").expect("memory");
    let _ = rows.key();
}

/// Runs begin, and end where another source leads, whether heads decide that or, since all keys begin alike, what follows them.
#[test]
fn runs_are_as_long_where_heads_are_equal() -> Result<()> {
    let walk = |start: &str| -> Result<(u32, u32)> {
        let db = Database::in_memory()?;
        let map = db.keyspace("map", KeyspaceOptions::default())?;
        for table in 0..2 {
            for n in (0..2000).filter(|n| n / 20 % 2 == table) {
                map.put(format!("{start}{n:06}"), "value")?;
            }
            db.flush()?;
        }
        let view = Arc::new(map.scan_view()?);
        let mut rows =
            Rows::of(&view, Arc::new(Bounds { start: Bound::Unbounded, end: Bound::Unbounded }))?;
        let mut in_runs = 0;
        rows.seek_first()?;
        for n in 0..2000 {
            assert_eq!(rows.key(), format!("{start}{n:06}").as_bytes());
            in_runs += u32::from(!rows.standing.bytes.is_empty());
            rows.next()?;
        }
        assert!(!rows.valid());
        Ok((in_runs, rows.standing.lately / 16))
    };
    for start in ["", "the first bytes of all "] {
        // Of twenty rows the first is found by the merge.
        let (in_runs, lately) = walk(start)?;
        assert!((1850..=1900).contains(&in_runs) && (18..=20).contains(&lately), "{in_runs} {lately}");
    }
    Ok(())
}
