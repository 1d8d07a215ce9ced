//! A log written over an older one: what the older one left is never taken for its own, whatever of it a power loss spares.

use esker_base::{DatabaseId, Error, FileNumber};
use esker_vfs::fs::Fs;

use super::disk::{Disk, Outcome};
use super::{LOG, OLD, dir, path_of, read_log, read_reused_bytes};
use crate::header::HEADER_LEN;
use crate::{LogIdentity, LogReader, LogWriter, Predecessor, Verdict, inspect};

/// A disk with the log `OLD`: forty records, each synced.
fn with_old() -> Disk {
    let disk = Disk::default();
    let mut writer = LogWriter::create(&disk, dir(), OLD, None, 4_000).expect("a sound disk");
    for tag in 0..40 {
        writer.stage(tag, &[b"from long ago"]);
        writer.write().expect("a sound disk");
        writer.syncer().sync().expect("a sound disk");
    }
    disk
}

fn write(writer: &mut LogWriter, tag: u64) -> u64 {
    writer.stage(tag, &[b"of today"]);
    writer.write().expect("a sound disk")
}

#[test]
fn it_has_the_new_name_and_the_new_records_and_the_old_length() {
    let disk = with_old();
    let before = disk.file(&path_of(OLD)).bytes();
    let predecessor = Predecessor { number: FileNumber(1), len: 64 };
    let mut writer =
        LogWriter::recycle(&disk, dir(), LOG, Some(predecessor), OLD.number).expect("a sound disk");
    assert_eq!((writer.number(), writer.written()), (LOG.number, HEADER_LEN as u64));
    assert!(disk.stat(&path_of(OLD)).expect("a sound disk").is_none());
    // Nothing of the old one counts, from the first moment on.
    let (records, tail) = read_log(&disk, None).expect("an empty log");
    assert_eq!((records.len(), tail.valid_len, tail.durable_seen), (0, 64, 0));
    let end = write(&mut writer, 900);
    let (records, tail) = read_log(&disk, None).expect("a log of one record");
    assert_eq!(records.iter().map(|record| record.tag).collect::<Vec<_>>(), [900]);
    assert_eq!((tail.valid_len, tail.torn), (end, true));
    assert_eq!(read_log(&disk, Some(end)).expect("closed there").0, records);
    let reader = LogReader::open(&disk, &path_of(LOG), LOG, None).expect("a good header");
    assert_eq!(reader.predecessor(), Some(predecessor));
    let after = disk.file(&path_of(LOG)).bytes();
    assert_eq!(after.len(), before.len());
    assert_eq!(after[end as usize..], before[end as usize..], "the rest is as it was");
    // It goes on behind the old one's end.
    let end = (0..60).map(|tag| write(&mut writer, 901 + tag)).last();
    let (records, tail) = read_log(&disk, None).expect("a longer log");
    assert_eq!((records.len(), Some(tail.valid_len)), (61, end));
}

#[test]
fn an_old_header_is_that_of_a_blank_log() {
    let disk = with_old();
    let old = disk.file(&path_of(OLD)).bytes();
    let (records, tail) = read_reused_bytes(&old).expect("its own header was never durable");
    assert_eq!((records.len(), tail.valid_len, tail.torn), (0, 0, true));
    // With proof that the new log was durable once, it is damage.
    let mut writer = LogWriter::recycle(&disk, dir(), LOG, None, OLD.number).expect("a sound disk");
    write(&mut writer, 900);
    writer.syncer().sync().expect("a sound disk");
    write(&mut writer, 901);
    let mut damaged = disk.file(&path_of(LOG)).bytes();
    damaged[..HEADER_LEN].copy_from_slice(&old[..HEADER_LEN]);
    match read_reused_bytes(&damaged) {
        Err(Error::Corruption { offset: 0, .. }) => {}
        other => panic!("a header is gone that was durable: {other:?}"),
    }
}

