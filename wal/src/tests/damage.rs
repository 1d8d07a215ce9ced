//! Damage: nothing that was durable is lost silently, and no bytes make it panic.

use proptest::prelude::*;

use super::disk::Disk;
use super::{LOG, Read, create, path_of, read_bytes};
use crate::header::{HEADER_LEN, LogHeader};
use crate::inspect;
use crate::record::{self, FRAGMENT_BYTES_MAX, FragmentKind, RecordHeader};
use crate::window::CHUNK_BYTES;
use esker_base::Error;
use esker_base::checksum::Checksums;
use esker_vfs::fs::Fs;

/// A log with short, empty and fragmented records, synced now and then.
fn sample() -> (Vec<u8>, Vec<Read>) {
    let disk = Disk::default();
    let mut writer = create(&disk);
    writer.fragment_bytes_max = 12;
    for (tag, len) in [3usize, 0, 30, 12, 13, 1, 0, 25].into_iter().enumerate() {
        writer.stage(tag as u64, &[&vec![tag as u8; len]]);
        if tag % 2 == 1 {
            writer.write().expect("a sound disk");
        }
        if tag % 4 == 3 {
            writer.syncer().sync().expect("a sound disk");
        }
    }
    let bytes = disk.file(&path_of(LOG)).bytes();
    let records = read_bytes(&bytes, None).expect("a good log").0;
    assert_eq!(records.len(), 8);
    (bytes, records)
}

/// Replay `bytes`, a damaged sample whose intact records say that everything before `durable` was
/// durable: either damage is reported, or nothing before `durable` is missing; and what comes is right.
fn check(bytes: &[u8], records: &[Read], durable: u64, context: &str) {
    match read_bytes(bytes, None) {
        Err(Error::Corruption { offset, .. }) => {
            assert!(offset == 0 || records.iter().any(|record| record.offset == offset), "{context}");
        }
        Err(error) => panic!("{context}: {error}"),
        Ok((found, tail)) => {
            assert_eq!(found, records[..found.len()], "{context}");
            assert!(tail.valid_len >= durable, "{context}: lost from {} on", tail.valid_len);
        }
    }
}

#[test]
fn no_single_bit_flip_loses_what_a_record_says_is_durable() {
    let (bytes, records) = sample();
    // The last four records were staged after the first four had been synced, in one sync; but a
    // flip in all four cannot be: one of them is always left to say so.
    let durable = records[4].offset;
    let mut reported = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped, &records, durable, &format!("bit {bit}"));
        if read_bytes(&flipped, None).is_err() {
            reported += 1;
        }
        let closed = read_bytes(&flipped, Some(bytes.len() as u64));
        assert!(closed.is_err(), "bit {bit}: a closed log has no slack");
    }
    assert_eq!(reported, durable as usize * 8, "each bit that was durable, and no other");
}

#[test]
fn no_value_of_any_byte_loses_what_a_record_says_is_durable() {
    let (bytes, records) = sample();
    let durable = records[4].offset;
    for at in 0..bytes.len() {
        for value in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = value;
            check(&changed, &records, durable, &format!("byte {at} = {value}"));
        }
    }
}

/// A fragment whose checksums agree, with whatever else in it.
fn forged() -> impl Strategy<Value = (u8, u64, u64, Option<u32>, Vec<u8>)> {
    let durable = prop_oneof![Just(0u64), 0u64..2_000, any::<u64>()];
    let len =
        prop_oneof![4 => Just(None), 1 => any::<u32>().prop_map(Some), 1 => (0u32..300).prop_map(Some)];
    (1u8..=4, 0u64..3, durable, len, prop::collection::vec(any::<u8>(), 0..60))
}

/// Append a fragment whose checksums agree.
fn forge(bytes: &mut Vec<u8>, kind: FragmentKind, tag: u64, durable: u64, len: u32, payload: &[u8]) {
    let offset = bytes.len() as u64;
    let payload_checksum = record::payload_checksum(LOG.seed(), offset, payload);
    let header = RecordHeader { payload_checksum, len, kind, tag, durable };
    bytes.extend_from_slice(&header.encode(&Checksums::new(LOG.seed()), offset));
    bytes.extend_from_slice(payload);
}

