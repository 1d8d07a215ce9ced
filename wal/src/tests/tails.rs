//! How a log may end, and what is made of it.

use esker_base::format::LOG_VERSION;
use esker_base::{DatabaseId, Error, FileNumber, Result};
use esker_vfs::fs::{File, Fs};

use super::disk::Disk;
use super::{LOG, OLD, create, path_of, read_bytes, read_log};
use crate::header::{HEADER_LEN, LogHeader};
use crate::{LogIdentity, LogKind, LogReader, Tail};

/// A log of three groups of two records each, the first two of them synced; and where records end.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let disk = Disk::default();
    let mut writer = create(&disk);
    writer.fragment_bytes_max = 30;
    let mut ends = vec![HEADER_LEN];
    for group in 0..3u64 {
        for record in 0..2u64 {
            writer.stage(
                group * 2 + record,
                &[&[b'a' + group as u8; 25][..], &vec![b'x'; 20 * record as usize]],
            );
            ends.push(writer.written() as usize + writer.staged_bytes());
        }
        writer.write().expect("a sound disk");
        if group < 2 {
            writer.syncer().sync().expect("a sound disk");
        }
    }
    (disk.file(&path_of(LOG)).bytes(), ends)
}

fn corrupt_at(result: Result<impl std::fmt::Debug>) -> u64 {
    match result {
        Err(Error::Corruption { offset, path, .. }) => {
            assert_eq!(path, path_of(LOG));
            offset
        }
        other => panic!("damage was expected, not {other:?}"),
    }
}

/// The sample with `range` overwritten by `fill`.
fn with(bytes: &[u8], range: std::ops::Range<usize>, fill: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[range].fill(fill);
    bytes
}

#[test]
fn every_truncation_keeps_the_whole_records_before_it() {
    let (bytes, ends) = sample();
    for len in 0..=bytes.len() {
        let whole = ends.iter().filter(|&&end| end <= len).count();
        let (records, tail) = read_bytes(&bytes[..len], None).expect("a torn tail");
        let valid_len = if whole == 0 { 0 } else { ends[whole - 1] };
        assert_eq!(records.len(), whole.saturating_sub(1), "cut at {len}");
        assert_eq!(tail.valid_len, valid_len as u64, "cut at {len}");
        assert_eq!(tail.torn, len == 0 || len > valid_len, "cut at {len}");
        // The same with the file's length restored, as an allocated file has it.
        let zeroed = with(&bytes, len..bytes.len(), 0);
        match read_bytes(&zeroed, None) {
            Ok((again, tail)) => {
                assert_eq!(again, records, "zeros from {len}");
                assert_eq!(tail.valid_len, valid_len as u64, "zeros from {len}");
            }
            Err(error) => panic!("zeros from {len}: {error}"),
        }
    }
}

#[test]
fn a_closed_log_ends_where_it_was_closed() {
    let (bytes, ends) = sample();
    let len = bytes.len() as u64;
    assert_eq!(read_bytes(&bytes, Some(len)).expect("a closed log").0.len(), 6);
    for cut in 0..bytes.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).max().copied().unwrap_or(0);
        assert_eq!(corrupt_at(read_bytes(&bytes[..cut], Some(len))), whole as u64, "cut at {cut}");
        let zeroed = with(&bytes, cut..bytes.len(), 0);
        assert!(corrupt_at(read_bytes(&zeroed, Some(len))) <= cut as u64, "zeros from {cut}");
    }
    // A length that no record ends at.
    for closed in HEADER_LEN..bytes.len() {
        match read_bytes(&bytes, Some(closed as u64)) {
            Ok((records, tail)) => {
                assert_eq!(ends[records.len()], closed);
                assert_eq!(tail.valid_len, closed as u64);
            }
            error => {
                let before = ends.iter().filter(|&&end| end <= closed).max().expect("the header");
                assert_eq!(corrupt_at(error), *before as u64);
                assert!(!ends.contains(&closed));
            }
        }
    }
}

#[test]
fn what_lies_behind_a_closed_logs_end_does_not_matter() {
    let (bytes, ends) = sample();
    let closed = ends[4];
    for fill in [0, 1, 0xFF] {
        let (records, tail) = read_bytes(&with(&bytes, closed..bytes.len(), fill), Some(closed as u64))
            .expect("closed there");
        assert_eq!(records.len(), 4);
        assert_eq!((tail.valid_len, tail.torn), (closed as u64, false));
    }
}

