use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobRef};
use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_manifest::{BlobHandle, TableHandle, Tree};

use super::to_collect;
use crate::busy::Busy;
use crate::pick::pick;
use crate::plan::Reason;
use crate::settings::{Load, Settings};
use crate::testing::described;

const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Blob files of these numbers, of a hundred values of ten bytes each.
fn blobs(numbers: impl IntoIterator<Item = u64>) -> Vec<Arc<BlobHandle>> {
    let meta = |number| BlobMeta {
        number: FileNumber(number),
        keyspace: KEYSPACE,
        file_bytes: 1200,
        values: 100,
        value_bytes: 1000,
    };
    numbers.into_iter().map(|number| BlobHandle::detached(meta(number))).collect()
}

/// A table that refers to this many values of each blob file.
fn table(number: u64, bounds: (&str, &str), refers: &[(u64, u64)]) -> Arc<TableHandle> {
    let refer = |&(blob, values)| BlobRef { number: FileNumber(blob), values, value_bytes: values * 10 };
    let meta = TableMeta {
        keyspace: KEYSPACE,
        file_bytes: 5000,
        largest_seqno: SeqNo(9),
        entries: 1000,
        blobs: refers.iter().map(refer).collect(),
        ..described(number, bounds.0, bounds.1)
    };
    TableHandle::detached_with(meta, blobs(refers.iter().map(|(blob, _)| *blob)))
}

fn chosen(tree: &Tree) -> Vec<u64> {
    to_collect(tree, &Settings::default()).into_iter().map(|number| number.0).collect()
}

#[test]
fn the_deadest_are_chosen_and_no_more_than_needed() {
    // 30 of 100 in each are dead: at the bound, not beyond.
    let at_bound = Tree::build([(6, table(1, ("a", "z"), &[(10, 70), (11, 70), (12, 70)]))]);
    assert_eq!(chosen(&at_bound), []);
    // 100 of 300 are dead. Without the 50 of file 12, and those of file 11, it is 10 of 210.
    let beyond = Tree::build([(6, table(1, ("a", "z"), &[(10, 90), (11, 60), (12, 50)]))]);
    assert_eq!(chosen(&beyond), [12]);
    // 180 of 400: first the deadest, then of equals the older.
    let far = [(10, 50), (11, 50), (12, 20), (13, 100)];
    assert_eq!(chosen(&Tree::build([(6, table(1, ("a", "z"), &far))])), [12, 10]);
    // What two tables refer to is live together.
    let parts = [
        (6, table(1, ("a", "k"), &[(10, 40), (11, 30)])),
        (6, table(2, ("m", "z"), &[(10, 60), (11, 60)])),
    ];
    assert_eq!(chosen(&Tree::build(parts)), []);
    assert_eq!(chosen(&Tree::default()), []);
}

#[test]
fn an_idle_tree_has_its_dead_values_collected_where_they_are() {
    let tree = Tree::build([
        (0, table(9, ("c", "d"), &[(30, 100)])),
        (6, table(1, ("a", "c"), &[(10, 10), (20, 50)])),
        (6, table(2, ("d", "f"), &[(20, 30)])),
        (6, table(3, ("g", "k"), &[(10, 5)])),
        (6, table(4, ("m", "z"), &[(10, 5)])),
    ]);
    // So small that a file of 1,200 bytes is none.
    let settings = Settings { table_bytes: 8192, ..Settings::default() };
    let mut busy = Busy::default();
    let ask = |busy: &Busy| pick(&tree, KEYSPACE, &settings, busy, SeqNo::MAX, Load::Rested);
    let mut tables = Vec::new();
    // Tables that refer to the file and lie side by side go together, others need not come along.
    while let Some(plan) = ask(&busy) {
        assert_eq!(plan.reason, Reason::Values { dead: 1000, bytes: 3000 });
        assert!(!plan.trivial_move && plan.output_level == 6 && plan.collect[..] == [FileNumber(10)]);
        tables.push(plan.tables().map(|(level, table)| (level, table.number().0)).collect::<Vec<_>>());
        let blobs: Vec<u64> = plan.blobs().iter().map(|blob| blob.number().0).collect();
        assert_eq!(blobs, if tables.len() == 1 { vec![10, 20] } else { vec![10] });
        busy.start(&plan);
    }
    assert_eq!(tables, [vec![(6, 1)], vec![(6, 3), (6, 4)]]);
}

