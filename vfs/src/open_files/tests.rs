use std::sync::Arc;

use super::OpenFiles;
use crate::clock::SimClock;
use crate::fault::{Call, Cause, Fault, FaultFs, Operation};
use crate::fs::{File, Fs, read_exact_at};
use crate::mem::MemFs;

/// A disk with `count` files, each of eight bytes that are its number.
fn disk(count: u64) -> FaultFs {
    let disk = MemFs::simulated();
    for number in 0..count {
        let file = disk.create(name(number).as_ref()).expect("a new file");
        file.write_at(&number.to_le_bytes(), 0).expect("memory");
    }
    FaultFs::over(&disk, Arc::new(SimClock::new()))
}

fn name(number: u64) -> String {
    format!("/{number}")
}

fn open(files: &Arc<OpenFiles>, number: u64) -> Arc<dyn File> {
    files.open(name(number).as_ref()).expect("it is there")
}

/// What the file says it is.
fn number_of(file: &dyn File) -> u64 {
    let bytes = read_exact_at(file, 0, 8).expect("eight bytes");
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[test]
fn no_more_are_open_than_may_be_and_each_is_read_right() {
    let fs = disk(20);
    for limit in [1, 2, 7, 19, 20, 21] {
        let files = OpenFiles::new(Arc::new(fs.clone()), limit);
        let kept: Vec<_> = (0..20).map(|number| open(&files, number)).collect();
        let mut random = fastrand::Rng::with_seed(limit as u64);
        for _ in 0..500 {
            let number = random.usize(0..20);
            assert_eq!(number_of(&*kept[number]), number as u64);
            assert!(files.open_now() <= limit);
        }
        assert_eq!(files.open_now(), limit.min(20));
    }
}

#[test]
fn a_file_that_is_read_all_the_time_stays_open() {
    let fs = disk(20);
    let files = OpenFiles::new(Arc::new(fs.clone()), 3);
    let hot = open(&files, 0);
    let others: Vec<_> = (1..20).map(|number| open(&files, number)).collect();
    let opened_by = |file: &dyn File| {
        let before = fs.count(Operation::Open);
        number_of(file);
        fs.count(Operation::Open) - before
    };
    let (mut of_hot, mut of_others) = (0, 0);
    for other in others.iter().cycle().take(200) {
        of_hot += opened_by(&*hot);
        of_others += opened_by(&**other);
    }
    assert!(of_hot <= 1 && of_others >= 180, "opened again: {of_hot} and {of_others} times");
}

#[test]
fn a_file_that_is_dropped_leaves_its_place() {
    let fs = disk(12);
    let files = OpenFiles::new(Arc::new(fs.clone()), 8);
    let mut kept: Vec<_> = (0..12).map(|number| (number, open(&files, number))).collect();
    let mut random = fastrand::Rng::with_seed(5);
    while !kept.is_empty() {
        random.shuffle(&mut kept);
        kept.pop();
        for (number, file) in &kept {
            assert_eq!(number_of(&**file), *number);
        }
        assert_eq!(files.open_now(), kept.len().min(8));
    }
}

/// Without a descriptor one that is not needed is given up; without any to give up the error is told, and the file
/// is opened by the next read that can.
#[test]
fn a_lack_of_descriptors_is_made_good_from_ones_own() {
    let fs = disk(3);
    let files = OpenFiles::new(Arc::new(fs.clone()), 3);
    let first = open(&files, 0);
    let none_left = || Fault::when(|call| call.operation == Operation::Open).cause(Cause::Descriptors);
    fs.plan(none_left());
    let second = open(&files, 1);
    assert_eq!((files.open_now(), fs.fired().len()), (1, 1));
    assert_eq!(files.give_up(5), 1);
    fs.plan(none_left());
    let error = first.read_at(&mut [0; 8], 0).expect_err("there is no descriptor, and none to give up");
    assert!(error.is_no_descriptors(), "{error}");
    assert_eq!((number_of(&*first), number_of(&*second)), (0, 1));
    assert_eq!(files.open_now(), 2);
    // A mapping opens a file, too; and where one that gave up its own was not enough, another does.
    fs.reset();
    let twice = |call: &Call<'_>| call.operation == Operation::Map && call.nth < 2;
    fs.plan(Fault::when(twice).cause(Cause::Descriptors).sticky());
    assert_eq!(files.map("/2".as_ref()).expect("two were given up")[..], 2u64.to_le_bytes());
    assert_eq!(files.open_now(), 0);
}

/// A file that was closed is known when it is opened again: what came in its place is not read for it.
#[test]
fn another_file_of_the_name_is_not_read() {
    let fs = disk(2);
    let files = OpenFiles::new(Arc::new(fs.clone()), 1);
    let first = open(&files, 0);
    let _second = open(&files, 1);
    fs.rename("/1".as_ref(), "/0".as_ref()).expect("renamed");
    let error = first.read_at(&mut [0; 8], 0).expect_err("it is gone");
    assert!(error.to_string().contains("another file has come in its place"), "{error}");
}

/// Files are closed and opened under each other's reads.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test brings its own threads")]
fn many_threads_read_more_files_than_may_be_open() {
    let fs = disk(16);
    let files = OpenFiles::new(Arc::new(fs.clone()), 3);
    let kept: Vec<_> = (0..16).map(|number| open(&files, number)).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (kept, files) = (&kept, &files);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..if cfg!(miri) { 50 } else { 5_000 } {
                    let number = random.usize(0..16);
                    assert_eq!(number_of(&*kept[number]), number as u64);
                    assert!(files.open_now() <= 3);
                    if random.u8(..) == 0 {
                        files.give_up(2);
                    }
                }
            });
        }
    });
    drop(kept);
    assert_eq!(files.open_now(), 0);
}
