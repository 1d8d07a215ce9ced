//! Damage: nothing that was durable is lost silently, and no bytes make it panic.

use proptest::prelude::*;

use super::disk::Disk;
use super::tails::header_with;
use super::{LOG, Read, create, path_of, read_bytes};
use crate::header::{HEADER_LEN, LogHeader};
use crate::inspect;
use crate::record::{FRAGMENT_BYTES_MAX, FragmentKind, Layout, RecordHeader, header_len};
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
pub(super) fn forge(
    bytes: &mut Vec<u8>,
    kind: FragmentKind,
    tag: u64,
    durable: u64,
    len: u32,
    payload: &[u8],
) {
    let offset = bytes.len();
    let head = header_len(tag, durable);
    let payload_checksum = LOG.seed().checksum((offset + head) as u64, &[payload]);
    let header =
        RecordHeader { payload_checksum, len: len & FRAGMENT_BYTES_MAX as u32, kind, tag, durable };
    bytes.resize(offset + head, 0);
    header.encode(&Checksums::new(LOG.seed()), offset as u64, &mut bytes[offset..]);
    bytes.extend_from_slice(payload);
}

/// Append a fragment of version 1 whose checksums agree.
fn forge_wide(bytes: &mut Vec<u8>, kind: u8, tag: u64, durable: u64, len: u32, payload: &[u8]) {
    let offset = bytes.len() as u64;
    let payload_checksum = LOG.seed().checksum(offset + 29, &[payload]);
    let mut covered = payload_checksum.to_le_bytes().to_vec();
    covered.extend_from_slice(&len.to_le_bytes());
    covered.push(kind);
    covered.extend_from_slice(&tag.to_le_bytes());
    covered.extend_from_slice(&durable.to_le_bytes());
    bytes.extend_from_slice(&LOG.seed().checksum(offset, &[&covered]).to_le_bytes());
    bytes.extend_from_slice(&covered);
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

/// That `forged`, behind a good header of a log of `version`, is neither a record nor a witness.
fn is_no_record(version: u8, forged: impl Fn(&mut Vec<u8>), context: &str) {
    let mut bytes = header_with(8, &[version]);
    forged(&mut bytes);
    let (records, tail) = read_bytes(&bytes, None).expect("never durable");
    assert_eq!((records.len(), tail.valid_len, tail.torn), (0, 64, true), "{context}");
    bytes.splice(..64, [0; 64]);
    assert_eq!(read_bytes(&bytes, None).expect("blank").1.valid_len, 0, "{context}");
}

/// Append a full fragment whose checksums agree, with this control byte and the fields that it announces.
fn forge_control(bytes: &mut Vec<u8>, control: u8, tag: u64, durable: u64) {
    let offset = bytes.len() as u64;
    let tag_len = if control & 8 != 0 { 8 } else { 4 };
    let mut fields = vec![1, 0, 0, control];
    fields.extend_from_slice(&tag.to_le_bytes()[..tag_len]);
    if control & 16 != 0 {
        fields.extend_from_slice(&durable.to_le_bytes());
    }
    let payload_at = offset + 8 + fields.len() as u64;
    let covered = [&LOG.seed().checksum(payload_at, &[b"x"]).to_le_bytes()[..], &fields].concat();
    bytes.extend_from_slice(&LOG.seed().checksum(offset, &[&covered]).to_le_bytes());
    bytes.extend_from_slice(&covered);
    bytes.push(b'x');
}

#[test]
fn a_header_that_no_writer_writes_is_none() {
    const LONG: u64 = 1 << 32;
    let mut good = 0;
    for control in 0..=u8::MAX {
        let forged = |bytes: &mut Vec<u8>| forge_control(bytes, control, LONG, 64);
        if (1..=4).contains(&(control & !0x18)) {
            let mut bytes = LogHeader::encode(&LOG, None);
            forged(&mut bytes);
            let decoded = RecordHeader::decode(&bytes[64..], Layout::Compact, LOG.seed(), 64);
            let (header, len) = decoded.expect("one that is written");
            assert_eq!(64 + len + 1, bytes.len());
            assert_eq!(header.tag, if control & 8 != 0 { LONG } else { 0 });
            assert_eq!(header.durable, if control & 16 != 0 { 64 } else { 0 });
            good += 1;
        } else {
            is_no_record(2, forged, &format!("control {control}"));
        }
    }
    assert_eq!(good, 16);
    for (control, tag, durable) in
        [(17, 1, 0), (17, 1, 65), (17, 1, u64::MAX), (9, LONG - 1, 0), (25, 0, 64)]
    {
        let forged = |bytes: &mut Vec<u8>| forge_control(bytes, control, tag, durable);
        is_no_record(2, forged, &format!("control {control}, tag {tag}, durable up to {durable}"));
    }
}

#[test]
fn a_header_that_no_writer_of_version_1_writes_is_none() {
    let cases =
        [(1, 65, 1), (1, u64::MAX, 1), (1, 0, (16 << 20) + 1), (1, 0, u32::MAX), (0, 1, 1), (5, 1, 1)];
    for (kind, durable, len) in cases {
        let odd = |bytes: &mut Vec<u8>| forge_wide(bytes, kind, 1, durable, len, b"x");
        is_no_record(1, odd, &format!("kind {kind}, durable up to {durable}, {len} bytes"));
    }
}

/// In a log of version 1 no record of version 2 is one, and the other way round. Where the log's header is gone, either bears
/// witness to it.
#[test]
fn each_version_has_headers_of_its_own() {
    for (version, is_wide) in [(1, true), (1, false), (2, true), (2, false)] {
        let mut bytes = header_with(8, &[version]);
        if is_wide {
            forge_wide(&mut bytes, 1, 7, 64, 2, b"ab");
        } else {
            forge(&mut bytes, FragmentKind::Full, 7, 64, 2, b"ab");
        }
        let (records, tail) = read_bytes(&bytes, None).expect("a good header");
        let good = is_wide == (version == 1);
        assert_eq!(records.len(), usize::from(good));
        assert_eq!(tail.durable_seen, if good { 64 } else { 0 });
        bytes[20] ^= 1;
        assert!(matches!(read_bytes(&bytes, None), Err(Error::Corruption { offset: 0, .. })));
    }
}

/// The search for a witness finds it wherever it stands in the windows that the file is read by.
#[test]
fn a_witness_is_found_across_the_bounds_of_windows() {
    for at in CHUNK_BYTES - 70..CHUNK_BYTES + 5 {
        for fill in [0, 0xA5] {
            // Each length of a header, with the file's end behind it and with more.
            for (tag, more) in [(1, 0), (1, 100), (u64::MAX, 0), (u64::MAX, 100)] {
                let mut bytes = LogHeader::encode(&LOG, None);
                bytes.resize(at, fill);
                forge(&mut bytes, FragmentKind::Full, tag, 65, 0, b"");
                bytes.resize(bytes.len() + more, fill);
                assert!(
                    matches!(read_bytes(&bytes, None), Err(Error::Corruption { offset: 64, .. })),
                    "{at}"
                );
            }
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