#[test]
fn an_allocated_rest_is_not_a_torn_tail() {
    let (mut bytes, _) = sample();
    let len = bytes.len() as u64;
    bytes.resize(bytes.len() + 1_000_000, 0);
    let (records, tail) = read_bytes(&bytes, None).expect("a good log");
    assert_eq!(records.len(), 6);
    assert_eq!((tail.valid_len, tail.torn), (len, false));
    *bytes.last_mut().expect("not empty") = 1;
    let (records, tail) = read_bytes(&bytes, None).expect("a torn log");
    assert_eq!(records.len(), 6);
    assert_eq!((tail.valid_len, tail.torn), (len, true));
}

#[test]
fn garbage_behind_the_end_is_a_torn_tail() {
    let (bytes, _) = sample();
    let mut random = 1u64;
    for fill in 0..6usize {
        let mut log = bytes.clone();
        log.extend((0..50_000usize).map(|index| match fill {
            0 => 0xFF,
            1 => 1,
            2 => (index % 5) as u8,
            _ => {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(fill as u64);
                (random >> 56) as u8
            }
        }));
        let (records, tail) = read_bytes(&log, None).expect("a torn log");
        assert_eq!(records.len(), 6);
        assert_eq!((tail.valid_len, tail.torn), (bytes.len() as u64, true));
    }
}

/// Blocks of a deleted log may show up in a new one's unwritten part.
#[test]
fn records_of_another_log_or_another_place_are_a_torn_tail() {
    let (bytes, ends) = sample();
    let disk = Disk::default();
    let mut writer = crate::LogWriter::create(&disk, super::dir(), OLD, None, 0).expect("a sound disk");
    for tag in 0..40 {
        writer.stage(tag, &[b"from long ago"]);
        writer.write().expect("a sound disk");
        writer.syncer().sync().expect("a sound disk");
    }
    let stale = disk.file(&path_of(OLD)).bytes();
    let mut log = bytes.clone();
    log.extend_from_slice(&stale[bytes.len()..]);
    let (records, tail) = read_bytes(&log, None).expect("a torn log");
    assert_eq!((records.len(), tail.valid_len, tail.torn), (6, bytes.len() as u64, true));

    // This log's own records, moved.
    let mut log = bytes[..ends[4]].to_vec();
    log.extend_from_slice(&bytes[ends[3]..]);
    let (records, tail) = read_bytes(&log, None).expect("a torn log");
    assert_eq!((records.len(), tail.valid_len, tail.torn), (4, ends[4] as u64, true));
}

#[test]
fn a_hole_in_the_synced_part_is_damage_and_one_behind_it_a_torn_tail() {
    let (bytes, ends) = sample();
    for record in 0..6 {
        for fill in [0, 0xFF] {
            let holed = with(&bytes, ends[record]..ends[record + 1], fill);
            let result = read_bytes(&holed, None);
            // The last group bears witness for the first two groups, nobody for the last.
            if record < 4 {
                assert_eq!(corrupt_at(result), ends[record] as u64);
            } else {
                let (records, tail) = result.expect("never durable");
                assert_eq!((records.len(), tail.valid_len), (record, ends[record] as u64));
            }
        }
    }
}

#[test]
fn a_log_without_its_header_is_blank_if_it_never_was_durable() {
    let blank = Tail { valid_len: 0, torn: true, durable_seen: 0 };
    let (bytes, ends) = sample();
    for start in [&[][..], &bytes[..1], &bytes[..63], &[0; 64], &[0; 10_000], &[0xFF; 300]] {
        assert_eq!(read_bytes(start, None).expect("blank"), (Vec::new(), blank));
        assert_eq!(corrupt_at(read_bytes(start, Some(64))), 0, "closed, so it had been durable");
    }
    // Closed with nothing in it, as a log is whose creation a crash cut short.
    let closed = Tail { torn: false, ..blank };
    assert_eq!(read_bytes(&[0; 70], Some(0)).expect("blank"), (Vec::new(), closed));
    // The header lost, an unsynced record behind it spared: no record says that the header was durable.
    let unsynced = with(&bytes[..ends[2]], 0..HEADER_LEN, 0);
    assert_eq!(read_bytes(&unsynced, None).expect("blank"), (Vec::new(), blank));
    // With a record that does.
    let synced = with(&bytes, 0..HEADER_LEN, 0);
    assert_eq!(corrupt_at(read_bytes(&synced, None)), 0);
    let disk = Disk::default();
    disk.create(&path_of(LOG)).expect("new");
    let reader = LogReader::open(&disk, &path_of(LOG), LOG, None).expect("blank");
    assert_eq!(reader.predecessor(), None);
}

