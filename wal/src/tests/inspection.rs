//! What `inspect` shows.

use esker_base::format::LOG_VERSION;
use esker_vfs::fs::Fs;

use super::damage::forge;
use super::disk::Disk;
use super::tails::header_with;
use super::{LOG, create, path_of};
use crate::header::LogHeader;
use crate::record::FragmentKind;
use crate::{Verdict, inspect};

/// The fields as lines of text, payload bytes cut where the tests do not care.
fn shown(bytes: &[u8]) -> Vec<String> {
    let disk = Disk::default();
    disk.create(&path_of(LOG)).expect("new").write_at(bytes, 0).expect("a sound disk");
    inspect(&disk, &path_of(LOG))
        .expect("it opens")
        .map(|field| field.expect("a sound disk"))
        .map(|f| format!("{} +{} {}: {} ({})", f.offset, f.len, f.name, f.value, f.verdict))
        .collect()
}

fn sample() -> Vec<u8> {
    let disk = Disk::default();
    let mut writer = create(&disk);
    writer.stage(9, &[b"key\0value"]);
    writer.stage(10, &[]);
    writer.write().expect("a sound disk");
    disk.file(&path_of(LOG)).bytes()
}

#[test]
fn a_good_log_field_by_field() {
    let mut bytes = sample();
    let len = bytes.len();
    bytes.resize(len + 1000, 0);
    let lines = shown(&bytes);
    let without_checksums: Vec<_> =
        lines.iter().filter(|line| !line.contains("checksum")).map(String::as_str).collect();
    assert_eq!(
        without_checksums,
        [
            "0 +8 magic: eskerLOG (a write-ahead log) (ok)",
            "8 +4 version: 2 (ok)",
            "12 +4 has predecessor: 0 (ok)",
            "16 +16 database: 07070707070707070707070707070707 (ok)",
            "32 +8 number: 000003 (ok)",
            "40 +8 predecessor: 000000 (ok)",
            "48 +8 predecessor len: 0 (ok)",
            "56 +4 reserved: 0 (ok)",
            "72 +3 length: 9 (ok)",
            "75 +1 kind: 1 (full) (ok)",
            "76 +4 tag: 9 (ok)",
            "80 +9 payload: key\\x00value (ok)",
            "97 +3 length: 0 (ok)",
            "100 +1 kind: 1 (full) (ok)",
            "101 +4 tag: 10 (ok)",
            "105 +1000 unused: zeros (ok)",
        ]
    );
    let checksums = lines.iter().filter(|line| line.contains("checksum"));
    assert_eq!(checksums.filter(|line| line.ends_with("(ok)")).count(), 5);
}

#[test]
fn damage_shows_where_it_is() {
    let bytes = sample();
    let damaged = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        shown(&bytes)
    };
    let bad = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !line.ends_with("(ok)")).cloned().collect()
    };
    // In a payload: its checksum and itself; what follows is fine.
    let lines = bad(&damaged(82));
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("68 +4 payload checksum: ") && lines[0].contains(", computed "));
    assert_eq!(lines[1], "80 +9 payload: ke9\\x00value (bad)");
    // In a record's header: the record cannot be told, the next one is found.
    let lines = damaged(77);
    assert_eq!(bad(&lines).len(), 1);
    assert!(bad(&lines)[0].starts_with("64 +25 no record: "), "{lines:?}");
    assert!(lines.iter().any(|line| line == "101 +4 tag: 10 (ok)"));
    // In the log's header: nothing in it can be relied on, and records may still be found.
    let lines = damaged(50);
    assert_eq!(bad(&lines).iter().filter(|line| line.ends_with("(unchecked)")).count(), 8);
    assert!(lines.iter().any(|line| line == "80 +9 payload: key\\x00value (ok)"));
}

