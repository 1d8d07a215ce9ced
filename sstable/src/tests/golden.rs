//! The example of FORMAT.md is what is written, and is read as it says.

use std::sync::Arc;

use esker_base::range_tombstone::Fragment;
use esker_base::{Cursor, Kind, OpCost, SeqNo};

use crate::testing::{bytes_of, entry, memory, overwrite, path, write};
use crate::{CursorOptions, TableOptions, TableReader};

/// The bytes of the example: hex before the `;` of each line of the `hex` block.
fn example() -> Vec<u8> {
    let text = include_str!("../../FORMAT.md");
    let (_, example) = text.split_once("```hex\n").expect("the example");
    let (example, _) = example.split_once("```").expect("the example's end");
    example
        .lines()
        .flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        .collect()
}

fn content() -> (Vec<esker_base::cursor::OwnedEntry>, Fragment) {
    let entries = vec![
        entry("apple", 3, Kind::Put, "red"),
        entry("apple", 1, Kind::Put, "green"),
        entry("apricot", 2, Kind::Delete, ""),
    ];
    (entries, Fragment { start: b"b".to_vec(), end: b"d".to_vec(), seqnos: vec![SeqNo(4)] })
}

#[test]
fn the_example_is_what_is_written() {
    let fs = memory();
    let (entries, fragment) = content();
    write(&fs, TableOptions::default(), &entries, &[fragment]).expect("memory");
    let written = bytes_of(&*fs, &path());
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
    assert_eq!(hex(&example()), hex(&written));
}

#[test]
fn the_example_is_read_as_it_says() {
    let fs = memory();
    overwrite(&*fs, &example());
    let reader = Arc::new(TableReader::open_unlisted(&fs, &path()).expect("the example"));
    let (entries, fragment) = content();
    assert_eq!(reader.identity(), crate::testing::IDENTITY);
    assert_eq!(reader.meta().created_millis, 1000);
    assert_eq!(reader.tombstones().list(), [fragment]);
    let mut cursor = reader.cursor(CursorOptions::default());
    cursor.seek_first().expect("memory");
    for e in entries {
        assert_eq!((cursor.key(), cursor.seqno(), cursor.kind()), (&e.key[..], e.seqno, e.kind));
        assert_eq!(cursor.value(), e.value);
        cursor.next().expect("memory");
    }
    assert!(!cursor.valid());
    reader.verify(&mut OpCost::default()).expect("verify");
}
