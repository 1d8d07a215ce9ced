//! The worked example of FORMAT.md, decoded and written again.

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

#[test]
fn the_worked_example_is_read_as_it_says() {
    let disk = Disk::default();
    let path = path_of(EXAMPLE);
    disk.create(&path).expect("new").write_at(&example(), 0).expect("a sound disk");
    let mut reader = LogReader::open(&disk, &path, EXAMPLE, None).expect("a good header");
    assert_eq!(reader.predecessor(), Some(BEFORE));
    let mut found = Vec::new();
    while let Some(record) = reader.next().expect("good records") {
        let payload = record.payload.to_vec();
        found.push(Read { tag: record.tag, offset: record.offset, end: record.end, payload });
    }
    let expected = [
        Read { tag: 1, offset: 0x40, end: 98, payload: b"hello".to_vec() },
        Read { tag: 2, offset: 98, end: 127, payload: Vec::new() },
    ];
    assert_eq!(found, expected);
    assert_eq!(reader.tail(), Tail { valid_len: 127, torn: false, durable_seen: 98 });
}

#[test]
fn the_worked_example_is_what_is_written() {
    let disk = Disk::default();
    let mut writer = LogWriter::create(&disk, dir(), EXAMPLE, Some(BEFORE), 0).expect("a sound disk");
    writer.stage(1, &[b"he", b"", b"llo"]);
    assert_eq!(writer.write().expect("a sound disk"), 98);
    assert_eq!(writer.syncer().sync().expect("a sound disk"), 98);
    writer.stage(2, &[]);
    assert_eq!(writer.write().expect("a sound disk"), 127);
    assert_eq!(disk.file(&path_of(EXAMPLE)).bytes(), example());
}
