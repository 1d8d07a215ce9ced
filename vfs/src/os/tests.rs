use super::*;

#[test]
fn a_lock_excludes_a_second_handle_until_dropped() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("LOCK");
    let lock = OsFs.lock(&path).expect("free");
    assert!(matches!(OsFs.lock(&path), Err(Error::Locked { .. })));
    assert!(lock.still_in_place().expect("asked"));
    drop(lock);
    let lock = OsFs.lock(&path).expect("free again");
    fs::rename(&path, dir.path().join("moved")).expect("renamed");
    assert!(!lock.still_in_place().expect("asked"));
    fs::write(&path, b"").expect("another file of that name");
    assert!(!lock.still_in_place().expect("asked"));
}

/// A POSIX lock goes with any close of its file, and some filesystems make `flock` of such: whoever is refused has not opened
/// the file.
#[test]
#[cfg(target_os = "linux")]
fn who_is_refused_a_lock_closes_nothing() {
    use std::os::unix::fs::MetadataExt as _;

    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("LOCK");
    let _lock = OsFs.lock(&path).expect("free");
    let file = OpenOptions::new().write(true).open(&path).expect("opened");
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("locked");
    let inode = format!(":{} ", file.metadata().expect("asked").ino());
    let is_locked = || {
        let locks = fs::read_to_string("/proc/locks").expect("read");
        locks.lines().any(|line| line.contains("POSIX") && line.contains(&inode))
    };
    assert!(is_locked());
    assert!(matches!(OsFs.lock(&path), Err(Error::Locked { .. })));
    assert!(is_locked(), "a close has let go of it");
}

#[test]
#[cfg(unix)]
fn links_pipes_and_directories_are_not_opened() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("file");
    fs::write(&file, b"x").expect("written");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&file, &link).expect("linked");
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("pipe made");
    for path in [&link, &pipe, &dir.path().to_path_buf()] {
        assert!(OsFs.open(path).is_err(), "{}", path.display());
        assert!(OsFs.open_writable(path).is_err(), "{}", path.display());
        assert!(OsFs.map(path).is_err(), "{}", path.display());
        assert!(OsFs.lock(path).is_err(), "{}", path.display());
    }
    assert!(OsFs.open(&file).is_ok());
    assert_eq!(OsFs.stat(&link).expect("asked").map(|found| found.kind), Some(EntryKind::Other));
}

#[test]
fn a_mapped_file_reads_as_written_and_outlives_its_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("table");
    let file = OsFs.create(&path).expect("created");
    assert!(OsFs.map(&path).expect("mapped").is_empty());
    file.write_at(b"bytes", 3).expect("written");
    let mapped = OsFs.map(&path).expect("mapped");
    OsFs.remove(&path).expect("removed");
    assert_eq!(&mapped[..], b"\0\0\0bytes");
}

#[test]
fn reserved_space_reads_as_zeros_and_never_shrinks_the_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = OsFs.create(&dir.path().join("log")).expect("created");
    file.write_at(b"record", 0).expect("written");
    file.allocate(8192).expect("reserved");
    file.allocate(10).expect("nothing to do");
    assert_eq!(file.len().expect("length"), 8192);
    let mut buffer = [1; 8];
    assert_eq!(file.read_at(&mut buffer, 0).expect("read"), 8);
    assert_eq!(&buffer, b"record\0\0");
    file.sync_data().expect("synced");
    OsFs.sync_dir(dir.path()).expect("synced");
    assert!(OsFs.free_space(dir.path()).expect("asked").is_some());
}

/// A part of `file` to be written that way, unless this filesystem has none.
fn map(file: &dyn File, range: std::ops::Range<u64>, writes: RangeWrites) -> Option<Box<dyn MappedRange>> {
    let len = usize::try_from(range.end - range.start).expect("a small one");
    let mapped = file.map_range(range.start, len, writes);
    if mapped.is_none() {
        eprintln!(
            "skipped: the filesystem of {} is none that is known to write in place",
            file.path().display()
        );
    }
    mapped
}

