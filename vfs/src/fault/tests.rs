use super::*;
use crate::clock::Clock;
use crate::fs::read_all;
use crate::mem::{Policy, SyncFailure};

fn rig() -> (MemFs, Arc<SimClock>, FaultFs) {
    let (disk, clock) = (MemFs::simulated(), Arc::new(SimClock::new()));
    let fs = FaultFs::over(&disk, Arc::clone(&clock));
    (disk, clock, fs)
}

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn content(fs: &dyn Fs, name: &str) -> Vec<u8> {
    read_all(fs, path(name), u64::MAX).expect("read")
}

/// A small workload that stops at the first error.
fn workload(fs: &dyn Fs) -> Result<()> {
    let file = fs.create(path("1.tmp"))?;
    file.write_at(b"abcdef", 0)?;
    file.sync()?;
    fs.rename(path("1.tmp"), path("CURRENT"))?;
    fs.sync_dir(path(""))?;
    file.write_at(b"ghi", 6)?;
    file.sync_data()
}

#[test]
fn each_call_can_be_made_to_fail() {
    let (_, _, fs) = rig();
    workload(&fs).expect("no fault is planned");
    let calls = fs.calls();
    assert_eq!(calls, 8);
    assert_eq!((fs.count(Operation::Write), fs.count(Operation::Sync), fs.changing_calls()), (2, 1, 7));
    for number in 0..calls {
        for cause in Cause::ALL {
            for effect in [Effect::Before, Effect::After, Effect::Partial(2)] {
                let (_, _, fs) = rig();
                fs.plan(Fault::at(number).cause(cause).effect(effect));
                let failed = workload(&fs).expect_err("the planned fault");
                assert_eq!(fs.calls(), number + 1, "it stopped there");
                assert_eq!(fs.fired().len(), 1);
                let full = matches!(cause, Cause::NoSpace | Cause::Quota | Cause::FileTooLarge);
                assert_eq!(failed.is_no_space(), full, "{failed}");
            }
        }
    }
}

#[test]
fn a_failing_call_has_the_planned_effect() {
    for (effect, left) in
        [(Effect::Before, &b""[..]), (Effect::Partial(2), b"ab"), (Effect::After, b"abcdef")]
    {
        let (disk, _, fs) = rig();
        fs.plan(Fault::nth(Operation::Write, 0).effect(effect));
        assert!(workload(&fs).is_err());
        assert_eq!(content(&disk, "1.tmp"), left, "{effect:?}");
    }
    for (effect, name) in [(Effect::Before, "1.tmp"), (Effect::After, "CURRENT")] {
        let (disk, _, fs) = rig();
        fs.plan(Fault::nth(Operation::Rename, 0).effect(effect));
        assert!(workload(&fs).is_err());
        assert_eq!(content(&disk, name), b"abcdef", "{effect:?}");
    }
}

#[test]
fn faults_strike_once_or_for_good() {
    let (_, _, fs) = rig();
    fs.plan(Fault::nth(Operation::Stat, 1));
    let stat = || fs.stat(path("x")).is_ok();
    assert_eq!([stat(), stat(), stat()], [true, false, true]);
    fs.reset();
    fs.plan(Fault::nth(Operation::Stat, 1).sticky());
    assert_eq!([stat(), stat(), stat()], [true, false, false]);
    fs.clear();
    assert!(stat());
    fs.reset();
    fs.plan(Fault::when(|call| call.path.ends_with("x")));
    assert_eq!([stat(), stat()], [false, true]);
    fs.plan(Fault::when(|call| call.path.ends_with("x")).sticky());
    assert_eq!([stat(), fs.stat(path("y")).is_ok(), stat()], [false, true, false]);
    fs.reset();
    fs.plan(Fault::at(1).sticky());
    assert_eq!([stat(), stat(), fs.list(path("")).is_ok()], [true, false, false]);
}

#[test]
fn a_failed_sync_loses_bytes_though_the_next_one_says_ok() {
    for (mode, seen) in [(SyncFailure::CacheKept, &b"abcdef"[..]), (SyncFailure::CacheReverted, b"")] {
        let (disk, _, fs) = rig();
        fs.plan(Fault::nth(Operation::Sync, 0).sync_failure(mode, 0));
        let file = fs.create(path("log")).expect("created");
        fs.sync_dir(path("")).expect("synced");
        file.write_at(b"abcdef", 0).expect("written");
        assert!(file.sync().is_err());
        assert_eq!(content(&fs, "log"), seen, "{mode:?}");
        file.sync().expect("the fault was for one call");
        let after = disk.image_at(disk.trace_len(), Policy::Everything, 0);
        assert_eq!(content(&after, "log"), b"", "{mode:?}");
    }
    // Reported failed, but done.
    let (disk, _, fs) = rig();
    fs.plan(Fault::nth(Operation::SyncData, 0).effect(Effect::After));
    assert!(workload(&fs).is_err());
    let after = disk.image_at(disk.trace_len(), Policy::Strict, 0);
    assert_eq!(content(&after, "CURRENT"), b"abcdefghi");
}

#[test]
fn calls_take_the_planned_time() {
    let (_, clock, fs) = rig();
    fs.set_latency(Operation::Sync, Duration::from_millis(4));
    fs.plan(Fault::nth(Operation::Write, 1).delay(Duration::from_secs(3)));
    workload(&fs).expect("delays are no errors");
    assert_eq!(clock.monotonic(), Duration::from_millis(3004));
    assert_eq!(fs.fired().len(), 1);
}

#[test]
fn without_a_simulated_disk_a_failing_sync_does_nothing() {
    let disk = MemFs::simulated();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.plan(Fault::nth(Operation::Sync, 0));
    assert!(workload(&fs).is_err());
    assert_eq!(disk.trace_len(), 2, "created and written");
}
