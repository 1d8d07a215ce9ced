//! Failing writes: undone, or owned up to.

use esker_base::Error;
use esker_vfs::fs::Fs;

use super::disk::{Disk, Outcome};
use super::{LOG, create, dir, path_of, read_bytes, read_log};
use crate::{LogWriter, WriteFailure};

const GOOD: Outcome = Outcome::Good;
const ALL: usize = usize::MAX;

fn tags(disk: &Disk) -> Vec<u64> {
    read_log(disk, None).expect("a good log").0.into_iter().map(|record| record.tag).collect()
}

#[test]
fn a_failed_write_is_undone_and_the_writer_goes_on() {
    for allocate in [0, 4096] {
        for kept in (0..200).chain([ALL]) {
            let disk = Disk::default();
            let mut writer = LogWriter::create(&disk, dir(), LOG, None, allocate).expect("a sound disk");
            let file = disk.file(&path_of(LOG));
            writer.stage(1, &[b"first"]);
            let end = writer.write().expect("a sound disk");

            file.plan_writes(&[Outcome::Bad(kept)]);
            writer.stage(2, &[&[b'x'; 50]]);
            writer.stage(3, &[&[b'y'; 50]]);
            let failure = writer.write().expect_err("it was told to fail");
            assert!(matches!(&failure, WriteFailure::Undone(cause) if cause.is_no_space()), "{failure:?}");
            assert_eq!((writer.written(), writer.staged_bytes()), (end, 0));
            // Neither now nor after a power loss is there a trace.
            assert!(file.bytes()[end as usize..].iter().all(|&byte| byte == 0));
            assert_eq!(file.bytes(), file.durable());
            assert_eq!(tags(&disk), [1]);
            assert_eq!(
                writer.syncer().durable(),
                0,
                "older logs, of which that speaks too, were not synced"
            );

            writer.stage(4, &[b"next"]);
            assert!(writer.write().is_ok());
            assert_eq!(tags(&disk), [1, 4]);
        }
    }
}

/// What is lent takes a write of its own. Whichever of the two fails, nothing is left of the group.
#[test]
fn a_group_with_a_lent_payload_is_undone_as_a_whole() {
    for allocate in [0, 4096] {
        for kept in [0, 1, 49, 50, ALL] {
            for failing in [&[Outcome::Bad(kept)][..], &[GOOD, Outcome::Bad(kept)]] {
                let disk = Disk::default();
                let mut writer =
                    LogWriter::create(&disk, dir(), LOG, None, allocate).expect("a sound disk");
                let file = disk.file(&path_of(LOG));
                writer.stage(1, &[b"first"]);
                let end = writer.write().expect("a sound disk");

                file.plan_writes(failing);
                writer.stage(2, &[&[b'x'; 50]]);
                let failure = writer.write_lending(3, &[b'y'; 50]).expect_err("it was told to fail");
                assert!(matches!(failure, WriteFailure::Undone(_)), "{failure:?}");
                assert_eq!((writer.written(), writer.staged_bytes()), (end, 0));
                assert!(file.bytes()[end as usize..].iter().all(|&byte| byte == 0));
                assert_eq!(file.bytes(), file.durable());

                writer.write_lending(4, &[b'z'; 30]).expect("a sound disk");
                assert_eq!(tags(&disk), [1, 4]);
            }
        }
    }
}

/// The second record of a failed group stands exactly behind the group that was written in its place.
#[test]
fn a_record_of_a_failed_group_does_not_come_back_behind_the_next_group() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    disk.file(&path_of(LOG)).plan_writes(&[Outcome::Bad(ALL)]);
    writer.stage(1, &[b"same length"]);
    writer.stage(2, &[b"must never be seen"]);
    assert!(matches!(writer.write(), Err(WriteFailure::Undone(_))));
    writer.stage(3, &[b"same length"]);
    writer.write().expect("a sound disk");
    assert_eq!(tags(&disk), [3]);
}

#[test]
fn a_file_that_takes_no_zeros_is_cut() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let file = disk.file(&path_of(LOG));
    file.plan_writes(&[Outcome::Bad(ALL), Outcome::Bad(0)]);
    writer.stage(1, &[b"lost"]);
    assert!(matches!(writer.write(), Err(WriteFailure::Undone(_))));
    assert_eq!(file.durable().len(), 64);
    writer.stage(2, &[b"kept"]);
    writer.write().expect("a sound disk");
    assert_eq!(tags(&disk), [2]);
}

