//! What a version set promises: tests by hand here, every crash and every failure in the modules.

use std::sync::Arc;

use esker_base::filename::FileName;
use esker_base::{Error, FileNumber, KeyspaceId, SeqNo};

use crate::testing::disk::{Disk, Effect, Fault, Survives};
use crate::testing::{Picture, create, meta, recover, recover_read_only, write_table};
use crate::{Edit, VersionSet};

mod crash;
mod model;

pub(super) fn keyspace(id: u32, name: &str) -> Edit {
    Edit::CreateKeyspace { id: KeyspaceId(id), name: name.to_owned(), options: name.as_bytes().to_vec() }
}

/// A new table's file and the edit that adds it.
pub(super) fn table(disk: &Disk, set: &VersionSet, level: u8, smallest: &[u8], largest: &[u8]) -> Edit {
    let meta = meta(set.allocate().0, 1, smallest, largest);
    write_table(disk, &meta).expect("a table's file");
    Edit::AddTable { level, meta }
}

pub(super) fn number(edit: &Edit) -> FileNumber {
    match edit {
        Edit::AddTable { meta, .. } => meta.number,
        other => panic!("{other:?} adds no table"),
    }
}

pub(super) fn removal(edit: &Edit) -> Edit {
    match edit {
        Edit::AddTable { level, meta } => {
            Edit::RemoveTable { keyspace: meta.keyspace, level: *level, number: meta.number }
        }
        other => panic!("{other:?} adds no table"),
    }
}

fn manifests(disk: &Disk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.ends_with(".manifest")).collect()
}

#[test]
fn what_was_committed_is_there_after_a_reopen() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let add = table(&disk, &set, 0, b"a", b"m");
    let edits = vec![add, Edit::ClosedLog { number: FileNumber(50), len: 777 }, Edit::LastSeqNo(SeqNo(42))];
    let version = set.commit(edits).expect("a flush");
    let picture = Picture::of(&version);
    assert_eq!(picture, Picture::of(&set.current()));
    assert_eq!(version.by_name("users").map(|keyspace| keyspace.id), Some(KeyspaceId(1)));
    assert_eq!((version.table_count(), version.next_keyspace()), (1, KeyspaceId(2)));
    for survives in [Survives::Nothing, Survives::Everything] {
        let (set, recovered) = recover(&disk.after_power_loss(survives)).expect("it opens");
        assert_eq!(Picture::of(&set.current()), picture);
        assert_eq!(set.database(), recovered.database);
        assert_eq!((recovered.last_seqno, recovered.first_log), (SeqNo(42), FileNumber(0)));
        assert_eq!(recovered.closed_logs.get(&FileNumber(50)), Some(&777));
        assert_eq!((recovered.commits, recovered.torn, recovered.clean_close), (2, false, None));
        assert_eq!(recovered.orphans, []);
    }
}

#[test]
fn the_names_of_new_tables_are_durable_before_the_commit_that_adds_them() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let add = table(&disk, &set, 0, b"a", b"m");
    set.commit(vec![add.clone()]).expect("a flush");
    let name = FileName::Table(number(&add)).to_string();
    assert!(disk.after_power_loss(Survives::Nothing).names().contains(&name));
}

#[test]
fn a_table_is_garbage_when_nobody_can_read_it_any_more() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let (first, second) = (table(&disk, &set, 1, b"a", b"b"), table(&disk, &set, 1, b"c", b"d"));
    let old = set.commit(vec![first.clone(), second.clone()]).expect("tables");
    drop(set.commit(vec![removal(&first)]).expect("removed"));
    assert_eq!(set.take_garbage(), [], "an old version still reads it");
    drop(old);
    assert_eq!(set.take_garbage(), [FileName::Table(number(&first))]);
    assert_eq!(set.take_garbage(), [], "once only");
    let reader = Arc::clone(set.current().keyspaces()[0].tree.table(number(&second)).expect("it"));
    drop(set.commit(vec![Edit::DropKeyspace { id: KeyspaceId(1) }]).expect("dropped"));
    assert!(reader.is_obsolete());
    assert_eq!(set.take_garbage(), [], "a reader still has it");
    drop(reader);
    assert_eq!(set.take_garbage(), [FileName::Table(number(&second))]);
}

#[test]
fn a_table_that_moves_keeps_its_handle() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let add = table(&disk, &set, 0, b"a", b"b");
    let before = set.commit(vec![add.clone()]).expect("a table");
    let Edit::AddTable { meta, .. } = add.clone() else { unreachable!() };
    let syncs_before = disk.calls();
    let after = set.commit(vec![Edit::AddTable { level: 4, meta }, removal(&add)]).expect("a move");
    assert_eq!(disk.calls() - syncs_before, 3, "one write, one sync and the seal: its name is durable");
    let handle =
        |version: &crate::Version| Arc::clone(version.keyspaces()[0].tree.table(number(&add)).expect("it"));
    assert!(Arc::ptr_eq(&handle(&before), &handle(&after)));
    let levels: Vec<u8> = after.keyspaces()[0].tree.tables().map(|(level, _)| level).collect();
    assert_eq!(levels, [4]);
    drop(before);
    assert!(!handle(&after).is_obsolete());
    assert_eq!(set.take_garbage(), []);
}