/// Behind a header that does not check, a fragment is one whose payload checks, or which says that something was durable: in what is
/// left of other files, 16 bytes pass for a header by chance once in 128 GiB.
#[test]
fn what_follows_damage_has_to_be_a_record() {
    for synced in [false, true] {
        let disk = Disk::default();
        let mut writer = create(&disk);
        writer.stage(1, &[b"first"]);
        writer.write().expect("a sound disk");
        if synced {
            writer.syncer().sync().expect("a sound disk");
        }
        writer.stage(2, &[b"second"]);
        writer.stage(3, &[b"third"]);
        writer.write().expect("a sound disk");
        let mut bytes = disk.file(&path_of(LOG)).bytes();
        let head = if synced { 24 } else { 16 };
        for at in [64, 85 + head] {
            bytes[at] ^= 1;
        }
        let lines = shown(&bytes);
        let len = if synced { 21 } else { 21 + 22 };
        assert!(lines.iter().any(|line| line.starts_with(&format!("64 +{len} no record: "))), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.ends_with("payload: third (ok)")).count(), 1);
        let seconds = lines.iter().filter(|line| line.ends_with("payload: recond (bad)"));
        assert_eq!(seconds.count(), usize::from(synced), "{lines:#?}");
    }
}

/// Payloads are read in vain no more than once over: of headers that each announce most of the file, and whose payloads do not check,
/// the first is passed, and the second taken as it is.
#[test]
fn forged_headers_do_not_have_payloads_read_again_and_again() {
    let mut bytes = LogHeader::encode(&LOG, None);
    bytes.extend_from_slice(&[0xA5; 5]);
    for tag in 1..=3 {
        forge(&mut bytes, FragmentKind::Full, tag, 0, 600, b"");
    }
    bytes.resize(bytes.len() + 700, 0xA5);
    let lines = shown(&bytes);
    let tags: Vec<_> = lines.iter().filter(|line| line.contains(" tag: ")).collect();
    assert_eq!(tags, [&format!("{} +4 tag: 2 (ok)", 64 + 5 + 16 + 12)]);
}

#[test]
fn a_cut_log_shows_what_is_left() {
    let bytes = sample();
    assert!(shown(&[]).is_empty());
    assert_eq!(shown(&bytes[..5]), ["0 +5 header: cut short: esker (bad)"]);
    let lines = shown(&bytes[..85]);
    assert_eq!(lines.last().map(String::as_str), Some("80 +5 payload: key\\x00v (bad)"));
    let lines = shown(&bytes[..80]);
    assert!(lines.iter().any(|line| line == "72 +3 length: 9, of which the file has 0 (bad)"));
    assert!(lines.iter().any(|line| line.contains("payload checksum") && line.ends_with("(unchecked)")));
}

#[test]
fn a_newer_version_is_no_damage() {
    // A flag that means nothing to this build, too: it may mean something there.
    let mut newer = header_with(8, &[LOG_VERSION.to_le_bytes()[0] + 1, 0, 0, 0, 2]);
    newer.extend_from_slice(&[9; 100]);
    let lines = shown(&newer);
    assert!(lines.contains(&format!("8 +4 version: {} (newer)", LOG_VERSION + 1)), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("64 +100 records: ") && line.ends_with("(newer)")));
    assert!(lines.iter().all(|line| line.ends_with("(newer)") || line.contains("header checksum")));
    assert_eq!(lines.len(), 10);
}

#[test]
fn an_error_of_the_system_ends_it() {
    let disk = Disk::default();
    assert!(inspect(&disk, &path_of(LOG)).is_err_and(|error| error.is_not_found()));
    let file = disk.create(&path_of(LOG)).expect("new");
    file.write_at(&vec![1; 1_000_000], 0).expect("a sound disk");
    let mut fields = inspect(&disk, &path_of(LOG)).expect("it opens");
    assert!(fields.next().is_some_and(|field| field.is_ok_and(|field| field.verdict != Verdict::Ok)));
    file.set_len(300_000).expect("a sound disk");
    assert!(fields.by_ref().any(|field| field.is_err()));
    assert!(fields.next().is_none());
}
