//! A log written through memory is the log that calls write, whenever the memory is ready.

use std::sync::Arc;

use esker_vfs::fs::RangeWrites;
use proptest::prelude::*;

use super::disk::{Disk, MemoryFile, Outcome};
use super::{LOG, dir, path_of, read_log};
use crate::{LogWriter, Mapped, PreallocateTask, WriteFailure};

const EXPECTED: u64 = 8 << 10;
const EXTENT: u64 = 1 << 10;

fn create(maps: bool) -> (Disk, Arc<MemoryFile>, LogWriter) {
    let disk = Disk::default();
    let mut writer = LogWriter::create(&disk, dir(), LOG, None, EXTENT).expect("a sound disk");
    writer.preallocate_ahead(EXPECTED, Some(Mapped { writes: RangeWrites::Called, end: EXPECTED }));
    let file = disk.file(&path_of(LOG));
    if maps {
        file.allow_maps();
    }
    (disk, file, writer)
}

fn put(writer: &mut LogWriter, tag: u64, len: usize) -> Result<u64, WriteFailure> {
    writer.stage(tag, &[&vec![b'x'; len]]);
    writer.write()
}

fn tags(disk: &Disk) -> Vec<u64> {
    read_log(disk, None).expect("a good log").0.into_iter().map(|record| record.tag).collect()
}

#[test]
fn what_was_made_ready_takes_the_writes() {
    let (disk, file, mut writer) = create(true);
    assert_eq!(file.called().len(), 1, "the header");
    writer.preallocate_task().expect("the first extent").run();
    assert!(writer.preallocate_task().is_none(), "one at a time");
    for tag in 0..10 {
        put(&mut writer, tag, 40).expect("a sound disk");
    }
    assert_eq!((file.called().len(), file.stored().len()), (1, 10));
    assert_eq!(tags(&disk), (0..10).collect::<Vec<_>>());
    assert!(writer.preallocate_task().is_some(), "the first is in use: the next is wanted");
}

#[test]
fn a_group_over_the_edge_goes_by_a_call_and_the_next_is_stored_again() {
    let (disk, file, mut writer) = create(true);
    writer.preallocate_task().expect("the first extent").run();
    put(&mut writer, 0, 700).expect("a sound disk");
    writer.preallocate_task().expect("the second").run();
    put(&mut writer, 1, 700).expect("a sound disk");
    put(&mut writer, 2, 200).expect("a sound disk");
    assert_eq!((file.called().len(), file.stored().len()), (2, 2));
    assert_eq!(tags(&disk), [0, 1, 2]);
}

#[test]
fn an_extent_that_calls_have_overtaken_is_passed_over() {
    let (disk, file, mut writer) = create(true);
    let late = writer.preallocate_task().expect("the first extent");
    put(&mut writer, 0, 3000).expect("a sound disk");
    late.run();
    put(&mut writer, 1, 10).expect("a sound disk");
    assert_eq!((file.called().len(), file.stored().len()), (3, 0));
    writer.preallocate_task().expect("one from here on").run();
    put(&mut writer, 2, 10).expect("a sound disk");
    assert_eq!((file.called().len(), file.stored().len()), (3, 1));
    assert_eq!(tags(&disk), [0, 1, 2]);
}

/// A task clears its extent while calls overtake it: what they have written stays.
#[test]
#[expect(clippy::disallowed_methods, reason = "two threads, without an engine")]
fn calls_that_meet_a_task_lose_nothing() {
    const LONG: u64 = 4 << 20;
    for round in 0..20 {
        let disk = Disk::default();
        let mut writer = LogWriter::create(&disk, dir(), LOG, None, 0).expect("a sound disk");
        disk.file(&path_of(LOG)).allow_maps();
        let mut written = 0;
        let mut fill = |writer: &mut LogWriter, to: u64| {
            while writer.written() < to {
                put(writer, written, 9000).expect("a sound disk");
                written += 1;
            }
        };
        writer.preallocate_ahead(LONG, Some(Mapped { writes: RangeWrites::Called, end: LONG }));
        let first = writer.preallocate_task().expect("the first extent");
        std::thread::scope(|scope| {
            scope.spawn(|| first.run());
            // In every other round the writer is there first, and the log ends with what it has written by then.
            fill(&mut writer, if round % 2 == 0 { LONG } else { LONG / 16 });
            drop(writer);
        });
        assert_eq!(tags(&disk), (0..written).collect::<Vec<_>>());
    }
}

