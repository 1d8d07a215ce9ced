use std::path::PathBuf;
use std::sync::Arc;

use esker_base::blob::{BlobMeta, BlobPointer};
use esker_base::checksum::ChecksumSeed;
use esker_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use esker_base::{DatabaseId, Error, FileNumber, OpCost};
use esker_vfs::fs::Fs;
use esker_vfs::open_files::OpenFiles;
use proptest::prelude::*;

use super::{BlobReader, BlobWalk, BlobWriter, inspect_blob};
use crate::inspect::Verdict;
use crate::testing::{IDENTITY, bytes_of, context, dir, memory};
use crate::{TableIdentity, TableSource};

const OWN: TableIdentity = TableIdentity { number: FileNumber(8), ..IDENTITY };

type Row = (Vec<u8>, Vec<u8>);

fn path() -> PathBuf {
    dir().join("000008.blob")
}

fn write(fs: &Arc<dyn Fs>, rows: &[Row]) -> (BlobMeta, Vec<BlobPointer>) {
    let mut writer = BlobWriter::create(fs, &dir(), OWN).expect("memory");
    let pointers = rows.iter().map(|(key, value)| writer.add(key, value).expect("memory")).collect();
    (writer.finish().expect("memory"), pointers)
}

fn put(fs: &dyn Fs, bytes: &[u8]) {
    let _ = fs.remove(&path());
    let file = fs.create(&path()).expect("memory");
    file.write_at(bytes, 0).expect("memory");
}

fn open(fs: &Arc<dyn Fs>, meta: &BlobMeta) -> esker_base::Result<Arc<BlobReader>> {
    open_cached(fs, meta, 0)
}

fn open_cached(fs: &Arc<dyn Fs>, meta: &BlobMeta, cache: u64) -> esker_base::Result<Arc<BlobReader>> {
    BlobReader::open(&context(fs, TableSource::Buffered, cache), meta).map(Arc::new)
}

fn open_mapped(fs: &Arc<dyn Fs>, meta: &BlobMeta) -> esker_base::Result<Arc<BlobReader>> {
    BlobReader::open(&context(fs, TableSource::Mapped, 1 << 20), meta).map(Arc::new)
}

