//! What a writer promises, and what it takes for a mistake.

use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::range_tombstone::Fragment;
use esker_base::{Error, FileNumber, Kind, OpCost, SeqNo};

use crate::options::BLOCK_BYTES_MIN;
use crate::testing::{IDENTITY, bytes_of, context, dir, entry, memory, open_unlisted, path, write};
use crate::{Compression, TableOptions, TableReader, TableSource, TableWriter};

fn writer() -> TableWriter {
    TableWriter::create(&memory(), &dir(), IDENTITY, TableOptions::default(), 0).expect("memory")
}

fn fragment(start: &str, end: &str, seqnos: &[u64]) -> Fragment {
    Fragment { start: start.into(), end: end.into(), seqnos: seqnos.iter().map(|&n| SeqNo(n)).collect() }
}

#[test]
fn a_description_counts_what_was_added() {
    let fs = memory();
    let entries = [
        entry("b", 9, Kind::Put, "123"),
        entry("b", 4, Kind::Delete, ""),
        entry("c", 7, Kind::Merge, "+1"),
    ];
    let fragments = [fragment("a", "b", &[12, 3]), fragment("c", "x", &[5])];
    let meta = write(&fs, TableOptions::default(), &entries, &fragments).expect("memory");
    assert_eq!(
        (meta.entries, meta.point_tombstones, meta.merge_operands, meta.range_tombstones),
        (3, 1, 1, 3)
    );
    assert_eq!((meta.key_bytes, meta.value_bytes, meta.created_millis), (3, 5, 1000));
    assert_eq!((meta.smallest_seqno, meta.largest_seqno), (SeqNo(3), SeqNo(12)));
    assert_eq!((meta.bounds.smallest.as_slice(), meta.bounds.largest.as_slice()), (&b"a"[..], &b"x"[..]));
    assert!(meta.bounds.largest_exclusive);
    assert_eq!(meta.file_bytes, bytes_of(&*fs, &path()).len() as u64);
    let reader = TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect("open");
    assert_eq!(reader.meta(), &meta);
    assert_eq!(reader.identity(), IDENTITY);
    reader.verify(&mut OpCost::default()).expect("verify");
}

/// What counts is a newer put or delete of the key in the table, wherever a block ends.
#[test]
fn hidden_versions_are_those_behind_a_put_or_delete() {
    let pointer = BlobPointer { number: FileNumber(8), offset: 44, len: 6, checksum: 1 }.encode();
    let kinds = |key: &str, kinds: &[Kind]| {
        let value = |kind| if kind == Kind::BlobPut { pointer.to_vec() } else { vec![b'v'; 90] };
        let versions = (0u64..).zip(kinds);
        versions.map(|(age, &kind)| entry(key, 100 - age, kind, value(kind))).collect::<Vec<_>>()
    };
    let entries = [
        kinds("a", &[Kind::Put]),
        kinds("b", &[Kind::Put, Kind::Merge, Kind::Delete, Kind::Put]),
        kinds("c", &[Kind::Merge, Kind::Merge, Kind::Put]),
        kinds("d", &[Kind::Merge, Kind::Delete, Kind::Merge]),
        kinds("e", &[Kind::BlobPut, Kind::BlobPut]),
        kinds("f", &[Kind::Merge; 3]),
    ]
    .concat();
    for block_bytes in [BLOCK_BYTES_MIN, 4096] {
        let fs = memory();
        let options = TableOptions { block_bytes, ..TableOptions::default() };
        let meta = write(&fs, options, &entries, &[]).expect("memory");
        assert_eq!(meta.hidden_versions, 3 + 1 + 1);
        let reader = TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect("open");
        assert_eq!(reader.meta(), &meta);
        reader.verify(&mut OpCost::default()).expect("verify");
    }
}

#[test]
fn the_same_entries_give_the_same_bytes() {
    let entries: Vec<_> = (0..500u32).map(|i| entry(format!("{i:04}"), 3, Kind::Put, [7; 50])).collect();
    let options = TableOptions { compression: Compression::Lz4, ..TableOptions::default() };
    let (one, two) = (memory(), memory());
    write(&one, options, &entries, &[]).expect("memory");
    write(&two, options, &entries, &[]).expect("memory");
    assert_eq!(bytes_of(&*one, &path()), bytes_of(&*two, &path()));
}