#[test]
fn beyond_its_expected_end_a_log_goes_by_calls() {
    let (disk, file, mut writer) = create(true);
    writer.preallocate_ahead(EXPECTED, Some(Mapped { writes: RangeWrites::Called, end: EXTENT / 2 }));
    writer.preallocate_task().expect("the first half of an extent").run();
    let len = file.bytes().len() as u64;
    put(&mut writer, 0, 300).expect("a sound disk");
    writer.preallocate_task().expect("an extent to be reserved").run();
    assert!(file.bytes().len() as u64 > len);
    for tag in 1..5 {
        put(&mut writer, tag, 300).expect("a sound disk");
    }
    assert_eq!((file.called().len(), file.stored().len()), (5, 1));
    assert_eq!(tags(&disk), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_system_without_such_memory_is_asked_once_and_reserves_all_the_same() {
    let (disk, file, mut writer) = create(false);
    writer.preallocate_task().expect("the first extent").run();
    for tag in 0..3 {
        put(&mut writer, tag, 10).expect("a sound disk");
        assert!(writer.preallocate_task().is_none());
    }
    // Not asked again, though it would say yes now.
    file.allow_maps();
    for tag in 3..40 {
        put(&mut writer, tag, 100).expect("a sound disk");
        writer.preallocate_task().into_iter().for_each(PreallocateTask::run);
        assert!(file.bytes().len() as u64 >= writer.written() + EXTENT / 2);
    }
    assert_eq!((file.called().len(), file.stored().len()), (41, 0));
    assert_eq!(tags(&disk), (0..40).collect::<Vec<_>>());
}

#[test]
fn whether_groups_go_by_calls_is_told_by_their_average() {
    for (maps, len, by_calls) in [(true, 100, false), (true, 40 << 10, true), (false, 100, true)] {
        let (_, _, mut writer) = create(maps);
        // Past the log's expected end, where the last extents are reserved only whatever was before.
        for tag in 0..100 {
            put(&mut writer, tag, len).expect("a sound disk");
            if let Some(task) = writer.preallocate_task() {
                task.run();
            }
        }
        assert!(writer.written() > EXPECTED);
        assert_eq!(writer.goes_by_calls(), by_calls, "groups of {len} bytes");
    }
}

#[test]
fn where_syncs_follow_one_another_extents_are_reserved_only() {
    let (disk, file, mut writer) = create(true);
    let mut tag = 0;
    let mut fill = |writer: &mut LogWriter, to: u64, syncs: bool| {
        while writer.written() < to {
            put(writer, tag, 40).expect("a sound disk");
            tag += 1;
            if syncs {
                writer.syncer().sync().expect("a sound disk");
            }
            if let Some(task) = writer.preallocate_task() {
                task.run();
            }
        }
    };
    writer.preallocate_task().expect("the first extent").run();
    fill(&mut writer, EXTENT, true);
    let stored = file.stored().len();
    assert!(stored > 5, "nobody knew of the syncs yet: {stored}");
    fill(&mut writer, 4 * EXTENT, true);
    assert!(file.stored().len() <= 2 * stored, "at most one more, asked for before the first sync");
    let (stored, written) = (file.stored().len(), file.called().len());
    assert!(written > 2 * stored);
    fill(&mut writer, 6 * EXTENT, false);
    assert!(file.stored().len() > stored + 5, "no sync came for a while");
    assert_eq!(tags(&disk), (0..tag).collect::<Vec<_>>());
}

/// Undoing it may cut the file, and a store beyond the end of a file is the end of the process.
#[test]
fn nothing_is_stored_after_a_failed_write() {
    let (disk, file, mut writer) = create(true);
    let first = writer.preallocate_task().expect("the first extent");
    file.plan_writes(&[Outcome::Bad(5), Outcome::Bad(0)]);
    assert!(matches!(put(&mut writer, 0, 10), Err(WriteFailure::Undone(_))));
    assert_eq!(file.durable().len(), 64, "neither written nor blanked: cut");
    // Longer than what failed, and before the task, which has yet to clear its extent.
    put(&mut writer, 1, 100).expect("a sound disk");
    first.run();
    assert!(writer.preallocate_task().is_none());
    put(&mut writer, 2, 10).expect("a sound disk");
    assert!(file.stored().is_empty());
    assert_eq!(tags(&disk), [1, 2]);
}

#[test]
fn a_log_that_is_not_mapped_has_an_extent_ahead_until_its_expected_end() {
    let disk = Disk::default();
    let mut writer = LogWriter::create(&disk, dir(), LOG, None, EXTENT).expect("a sound disk");
    writer.preallocate_ahead(EXPECTED, None);
    let file = disk.file(&path_of(LOG));
    for tag in 0..100 {
        put(&mut writer, tag, 100).expect("a sound disk");
        if let Some(task) = writer.preallocate_task() {
            task.run();
        }
        let (len, written) = (file.bytes().len() as u64, writer.written());
        let ahead = EXTENT / 2..2 * EXTENT;
        assert!(ahead.contains(&(len - written)) || len == EXPECTED.max(written), "{len} for {written}");
    }
    assert!(writer.written() > EXPECTED, "a log may outgrow what is expected of it");
    assert!(file.stored().is_empty());
}

proptest! {
    /// Whatever the groups' sizes and however late the tasks are, the log holds the groups in their
    /// order, every byte was written once, and beyond what was reserved no memory is asked for.
    #[test]
    fn a_log_is_the_same_by_either_way(
        groups in prop::collection::vec((prop_oneof![0..100_usize, 0..2000_usize], 0..4_usize), 1..80),
    ) {
        let (disk, file, mut writer) = create(true);
        let mut waiting: Option<(usize, PreallocateTask)> = None;
        for (tag, (len, patience)) in groups.iter().enumerate() {
            let lends = tag % 3 == 2;
            let written = if lends {
                writer.write_lending(tag as u64, &vec![b'x'; *len])
            } else {
                put(&mut writer, tag as u64, *len)
            };
            written.expect("a sound disk");
            waiting = match (waiting, writer.preallocate_task()) {
                (Some(_), Some(_)) => panic!("two tasks under way"),
                (Some((0, task)), None) => {
                    task.run();
                    None
                }
                (Some((left, task)), None) => Some((left - 1, task)),
                (None, asked) => asked.map(|task| (*patience, task)),
            };
        }
        let (records, tail) = read_log(&disk, None).expect("a good log");
        prop_assert_eq!(records.len(), groups.len());
        for (tag, (record, (len, _))) in records.iter().zip(&groups).enumerate() {
            prop_assert_eq!((record.tag, record.payload.len()), (tag as u64, *len));
        }
        let mut pieces = file.called();
        prop_assert!(file.stored().iter().all(|(offset, len)| offset + *len as u64 <= EXPECTED));
        pieces.extend(file.stored());
        pieces.sort_unstable();
        let mut end = 0;
        for (offset, len) in pieces {
            prop_assert_eq!(offset, end);
            end += len as u64;
        }
        prop_assert_eq!((end, tail.valid_len), (writer.written(), writer.written()));
    }
}
