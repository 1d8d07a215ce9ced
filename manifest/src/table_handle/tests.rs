#![expect(clippy::disallowed_methods, reason = "a test of threads has threads of its own")]

use std::sync::Arc;

use esker_base::filename::FileName;
use esker_base::{Error, FileNumber, Kind, OpCost, SeqNo};
use esker_sstable::{TableIdentity, TableOptions, TableWriter};

use super::TableHandle;
use crate::testing::disk::{Disk, Effect, Fault};
use crate::testing::{DATABASE, context, dir, table};
use crate::tree_file::TreeFiles;

/// A real table on `disk` with one entry.
fn real_table(disk: &Disk, number: u64) -> esker_base::table_meta::TableMeta {
    let id = TableIdentity {
        database: DATABASE,
        number: FileNumber(number),
        keyspace: esker_base::KeyspaceId(1),
    };
    let mut writer =
        TableWriter::create(&disk.fs(), dir(), id, TableOptions::default(), 5).expect("a table");
    writer.add(b"key", SeqNo(3), Kind::Put, b"value").expect("an entry");
    writer.finish().expect("its end")
}

fn files(disk: &Disk) -> Arc<TreeFiles> {
    TreeFiles::new(context(&disk.fs(), dir(), DATABASE))
}

#[test]
fn a_table_is_opened_by_the_first_read_and_once() {
    let disk = Disk::default();
    let handle = TableHandle::new(real_table(&disk, 4), Vec::new(), &files(&disk));
    assert!(handle.opened().is_none());
    let reader = Arc::clone(handle.reader().expect("it opens"));
    assert!(handle.opened().is_some());
    let calls = disk.calls();
    assert!(Arc::ptr_eq(&reader, handle.reader().expect("it is open")));
    assert_eq!(disk.calls(), calls);
    let hash = esker_base::checksum::key_hash(b"key");
    let entry = reader.get(b"key", hash, SeqNo::MAX, &mut OpCost::default()).expect("it reads");
    assert_eq!(entry.map(|entry| entry.value), Some("value".into()));
}

#[test]
fn a_table_that_could_not_be_opened_is_tried_again() {
    let disk = Disk::default();
    let handle = TableHandle::new(real_table(&disk, 4), Vec::new(), &files(&disk));
    disk.break_at(Some(Fault { call: 0, effect: Effect::None, forever: false }));
    assert!(matches!(handle.reader(), Err(Error::Io { .. })));
    assert!(handle.reader().is_ok());
}

#[test]
fn many_who_want_the_same_table_open_it_once() {
    let disk = Disk::default();
    let handle = TableHandle::new(real_table(&disk, 4), Vec::new(), &files(&disk));
    let readers: Vec<_> = std::thread::scope(|scope| {
        let open = || Arc::clone(handle.reader().expect("it opens"));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(readers.iter().all(|reader| Arc::ptr_eq(reader, &readers[0])));
}

#[test]
fn a_detached_table_has_no_reader_and_leaves_no_garbage() {
    let handle = table(4, b"a", b"b");
    assert!(matches!(handle.reader(), Err(Error::InvalidArgument { .. })));
    handle.mark_obsolete();
}

#[test]
fn only_the_end_of_an_obsolete_handle_is_reported() {
    let disk = Disk::default();
    let files = files(&disk);
    drop(TableHandle::new(real_table(&disk, 4), Vec::new(), &files));
    assert_eq!(files.take_garbage(), []);
    let handle = TableHandle::new(real_table(&disk, 5), Vec::new(), &files);
    let other = Arc::clone(&handle);
    handle.mark_obsolete();
    drop(handle);
    assert!(other.reader().is_ok(), "an older version still reads it");
    assert_eq!(files.take_garbage(), []);
    drop(other);
    assert_eq!(files.take_garbage(), [FileName::Table(FileNumber(5))]);
}