/// Whoever mixes up logs is told so, unless it could be the file of a forgotten one.
#[test]
fn the_header_of_a_log_that_is_needed_is_refused() {
    let disk = with_old();
    disk.rename(&path_of(OLD), &path_of(LOG)).expect("a sound disk");
    let opened = |identity, forgotten| {
        LogReader::open_recycled(&disk, &path_of(LOG), identity, None, forgotten)
            .map(|reader| reader.tail())
    };
    assert_eq!(opened(LOG, FileNumber(3)).expect("blank").valid_len, 0);
    for forgotten in [FileNumber(0), FileNumber(2)] {
        let Err(Error::Corruption { what, .. }) = opened(LOG, forgotten) else { panic!("it opened") };
        assert_eq!(what, "it was written as file 000002, not as 000003");
    }
    let newer = LogIdentity { number: FileNumber(1), ..LOG };
    assert!(opened(newer, FileNumber(9)).is_err(), "no log is made of a newer one");
    let foreign = LogIdentity { database: DatabaseId([8; 16]), ..LOG };
    assert!(opened(foreign, FileNumber(9)).is_err());
}

#[test]
fn at_rest_it_is_cut_off_behind_the_next_extent() {
    let disk = with_old();
    let mut writer = LogWriter::recycle(&disk, dir(), LOG, None, OLD.number).expect("a sound disk");
    let len = || disk.file(&path_of(LOG)).bytes().len() as u64;
    let old = len();
    writer.trim().expect("nothing to do where nothing is made ready beforehand");
    assert_eq!(len(), old);
    // Extents of 100 bytes.
    writer.preallocate_ahead(800, None);
    assert!(writer.preallocate_task().is_none(), "all of it is reserved");
    let end = write(&mut writer, 900);
    writer.trim().expect("a sound disk");
    assert_eq!(len(), end + 100);
    // It goes on, with the extents to come made ready again.
    let end = (0..4).map(|tag| write(&mut writer, 901 + tag)).last().expect("four");
    writer.preallocate_task().expect("less than half an extent is left").run();
    assert!(len() > end);
    let (records, tail) = read_log(&disk, None).expect("a sound log");
    assert_eq!((records.len(), tail.valid_len), (5, end));
    // A cut that fails changes nothing.
    disk.file(&path_of(LOG)).plan_cuts(&[Outcome::Bad(0)]);
    writer.preallocate_ahead(8, None);
    assert!(writer.trim().is_err());
    let end = write(&mut writer, 910);
    assert_eq!(read_log(&disk, None).expect("a sound log").1.valid_len, end);
}

#[test]
fn a_file_that_cannot_be_made_the_new_log_is_removed() {
    let disk = with_old();
    disk.file(&path_of(OLD)).plan_writes(&[Outcome::Bad(7)]);
    assert!(LogWriter::recycle(&disk, dir(), LOG, None, OLD.number).is_err());
    for identity in [OLD, LOG] {
        assert!(disk.stat(&path_of(identity)).expect("a sound disk").is_none());
    }
    assert!(LogWriter::recycle(&disk, dir(), LOG, None, OLD.number).is_err(), "there is none");
}

#[test]
fn what_is_left_of_the_old_one_is_shown_as_no_record_and_not_as_damage() {
    let disk = with_old();
    let mut writer = LogWriter::recycle(&disk, dir(), LOG, None, OLD.number).expect("a sound disk");
    let end = write(&mut writer, 900);
    let fields: Vec<_> =
        inspect(&disk, &path_of(LOG)).expect("a log").collect::<Result<_, _>>().expect("a sound disk");
    let rest = fields.last().expect("there are fields");
    assert_eq!((rest.offset, rest.name, rest.verdict), (end, "no record", Verdict::Unchecked));
    assert!(rest.value.ends_with(", left of 000002.log"), "{}", rest.value);
    assert!(fields.iter().all(|field| field.verdict != Verdict::Bad));
}
