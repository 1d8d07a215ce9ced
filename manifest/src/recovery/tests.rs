//! What recovery makes of directories that are not as they were left.

use esker_base::filename::FileName;
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo};
use proptest::prelude::*;

use crate::current_file::{self, Current};
use crate::edit;
use crate::manifest_file::ManifestFile;
use crate::testing::disk::{Disk, Survives};
use crate::testing::{
    DATABASE, Picture, create, dir, edits, meta, recover, recover_read_only, write_table,
};
use crate::{Edit, VersionSet};

mod measure;

fn table(disk: &Disk, set: &VersionSet, level: u8, key: &[u8]) -> Edit {
    let meta = meta(set.allocate().0, 1, key, key);
    write_table(disk, &meta).expect("a table's file");
    Edit::AddTable { level, meta }
}

/// A database with a few commits, and the state after each.
fn history() -> (Disk, Vec<Picture>) {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let mut pictures = vec![Picture::of(&set.current())];
    let keyspace = Edit::CreateKeyspace { id: KeyspaceId(1), name: "users".into(), options: vec![1, 2] };
    let first = table(&disk, &set, 0, b"a");
    let second = table(&disk, &set, 1, b"b");
    let Edit::AddTable { meta: moved, .. } = first.clone() else { unreachable!() };
    let commits = [
        vec![keyspace],
        vec![first, Edit::LastSeqNo(SeqNo(7)), Edit::ClosedLog { number: FileNumber(9), len: 80 }],
        vec![second],
        vec![
            Edit::RemoveTable { keyspace: KeyspaceId(1), level: 0, number: moved.number },
            Edit::AddTable { level: 4, meta: moved },
        ],
        vec![Edit::ForgetLogs { before: FileNumber(10) }],
    ];
    for commit in commits {
        pictures.push(Picture::of(&set.commit(commit).expect("it commits")));
    }
    drop(set);
    (disk.after_power_loss(Survives::Everything), pictures)
}

fn copy(disk: &Disk) -> Disk {
    disk.after_power_loss(Survives::Everything)
}

const MANIFEST: &str = "000001.manifest";

/// The manifest without the zeros reserved behind it.
fn written(disk: &Disk) -> Vec<u8> {
    let mut bytes = disk.bytes(MANIFEST);
    let end = bytes.iter().rposition(|&byte| byte != 0).expect("some byte") + 1;
    // The seal ends in its durable-up-to, whose upper bytes are zero.
    bytes.truncate(end + 8);
    bytes
}

fn outcome(disk: &Disk) -> Result<Picture> {
    recover(disk).map(|(set, _)| Picture::of(&set.current()))
}

