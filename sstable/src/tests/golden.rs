//! The example of FORMAT.md is what is written, and is read as it says.

use std::sync::Arc;

use esker_base::range_tombstone::Fragment;
use esker_base::{Cursor, Kind, OpCost, SeqNo};

use crate::footer::{BlockHandle, Footer};
use crate::stored::{Codec, TRAILER_BYTES, trailer};
use crate::testing::{bytes_of, entry, memory, open_unlisted, overwrite, path, write};
use crate::{CursorOptions, TableOptions};

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

/// A table of version 3 holds hidden versions and does not say so: it is whole all the same.
#[test]
fn a_table_that_does_not_count_hidden_versions_is_whole() {
    let (fs, example) = (memory(), example());
    overwrite(&*fs, &example);
    let newest = *open_unlisted(&fs).expect("the example").footer();
    let start = usize::try_from(newest.properties.offset).expect("fits");
    let (before, properties) = (&example[..start], &example[start..][..newest.properties.len as usize]);
    let payload = &properties[..properties.len() - TRAILER_BYTES - 1];
    let raw_len = u32::try_from(payload.len()).expect("fits");
    let trailer = trailer(newest.seed(), newest.properties.offset, [payload, &[]], Codec::None, raw_len);
    let footer = Footer {
        version: 3,
        file_bytes: newest.file_bytes - 1,
        properties: BlockHandle { len: newest.properties.len - 1, ..newest.properties },
        ..newest
    };
    overwrite(&*fs, &[before, payload, &trailer, &footer.encode()].concat());
    let reader = Arc::new(open_unlisted(&fs).expect("version 3"));
    assert_eq!((reader.meta().entries, reader.meta().hidden_versions), (3, 0));
    reader.verify(&mut OpCost::default()).expect("verify");
}

#[test]
fn the_example_is_read_as_it_says() {
    let fs = memory();
    overwrite(&*fs, &example());
    let reader = Arc::new(open_unlisted(&fs).expect("the example"));
    let (entries, fragment) = content();
    assert_eq!(reader.identity(), crate::testing::IDENTITY);
    assert_eq!(reader.meta().created_millis, 1000);
    assert_eq!(reader.meta().hidden_versions, 1);
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
