//! The system's failures stay errors: nothing is lost by them, and nothing is kept of them.

use std::sync::Arc;

use esker_base::checksum::key_hash;
use esker_base::cursor::OwnedEntry;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, Error, Kind, OpCost, Result, SeqNo};
use esker_vfs::fault::{Fault, FaultFs, Operation};
use esker_vfs::fs::Fs;

use crate::testing::{context, entry, memory, write};
use crate::{CursorOptions, TableOptions, TableReader, TableSource};

/// Two pieces of output, a handful of blocks.
fn content() -> Vec<OwnedEntry> {
    (0..20u32).map(|i| entry(format!("{i:02}"), 1, Kind::Put, vec![b'v'; 40_000])).collect()
}

fn faulty() -> (Arc<dyn Fs>, FaultFs) {
    let faults = FaultFs::new(memory());
    (Arc::new(faults.clone()), faults)
}

/// Opens the table and reads it by key and by cursor.
fn read(fs: &Arc<dyn Fs>, meta: &TableMeta, source: TableSource, entries: &[OwnedEntry]) -> Result<()> {
    let reader = Arc::new(TableReader::open(&context(fs, source, 1 << 20), meta)?);
    for e in entries {
        let found = reader.get(&e.key, key_hash(&e.key), SeqNo::MAX, &mut OpCost::default())?;
        assert_eq!(found.expect("it is there").value, e.value);
    }
    let mut cursor = reader.cursor(CursorOptions { fill_cache: false, readahead: true });
    cursor.seek_first()?;
    for e in entries {
        assert_eq!((cursor.key(), cursor.value()), (&e.key[..], &e.value[..]));
        cursor.next()?;
    }
    reader.verify(&mut OpCost::default())
}

#[test]
fn every_failing_call_of_a_write_is_reported() {
    let (fs, faults) = faulty();
    write(&fs, TableOptions::default(), &content(), &[]).expect("no fault is planned");
    assert!(faults.count(Operation::Write) >= 2);
    assert_eq!(faults.count(Operation::Sync), 1);
    for call in 0..faults.calls() {
        let (fs, faults) = faulty();
        faults.plan(Fault::at(call));
        let result = write(&fs, TableOptions::default(), &content(), &[]);
        assert_eq!(faults.fired().len(), 1, "call {call}");
        assert!(matches!(result, Err(Error::Io { .. })), "call {call}: {result:?}");
    }
}

#[test]
fn a_failing_read_is_an_error_once_and_leaves_nothing_behind() {
    let (fs, faults) = faulty();
    let entries = content();
    let meta = write(&fs, TableOptions::default(), &entries, &[]).expect("no fault is planned");
    for source in [TableSource::Buffered, TableSource::Mapped] {
        faults.reset();
        read(&fs, &meta, source, &entries).expect("no fault is planned");
        for call in 0..faults.calls() {
            faults.reset();
            faults.plan(Fault::at(call));
            let result = read(&fs, &meta, source, &entries);
            assert!(matches!(result, Err(Error::Io { .. })), "call {call}: {result:?}");
            read(&fs, &meta, source, &entries).expect("the fault is over");
        }
    }
}

#[test]
fn a_get_succeeds_after_the_fault_is_over() {
    let (fs, faults) = faulty();
    let entries = content();
    let meta = write(&fs, TableOptions::default(), &entries, &[]).expect("no fault is planned");
    let context = context(&fs, TableSource::Buffered, 1 << 20);
    let reader = TableReader::open(&context, &meta).expect("no fault is planned");
    faults.reset();
    faults.plan(Fault::nth(Operation::Read, 0));
    let get = || reader.get(b"07", key_hash(b"07"), SeqNo::MAX, &mut OpCost::default());
    let error = get().expect_err("planned");
    assert!(error.to_string().contains("000007.sst"), "{error}");
    assert_eq!(context.cache.stats().bytes, 0, "an error is not cached");
    assert!(get().expect("over").is_some());
}
