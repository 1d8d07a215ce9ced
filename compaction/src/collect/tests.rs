use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobRef};
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_manifest::{BlobHandle, TableHandle, Tree};

use super::to_collect;
use crate::busy::Busy;
use crate::pick::pick;
use crate::plan::Reason;
use crate::settings::{Load, Settings};

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
    let meta = TableMeta {
        number: FileNumber(number),
        keyspace: KEYSPACE,
        file_bytes: 5000,
        bounds: KeyBounds { smallest: bounds.0.into(), largest: bounds.1.into(), largest_exclusive: false },
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(9),
        entries: 1000,
        point_tombstones: 0,
        merge_operands: 0,
        range_tombstones: 0,
        key_bytes: 0,
        value_bytes: 0,
        content_hash: 0,
        created_millis: 0,
        blobs: refers
            .iter()
            .map(|&(blob, values)| BlobRef { number: FileNumber(blob), values, value_bytes: values * 10 })
            .collect(),
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
    let settings = Settings::default();
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
