use esker_base::FileNumber;
use esker_base::table_meta::KeyBounds;

use super::Tree;
use crate::testing::table;

#[test]
fn a_tree_knows_where_its_tables_are() {
    let tree = Tree::build([
        (0, table(7, b"a", b"z")),
        (0, table(9, b"b", b"c")),
        (2, table(4, b"m", b"n")),
        (2, table(3, b"a", b"c")),
    ]);
    let order: Vec<(u8, u64)> = tree.tables().map(|(level, table)| (level, table.number().0)).collect();
    assert_eq!(order, [(0, 9), (0, 7), (2, 3), (2, 4)]);
    assert!(tree.table(FileNumber(5)).is_none());
    assert_eq!(tree.table(FileNumber(3)).map(|table| table.meta.file_bytes), Some(1003));
    assert_eq!((tree.table_count(), tree.bytes(), tree.deepest()), (4, 4023, Some(2)));
    assert!(tree.level(7).is_none());
    assert!(!tree.is_empty());
    assert!(Tree::default().is_empty());
    assert_eq!(Tree::default().deepest(), None);
}

#[test]
fn what_lies_below_a_level_is_told_by_bounds() {
    let tree = Tree::build([(1, table(7, b"a", b"z")), (3, table(4, b"m", b"n"))]);
    let at =
        |key: &[u8]| KeyBounds { smallest: key.to_vec(), largest: key.to_vec(), largest_exclusive: false };
    assert!(tree.overlaps_below(0, &at(b"b")));
    assert!(tree.overlaps_below(1, &at(b"m")));
    assert!(!tree.overlaps_below(1, &at(b"b")));
    assert!(!tree.overlaps_below(3, &at(b"m")));
}
