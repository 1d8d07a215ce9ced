//! Damage is found: a read gives the right answer or an error, whatever happened to the file.

use std::sync::Arc;

use esker_base::checksum::key_hash;
use esker_base::cursor::OwnedEntry;
use esker_base::table_meta::TableMeta;
use esker_base::{Cursor, DatabaseId, Error, FileNumber, Kind, OpCost, SeqNo};
use esker_vfs::fs::Fs;

use crate::testing::{bytes_of, context, entry, memory, open_unlisted, overwrite, path, write};
use crate::{Compression, CursorOptions, TableOptions, TableReader, TableSource, inspect};

fn small(compression: Compression) -> (Arc<dyn Fs>, TableMeta, Vec<OwnedEntry>) {
    let fs = memory();
    let entries = vec![
        entry("apple", 9, Kind::Put, "red red red red red red red red red red red red"),
        entry("apple", 2, Kind::Delete, ""),
        entry("apricot", 3, Kind::Put, ""),
        entry("banana", 4, Kind::Merge, "yellow yellow yellow yellow yellow yellow yellow"),
        entry("bandana", 5, Kind::Put, "of a block of its own, or nearly so, of its own, of its own"),
    ];
    let options = TableOptions { block_bytes: 100, compression, ..TableOptions::default() };
    let fragment = esker_base::range_tombstone::Fragment {
        start: b"c".to_vec(),
        end: b"d".to_vec(),
        seqnos: vec![SeqNo(8)],
    };
    let meta = write(&fs, options, &entries, &[fragment]).expect("memory");
    (fs, meta, entries)
}

/// Read everything there is; every answer is right or an error. Whether there was an error.
fn right_or_error(fs: &Arc<dyn Fs>, meta: &TableMeta, entries: &[OwnedEntry], source: TableSource) -> bool {
    let reader = match TableReader::open(&context(fs, source, 1 << 20), meta) {
        Ok(reader) => Arc::new(reader),
        Err(_) => return true,
    };
    assert_eq!(reader.tombstones().covering(b"cherry", SeqNo::MAX), Some(SeqNo(8)));
    let mut failed = false;
    for e in entries {
        match reader.get(&e.key, key_hash(&e.key), e.seqno, &mut OpCost::default()) {
            Err(_) => failed = true,
            Ok(found) => {
                let found = found.expect("it is in the table");
                assert_eq!((found.seqno, found.kind, &found.value[..]), (e.seqno, e.kind, &e.value[..]));
            }
        }
    }
    for forward in [true, false] {
        let mut cursor = reader.cursor(CursorOptions { fill_cache: false, readahead: forward });
        let mut result = if forward { cursor.seek_first() } else { cursor.seek_last() };
        let mut seen = 0;
        while result.is_ok() && cursor.valid() {
            let e = if forward { &entries[seen] } else { &entries[entries.len() - 1 - seen] };
            assert_eq!((cursor.key(), cursor.seqno(), cursor.value()), (&e.key[..], e.seqno, &e.value[..]));
            seen += 1;
            result = if forward { cursor.next() } else { cursor.prev() };
        }
        failed |= result.is_err();
        assert!(result.is_err() || seen == entries.len(), "entries are missing without an error");
    }
    failed
}

/// Everything that reads a table by its own word: no panic.
fn look_at(fs: &Arc<dyn Fs>) -> bool {
    if let Ok(fields) = inspect(&**fs, &path()) {
        for field in fields {
            assert!(field.is_ok(), "memory does not fail");
        }
    }
    let Ok(reader) = open_unlisted(fs) else {
        return true;
    };
    reader.salvage(|_, _, _, _| {});
    reader.verify(&mut OpCost::default()).is_err()
}

#[test]
fn every_flipped_bit_is_found_or_harmless() {
    for compression in [Compression::None, Compression::Lz4] {
        let (fs, meta, entries) = small(compression);
        let good = bytes_of(&*fs, &path());
        assert!(!right_or_error(&fs, &meta, &entries, TableSource::Buffered));
        assert!(!look_at(&fs));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            overwrite(&*fs, &bad);
            for source in [TableSource::Buffered, TableSource::Mapped] {
                assert!(right_or_error(&fs, &meta, &entries, source), "bit {bit} was not noticed");
            }
            assert!(look_at(&fs), "bit {bit} was not noticed");
        }
    }
}