fn rows(values: &[(&str, &str)]) -> Vec<Row> {
    values.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn small() -> Vec<Row> {
    rows(&[
        ("apple", "red and round"),
        ("apple", "green, which was before"),
        ("banana", ""),
        ("", "no key"),
    ])
}

/// The bytes of the example in FORMAT.md.
fn example() -> Vec<u8> {
    let text = include_str!("../../FORMAT.md");
    let (_, example) = text.split_once("```blob\n").expect("the example");
    let (example, _) = example.split_once("```").expect("the example's end");
    example
        .lines()
        .flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        .collect()
}

#[test]
fn the_example_is_what_is_written_and_is_read_as_it_says() {
    let fs = memory();
    let rows = rows(&[("plum", "purple")]);
    let (meta, pointers) = write(&fs, &rows);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
    assert_eq!(hex(&example()), hex(&bytes_of(&*fs, &path())));
    let text = include_str!("../../FORMAT.md");
    let pointer = hex(&pointers[0].encode());
    assert!(text.contains(&pointer), "the pointer is {pointer}");
    put(&*fs, &example());
    let reader = BlobReader::open_unlisted(&OpenFiles::new(fs, 1), &path()).expect("the example");
    assert_eq!((reader.identity(), *reader.meta()), (OWN, meta));
    let mut cost = OpCost::default();
    assert_eq!(reader.read(b"plum", &pointers[0], &mut cost).expect("its value"), "purple");
    assert_eq!((cost.blob_values, cost.bytes_from_disk), (1, 20));
    reader.verify(&mut cost).expect("it is whole");
}

#[test]
fn a_value_is_read_only_where_and_for_whom_it_was_written() {
    let fs = memory();
    let rows = small();
    let (meta, pointers) = write(&fs, &rows);
    for cache in [0, 1 << 20] {
        refuses_what_is_not_asked_for(
            &open_cached(&fs, &meta, cache).expect("it was written"),
            &rows,
            &pointers,
        );
    }
    refuses_what_is_not_asked_for(&open_mapped(&fs, &meta).expect("it was written"), &rows, &pointers);
}

fn refuses_what_is_not_asked_for(reader: &Arc<BlobReader>, rows: &[Row], pointers: &[BlobPointer]) {
    let mut cost = OpCost::default();
    for ((key, value), pointer) in rows.iter().zip(pointers) {
        assert_eq!(reader.read(key, pointer, &mut cost).expect("it is there"), value);
        let wrong = [
            BlobPointer { number: FileNumber(9), ..*pointer },
            BlobPointer { offset: pointer.offset + 1, ..*pointer },
            BlobPointer { offset: u64::MAX, ..*pointer },
            BlobPointer { offset: 0, ..*pointer },
            BlobPointer { len: pointer.len + 1, ..*pointer },
            BlobPointer { len: u32::MAX, ..*pointer },
            BlobPointer { checksum: pointer.checksum ^ 1, ..*pointer },
        ];
        for pointer in wrong {
            let outcome = reader.read(key, &pointer, &mut cost);
            assert!(matches!(outcome, Err(Error::Corruption { .. })), "{pointer:?}: {outcome:?}");
            let mut walk = BlobWalk::default();
            assert!(walk.value(reader, key, &pointer, &mut cost).is_err() && walk.last().is_empty());
        }
        assert!(reader.read(b"another", pointer, &mut cost).is_err());
    }
    // A record that checks, of the same key in the same file, is still not the row's.
    let other = BlobPointer { checksum: pointers[0].checksum, ..pointers[1] };
    assert!(reader.read(b"apple", &other, &mut cost).is_err());
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let fs = memory();
    let rows = small();
    let (meta, pointers) = write(&fs, &rows);
    let whole = bytes_of(&*fs, &path());
    let mut cost = OpCost::default();
    let mut check = |bytes: &[u8], what: String, mapped: bool| {
        put(&*fs, bytes);
        let opened = if mapped { open_mapped(&fs, &meta) } else { open(&fs, &meta) };
        let damaged = match opened {
            Err(error) => {
                assert!(error.is_corruption() || matches!(error, Error::FormatTooNew { .. }), "{error}");
                true
            }
            Ok(reader) => {
                let mut walk = BlobWalk::default();
                for ((key, value), pointer) in rows.iter().zip(&pointers) {
                    if let Ok(read) = reader.read(key, pointer, &mut cost) {
                        assert_eq!(read, value, "{what}");
                    }
                    if let Ok(read) = walk.value(&reader, key, pointer, &mut cost) {
                        assert_eq!(read, value, "{what}");
                    }
                }
                reader.verify(&mut cost).is_err()
            }
        };
        assert!(damaged, "{what} is not found");
        let fields: Vec<_> = inspect_blob(&*fs, &path())
            .expect("memory")
            .collect::<Result<_, _>>()
            .expect("memory does not fail");
        let covered: u64 = fields.iter().map(|field| field.len).sum();
        assert_eq!(covered, bytes.len() as u64, "{what}: each byte is shown once");
        assert!(fields.iter().any(|field| field.verdict != Verdict::Ok), "{what}");
    };
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        for mapped in [false, true] {
            check(&bytes, format!("bit {bit}"), mapped);
        }
    }
    for len in 0..whole.len() {
        for mapped in [false, true] {
            check(&whole[..len], format!("a file of {len} bytes"), mapped);
        }
    }
    put(&*fs, &whole);
    let fields = inspect_blob(&*fs, &path()).expect("memory");
    assert!(fields.map(|field| field.expect("memory")).all(|field| field.verdict == Verdict::Ok));
}

#[test]
fn a_newer_version_is_no_damage() {
    let fs = memory();
    write(&fs, &small());
    let mut bytes = bytes_of(&*fs, &path());
    // The version, and the checksum that covers what comes before it.
    bytes[8] = 9;
    let crc = ChecksumSeed::new(OWN.database, OWN.number).checksum(0, &[&bytes[..40]]);
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    put(&*fs, &bytes);
    let fields = inspect_blob(&*fs, &path()).expect("memory");
    let told: Vec<_> =
        fields.map(|field| field.expect("memory")).map(|field| (field.name, field.verdict)).collect();
    assert_eq!(told, [("header", Verdict::Newer), ("records", Verdict::Newer)]);
}