#[test]
fn fragments_that_do_not_make_a_record_end_the_log() {
    use FragmentKind::{First, Full, Last, Middle};
    let endings: [&[(FragmentKind, u64)]; 8] = [
        &[(Middle, 1)],
        &[(Last, 1)],
        &[(First, 1)],
        &[(First, 1), (Middle, 1)],
        &[(First, 1), (Full, 2)],
        &[(First, 1), (First, 1), (Last, 1)],
        &[(First, 1), (Last, 2)],
        &[(First, 1), (Middle, 2), (Last, 1)],
    ];
    for ending in endings {
        let mut bytes = LogHeader::encode(&LOG, None);
        forge(&mut bytes, First, 0, 0, 2, b"go");
        forge(&mut bytes, Last, 0, 0, 2, b"od");
        let good = bytes.len() as u64;
        for &(kind, tag) in ending {
            forge(&mut bytes, kind, tag, 0, 1, b"x");
        }
        let (records, tail) = read_bytes(&bytes, None).expect("never durable");
        assert_eq!(records.len(), 1, "{ending:?}");
        assert_eq!(records[0].payload, b"good");
        assert_eq!((tail.valid_len, tail.torn), (good, true), "{ending:?}");
        // A record behind them that says they were durable makes it damage.
        let durable = bytes.len() as u64;
        forge(&mut bytes, Full, 9, durable, 0, b"");
        assert!(
            matches!(read_bytes(&bytes, None), Err(Error::Corruption { offset, .. }) if offset == good)
        );
    }
}

#[test]
fn a_header_that_no_writer_writes_is_none() {
    for (durable, len) in [(65, 1), (u64::MAX, 1), (0, FRAGMENT_BYTES_MAX as u32 + 1), (0, u32::MAX)] {
        let mut bytes = LogHeader::encode(&LOG, None);
        forge(&mut bytes, FragmentKind::Full, 1, durable, len, b"x");
        let (records, tail) = read_bytes(&bytes, None).expect("never durable");
        assert_eq!((records.len(), tail.valid_len, tail.torn), (0, 64, true));
        // Nor is it a witness.
        bytes.splice(..64, [0; 64]);
        assert_eq!(read_bytes(&bytes, None).expect("blank").1.valid_len, 0);
    }
}

/// The search for a witness finds it wherever it stands in the windows that the file is read by.
#[test]
fn a_witness_is_found_across_the_bounds_of_windows() {
    for at in CHUNK_BYTES - 70..CHUNK_BYTES + 5 {
        for fill in [0, 0xA5] {
            let mut bytes = LogHeader::encode(&LOG, None);
            bytes.resize(at, fill);
            forge(&mut bytes, FragmentKind::Full, 1, 65, 0, b"");
            assert!(matches!(read_bytes(&bytes, None), Err(Error::Corruption { offset: 64, .. })), "{at}");
        }
    }
}

/// Read and inspect `bytes`; what neither of them may ever do is panic or leave bytes out.
fn survive(bytes: &[u8]) {
    let disk = Disk::default();
    disk.create(&path_of(LOG)).expect("new").write_at(bytes, 0).expect("a sound disk");
    for closed_len in [None, Some(0), Some(bytes.len() as u64), Some(100), Some(u64::MAX)] {
        if let Ok((records, tail)) = super::read_log(&disk, closed_len) {
            assert!(tail.valid_len <= bytes.len() as u64);
            assert!(records.last().is_none_or(|last| last.end == tail.valid_len));
        }
    }
    let mut at = 0;
    for field in inspect(&disk, &path_of(LOG)).expect("it opens") {
        let field = field.expect("a sound disk");
        assert_eq!(field.offset, at);
        assert!(field.len > 0);
        at += field.len;
    }
    assert_eq!(at, bytes.len() as u64);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600), sound_header: bool) {
        let header = LogHeader::encode(&LOG, None);
        let start: &[u8] = if sound_header { &header } else { &[] };
        survive(&[start, &bytes].concat());
    }

    #[test]
    fn any_fragments_that_check_are_survived(
        fragments in prop::collection::vec((forged(), 0usize..4), 0..12),
        keep in 0usize..120,
    ) {
        let mut bytes = LogHeader::encode(&LOG, None);
        for ((kind, tag, durable, len, payload), gap) in fragments {
            bytes.extend(std::iter::repeat_n(0xA5, gap.saturating_sub(2)));
            let len = len.unwrap_or(payload.len() as u32);
            forge(&mut bytes, FragmentKind::from_byte(kind).expect("one of the four"), tag, durable, len, &payload);
        }
        let keep = bytes.len() * keep / 100;
        bytes.truncate(keep.max(HEADER_LEN));
        survive(&bytes);
    }

    #[test]
    fn any_damage_to_a_good_log_is_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (mut bytes, records) = sample();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        survive(&bytes);
        if let Ok((found, _)) = read_bytes(&bytes, None) {
            prop_assert_eq!(&found[..], &records[..found.len()]);
        }
    }
}