#[test]
fn closing_a_set_leaves_no_garbage_behind_and_takes_none() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let add = table(&disk, &set, 0, b"a", b"b");
    let version = set.commit(vec![add]).expect("a table");
    drop(set);
    assert!(!version.keyspaces()[0].tree.levels[0].tables()[0].is_obsolete());
}

#[test]
#[should_panic(expected = "does not fit the version in force: table 000099 is not in level 0")]
fn an_edit_that_does_not_fit_is_a_mistake() {
    let set = create(&Disk::default()).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let gone = Edit::RemoveTable { keyspace: KeyspaceId(1), level: 0, number: FileNumber(99) };
    let _ = set.commit(vec![gone]);
}

#[test]
fn a_mistake_changes_nothing() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let before = Picture::of(&set.current());
    let twice = vec![keyspace(2, "more"), keyspace(3, "more")];
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| set.commit(twice))).is_err();
    assert!(panicked);
    assert_eq!(Picture::of(&set.current()), before);
    set.commit(vec![keyspace(2, "more")]).expect("the set goes on");
    let (set, _) = recover(&disk).expect("it opens");
    assert_eq!(set.current().keyspaces().len(), 2);
}

#[test]
fn edits_can_be_made_from_the_version_they_meet() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    for name in ["a", "b", "a"] {
        set.commit_with(|version| {
            let id = version.next_keyspace().0;
            Ok(if version.by_name(name).is_some() { Vec::new() } else { vec![keyspace(id, name)] })
        })
        .expect("a commit");
    }
    let calls = disk.calls();
    set.commit(Vec::new()).expect("nothing to do");
    assert_eq!(disk.calls(), calls, "nothing is written for nothing");
    let refused = set.commit_with(|_| Err(Error::invalid("no")));
    assert!(matches!(refused, Err(Error::InvalidArgument { .. })));
    let names: Vec<String> =
        set.current().keyspaces().iter().map(|keyspace| keyspace.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_clean_close_holds_until_the_next_commit_and_skips_no_numbers() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let log = set.allocate();
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    set.commit(vec![Edit::CleanClose { log, len: 500 }]).expect("closed");
    drop(set);
    let disk = disk.after_power_loss(Survives::Nothing);
    let (set, recovered) = recover(&disk).expect("it opens");
    assert_eq!(recovered.clean_close, Some((log, 500)));
    assert_eq!(set.current().marks().clean_close, None, "this handle has opened it again");
    assert_eq!(set.allocate(), FileNumber(log.0 + 2), "one number went to the new manifest");
    drop(set);
    let (_, recovered) = recover(&disk).expect("it opens");
    assert_eq!(recovered.clean_close, None, "that handle was not closed in order");
}

#[test]
fn numbers_are_never_used_twice_even_if_no_file_was_made() {
    let mut disk = Disk::default();
    let mut set = create(&disk).expect("a new database");
    let mut greatest = 0;
    for round in 0u64..6 {
        for _ in 0..[1, 130, 256, 257, 1000, 3][round as usize] {
            let number = set.allocate().0;
            assert!(number > greatest);
            greatest = number;
        }
        if round == 2 {
            set.commit(vec![Edit::CleanClose { log: FileNumber(1), len: 0 }]).expect("closed");
            greatest = greatest.max(set.allocate().0);
        }
        disk = disk.after_power_loss(Survives::Nothing);
        set = recover(&disk).expect("it opens").0;
        assert!(set.allocate().0 > greatest);
    }
}

#[test]
fn numbers_in_the_directory_are_never_used_again() {
    let disk = Disk::default();
    drop(create(&disk).expect("a new database"));
    disk.put("005000.sst", b"left over");
    disk.put("7000000.log", b"");
    disk.put("281474976710655.sst", b"no database reaches this number: left alone");
    let (set, recovered) = recover(&disk).expect("it opens");
    assert!(set.allocate().0 > 7_000_000);
    assert!(set.allocate().0 < 8_000_000);
    assert_eq!(recovered.orphans, [FileName::Table(FileNumber(5000))]);
    assert_eq!(recovered.logs.keys().collect::<Vec<_>>(), [&FileNumber(7_000_000)]);
}

#[test]
fn a_manifest_that_outgrows_its_content_is_rewritten() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let key = vec![b'k'; 60_000];
    let mut seen = std::collections::BTreeSet::new();
    let mut last: Option<Edit> = None;
    for _ in 0..60 {
        let add = table(&disk, &set, 1, &key, &key);
        let edits = last.iter().map(removal).chain([add.clone()]).collect();
        set.commit(edits).expect("a table takes the place of another");
        last = Some(add);
        seen.extend(manifests(&disk));
        assert_eq!(manifests(&disk).len(), 1, "the old one is removed");
        assert!(disk.bytes(&manifests(&disk)[0]).len() < (1 << 20) + 300_000);
    }
    assert!(seen.len() >= 6, "{seen:?}");
    let picture = Picture::of(&set.current());
    let (set, _) = recover(&disk.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(Picture::of(&set.current()), picture);
}

