use std::sync::Arc;

use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId, SeqNo};

use super::State;
use crate::Edit;
use crate::testing::disk::Disk;
use crate::testing::{DATABASE, Picture, context, dir, meta};
use crate::tree_file::TreeFiles;

fn state() -> State {
    let mut state = State::new(TreeFiles::new(context(&Disk::default().fs(), dir(), DATABASE)));
    record(&mut state, [create(1, "one"), create(2, "two")]).expect("keyspaces");
    state
}

fn record(state: &mut State, edits: impl IntoIterator<Item = Edit>) -> Result<(), String> {
    state.begin();
    for edit in edits {
        state.apply(edit)?;
    }
    state.settle();
    Ok(())
}

fn create(id: u32, name: &str) -> Edit {
    Edit::CreateKeyspace { id: KeyspaceId(id), name: name.to_owned(), options: vec![7] }
}

fn add(level: u8, meta: TableMeta) -> Edit {
    Edit::AddTable { level, meta }
}

fn remove(keyspace: u32, level: u8, number: u64) -> Edit {
    Edit::RemoveTable { keyspace: KeyspaceId(keyspace), level, number: FileNumber(number) }
}

/// Apply `edits` as one record; the last must be refused, for a reason that contains `why`.
fn refused(state: &mut State, edits: impl IntoIterator<Item = Edit>, why: &str) {
    let before = Picture::of(&state.publish());
    let misfit = record(state, edits).expect_err("it does not fit");
    assert!(misfit.contains(why), "{misfit:?} does not say {why:?}");
    state.undo();
    assert_eq!(Picture::of(&state.publish()), before);
}

#[test]
fn keyspaces_have_ids_and_names_of_their_own() {
    let mut state = state();
    refused(&mut state, [create(2, "three")], "used before");
    refused(&mut state, [create(3, "two")], "already");
    refused(&mut state, [Edit::DropKeyspace { id: KeyspaceId(3) }], "no keyspace 3");
    refused(&mut state, [add(0, meta(1, 3, b"a", b"b"))], "no keyspace 3");
    record(&mut state, [Edit::DropKeyspace { id: KeyspaceId(2) }, create(3, "two")])
        .expect("a name set free");
    refused(&mut state, [create(2, "again")], "used before");
    refused(&mut state, [Edit::NextKeyspace(KeyspaceId(3))], "in use");
    assert_eq!(state.publish().by_name("two").map(|keyspace| keyspace.id), Some(KeyspaceId(3)));
}

#[test]
fn tables_of_a_sorted_level_never_overlap() {
    let mut state = state();
    record(&mut state, [add(1, meta(10, 1, b"d", b"f")), add(1, meta(11, 1, b"m", b"p"))]).expect("apart");
    for (smallest, largest) in [(b"a", b"d"), (b"e", b"e"), (b"f", b"z"), (b"g", b"m"), (b"a", b"z")] {
        refused(&mut state, [add(1, meta(12, 1, smallest, largest))], "overlap in level 1");
    }
    record(
        &mut state,
        [
            add(1, meta(12, 1, b"g", b"l")),
            add(2, meta(13, 1, b"a", b"z")),
            add(0, meta(14, 1, b"a", b"z")),
            add(0, meta(15, 1, b"a", b"z")),
            add(1, meta(16, 2, b"a", b"z")),
        ],
    )
    .expect("between, in other levels, in level 0, in another keyspace");
    let version = state.publish();
    let tree = &version.keyspace(KeyspaceId(1)).expect("it").tree;
    let order: Vec<u64> = tree.tables().map(|(_, table)| table.number().0).collect();
    assert_eq!(order, [15, 14, 10, 12, 11, 13]);
}

#[test]
fn tables_are_removed_where_they_are_and_once() {
    let mut state = state();
    record(&mut state, [add(1, meta(10, 1, b"d", b"f"))]).expect("a table");
    refused(&mut state, [remove(1, 2, 10)], "not in level 2");
    refused(&mut state, [remove(2, 1, 10)], "keyspace 2");
    refused(&mut state, [remove(1, 1, 11)], "000011 is not");
    refused(&mut state, [remove(1, 1, 10), remove(1, 1, 10)], "not in level");
    refused(&mut state, [add(2, meta(10, 1, b"d", b"f"))], "in the tree already");
    refused(&mut state, [remove(1, 1, 10), add(2, meta(10, 1, b"d", b"g"))], "another description");
    record(&mut state, [remove(1, 1, 10), add(2, meta(10, 1, b"d", b"f"))]).expect("a move");
}