fn a_mapped_range_takes_writes_as_calls_do(writes: RangeWrites) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("log");
    let file = OsFs.create(&path).expect("created");
    file.write_at(b"header", 0).expect("written");
    file.allocate(100_000).expect("reserved");
    assert!(file.map_range(99_000, 1_001, writes).is_none(), "beyond the end of the file");
    assert!(file.map_range(0, 0, writes).is_none(), "nothing");
    assert!(file.map_range(u64::MAX, 1, writes).is_none(), "nowhere");
    assert!(OsFs.open(&path).expect("opened").map_range(0, 100, writes).is_none(), "opened for reading");
    let Some(mut range) = map(&*file, 5_000..95_000, writes) else { return };
    let long: Vec<u8> = (0..50_000_u32).map(|byte| (byte % 251) as u8).collect();
    range.write_at(b"first", 5_000).expect("stored");
    range.write_at(&long, 20_001).expect("stored");
    range.write_at(b"last", 94_996).expect("stored");
    file.write_at(b"called", 8_000).expect("written");
    file.sync_data().expect("synced");
    range.write_at(b"later", 8_003).expect("stored again into a page that was written back");
    drop(range);
    let mut expected = vec![0; 100_000];
    let parts =
        [(&b"header"[..], 0), (b"first", 5_000), (b"callater", 8_000), (&long, 20_001), (b"last", 94_996)];
    for (bytes, at) in parts {
        expected[at..at + bytes.len()].copy_from_slice(bytes);
    }
    assert!(crate::fs::read_all(&OsFs, &path, 100_000).expect("read") == expected);
}

#[test]
fn what_the_system_copies_is_written_as_by_write() {
    a_mapped_range_takes_writes_as_calls_do(RangeWrites::Called);
}

#[test]
fn what_is_stored_is_written_as_by_write() {
    a_mapped_range_takes_writes_as_calls_do(RangeWrites::Stored);
}

#[test]
fn a_mapped_range_has_its_end() {
    for writes in [RangeWrites::Called, RangeWrites::Stored] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = OsFs.create(&dir.path().join("log")).expect("created");
        file.allocate(8192).expect("reserved");
        let Some(mut range) = map(&*file, 0..4096, writes) else { return };
        range.write_at(b"last", 4092).expect("stored");
        let over = std::panic::AssertUnwindSafe(|| range.write_at(b"over", 4093));
        assert!(std::panic::catch_unwind(over).is_err(), "a write beyond the range");
    }
}

/// A store would be answered with a signal.
#[test]
fn what_the_system_cannot_copy_is_written_by_write() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("log");
    let file = OsFs.create(&path).expect("created");
    file.allocate(64 << 10).expect("reserved");
    let Some(mut range) = map(&*file, 0..64 << 10, RangeWrites::Called) else { return };
    OsFs.open_writable(&path).expect("opened").set_len(10_000).expect("cut by somebody else");
    range.write_at(b"within", 100).expect("there");
    range.write_at(&vec![7; 20_000], 30_000).expect("the file grows again");
    let mut expected = vec![0; 50_000];
    expected[100..106].copy_from_slice(b"within");
    expected[30_000..].fill(7);
    assert!(crate::fs::read_all(&OsFs, &path, 50_000).expect("read") == expected);
}

#[test]
fn a_word_about_writeback_changes_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("file");
    let file = OsFs.create(&path).expect("created");
    file.write_at(&[7; 10_000], 0).expect("written");
    for (offset, len) in [(0, 10_000), (5, 1), (9_000, u64::MAX), (u64::MAX, 1), (0, 0)] {
        file.start_writeback(offset, len);
        OsFs.open(&path).expect("there").start_writeback(offset, len);
    }
    file.sync().expect("synced");
    assert_eq!(fs::read(&path).expect("read"), [7; 10_000]);
}

/// Of many that make a directory at once, one has made it; whatever has the name already keeps it.
#[test]
fn a_new_directory_is_made_by_one_of_many() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for round in 0..50 {
        let path = dir.path().join(round.to_string());
        let start = std::sync::Barrier::new(4);
        let make = || {
            start.wait();
            OsFs.create_new_dir(&path)
        };
        let outcomes: Vec<Result<()>> = std::thread::scope(|threads| {
            let made: Vec<_> = (0..4).map(|_| threads.spawn(make)).collect();
            made.into_iter().map(|made| made.join().expect("no panic")).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        for error in outcomes.into_iter().filter_map(Result::err) {
            let Error::Io { source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.kind(), ErrorKind::AlreadyExists, "{error}");
        }
    }
    let path = dir.path().join("file");
    fs::write(&path, b"kept").expect("written");
    assert!(OsFs.create_new_dir(&path).is_err());
    assert_eq!(fs::read(&path).expect("read"), b"kept");
    #[cfg(unix)]
    {
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).expect("linked");
        assert!(OsFs.create_new_dir(&link).is_err() && OsFs.create_dir(&link).is_err());
    }
}
