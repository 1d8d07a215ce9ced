use esker_base::Kind;

use super::*;
use crate::testing::{Content, Lab, cover, entry};

fn read(lab: &Lab, meta: &TableMeta) -> Result<u32> {
    let mut readback = Readback::open(&lab.context, meta, &[])?;
    let mut steps = 1;
    while !readback.step(&mut 50)? {
        steps += 1;
    }
    Ok(steps)
}

fn lab() -> (Lab, TableMeta) {
    let lab = Lab::new();
    let entries = (0..100).map(|n| entry(&format!("{n:03}"), 100 - n, Kind::Put, "value")).collect();
    let meta = lab.table(&Content { entries, tombstones: vec![cover("00", "04", 101)] });
    (lab, meta)
}

#[test]
fn a_good_table_passes_step_by_step() {
    let (lab, meta) = lab();
    assert_eq!(read(&lab, &meta).expect("it is good"), 15, "seven rows of eight bytes a step");
}

#[test]
fn every_damaged_byte_is_found() {
    let (lab, meta) = lab();
    let path = lab.context.dir.join(FileName::Table(meta.number).to_string());
    let file = lab.context.files.fs().open_writable(&path).expect("memory");
    let mut silent = Vec::new();
    for offset in 0..meta.file_bytes {
        let mut byte = [0];
        file.read_at(&mut byte, offset).expect("memory");
        file.write_at(&[byte[0] ^ 0x10], offset).expect("memory");
        match read(&lab, &meta) {
            Err(error) => {
                assert!(error.is_corruption() || matches!(error, Error::FormatTooNew { .. }), "{error}");
            }
            Ok(_) => silent.push(offset),
        }
        file.write_at(&byte, offset).expect("memory");
    }
    assert!(silent.is_empty(), "damage at {silent:?} went unseen");
}

#[test]
fn another_content_than_described_is_found() {
    let (lab, meta) = lab();
    let wrong = |change: fn(&mut TableMeta)| {
        let mut meta = meta.clone();
        change(&mut meta);
        read(&lab, &meta).expect_err("the description is wrong")
    };
    for error in [
        wrong(|meta| meta.content_hash ^= 1),
        wrong(|meta| meta.entries += 1),
        wrong(|meta| meta.range_tombstones += 1),
        wrong(|meta| meta.bounds.largest = b"050".to_vec()),
    ] {
        assert!(error.is_corruption(), "{error}");
    }
}

#[test]
fn a_content_hash_that_was_handed_on_is_compared() {
    let lab = Lab::new();
    let mut writer = (lab.maker())().expect("memory");
    // As if the value had changed between the table that it was read from and this one.
    let hash = entry_hash(b"key", 1, Kind::Put as u8, b"value");
    writer.add_hashed(b"key", SeqNo(1), Kind::Put, b"valve", hash).expect("memory");
    let meta = writer.finish().expect("memory");
    let error = read(&lab, &meta).expect_err("another value was read").to_string();
    assert!(error.contains("not those that were written"), "{error}");
}

#[test]
fn a_key_that_the_filter_denies_is_found_at_every_place() {
    let (lab, meta) = lab();
    let reader = TableReader::open(&lab.context, &meta).expect("it is good");
    let absent = (0..1000u32).map(|n| key_hash(&n.to_le_bytes())).find(|&hash| !reader.may_contain(hash));
    let absent = absent.expect("a filter of a hundred keys denies most others");
    for place in 0..100 {
        let mut expected = Expected::default();
        let hash = |n: u32| if n == place { absent } else { key_hash(format!("{n:03}").as_bytes()) };
        let passed = (0..100).all(|n| expected.pass(&reader, hash(n)));
        assert!(!(passed && expected.known(&reader)), "key {place} was not looked for");
    }
}
