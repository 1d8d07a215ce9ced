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