#[test]
fn the_estimate_is_near_the_size() {
    let fs = memory();
    let mut writer =
        TableWriter::create(&fs, &dir(), IDENTITY, TableOptions::default(), 0).expect("memory");
    for i in 0..20_000u32 {
        writer.add(format!("key{i:06}").as_bytes(), SeqNo(1), Kind::Put, &[1; 80]).expect("memory");
    }
    let (estimate, entries) = (writer.estimated_bytes(), writer.entries());
    let meta = writer.finish().expect("memory");
    assert_eq!(entries, meta.entries);
    assert!(
        estimate.abs_diff(meta.file_bytes) < meta.file_bytes / 100,
        "{estimate} for {}",
        meta.file_bytes
    );
}

/// What takes most beside the estimate: short separators with numbers, and short range tombstones with large ones.
#[test]
fn parts_take_no_more_than_twice_their_estimate() {
    let fs = memory();
    let options = TableOptions { block_bytes: BLOCK_BYTES_MIN, ..TableOptions::default() };
    let mut writer = TableWriter::create(&fs, &dir(), IDENTITY, options, 0).expect("memory");
    for age in 0..1_000 {
        writer.add(b"k", SeqNo(1_000 - age), Kind::Put, &[7; 20]).expect("memory");
    }
    for start in 0..=254u8 {
        let (start, end) = (vec![start], vec![start + 1]);
        writer.add_tombstone(&Fragment { start, end, seqnos: vec![SeqNo::MAX] }).expect("memory");
    }
    let estimate = writer.metadata_bytes();
    writer.finish().expect("memory");
    let reader = open_unlisted(&fs).expect("it was written");
    let footer = reader.footer();
    let parts = [footer.tombstones, footer.filter, footer.index].map(|part| u64::from(part.len));
    assert!(parts.iter().sum::<u64>() <= 2 * estimate, "{parts:?} for {estimate}");
}

#[test]
fn a_number_is_written_once() {
    let fs = memory();
    write(&fs, TableOptions::default(), &[entry("a", 1, Kind::Put, "")], &[]).expect("memory");
    assert!(matches!(
        TableWriter::create(&fs, &dir(), IDENTITY, TableOptions::default(), 0),
        Err(Error::Io { .. })
    ));
}

#[test]
fn keys_that_are_too_long_are_refused() {
    assert!(matches!(
        writer().add(&vec![0; 65_536], SeqNo(1), Kind::Put, b""),
        Err(Error::TooLarge { what: "key", .. })
    ));
}

#[test]
#[should_panic(expected = "ascending order")]
fn keys_out_of_order_are_a_mistake() {
    let mut writer = writer();
    writer.add(b"b", SeqNo(1), Kind::Put, b"").expect("memory");
    let _ = writer.add(b"a", SeqNo(1), Kind::Put, b"");
}

#[test]
#[should_panic(expected = "newest first")]
fn versions_out_of_order_are_a_mistake() {
    let mut writer = writer();
    writer.add(b"b", SeqNo(1), Kind::Put, b"").expect("memory");
    let _ = writer.add(b"b", SeqNo(1), Kind::Put, b"");
}

#[test]
#[should_panic(expected = "ascending order")]
fn overlapping_range_tombstones_are_a_mistake() {
    let mut writer = writer();
    writer.add_tombstone(&fragment("a", "c", &[1])).expect("memory");
    let _ = writer.add_tombstone(&fragment("b", "d", &[1]));
}

#[test]
#[should_panic(expected = "a table holds something")]
fn an_empty_table_is_a_mistake() {
    let _ = writer().finish();
}

#[test]
fn blocks_lie_on_pages_of_their_own() {
    for (block_bytes, value_bytes, of_hundred) in
        [(4_096, 100, 100), (4_096, 24, 100), (16_384, 1_000, 100), (4_096, 400, 33), (1_024, 100, 0)]
    {
        let fs = memory();
        let value = |row: u32| vec![b'v'; value_bytes + row as usize % 8];
        let entries: Vec<_> = (0..5_000u32)
            .map(|row| entry(format!("{row:08}"), row.into(), Kind::Put, value(row)))
            .collect();
        let options = TableOptions { block_bytes, ..TableOptions::default() };
        let meta = write(&fs, options, &entries, &[]).expect("memory");
        let reader = TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect("open");
        reader.verify(&mut OpCost::default()).expect("verify");
        let index = reader.index();
        let stored: usize = (0..index.blocks()).map(|block| index.stored_len(block)).sum();
        let pages = |block: usize| {
            let end = index.offset(block) + index.stored_len(block) as u64;
            end.div_ceil(4_096) - index.offset(block) / 4_096
        };
        let alone =
            (0..index.blocks()).filter(|&block| pages(block) * 4_096 <= u64::from(block_bytes)).count();
        assert!(alone * 100 >= index.blocks() * of_hundred, "{block_bytes}, {value_bytes}: {alone}");
        assert!(
            stored < 5_000 * (value_bytes + 8 + 18) * 107 / 100,
            "{block_bytes}, {value_bytes}: {stored}"
        );
    }
}