#[test]
fn every_flipped_bit_of_the_manifest_is_an_error_or_harmless() {
    let (disk, pictures) = history();
    let good = disk.bytes(MANIFEST);
    let (mut errors, mut harmless) = (0, 0);
    for bit in 0..written(&disk).len() * 8 + 64 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let disk = copy(&disk);
        disk.put(MANIFEST, &bad);
        match outcome(&disk) {
            Ok(picture) => {
                assert_eq!(Some(&picture), pictures.last(), "bit {bit}");
                harmless += 1;
            }
            Err(Error::Corruption { path, .. }) => {
                assert!(path.ends_with(MANIFEST), "{path:?}");
                errors += 1;
            }
            Err(Error::FormatTooNew { .. }) => errors += 1,
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
    // Harmless are the last seal and the zeros behind it.
    assert!(harmless <= 29 * 8 + 128 && errors > 10 * harmless, "{errors} errors, {harmless} harmless");
}

#[test]
fn every_truncation_of_the_manifest_is_an_error_or_an_earlier_state() {
    let (disk, pictures) = history();
    let good = written(&disk);
    let mut seen = std::collections::BTreeSet::new();
    for len in 0..=good.len() {
        let disk = copy(&disk);
        disk.put(MANIFEST, &good[..len]);
        match outcome(&disk) {
            Ok(picture) => {
                seen.insert(pictures.iter().position(|p| *p == picture).expect("a state that once was"));
            }
            Err(Error::Corruption { path, .. }) => assert!(path.ends_with(MANIFEST), "{path:?}"),
            Err(other) => panic!("cut to {len} bytes: {other}"),
        }
    }
    assert_eq!(seen.last(), Some(&(pictures.len() - 1)));
    // Without its first record it is no manifest, whatever the log says about torn ends.
    disk.put(MANIFEST, &good[..64]);
    assert!(matches!(outcome(&disk), Err(Error::Corruption { offset: 64, .. })));
}

#[test]
fn every_truncation_and_every_flipped_bit_of_current_is_an_error() {
    let (disk, _) = history();
    let good = disk.bytes("CURRENT");
    for len in 0..good.len() {
        disk.put("CURRENT", &good[..len]);
        assert!(matches!(outcome(&disk), Err(Error::Corruption { .. })), "cut to {len} bytes");
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        disk.put("CURRENT", &bad);
        let error = outcome(&disk).expect_err("damage");
        assert!(
            matches!(error, Error::Corruption { .. } | Error::FormatTooNew { .. }),
            "bit {bit}: {error}"
        );
    }
}

#[test]
fn an_append_that_was_cut_short_is_dropped_and_reported() {
    let (disk, pictures) = history();
    let mut bytes = disk.bytes(MANIFEST);
    let end = written(&disk).len();
    bytes[end..end + 20].fill(0xAB);
    disk.put(MANIFEST, &bytes);
    let (set, recovered) = recover(&disk).expect("it opens");
    assert_eq!(Some(&Picture::of(&set.current())), pictures.last());
    assert!(recovered.torn);
    drop(set);
    let (_, recovered) = recover(&disk).expect("it opens");
    assert!(!recovered.torn, "the new manifest has no torn end");
}

#[test]
fn files_that_are_gone_are_named() {
    let (disk, _) = history();
    let missing = |name: &str| {
        let disk = copy(&disk);
        disk.take(name);
        match recover(&disk).map(|_| ()).expect_err("it is needed") {
            Error::MissingFile { path, .. } => assert!(path.ends_with(name), "{path:?}"),
            other => panic!("{other}"),
        }
        assert!(recover_read_only(&disk).is_err());
    };
    for name in ["CURRENT", MANIFEST, "000002.sst", "000003.sst"] {
        missing(name);
    }
}

#[test]
fn a_table_of_another_length_is_named() {
    let (disk, _) = history();
    for len in [0, 1001, 1003] {
        disk.put("000002.sst", &vec![0; len]);
        match outcome(&disk).expect_err("it is 1002 bytes long") {
            Error::Corruption { path, .. } => assert!(path.ends_with("000002.sst"), "{path:?}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_manifest_of_another_database_or_number_is_refused() {
    let (disk, _) = history();
    let stranger = Current { database: esker_base::DatabaseId([8; 16]), manifest: FileNumber(1) };
    disk.put("CURRENT", stranger.encode().as_bytes());
    assert!(matches!(outcome(&disk), Err(Error::Corruption { .. })));
    let swapped = Current { database: DATABASE, manifest: FileNumber(5) };
    disk.put("CURRENT", swapped.encode().as_bytes());
    let bytes = disk.bytes(MANIFEST);
    disk.put("000005.manifest", &bytes);
    assert!(matches!(outcome(&disk), Err(Error::Corruption { .. })));
}

#[test]
fn a_directory_without_a_database_is_told_from_one_whose_current_is_gone() {
    let disk = Disk::default();
    for name in ["LOCK", "notes.txt", "12.log", "000001.tmp", "000001.manifest"] {
        disk.put(name, b"");
        assert!(matches!(outcome(&disk), Err(Error::NotADatabase { .. })), "{name}");
    }
    drop(create(&copy(&disk)).expect("what a creation left behind is replaced"));
    for name in ["000003.log", "000003.sst", "000003.manifest"] {
        let disk = copy(&disk);
        disk.put(name, b"");
        assert!(matches!(outcome(&disk), Err(Error::MissingFile { .. })), "{name}");
        assert!(matches!(create(&disk), Err(Error::MissingFile { .. })), "{name}");
    }
    let (disk, _) = history();
    assert!(matches!(create(&disk), Err(Error::InvalidArgument { .. })));
}

#[test]
fn leftovers_are_reported_and_everything_else_is_left_alone() {
    let (disk, pictures) = history();
    let ours = ["000077.sst", "000078.manifest", "000079.tmp", "000080.log"];
    let others = ["notes.txt", "77.sst", "CURRENT.bak", "000077.sst.old", "LOCK"];
    for name in ours.iter().chain(&others) {
        disk.put(name, b"?");
    }
    let (set, recovered) = recover(&disk).expect("it opens");
    assert_eq!(Some(&Picture::of(&set.current())), pictures.last());
    let orphans = [
        FileName::Table(FileNumber(77)),
        FileName::Manifest(FileNumber(78)),
        FileName::Temporary(FileNumber(79)),
    ];
    assert_eq!(recovered.orphans, orphans);
    assert_eq!(recovered.logs.get(&FileNumber(80)), Some(&1));
    for name in ours.iter().chain(&others) {
        assert_eq!(disk.bytes(name), b"?");
    }
}

#[test]
fn a_read_only_open_changes_nothing() {
    let (disk, pictures) = history();
    disk.put("000077.sst", b"left over");
    let (names, changes) = (disk.names(), disk.changes());
    let (set, recovered) = recover_read_only(&disk).expect("it opens");
    assert_eq!(Some(&Picture::of(&set.current())), pictures.last());
    assert_eq!(recovered.manifest, FileNumber(1));
    drop(set);
    assert_eq!((disk.names(), disk.changes()), (names, changes));
}

#[test]
fn a_writable_open_writes_again_what_it_has_read() {
    let (disk, pictures) = history();
    drop(recover(&disk).expect("it opens"));
    assert!(!disk.names().contains(&MANIFEST.to_owned()));
    let (set, recovered) = recover(&disk.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(Some(&Picture::of(&set.current())), pictures.last());
    assert_eq!(recovered.commits, 0, "all of it is in the snapshot");
}

/// A database whose manifest holds these payloads, with checksums as they ought to be.
fn forged(payloads: &[Vec<u8>]) -> Disk {
    let disk = Disk::default();
    let (first, rest) = payloads.split_first().expect("a snapshot");
    let mut manifest =
        ManifestFile::create(&*disk.fs(), dir(), DATABASE, FileNumber(1), first).expect("a manifest");
    for payload in rest {
        manifest.append(payload).expect("a record");
    }
    current_file::write(&*disk.fs(), dir(), &Current { database: DATABASE, manifest: FileNumber(1) })
        .expect("CURRENT");
    disk
}

#[test]
fn numbers_at_the_end_of_their_range_are_refused_rather_than_used_up() {
    let seqno = |n| vec![Edit::LastSeqNo(SeqNo(n))];
    let file = |n| vec![Edit::NextFile(FileNumber(n))];
    let keyspace = |n| vec![Edit::NextKeyspace(KeyspaceId(n))];
    for edits in [seqno((1 << 55) - 1), file((1 << 48) - 1), keyspace((1 << 31) - 1)] {
        let disk = forged(&[edit::encode(&edits)]);
        assert!(matches!(outcome(&disk), Err(Error::Corruption { .. })), "{edits:?}");
    }
    for edits in [seqno((1 << 54) - 1), file((1 << 47) - 1), keyspace((1 << 30) - 1)] {
        let (set, _) = recover(&forged(&[edit::encode(&edits)])).expect("half of them are left");
        let id = set.current().next_keyspace();
        let edit = Edit::CreateKeyspace { id, name: "new".into(), options: Vec::new() };
        set.commit(vec![edit, Edit::LastSeqNo(SeqNo(1 << 54))]).expect("it goes on");
        assert!((0..1000).all(|_| set.allocate().0 < 1 << 48));
    }
}

#[test]
fn a_record_that_does_not_fit_is_named_with_its_offset() {
    let twice =
        edit::encode(&[Edit::CreateKeyspace { id: KeyspaceId(1), name: "a".into(), options: vec![] }]);
    match outcome(&forged(&[Vec::new(), twice.clone(), twice])).expect_err("it does not fit") {
        Error::Corruption { path, offset, what } => {
            assert!(path.ends_with(MANIFEST));
            assert!(offset > 64);
            assert!(what.contains("used before"), "{what}");
        }
        other => panic!("{other}"),
    }
}

proptest! {
    #[test]
    fn hostile_edits_with_good_checksums_never_panic(
        records in proptest::collection::vec(proptest::collection::vec(edits(), 0..6), 1..8),
    ) {
        let payloads: Vec<Vec<u8>> = records
            .into_iter()
            .map(|mut edits| {
                edits.sort_by_key(Edit::kind);
                edits.dedup_by(|a, b| a.kind() == b.kind() && a.stands_alone());
                edit::encode(&edits)
            })
            .collect();
        let disk = forged(&payloads);
        if let Ok((set, _)) = recover(&disk) {
            let picture = Picture::of(&set.current());
            let number = set.allocate();
            drop(set);
            let (set, _) = recover(&disk).expect("what opened once opens again");
            prop_assert_eq!(Picture::of(&set.current()), picture);
            prop_assert!(set.allocate() > number);
        }
    }

    #[test]
    fn hostile_payloads_with_good_checksums_never_panic(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..4),
    ) {
        let opened = recover(&forged(&payloads));
        if let Err(error) = opened {
            prop_assert!(error.is_corruption(), "{}", error);
        }
    }
}