#[test]
fn logs_are_closed_once_and_never_remembered_again() {
    let mut state = state();
    let closed = |number, len| Edit::ClosedLog { number: FileNumber(number), len };
    let forget = |before| Edit::ForgetLogs { before: FileNumber(before) };
    record(&mut state, [closed(5, 100), closed(8, 200)]).expect("logs");
    refused(&mut state, [closed(5, 100)], "closed twice");
    record(&mut state, [forget(8)]).expect("log 5 is in tables");
    refused(&mut state, [closed(7, 1)], "forgotten");
    refused(&mut state, [forget(7)], "needed again");
    assert_eq!(state.marks().closed_logs.iter().map(|(n, l)| (n.0, *l)).collect::<Vec<_>>(), [(8, 200)]);
    let durable = |number, len| Edit::DurableLog { number: FileNumber(number), len };
    record(&mut state, [durable(9, 64)]).expect("a newer log");
    refused(&mut state, [durable(9, 63)], "more was known");
    refused(&mut state, [durable(8, 500)], "more was known");
    refused(&mut state, [durable(7, 1)], "forgotten");
    record(&mut state, [durable(9, 90), forget(9)]).expect("more of it");
    assert_eq!(state.marks().durable_log, Some((FileNumber(9), 90)));
    record(&mut state, [forget(10)]).expect("it is in tables");
    assert_eq!(state.marks().durable_log, None);
    record(&mut state, [Edit::LastSeqNo(SeqNo(9))]).expect("forward");
    refused(&mut state, [Edit::LastSeqNo(SeqNo(8))], "goes back");
}

#[test]
fn undoing_a_record_takes_back_every_kind_of_edit() {
    let mut state = state();
    record(
        &mut state,
        [add(1, meta(10, 1, b"d", b"f")), add(0, meta(11, 2, b"a", b"b")), add(3, meta(12, 2, b"a", b"b"))],
    )
    .expect("tables");
    let before = Picture::of(&state.publish());
    let handle =
        |state: &mut State| Arc::clone(state.publish().keyspaces()[0].tree.tables().next().expect("it").1);
    let first = handle(&mut state);
    state.begin();
    for edit in [
        Edit::DropKeyspace { id: KeyspaceId(2) },
        create(3, "two"),
        remove(1, 1, 10),
        add(2, meta(10, 1, b"d", b"f")),
        add(0, meta(13, 3, b"d", b"f")),
        Edit::ClosedLog { number: FileNumber(5), len: 3 },
        Edit::ForgetLogs { before: FileNumber(4) },
        Edit::LastSeqNo(SeqNo(90)),
        Edit::NextFile(FileNumber(1000)),
        Edit::NextKeyspace(KeyspaceId(50)),
        Edit::CleanClose { log: FileNumber(5), len: 3 },
        Edit::DurableLog { number: FileNumber(6), len: 70 },
    ] {
        state.apply(edit).expect("it fits");
    }
    let after = state.publish();
    assert_ne!(Picture::of(&after), before);
    assert_eq!(after.marks().clean_close, Some((FileNumber(5), 3)));
    assert_eq!(after.marks().durable_log, Some((FileNumber(6), 70)));
    state.undo();
    let back = state.publish();
    assert_eq!(Picture::of(&back), before);
    assert_eq!(back.by_name("two").map(|keyspace| keyspace.id), Some(KeyspaceId(2)));
    assert_eq!((back.next_keyspace(), back.marks().clean_close), (KeyspaceId(3), None));
    assert!(Arc::ptr_eq(&first, &handle(&mut state)));
}

#[test]
fn a_version_shares_what_a_record_does_not_touch() {
    let mut state = state();
    record(&mut state, [add(1, meta(10, 1, b"d", b"f")), add(1, meta(11, 2, b"d", b"f"))]).expect("tables");
    let before = state.publish();
    record(&mut state, [add(0, meta(12, 1, b"a", b"b"))]).expect("one more");
    let after = state.publish();
    let tree =
        |version: &crate::Version, id| Arc::clone(&version.keyspace(KeyspaceId(id)).expect("it").tree);
    assert!(Arc::ptr_eq(&tree(&before, 2), &tree(&after, 2)));
    let (old, new) = (tree(&before, 1), tree(&after, 1));
    assert!(!Arc::ptr_eq(&old, &new));
    assert!(std::ptr::eq(old.levels[1].tables(), new.levels[1].tables()));
    assert_eq!((old.table_count(), new.table_count()), (1, 2));
}

#[test]
fn replay_is_not_quadratic_in_the_size_of_a_level() {
    let mut state = state();
    for n in 0..50_000u64 {
        // Scattered over the level, so that nothing is appended at its end.
        let key = (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes();
        record(&mut state, [add(1, meta(n, 1, &key, &key))]).expect("apart");
    }
    // Quadratic copying would take minutes.
    assert_eq!(state.publish().table_count(), 50_000);
}