#[test]
fn a_record_longer_than_any_is_not_read() {
    let fs = memory();
    write(&fs, &rows(&[("plum", "purple")]));
    let file = fs.open_writable(&path()).expect("memory");
    // The first record claims as much as the longest key and value have, behind a short key; the file is long enough.
    let claimed = u32::try_from(KEY_BYTES_MAX + VALUE_BYTES_MAX).expect("fits");
    file.write_at(&claimed.to_le_bytes(), 48).expect("memory");
    file.set_len(u64::from(claimed) + 1000).expect("a hole takes no memory");
    let fields = inspect_blob(&*fs, &path()).expect("memory");
    let fields: Vec<_> = fields.map(|field| field.expect("memory does not fail")).collect();
    let told: Vec<_> = fields.iter().map(|field| (field.name, field.verdict)).collect();
    assert_eq!(told, [("header", Verdict::Ok), ("records", Verdict::Bad)]);
}

#[test]
fn another_files_bytes_are_refused() {
    let fs = memory();
    let (meta, _) = write(&fs, &small());
    let bytes = bytes_of(&*fs, &path());
    for (database, number) in [(OWN.database, 9), (DatabaseId([0xEE; 16]), 8)] {
        let _ = fs.remove(&path());
        let identity = TableIdentity { database, number: FileNumber(number), ..OWN };
        let mut writer = BlobWriter::create(&fs, &dir(), identity).expect("memory");
        for (key, value) in small() {
            writer.add(&key, &value).expect("memory");
        }
        writer.finish().expect("memory");
        let foreign = bytes_of(&*fs, &dir().join(format!("{number:06}.blob")));
        assert_eq!(foreign.len(), bytes.len());
        put(&*fs, &foreign);
        let error = open(&fs, &meta).expect_err("it is not ours");
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
        let _ = fs.remove(&dir().join("000009.blob"));
    }
}

proptest! {
    #[test]
    fn a_walk_reads_what_single_reads_do(
        lengths in proptest::collection::vec(prop_oneof![0usize..40, 1000usize..5000, 100_000usize..300_000], 1..30),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let fs = memory();
        let rows: Vec<Row> = lengths
            .iter()
            .enumerate()
            .map(|(nth, &len)| (format!("key {nth}").into_bytes(), vec![nth as u8; len]))
            .collect();
        let (meta, pointers) = write(&fs, &rows);
        let reader = open(&fs, &meta).expect("it was written");
        reader.verify(&mut OpCost::default()).expect("it is whole");
        // Room for some of them.
        let cached = open_cached(&fs, &meta, 300_000).expect("it was written");
        let mapped = open_mapped(&fs, &meta).expect("it was written");
        let mut kept = Vec::new();
        let (mut walk, mut scan) = (BlobWalk::default(), BlobWalk::from_cache());
        let mut cost = OpCost::default();
        // In order, here and there, and in order again.
        let all = 0..rows.len();
        let places = all.clone().chain(order.iter().map(|index| index.index(rows.len()))).chain(all);
        for at in places {
            let (key, value) = &rows[at];
            let read = walk.value(&reader, key, &pointers[at], &mut cost).expect("it is there");
            prop_assert!(read == value.as_slice());
            prop_assert!(walk.last() == value.as_slice());
            // Two files, of which one is mapped, by turns.
            let lent = walk.value(&mapped, key, &pointers[at], &mut cost).expect("it is there").as_ptr();
            prop_assert!(walk.last() == value.as_slice() && walk.last().as_ptr() == lent);
            let read = mapped.read(key, &pointers[at], &mut cost).expect("it is there");
            prop_assert!(read == *value && (read.is_empty() || read.as_ptr() == lent), "it is not copied");
            kept.push((at, read));
            for reader in [&cached, &reader, &cached] {
                let read = scan.value(reader, key, &pointers[at], &mut cost).expect("it is there");
                prop_assert!(read == value.as_slice());
                prop_assert!(scan.last() == value.as_slice());
            }
            for _ in 0..2 {
                kept.push((at, cached.read(key, &pointers[at], &mut cost).expect("it is there")));
            }
        }
        // What was handed out stays, whatever has left the cache since.
        drop((cached, mapped));
        prop_assert!(kept.iter().all(|(at, value)| *value == rows[*at].1));
    }

    #[test]
    fn a_value_is_read_once_while_there_is_room(lengths in proptest::collection::vec(5000usize..6000, 1..20)) {
        let fs = memory();
        let rows: Vec<Row> =
            lengths.iter().enumerate().map(|(nth, &len)| (vec![nth as u8], vec![nth as u8; len])).collect();
        let (meta, pointers) = write(&fs, &rows);
        let reader = open_cached(&fs, &meta, 1 << 20).expect("it was written");
        let read = || {
            let mut cost = OpCost::default();
            for ((key, value), pointer) in rows.iter().zip(&pointers) {
                assert_eq!(reader.read(key, pointer, &mut cost).expect("it is there"), value);
            }
            cost
        };
        let first = read();
        prop_assert_eq!((first.blocks_from_cache, first.blob_values), (0, rows.len() as u64));
        let second = read();
        prop_assert_eq!((second.blocks_from_cache, second.bytes_from_disk), (rows.len() as u64, 0));
    }
}

