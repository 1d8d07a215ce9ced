//! What was written is what is read, whatever its length and however it was grouped.

use esker_base::{DatabaseId, FileNumber};
use proptest::prelude::*;

use super::disk::Disk;
use super::{LOG, create, dir, path_of, read_bytes, read_log};
use crate::header::HEADER_LEN;
use crate::record::{FRAGMENT_BYTES_MAX, Layout, RecordHeader, header_len};
use crate::{LogIdentity, LogKind, LogReader, LogWriter, Predecessor, Tail};

fn payload(len: usize, salt: u64) -> Vec<u8> {
    let mut state = salt;
    let byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(byte).take(len).collect()
}

#[test]
fn a_new_log_is_empty() {
    let disk = Disk::default();
    let writer = create(&disk);
    assert_eq!((writer.number(), writer.written()), (FileNumber(3), HEADER_LEN as u64));
    let (records, tail) = read_log(&disk, None).expect("a good log");
    assert!(records.is_empty());
    assert_eq!(tail, Tail { valid_len: HEADER_LEN as u64, torn: false, durable_seen: 0 });
}

#[test]
fn a_manifest_is_a_log_of_another_name() {
    let disk = Disk::default();
    let manifest = LogIdentity { kind: LogKind::Manifest, ..LOG };
    let mut writer = LogWriter::create(&disk, dir(), manifest, None, 0).expect("a sound disk");
    writer.stage(0, &[b"edit"]);
    writer.write().expect("a sound disk");
    let path = dir().join("000003.manifest");
    let mut reader = LogReader::open(&disk, &path, manifest, None).expect("a good log");
    assert_eq!(reader.next().expect("good").map(|record| record.payload.to_vec()), Some(b"edit".to_vec()));
    assert_eq!(disk.file(&path).bytes()[..8], *b"eskerMAN");
}

#[test]
fn the_predecessor_is_handed_out() {
    let disk = Disk::default();
    for (number, predecessor) in
        [(4, None), (5, Some(Predecessor { number: FileNumber(4), len: 64 })), (6, None)]
    {
        let log = LogIdentity { number: FileNumber(number), database: DatabaseId([1; 16]), ..LOG };
        LogWriter::create(&disk, dir(), log, predecessor, 0).expect("a sound disk");
        let reader = LogReader::open(&disk, &path_of(log), log, None).expect("a good log");
        assert_eq!(reader.predecessor(), predecessor);
    }
}

/// A payload that is written from where it lies leaves the bytes that its copy would.
#[test]
fn a_lent_payload_is_written_like_a_copy() {
    for fragment_bytes_max in [7, FRAGMENT_BYTES_MAX] {
        for (staged, lent) in [(0, 0), (0, 1), (0, 7), (0, 8), (1, 5000), (3, 70_000)] {
            let disks = [true, false].map(|lends| {
                let disk = Disk::default();
                let mut writer = create(&disk);
                writer.fragment_bytes_max = fragment_bytes_max;
                for tag in 0..staged {
                    writer.stage(tag, &[&payload(40, tag)]);
                }
                // A tag of eight bytes, and a witness in the header.
                let (tag, payload) = (u64::MAX - staged, payload(lent, 9));
                writer.syncer().sync().expect("a sound disk");
                let end = if lends {
                    writer.write_lending(tag, &payload)
                } else {
                    writer.stage(tag, &[&payload]);
                    writer.write()
                };
                assert_eq!(end.expect("a sound disk"), writer.written());
                assert_eq!(writer.staged_bytes(), 0);
                writer.stage(1, &[b"behind it"]);
                writer.write().expect("a sound disk");
                disk
            });
            let [lent, copied] = disks.map(|disk| disk.file(&path_of(LOG)).bytes());
            assert_eq!(lent, copied);
            assert_eq!(read_bytes(&lent, None).expect("a good log").0.len() as u64, staged + 2);
        }
    }
}

#[test]
fn a_group_is_one_write() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let file = disk.file(&path_of(LOG));
    assert_eq!(writer.write().expect("nothing to write"), 64);
    for tag in 0..100 {
        writer.stage(tag, &[&payload(50, tag)]);
    }
    let staged = writer.staged_bytes();
    assert_eq!(staged, 100 * (50 + header_len(0, 0)));
    assert_eq!(writer.write().expect("a sound disk"), 64 + staged as u64);
    assert_eq!(writer.staged_bytes(), 0);
    assert_eq!(file.written(), [(0, 64), (64, staged)]);
    assert_eq!(file.sync_count(), 0, "the writer never syncs");
}

#[test]
fn records_carry_what_was_durable_when_they_were_staged() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let syncer = writer.syncer();
    let mut expected = Vec::new();
    for tag in 0..6 {
        expected.push(syncer.durable());
        writer.stage(tag, &[]);
        if tag % 2 == 1 {
            writer.write().expect("a sound disk");
            assert_eq!(syncer.sync().expect("a sound disk"), syncer.written());
        }
    }
    let bytes = disk.file(&path_of(LOG)).bytes();
    let mut at = HEADER_LEN;
    let mut found = Vec::new();
    while at < bytes.len() {
        let decoded = RecordHeader::decode(&bytes[at..], Layout::Compact, LOG.seed(), at as u64);
        let (header, len) = decoded.expect("it checks");
        assert_eq!(len, header_len(header.tag, header.durable));
        found.push(header.durable);
        at += len;
    }
    assert_eq!(found, expected);
    assert_eq!(found, [0, 0, 64 + 32, 64 + 32, 64 + 80, 64 + 80]);
}