#[test]
fn every_truncation_and_every_tail_is_found() {
    let (fs, meta, entries) = small(Compression::None);
    let good = bytes_of(&*fs, &path());
    for len in 0..good.len() {
        overwrite(&*fs, &good[..len]);
        assert!(right_or_error(&fs, &meta, &entries, TableSource::Buffered), "cut to {len}");
        assert!(look_at(&fs), "cut to {len}");
        // Cut, and filled up with zeros by a filesystem that lost the end.
        let mut zeros = good[..len].to_vec();
        zeros.resize(good.len(), 0);
        if zeros != good {
            overwrite(&*fs, &zeros);
            assert!(right_or_error(&fs, &meta, &entries, TableSource::Mapped), "zeros from {len}");
        }
    }
    for tail in [vec![0], vec![0; 4096], good.clone()] {
        overwrite(&*fs, &[good.clone(), tail].concat());
        let error = TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect_err("longer");
        assert!(error.is_corruption(), "{error}");
    }
}

#[test]
fn swapped_blocks_are_found() {
    let fs = memory();
    let entries: Vec<_> = (0..20u32).map(|i| entry(format!("{i:02}"), 1, Kind::Put, [b'v'; 60])).collect();
    let options = TableOptions { block_bytes: 120, ..TableOptions::default() };
    let meta = write(&fs, options, &entries, &[]).expect("memory");
    let reader = TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect("open");
    let place = |block| {
        let start = reader.index().offset(block) as usize;
        start..start + reader.index().stored_len(block)
    };
    let good = bytes_of(&*fs, &path());
    let blocks = reader.index().blocks();
    assert!(blocks > 5);
    for one in 0..blocks {
        for two in 0..one {
            if place(one).len() != place(two).len() {
                continue;
            }
            let mut bad = good.clone();
            bad[place(one)].copy_from_slice(&good[place(two)]);
            bad[place(two)].copy_from_slice(&good[place(one)]);
            overwrite(&*fs, &bad);
            let swapped =
                TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect("parts are good");
            let key = &entries[0].key;
            let damaged = swapped.salvage(|_, _, _, _| {});
            assert_eq!(damaged.len(), 2, "{damaged:?}");
            if two == 0 {
                swapped.get(key, key_hash(key), SeqNo::MAX, &mut OpCost::default()).expect_err("swapped");
            }
        }
    }
}

#[test]
fn tables_of_other_files_databases_and_descriptions_are_refused() {
    let (fs, meta, _) = small(Compression::None);
    let open = |meta: &TableMeta| TableReader::open(&context(&fs, TableSource::Buffered, 0), meta);
    open(&meta).expect("its own description");

    let mut other = context(&fs, TableSource::Buffered, 0);
    other.database = DatabaseId([9; 16]);
    let error = TableReader::open(&other, &meta).expect_err("another database");
    assert!(error.is_corruption() && error.to_string().contains("another file"), "{error}");

    fs.rename(&path(), &path().with_file_name("000008.sst")).expect("memory");
    let renamed = TableMeta { number: FileNumber(8), ..meta.clone() };
    assert!(open(&renamed).expect_err("another number").is_corruption());
    assert!(open(&meta).expect_err("gone").is_not_found());
    fs.rename(&path().with_file_name("000008.sst"), &path()).expect("memory");

    let edits: [fn(&mut TableMeta); 8] = [
        |m| m.keyspace.0 += 1,
        |m| m.entries += 1,
        |m| m.file_bytes += 1,
        |m| m.content_hash ^= 1,
        |m| m.bounds.largest.push(0),
        |m| m.largest_seqno.0 += 1,
        |m| m.range_tombstones = 0,
        |m| m.created_millis += 1,
    ];
    for edit in edits {
        let mut wrong = meta.clone();
        edit(&mut wrong);
        let error = open(&wrong).expect_err("another description");
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
    }
}

#[test]
fn salvage_gives_what_is_readable_and_names_the_rest() {
    let fs = memory();
    let entries: Vec<_> = (0..100u32).map(|i| entry(format!("{i:03}"), 1, Kind::Put, [b'v'; 60])).collect();
    let options = TableOptions { block_bytes: 400, ..TableOptions::default() };
    write(&fs, options, &entries, &[]).expect("memory");
    let mut bytes = bytes_of(&*fs, &path());
    bytes[1000] ^= 1;
    overwrite(&*fs, &bytes);
    let reader = open_unlisted(&fs).expect("the footer is good");
    let mut seen = Vec::new();
    let damage = reader.salvage(|key, seqno, kind, value| seen.push(entry(key, seqno.0, kind, value)));
    let [error] = &damage[..] else { panic!("one block is bad: {damage:?}") };
    let Error::Corruption { offset, .. } = error else { panic!("{error}") };
    assert!(*offset <= 1000 && *offset > 500, "{error}");
    assert!(seen.len() > 90 && seen.len() < 100);
    assert!(seen.iter().all(|e| entries.contains(e)));
    assert!(reader.verify(&mut OpCost::default()).is_err());
}
