//! What the system says about this process and about itself (`/proc`), and a thread that watches.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::store::Result;

/// Length of the watching thread's naps. Each end of one takes a processor from whoever has it: at 2 ms they were most of
/// the slowest thousandth of a reader beside a writer on two processors (24 to 26 µs with such a thread, 4.6 to 7.7 without).
const NAP: Duration = Duration::from_millis(10);
/// Naps between two looks at the disk.
const NAPS_PER_LOOK: u32 = 10;
/// Clock ticks a second in `/proc` (`USER_HZ`; 100 on every Linux of today).
const TICKS_PER_SECOND: f64 = 100.0;

/// The number after `name` in the file at `path`.
fn number(path: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(path)?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| format!("{path} has no number {name}").into())
}

/// The most memory this process had resident before [`begin_peak`] was called last, in bytes.
static PEAK_BEFORE: AtomicU64 = AtomicU64::new(0);

/// A number of `/proc/self/status`, in bytes.
fn status(name: &str) -> Result<u64> {
    Ok(number("/proc/self/status", name)? << 10)
}

/// The most memory this process has had resident, and what of its memory now is not backed by files, in
/// bytes. The first counts mapped files, as far as they are resident.
pub(crate) fn memory() -> Result<(u64, u64)> {
    Ok((recent_peak()?.max(PEAK_BEFORE.load(Ordering::Relaxed)), status("RssAnon:")?))
}

/// Have [`recent_peak`] begin anew, from what is resident now (`clear_refs` in `proc_pid_clear_refs(5)`).
pub(crate) fn begin_peak() -> Result<()> {
    PEAK_BEFORE.fetch_max(recent_peak()?, Ordering::Relaxed);
    fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| format!("/proc/self/clear_refs, for the peak of memory: {error}").into())
}

/// The most memory this process has had resident since [`begin_peak`] was called last, in bytes, mapped
/// files included as far as they were resident.
pub(crate) fn recent_peak() -> Result<u64> {
    status("VmHWM:")
}

/// What this process has used and caused since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Pages made dirty, in bytes: what reaches the device, unless it is deleted before.
    pub(crate) written: u64,
    /// Of that, what was deleted before.
    pub(crate) cancelled: u64,
    /// What the device was asked for, in bytes: not what the page cache answered.
    pub(crate) read: u64,
    /// Processor time of all its threads, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Processor time that the hypervisor gave to others, in seconds, all processors together.
    pub(crate) stolen_seconds: f64,
}

impl Used {
    /// As of now.
    pub(crate) fn now() -> Result<Used> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        // The name in parentheses may hold spaces; user and system time are the 12th and 13th after it.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        let machine = fs::read_to_string("/proc/stat")?;
        let stolen =
            machine.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
        Ok(Used {
            written: number("/proc/self/io", "write_bytes:")?,
            cancelled: number("/proc/self/io", "cancelled_write_bytes:")?,
            read: number("/proc/self/io", "read_bytes:")?,
            cpu_seconds: ticks / TICKS_PER_SECOND,
            stolen_seconds: stolen.unwrap_or(0.0) / TICKS_PER_SECOND,
        })
    }

    /// What was used since `before`.
    pub(crate) fn since(self, before: Used) -> Used {
        Used {
            written: self.written - before.written,
            cancelled: self.cancelled - before.cancelled,
            read: self.read - before.read,
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            stolen_seconds: self.stolen_seconds - before.stolen_seconds,
        }
    }
}

/// Bytes of memory that are free or could be.
pub(crate) fn available_memory() -> Result<u64> {
    Ok(number("/proc/meminfo", "MemAvailable:")? << 10)
}

/// Write the files under `dir` to the device and take them out of the page cache: whoever reads them
/// next reads them from the device, and the page cache of it is charged to that process's control group.
/// Nobody may have them open.
pub(crate) fn forget_pages(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget_pages(&path)?;
            continue;
        }
        let file = fs::File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Bytes that the files under `dir` occupy. A file that goes while we look counts as nothing.
pub(crate) fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// What [`Watch`] saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// By how much the longest nap overran: what the machine itself withholds from a thread that wants
    /// next to nothing.
    pub(crate) jitter: Duration,
    /// Most bytes on disk.
    pub(crate) disk_peak: u64,
    /// Bytes on disk on average.
    pub(crate) disk_mean: u64,
}

/// A thread that naps and looks at the disk.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Watch over `dir`.
    pub(crate) fn over(dir: PathBuf) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || watch(&dir, &told));
        Watch { stop, thread }
    }

    /// Stop, and hear what it saw.
    pub(crate) fn stop(self) -> Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the watching thread panicked".into())
    }
}

fn watch(dir: &Path, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let (mut naps, mut looks, mut sum) = (0, 0u64, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        std::thread::sleep(NAP);
        seen.jitter = seen.jitter.max(begun.elapsed().saturating_sub(NAP));
        naps += 1;
        if naps % NAPS_PER_LOOK == 1 {
            let bytes = disk_bytes(dir);
            seen.disk_peak = seen.disk_peak.max(bytes);
            sum += bytes;
            looks += 1;
        }
    }
    seen.disk_mean = sum / looks.max(1);
    seen
}

/// A line about this machine: processor, processors, kernel.
pub(crate) fn description() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(": ")?.1.to_owned())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{} × {processors}, Linux {}",
        processor.as_deref().unwrap_or("unknown processor"),
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        let (peak, anonymous) = memory().expect("memory");
        assert!(peak >= anonymous && anonymous > 0);
        let held = vec![1u8; 64 << 20];
        assert!(recent_peak().expect("peak") >= held.len() as u64);
        drop(std::hint::black_box(held));
        begin_peak().expect("begins anew");
        assert!(memory().expect("memory").0 >= 64 << 20, "what was before is not forgotten");
        assert!(recent_peak().expect("peak") < memory().expect("memory").0);
        let before = Used::now().expect("used");
        let dir = tempfile::tempdir().expect("directory");
        let watch = Watch::over(dir.path().to_path_buf());
        fs::write(dir.path().join("file"), vec![1; 1 << 20]).expect("write");
        assert!(disk_bytes(dir.path()) >= 1 << 20);
        std::thread::sleep(NAP * (2 * NAPS_PER_LOOK));
        let seen = watch.stop().expect("stops");
        assert!(seen.disk_peak >= 1 << 20 && seen.disk_mean <= seen.disk_peak, "{seen:?}");
        let used = Used::now().expect("used").since(before);
        assert!(used.cpu_seconds >= 0.0);
    }
}