/// What a manifest says may be anything that adds up: files without bytes have no share to compare.
#[test]
fn files_without_bytes_are_in_nobodys_way() {
    let empty = |number: u64| number.is_multiple_of(3);
    let handles = (10..210).map(|number| {
        let value_bytes = if empty(number) { 0 } else { 1000 };
        let number = FileNumber(number);
        BlobHandle::detached(BlobMeta {
            number,
            keyspace: KEYSPACE,
            file_bytes: 1200,
            values: 100,
            value_bytes,
        })
    });
    let mut meta = table(1, ("a", "z"), &[]).meta.clone();
    meta.blobs = (10..210)
        .map(|number| {
            let value_bytes = if empty(number) { 0 } else { number * 7919 % 1000 };
            BlobRef { number: FileNumber(number), values: 1, value_bytes }
        })
        .collect();
    let chosen = chosen(&Tree::build([(6, TableHandle::detached_with(meta, handles.collect()))]));
    assert!(!chosen.is_empty() && !chosen.iter().any(|number| empty(*number)));
}

/// 2,000 files of 128 MiB, the older the deader: no merge takes on more than a job's worth of them.
#[test]
fn a_job_collects_no_more_than_a_job_may() {
    let (files, bytes, tables) = (2000u64, 128u64 << 20, 12u64);
    let handle = |number| {
        let number = FileNumber(1_000_000 + number);
        let meta = BlobMeta {
            number,
            keyspace: KEYSPACE,
            file_bytes: bytes + 100,
            values: 8192,
            value_bytes: bytes,
        };
        BlobHandle::detached(meta)
    };
    let handles: Vec<_> = (0..files).map(handle).collect();
    let sized = |number, bounds: (&str, &str), file_bytes, blobs: Vec<BlobRef>, handles| {
        let meta = TableMeta { file_bytes, blobs, ..table(number, bounds, &[]).meta.clone() };
        TableHandle::detached_with(meta, handles)
    };
    let live = |at: u64| bytes / tables * (37 + at * 63 / files) / 100;
    let part =
        |number, value_bytes| BlobRef { number: FileNumber(1_000_000 + number), values: 300, value_bytes };
    let lower = (0..tables).map(|n| {
        let (from, to) = (format!("{n:05}a"), format!("{n:05}z"));
        let parts = (0..files).map(|at| part(at, live(at))).collect();
        (6, sized(100 + n, (&from, &to), 32 << 20, parts, handles.clone()))
    });
    let upper = (0..5).map(|n| {
        let parts = vec![part(files + n, bytes)];
        (0, sized(1000 + n, ("00000a", "99999z"), 300 << 10, parts, vec![handle(files + n)]))
    });
    let tree = Tree::build(lower.chain(upper));
    let settings = Settings::default();
    let plan = pick(&tree, KEYSPACE, &settings, &Busy::default(), SeqNo::MAX, Load::Rested).expect("due");
    assert!(matches!(plan.reason, Reason::Level0 { .. }), "{plan}");
    let parts = plan.tables().flat_map(|(_, table)| &table.meta.blobs);
    let moved: u64 =
        parts.filter(|part| plan.collect.contains(&part.number)).map(|part| part.value_bytes).sum();
    assert!(moved > 0 && moved <= settings.job_bytes_max, "{moved} bytes of values");
    assert!(plan.collect.is_sorted());
}