#[test]
fn a_scan_is_lent_what_is_cached_puts_nothing_there_and_a_proof_reads_the_file() {
    let fs = memory();
    let rows = vec![
        (b"a".to_vec(), vec![1; 5000]),
        (b"b".to_vec(), vec![2; 5000]),
        (b"c".to_vec(), vec![3; 5000]),
    ];
    let (meta, pointers) = write(&fs, &rows);
    let reader = open_cached(&fs, &meta, 1 << 20).expect("it was written");
    reader.read(b"b", &pointers[1], &mut OpCost::default()).expect("it is there");
    let from_cache = |mut walk: BlobWalk| {
        let cached = rows.iter().zip(&pointers).map(|((key, value), pointer)| {
            let mut cost = OpCost::default();
            let read = walk.value(&reader, key, pointer, &mut cost).expect("it is there");
            assert!(read == value.as_slice());
            assert_eq!(cost.blob_values, 1);
            assert!(cost.blocks_from_cache == 0 || cost.bytes_from_disk == 0, "{cost:?}");
            cost.blocks_from_cache
        });
        cached.collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(from_cache(BlobWalk::from_cache()), [0, 1, 0]);
        assert_eq!(from_cache(BlobWalk::default()), [0, 0, 0]);
    }
    // One that checks but is not the row's is refused from the cache as from the file.
    let other = BlobPointer { checksum: pointers[0].checksum, ..pointers[1] };
    let refused =
        BlobWalk::from_cache().value(&reader, b"b", &other, &mut OpCost::default()).map(<[u8]>::len);
    assert!(matches!(refused, Err(Error::Corruption { .. })), "{refused:?}");
}

#[test]
fn a_value_of_a_sixteenth_of_the_cache_is_kept_and_a_longer_one_is_not() {
    let fs = memory();
    let cache_bytes = 64 << 20;
    // What stands around a value is much shorter than this.
    let most = cache_bytes / 16 - 100;
    for (len, kept) in [(200 << 10, true), (1 << 20, true), (most, true), (cache_bytes / 16, false)] {
        let rows = vec![(b"key".to_vec(), vec![7; len])];
        let (meta, pointers) = write(&fs, &rows);
        let reader = open_cached(&fs, &meta, cache_bytes as u64).expect("it was written");
        for pass in 0..3 {
            let mut cost = OpCost::default();
            let value = reader.read(b"key", &pointers[0], &mut cost).expect("it is there");
            assert!(value == rows[0].1, "{len} bytes");
            let cached = kept && pass > 0;
            assert_eq!(cost.blocks_from_cache, u64::from(cached), "{len} bytes, pass {pass}");
            assert_eq!(cost.bytes_from_disk == 0, cached, "{len} bytes, pass {pass}");
        }
        fs.remove(&path()).expect("memory");
    }
}
