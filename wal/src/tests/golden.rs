//! The worked example of FORMAT.md, decoded and written again; and the same log as version 1 had it.

use esker_base::{DatabaseId, FileNumber};
use esker_vfs::fs::Fs;

use super::disk::Disk;
use super::{Read, dir, path_of};
use crate::{LogIdentity, LogKind, LogReader, LogWriter, Predecessor, Tail};

const EXAMPLE: LogIdentity = LogIdentity {
    database: DatabaseId([
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
    ]),
    number: FileNumber(12),
    kind: LogKind::WriteAhead,
};

const BEFORE: Predecessor = Predecessor { number: FileNumber(9), len: 4096 };

/// The bytes of the hex dump in FORMAT.md.
fn example() -> Vec<u8> {
    let dump = include_str!("../../FORMAT.md").lines().filter(|line| {
        line.len() > 6 && line.as_bytes()[..4].iter().all(u8::is_ascii_hexdigit) && &line[4..6] == "  "
    });
    dump.flat_map(|line| line[6..].split(' '))
        .map(|byte| u8::from_str_radix(byte, 16).expect("a hex byte"))
        .collect()
}

/// The same log of version 1.
const EXAMPLE_OF_VERSION_1: [u8; 127] = [
    0x65, 0x73, 0x6b, 0x65, 0x72, 0x4c, 0x4f, 0x47, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, //
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, //
    0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
    0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x5d, 0x3d, 0x8c, 0xc8, //
    0xbc, 0x55, 0x69, 0xcb, 0xda, 0xbd, 0x37, 0x4a, 0x05, 0x00, 0x00, 0x00, 0x01, 0x01, 0x00, 0x00, //
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x68, 0x65, 0x6c, //
    0x6c, 0x6f, 0x3d, 0x16, 0x11, 0x23, 0xb7, 0x38, 0x79, 0xbf, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, //
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x62, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

/// `bytes` hold the example's two records, which end there.
fn reads_as_the_example(bytes: &[u8], ends: [u64; 2]) {
    let disk = Disk::default();
    let path = path_of(EXAMPLE);
    disk.create(&path).expect("new").write_at(bytes, 0).expect("a sound disk");
    let mut reader = LogReader::open(&disk, &path, EXAMPLE, None).expect("a good header");
    assert_eq!(reader.predecessor(), Some(BEFORE));
    let mut found = Vec::new();
    while let Some(record) = reader.next().expect("good records") {
        let payload = record.payload.to_vec();
        found.push(Read { tag: record.tag, offset: record.offset, end: record.end, payload });
    }
    let expected = [
        Read { tag: 1, offset: 0x40, end: ends[0], payload: b"hello".to_vec() },
        Read { tag: 2, offset: ends[0], end: ends[1], payload: Vec::new() },
    ];
    assert_eq!(found, expected);
    assert_eq!(reader.tail(), Tail { valid_len: ends[1], torn: false, durable_seen: ends[0] });
}

#[test]
fn the_worked_example_is_read_as_it_says() {
    reads_as_the_example(&example(), [85, 109]);
}

#[test]
fn version_1_is_still_read() {
    reads_as_the_example(&EXAMPLE_OF_VERSION_1, [98, 127]);
}

#[test]
fn no_single_bit_of_version_1_is_lost_silently() {
    for bit in 0..98 * 8 {
        let mut bytes = EXAMPLE_OF_VERSION_1;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let disk = Disk::default();
        let path = path_of(EXAMPLE);
        disk.create(&path).expect("new").write_at(&bytes, 0).expect("a sound disk");
        let mut reader = LogReader::open(&disk, &path, EXAMPLE, None);
        let found = reader.as_mut().map(|reader| reader.next().map(|record| record.is_some()));
        assert!(matches!(found, Err(_) | Ok(Err(_))), "bit {bit}: {found:?}");
    }
}

#[test]
fn the_worked_example_is_what_is_written() {
    let disk = Disk::default();
    let mut writer = LogWriter::create(&disk, dir(), EXAMPLE, Some(BEFORE), 0).expect("a sound disk");
    writer.stage(1, &[b"he", b"", b"llo"]);
    assert_eq!(writer.write().expect("a sound disk"), 85);
    assert_eq!(writer.syncer().sync().expect("a sound disk"), 85);
    writer.stage(2, &[]);
    assert_eq!(writer.write().expect("a sound disk"), 109);
    assert_eq!(disk.file(&path_of(EXAMPLE)).bytes(), example());
}
