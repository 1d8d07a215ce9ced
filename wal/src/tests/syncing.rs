//! Syncs beside a writer that goes on, and beside one another.
#![expect(clippy::disallowed_methods, reason = "what a sync promises, it promises to threads")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use esker_base::Error;

use super::disk::{Disk, MemoryFile, Outcome};
use super::{LOG, create, path_of, read_bytes};

#[test]
fn a_sync_with_nothing_to_do_does_nothing() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let syncer = writer.syncer();
    assert_eq!(syncer.durable(), 0);
    assert_eq!(syncer.sync().expect("a sound disk"), 64, "the header");
    assert_eq!(syncer.sync().expect("a sound disk"), 64);
    assert_eq!(disk.file(&path_of(LOG)).sync_count(), 1);
    writer.stage(1, &[]);
    assert_eq!(syncer.sync().expect("a sound disk"), 64, "staged is not written");
    assert_eq!(disk.file(&path_of(LOG)).sync_count(), 1);
}

/// Make the file's first sync say that it has begun, and wait to be let go.
fn hold_first_sync(file: &MemoryFile) -> (Receiver<()>, Sender<()>) {
    let (entered, inside) = channel();
    let (leave, left) = channel();
    let left = Mutex::new(left);
    let first = AtomicBool::new(true);
    file.hook_syncs(move || {
        if first.swap(false, Ordering::SeqCst) {
            entered.send(()).expect("the test waits");
            left.lock().expect("no panic").recv().expect("the test lets go");
        }
    });
    (inside, leave)
}

#[test]
fn what_is_written_during_a_sync_waits_for_the_next() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let syncer = writer.syncer();
    let (inside, leave) = hold_first_sync(&disk.file(&path_of(LOG)));
    writer.stage(1, &[b"before"]);
    let before = writer.write().expect("a sound disk");
    let background = syncer.clone();
    let sync = thread::spawn(move || background.sync());
    inside.recv().expect("the sync begins");
    writer.stage(2, &[b"meanwhile"]);
    let after = writer.write().expect("a sync holds no writer up");
    assert_eq!(syncer.durable(), 0);
    leave.send(()).expect("the sync waits");
    assert_eq!(sync.join().expect("no panic").expect("a sound disk"), before);
    assert_eq!(syncer.durable(), before);
    assert_eq!(syncer.sync().expect("a sound disk"), after);
}

/// The system tells of a failure once; whoever syncs at the same time must not be told Ok.
#[test]
fn those_who_wait_for_a_sync_that_fails_fail_too() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    writer.stage(1, &[b"a"]);
    writer.write().expect("a sound disk");
    let file = disk.file(&path_of(LOG));
    file.plan_syncs(&[Outcome::Bad(0)]);
    // Only the first sync waits: a second one, which must not be, shows in the count.
    let (inside, leave) = hold_first_sync(&file);
    let start = |syncer: crate::LogSyncer| thread::spawn(move || syncer.sync());
    let first = start(writer.syncer());
    inside.recv().expect("the sync begins");
    let others: Vec<_> = (0..3).map(|_| start(writer.syncer())).collect();
    // Long enough for them to queue up behind it; if they are slower, the test merely shows less.
    thread::sleep(Duration::from_millis(50));
    leave.send(()).expect("the sync waits");
    assert!(matches!(first.join().expect("no panic"), Err(Error::Io { .. })));
    for other in others {
        assert!(matches!(other.join().expect("no panic"), Err(Error::Poisoned { .. })));
    }
    assert_eq!(file.sync_count(), 1);
    assert_eq!(writer.syncer().durable(), 0);
}

#[test]
fn one_sync_serves_all_who_waited() {
    let disk = Disk::default();
    let mut writer = create(&disk);
    let file = disk.file(&path_of(LOG));
    let (inside, leave) = hold_first_sync(&file);
    let start = |syncer: crate::LogSyncer| thread::spawn(move || syncer.sync());
    let first = start(writer.syncer());
    inside.recv().expect("the sync begins");
    writer.stage(1, &[b"a"]);
    let end = writer.write().expect("a sound disk");
    let others: Vec<_> = (0..8).map(|_| start(writer.syncer())).collect();
    leave.send(()).expect("the sync waits");
    assert_eq!(first.join().expect("no panic").expect("a sound disk"), 64);
    for other in others {
        assert_eq!(other.join().expect("no panic").expect("a sound disk"), end);
    }
    assert_eq!(file.sync_count(), 2, "the eight shared one");
}

#[test]
fn threads_that_sync_while_one_writes() {
    const RECORDS: u64 = 3_000;
    let disk = Disk::default();
    let mut writer = create(&disk);
    let file = disk.file(&path_of(LOG));
    let done = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (syncer, done, file) = (writer.syncer(), Arc::clone(&done), disk.file(&path_of(LOG)));
            thread::spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let asked = syncer.written();
                    let durable = syncer.sync().expect("a sound disk");
                    assert!(durable >= asked && durable >= last);
                    assert!(file.durable().len() as u64 >= durable);
                    last = durable;
                }
            })
        })
        .collect();
    for tag in 0..RECORDS {
        writer.stage(tag, &[&tag.to_le_bytes()]);
        writer.write().expect("a sound disk");
    }
    done.store(true, Ordering::Release);
    for thread in threads {
        thread.join().expect("no panic");
    }
    let syncer = writer.syncer();
    assert_eq!(syncer.sync().expect("a sound disk"), writer.written());
    let (records, tail) = read_bytes(&file.durable(), Some(writer.written())).expect("a good log");
    assert!(records.iter().map(|record| record.tag).eq(0..RECORDS));
    assert!(tail.durable_seen <= syncer.durable());
}