/// The smallest and the largest of each length that a tag takes, before and after a sync.
#[test]
fn tags_of_every_length() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let tags = [0, 1, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX];
    for synced in [false, true] {
        for tag in tags {
            writer.stage(tag, &[b"payload"]);
        }
        writer.write().expect("a sound disk");
        if !synced {
            writer.syncer().sync().expect("a sound disk");
        }
    }
    let (records, tail) = read_log(&disk, None).expect("a good log");
    assert!(records.iter().map(|record| record.tag).eq(tags.into_iter().chain(tags)));
    let lens: Vec<u64> = records.iter().map(|record| record.end - record.offset - 7).collect();
    assert_eq!(lens, [16, 16, 16, 20, 20, 24, 24, 24, 28, 28]);
    assert_eq!(tail.durable_seen, records[5].offset);
}

/// Every length from nothing to beyond three fragments, in every cut into two parts.
#[test]
fn every_length_around_the_fragments_bounds() {
    for len in 0..=3 * 8 + 1 {
        let content = payload(len, len as u64);
        for cut in 0..=len {
            let disk = Disk::default();
            let mut writer = create(&disk);
            writer.fragment_bytes_max = 8;
            writer.stage(u64::MAX, &[&content[..cut], &content[cut..]]);
            writer.stage(1, &[b"next"]);
            writer.write().expect("a sound disk");
            let (records, tail) = read_log(&disk, None).expect("a good log");
            let read: Vec<_> = records.iter().map(|r| (r.tag, &r.payload[..])).collect();
            assert_eq!(read, [(u64::MAX, &content[..]), (1, &b"next"[..])]);
            let fragments = len.div_ceil(8).max(1);
            let expected = HEADER_LEN + len + fragments * header_len(u64::MAX, 0);
            assert_eq!(records[0].end, expected as u64);
            assert_eq!(tail.valid_len, writer.written());
        }
    }
}

#[test]
fn records_longer_than_a_fragment_at_full_size() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let content = payload(2 * FRAGMENT_BYTES_MAX + 1, 1);
    for len in [FRAGMENT_BYTES_MAX, FRAGMENT_BYTES_MAX + 1, 2 * FRAGMENT_BYTES_MAX + 1] {
        writer.stage(len as u64, &[&content[..1000], &content[1000..len]]);
    }
    writer.write().expect("a sound disk");
    let (records, tail) = read_log(&disk, None).expect("a good log");
    assert_eq!(records.len(), 3);
    for record in records {
        let len = usize::try_from(record.tag).expect("a length");
        assert!(record.payload == content[..len], "the record of {len} bytes");
    }
    assert_eq!((tail.valid_len, tail.torn), (writer.written(), false));
}

/// Reads across many of the reader's windows.
#[test]
fn many_records() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    for tag in 0..20_000 {
        writer.stage(tag, &[&payload((tag % 211) as usize, tag)]);
        if tag % 7 == 0 {
            writer.write().expect("a sound disk");
        }
    }
    writer.write().expect("a sound disk");
    let (records, _) = read_log(&disk, Some(writer.written())).expect("a good log");
    assert_eq!(records.len(), 20_000);
    for (tag, record) in (0u64..).zip(records) {
        assert_eq!((record.tag, record.payload), (tag, payload((tag % 211) as usize, tag)));
    }
}

proptest! {
    #[test]
    fn any_groups_of_any_records(
        groups in prop::collection::vec(
            (prop::collection::vec((any::<u64>(), 0usize..200, 0usize..200), 0..6), any::<bool>()), 0..12,
        ),
        fragment_bytes_max in 1usize..150,
        allocate in prop_oneof![Just(0u64), 1u64..10_000],
    ) {
        let disk = Disk::default();
        let mut writer = LogWriter::create(&disk, dir(), LOG, None, allocate).expect("a sound disk");
        writer.fragment_bytes_max = fragment_bytes_max;
        let syncer = writer.syncer();
        let mut expected = Vec::new();
        for (group, sync) in groups {
            for (tag, len, cut) in group {
                let content = payload(len, tag);
                let (front, back) = content.split_at(cut.min(len));
                writer.stage(tag, &[front, &[], back]);
                expected.push((tag, content));
            }
            let end = writer.write().expect("a sound disk");
            if sync {
                prop_assert_eq!(syncer.sync().expect("a sound disk"), end);
            }
        }
        for closed_len in [None, Some(writer.written())] {
            let (records, tail) = read_log(&disk, closed_len).expect("a good log");
            let mut at = HEADER_LEN as u64;
            for record in &records {
                prop_assert_eq!(record.offset, at);
                at = record.end;
            }
            let found: Vec<_> = records.into_iter().map(|r| (r.tag, r.payload)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!((tail.valid_len, tail.torn), (writer.written(), false));
            prop_assert!(tail.durable_seen <= syncer.durable());
        }
        // Nothing but zeros behind the end.
        let bytes = disk.file(&path_of(LOG)).bytes();
        let end = usize::try_from(writer.written()).expect("small");
        prop_assert!(bytes[end..].iter().all(|&byte| byte == 0));
        prop_assert!(read_bytes(&bytes[..end], None).is_ok());
    }
}