#[test]
fn packed_blocks_follow_one_another() {
    let entries: Vec<_> =
        (0..5_000u32).map(|row| entry(format!("{row:08}"), 1, Kind::Put, vec![b'v'; 100])).collect();
    let padded = write(&memory(), TableOptions::default(), &entries, &[]).expect("memory");
    let fs = memory();
    let writer = TableWriter::create(&fs, &dir(), IDENTITY, TableOptions::default(), 0);
    let mut writer = writer.expect("memory").packed();
    for entry in &entries {
        writer.add(&entry.key, entry.seqno, entry.kind, &entry.value).expect("memory");
    }
    let packed = writer.finish().expect("memory");
    assert!(
        packed.file_bytes * 100 < padded.file_bytes * 99,
        "{} and {}",
        packed.file_bytes,
        padded.file_bytes
    );
    let reader = TableReader::open(&context(&fs, TableSource::Buffered, 0), &packed).expect("open");
    reader.verify(&mut OpCost::default()).expect("verify");
    assert_eq!((packed.entries, packed.content_hash), (padded.entries, padded.content_hash));
}

#[test]
fn incompressible_blocks_stay_raw_and_compressible_ones_shrink() {
    let size = |compression, noisy: bool| {
        let fs = memory();
        let entries: Vec<_> = (0..1000u64)
            .map(|i| {
                let noise = (0..16u64).flat_map(|j| {
                    esker_base::checksum::key_hash(&(i * 16 + j).to_le_bytes()).to_le_bytes()
                });
                let value: Vec<u8> = if noisy { noise.collect() } else { vec![b'v'; 128] };
                entry(format!("{i:05}"), 1, Kind::Put, value)
            })
            .collect();
        let options = TableOptions { compression, ..TableOptions::default() };
        let meta = write(&fs, options, &entries, &[]).expect("memory");
        TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta)
            .expect("open")
            .verify(&mut OpCost::default())
            .expect("verify");
        meta.file_bytes
    };
    assert!(size(Compression::Lz4, false) < size(Compression::None, false) / 5);
    assert_eq!(size(Compression::Lz4, true), size(Compression::None, true));
}

#[cfg(feature = "zstd")]
#[test]
fn what_zstd_would_shrink_beyond_the_readers_bound_is_left_to_lz4() {
    let fs = memory();
    let options = TableOptions { compression: Compression::Zstd { level: 3 }, ..TableOptions::default() };
    let zeros = vec![0u8; 8 << 20];
    let meta = write(&fs, options, &[entry("a", 1, Kind::Put, &zeros)], &[]).expect("memory");
    assert!(meta.file_bytes > (8 << 20) / 256 && meta.file_bytes < (8 << 20) / 100, "{}", meta.file_bytes);
    let reader = TableReader::open(&context(&fs, TableSource::Buffered, 0), &meta).expect("open");
    reader.verify(&mut OpCost::default()).expect("verify");
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_build_without_zstd_says_so() {
    let options = TableOptions { compression: Compression::Zstd { level: 3 }, ..TableOptions::default() };
    let error = write(&memory(), options, &[entry("a", 1, Kind::Put, "")], &[]).expect_err("no zstd");
    assert!(error.to_string().contains("feature `zstd`"), "{error}");
    // And of a block that another build wrote.
    let location = crate::stored::Location {
        path: std::path::Path::new("db/000007.sst"),
        seed: esker_base::checksum::ChecksumSeed::new(IDENTITY.database, IDENTITY.number),
        offset: 40,
    };
    let checked =
        crate::stored::Checked { payload: b"zstd", codec: crate::stored::Codec::Zstd, raw_len: 10 };
    let error = crate::compression::decompress(location, checked).expect_err("no zstd");
    assert!(error.to_string().contains("at byte 40") && !error.is_corruption(), "{error}");
}

#[test]
fn a_reader_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let (_context, reader) = crate::testing::table(
        TableOptions::default(),
        TableSource::Mapped,
        &[entry("a", 1, Kind::Put, "")],
    );
    shared(&reader);
    sent(&Arc::clone(&reader).cursor(crate::CursorOptions::default()));
}