#[test]
fn a_write_that_cannot_be_undone_is_unknown_and_the_last() {
    let no_zeros = |disk: &Disk| {
        let file = disk.file(&path_of(LOG));
        file.plan_writes(&[Outcome::Bad(ALL), Outcome::Bad(0)]);
        file.plan_cuts(&[Outcome::Bad(0)]);
    };
    let no_sync = |disk: &Disk| {
        let file = disk.file(&path_of(LOG));
        file.plan_writes(&[Outcome::Bad(ALL)]);
        file.plan_syncs(&[Outcome::Bad(0)]);
    };
    for fail in [&no_zeros as &dyn Fn(&Disk), &no_sync] {
        let disk = Disk::default();
        let mut writer = create(&disk);
        fail(&disk);
        writer.stage(1, &[b"who knows"]);
        let failure = writer.write().expect_err("it was told to fail");
        assert!(matches!(&failure, WriteFailure::Unknown(Error::Io { op: "write", .. })), "{failure:?}");
        assert!(matches!(Error::from(failure), Error::InDoubt { .. }));

        let before = disk.file(&path_of(LOG)).written();
        writer.stage(2, &[b"after"]);
        let failure = writer.write().expect_err("the log is stopped");
        assert!(matches!(&failure, WriteFailure::Refused(Error::Poisoned { .. })), "{failure:?}");
        assert!(failure.error().to_string().contains("reopen"), "{}", failure.error());
        assert!(matches!(writer.syncer().sync(), Err(Error::Poisoned { .. })));
        assert!(writer.syncer().check().is_err());
        assert_eq!(disk.file(&path_of(LOG)).written(), before, "the file was not touched again");
        assert_eq!(writer.staged_bytes(), 0);
    }
}

#[test]
fn a_failed_sync_stops_the_log() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let syncer = writer.syncer();
    syncer.sync().expect("a sound disk");
    writer.stage(1, &[b"a"]);
    writer.write().expect("a sound disk");
    disk.file(&path_of(LOG)).plan_syncs(&[Outcome::Bad(0)]);
    assert!(matches!(syncer.sync(), Err(Error::Io { op: "sync", .. })));
    assert_eq!(syncer.durable(), 64, "a failed sync makes nothing durable");
    for _ in 0..3 {
        assert!(matches!(syncer.sync(), Err(Error::Poisoned { .. })));
        assert!(matches!(syncer.clone().sync(), Err(Error::Poisoned { .. })));
        writer.stage(2, &[b"b"]);
        assert!(matches!(writer.write(), Err(WriteFailure::Refused(_))));
    }
    assert_eq!(disk.file(&path_of(LOG)).sync_count(), 2, "no second try on a file that failed");
}

#[test]
fn a_failed_write_reads_as_a_commit_that_was_aborted() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    disk.file(&path_of(LOG)).plan_writes(&[Outcome::Bad(10), GOOD]);
    writer.stage(1, &[b"a"]);
    let error = Error::from(writer.write().expect_err("it was told to fail"));
    assert!(matches!(error, Error::Aborted { .. }), "{error}");
    assert!(error.is_no_space());
}

#[test]
fn a_log_that_exists_is_not_written_over() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    writer.stage(1, &[b"a"]);
    writer.write().expect("a sound disk");
    let bytes = disk.file(&path_of(LOG)).bytes();
    assert!(matches!(LogWriter::create(&disk, dir(), LOG, None, 0), Err(Error::Io { op: "create", .. })));
    assert_eq!(disk.file(&path_of(LOG)).bytes(), bytes);
    assert!(read_bytes(&bytes, None).is_ok());
}

#[test]
fn a_log_whose_header_cannot_be_written_is_removed() {
    let disk = Disk::default();
    disk.fail_next_file();
    assert!(LogWriter::create(&disk, dir(), LOG, None, 4096).is_err());
    assert_eq!(disk.stat(&path_of(LOG)).expect("a sound disk"), None);
    create(&disk);
}