#[test]
fn a_set_that_was_opened_for_reading_commits_nothing() {
    let disk = Disk::default();
    create(&disk).expect("a new database").commit(vec![keyspace(1, "users")]).expect("a keyspace");
    let changes = disk.changes();
    let (set, recovered) = recover_read_only(&disk).expect("it opens");
    assert!(matches!(set.commit(vec![keyspace(2, "more")]), Err(Error::ReadOnly)));
    assert_eq!(set.current().keyspaces().len(), 1);
    assert_eq!((recovered.commits, disk.changes()), (1, changes));
}

#[test]
fn a_commit_that_fails_and_was_taken_back_can_be_tried_again() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    // The write fails half-way; zeroing it and syncing the zeros succeed.
    disk.break_at(Some(Fault { call: 0, effect: Effect::Part, forever: false }));
    assert!(matches!(set.commit(vec![keyspace(1, "users")]), Err(Error::Aborted { .. })));
    assert_eq!(set.current().keyspaces().len(), 0);
    for survives in [Survives::Nothing, Survives::Everything] {
        let (set, _) = recover(&disk.after_power_loss(survives)).expect("it opens");
        assert_eq!(set.current().keyspaces().len(), 0);
    }
    set.commit(vec![keyspace(1, "users")]).expect("the next try");
    let (set, _) = recover(&disk.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(set.current().keyspaces().len(), 1);
}

#[test]
fn a_failed_sync_is_answered_with_a_new_manifest() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let before = manifests(&disk);
    // The sync fails, and what it was for is forgotten: a second sync of that file would say Ok.
    disk.break_at(Some(Fault { call: 1, effect: Effect::None, forever: false }));
    set.commit(vec![keyspace(1, "users")]).expect("superseded within the call");
    assert_ne!(manifests(&disk), before);
    let (set, _) = recover(&disk.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(set.current().keyspaces().len(), 1);
}

#[test]
fn after_a_commit_in_doubt_reads_go_on_and_commits_do_not() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    set.commit(vec![keyspace(1, "users")]).expect("a keyspace");
    disk.break_at(Some(Fault { call: 1, effect: Effect::None, forever: true }));
    assert!(matches!(set.commit(vec![keyspace(2, "more")]), Err(Error::InDoubt { .. })));
    disk.break_at(None);
    assert!(matches!(set.commit(vec![keyspace(2, "more")]), Err(Error::Poisoned { .. })));
    assert_eq!(set.current().keyspaces().len(), 1);
    assert_eq!(disk.calls(), 0, "a poisoned set leaves the disk alone");
    let greatest = (0..600).map(|_| set.allocate().0).max();
    assert!(greatest > Some(600), "numbers are still to be had");
}

#[test]
fn ten_thousand_keyspaces_are_cheap_and_too_many_are_refused() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let many = |from: u32, to: u32| (from..to).map(|id| keyspace(id, &format!("keyspace {id}"))).collect();
    let version = set.commit(many(1, 10_001)).expect("ten thousand");
    assert!(
        (1..10_001).all(|id| version.keyspace(KeyspaceId(id)).is_some_and(|keyspace| keyspace.id.0 == id))
    );
    assert!(
        Arc::ptr_eq(&version.keyspaces()[0].tree, &version.keyspaces()[9_999].tree),
        "nothing is shared thinner"
    );
    set.commit(vec![Edit::DropKeyspace { id: KeyspaceId(500) }]).expect("dropped");
    let version = set.current();
    assert!(version.keyspace(KeyspaceId(500)).is_none());
    assert!(
        version.keyspace(KeyspaceId(501)).is_some_and(|keyspace| keyspace.id.0 == 501),
        "ids with a gap"
    );
    assert!(matches!(set.commit(many(10_001, 66_000)), Err(Error::InvalidArgument { .. })));
    assert_eq!(set.current().keyspaces().len(), 9_999);
    let (set, _) = recover(&disk).expect("it opens");
    assert_eq!(set.current().by_name("keyspace 10000").map(|keyspace| keyspace.id.0), Some(10_000));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of threads has threads of its own")]
fn commits_and_numbers_from_many_threads_are_each_their_own() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let work = |thread: u32| {
        let set = &set;
        move || {
            let mut numbers = Vec::new();
            for round in 0..20 {
                numbers.extend((0..40).map(|_| set.allocate().0));
                let name = format!("keyspace {thread} {round}");
                let version = set
                    .commit_with(|version| Ok(vec![keyspace(version.next_keyspace().0, &name)]))
                    .expect("a commit");
                assert!(version.by_name(&name).is_some(), "the version has what its commit has brought");
            }
            numbers
        }
    };
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let distinct: std::collections::BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!((numbers.len(), distinct.len()), (3200, 3200));
    let (set, _) = recover(&disk.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(set.current().keyspaces().len(), 80);
    assert!(Some(&set.allocate().0) > distinct.last());
}

#[test]
fn what_is_shared_between_threads_may_be() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<VersionSet>();
    shared::<crate::Version>();
    shared::<crate::TableHandle>();
}