#[test]
fn a_foreign_log_is_refused_by_name() {
    let disk = Disk::default();
    create(&disk);
    let path = path_of(LOG);
    let refused = |identity| match LogReader::open(&disk, &path, identity, None) {
        Err(Error::Corruption { what, .. }) => what,
        other => panic!("it opened: {}", other.is_ok()),
    };
    let what = refused(LogIdentity { database: DatabaseId([8; 16]), ..LOG });
    assert_eq!(
        what,
        format!("it belongs to database {}, this is database {}", "07".repeat(16), "08".repeat(16))
    );
    let what = refused(LogIdentity { number: FileNumber(4), ..LOG });
    assert_eq!(what, "it was written as file 000003, not as 000004");
    let what = refused(LogIdentity { kind: LogKind::Manifest, ..LOG });
    assert_eq!(what, "a manifest was expected, this is a write-ahead log");
}

/// A header with `bytes` at `at`, and a checksum that agrees.
pub(super) fn header_with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header = LogHeader::encode(&LOG, None);
    header[at..at + bytes.len()].copy_from_slice(bytes);
    let checksum = LogHeader::parse(&header).expect("64 bytes").expected_checksum(&header);
    header[60..].copy_from_slice(&checksum.to_le_bytes());
    header
}

#[test]
fn a_newer_version_is_refused_as_such() {
    let newer = (LOG_VERSION + 1).to_le_bytes();
    match read_bytes(&header_with(8, &newer), None) {
        Err(Error::FormatTooNew { found, supported, .. }) => {
            assert_eq!((found, supported), (LOG_VERSION + 1, LOG_VERSION));
        }
        other => panic!("{other:?}"),
    }
    // Not if the header does not check: then it is no header.
    let mut damaged = LogHeader::encode(&LOG, None);
    damaged[8] ^= 2;
    assert_eq!(read_bytes(&damaged, None).expect("blank").1.valid_len, 0);
}

#[test]
fn a_header_that_checks_and_makes_no_sense_is_damage() {
    for (at, bytes) in [(0, &b"eskerXYZ"[..]), (8, &[0; 4]), (12, &[2]), (56, &[1])] {
        let error = read_bytes(&header_with(at, bytes), None).expect_err("nobody writes that");
        assert!(error.is_corruption(), "{error}");
    }
}

#[test]
fn an_error_is_final() {
    let (bytes, ends) = sample();
    let disk = Disk::default();
    let file = disk.create(&path_of(LOG)).expect("new");
    file.write_at(&with(&bytes, ends[1]..ends[2], 0), 0).expect("a sound disk");
    let mut reader = LogReader::open(&disk, &path_of(LOG), LOG, None).expect("a good header");
    assert_eq!(reader.next().expect("good").map(|record| record.tag), Some(0));
    assert_eq!(corrupt_at(reader.next()), ends[1] as u64);
    // Even once the cause is gone.
    file.write_at(&bytes, 0).expect("a sound disk");
    assert_eq!(corrupt_at(reader.next()), ends[1] as u64);
    assert_eq!(read_log(&disk, None).expect("whole again").0.len(), 6);
}

#[test]
fn a_log_that_shrinks_while_it_is_read_is_an_error() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    for tag in 0..5_000 {
        writer.stage(tag, &[&[b'p'; 100]]);
    }
    writer.write().expect("a sound disk");
    let mut reader = LogReader::open(&disk, &path_of(LOG), LOG, None).expect("a good header");
    reader.next().expect("good");
    disk.file(&path_of(LOG)).set_len(300_000).expect("a sound disk");
    let offset = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            other => break corrupt_at(other),
        }
    };
    assert_eq!(offset, 300_000);
}
