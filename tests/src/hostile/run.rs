//! One hostile directory after another: opened in every way, read, verified, inspected, salvaged, written to.
#![expect(clippy::disallowed_methods, reason = "the process reads its own peak memory from the system")]

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc;

use esker::salvage::Salvage;
use esker::{Database, DatabaseOptions, Durability, TableSource, inspect};
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::scheduler::threads::Threads;
use esker_vfs::scheduler::{Job, Lane, Progress, Scheduler as _};
use esker_vfs::sim::Simulation;
use fastrand::Rng;

use super::LINE_EVERY;
use super::mutate::hostile;
use crate::crash::contained;
use crate::damage::base::{Base, Moment};
use crate::driver::Violation;
use crate::files::Files;
use crate::points::{Hits, Point};
use crate::setup::DIR;

/// What a hostile directory may cost beside the cache, in bytes; and one in how many bytes of its own.
const MEMORY_MAX: u64 = 32 << 20;
const OWN_SHARE: u64 = 50;
/// The largest value in the golden database is far below this, in bytes.
const VALUE_MAX: u64 = 16 << 10;

/// What the process may map beyond what it had mapped, on top of that: an allocator asks the system for more
/// than it is asked for.
const SPARE_MAX: u64 = 16 << 20;

/// A fault of the suite's own, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A length from the disk is allocated before it is checked.
    Allocates,
    /// The same, and the bytes are never touched: the system lends them out without having them.
    Reserves,
    /// A byte from the disk is an index.
    Panics,
    /// The same, in a job that runs in steps.
    PanicsInAJob,
    /// The same, in a job on a thread of the engine's.
    PanicsInAThread,
    /// The process aborts on some bytes.
    Aborts,
    /// Some bytes make it leave a file beside the directory.
    Escapes,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 7] = [
        Fault::Allocates,
        Fault::Reserves,
        Fault::Panics,
        Fault::PanicsInAJob,
        Fault::PanicsInAThread,
        Fault::Aborts,
        Fault::Escapes,
    ];

    /// Do what the bug would do with this directory.
    fn strike(self, disk: &MemFs, files: &Files) {
        let sum: u64 = files.iter().flat_map(|(_, bytes)| bytes).map(|byte| u64::from(*byte)).sum();
        if sum % 16 != 3 {
            return;
        }
        match self {
            Fault::Allocates => drop(std::hint::black_box(vec![1u8; 64 << 20])),
            Fault::Reserves => drop(std::hint::black_box(vec![0u8; 4 << 30])),
            Fault::Panics => panic!("index out of bounds"),
            Fault::PanicsInAJob => {
                let world = Simulation::on(disk.clone(), 1);
                world.steps.spawn(Lane::Upkeep, Box::new(Panicking(mpsc::channel().0)));
                world.steps.settle();
            }
            Fault::PanicsInAThread => {
                let (tell, told) = mpsc::channel();
                let threads = Threads::new(1).expect("threads start");
                threads.spawn(Lane::Upkeep, Box::new(Panicking(tell)));
                told.recv().expect("the job is told of its panic");
            }
            Fault::Aborts => std::process::abort(),
            Fault::Escapes => drop(disk.create(Path::new("/escaped"))),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Allocates => "allocates",
            Fault::Reserves => "reserves",
            Fault::Panics => "panics",
            Fault::PanicsInAJob => "panics-in-a-job",
            Fault::PanicsInAThread => "panics-in-a-thread",
            Fault::Aborts => "aborts",
            Fault::Escapes => "escapes",
        })
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Fault, String> {
        let found = Fault::ALL.into_iter().find(|fault| fault.to_string() == name);
        found.ok_or_else(|| {
            let names = Fault::ALL.map(|fault| fault.to_string());
            format!("{name:?} is none of {}", names.join(", "))
        })
    }
}

/// A job that panics, and tells when it has heard of that.
struct Panicking(mpsc::Sender<()>);

impl Job for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn step(&mut self) -> Progress {
        panic!("index out of bounds")
    }

    fn panicked(&mut self, _message: &str) {
        let _ = self.0.send(());
    }
}

/// How hostile directories ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Opened.
    pub opened: u64,
    /// Refused.
    pub refused: u64,
    /// The highest peak above what the process needs anyway, in KiB.
    pub peak_kib: u64,
}

impl Ends {
    /// Those of `other` too.
    pub fn add(&mut self, other: Ends) {
        self.opened += other.opened;
        self.refused += other.refused;
        self.peak_kib = self.peak_kib.max(other.peak_kib);
    }

    /// From a child's line.
    pub(super) fn from_counts(mut counts: impl Iterator<Item = u64>) -> Ends {
        let mut next = || counts.next().unwrap_or_default();
        Ends { opened: next(), refused: next(), peak_kib: next() }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} opened, {} refused, peak memory {} KiB", self.opened, self.refused, self.peak_kib)
    }
}

/// A line of the system's account of this process, in KiB; 0 where there is none.
fn account(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

/// The peak of the process's memory since [`forget_peak`], in KiB; 0 where the system does not say.
pub(super) fn peak_kib() -> u64 {
    account("VmHWM:")
}

/// Count the peak from now on.
pub(super) fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// A directory of `bytes` bytes may take so much memory, and no more.
pub(super) fn within(grown_kib: u64, bytes: u64, base: &Base) -> Result<(), Violation> {
    let limit = limit(bytes, base);
    if grown_kib << 10 <= limit {
        return Ok(());
    }
    Err(format!("it took {grown_kib} KiB of memory, {} are allowed", limit >> 10))
}

/// What a directory of `bytes` bytes may take, in bytes.
fn limit(bytes: u64, base: &Base) -> u64 {
    MEMORY_MAX + base.options().cache_bytes + VALUE_MAX + bytes / OWN_SHARE
}

/// What is mapped, whether it was touched or not: `(now, peak)` in KiB. The peak is that of the process's life:
/// a case has made it if it has grown.
fn mapped_kib() -> (u64, u64) {
    (account("VmSize:"), account("VmPeak:"))
}

/// Memory in use now, in KiB.
fn used_kib() -> u64 {
    forget_peak();
    peak_kib()
}

/// Run cases `seed` to before `seed + count` in this process, and write lines for the parent.
///
/// # Errors
/// If the golden database cannot be had, or nobody listens.
pub fn work(seed: u64, count: u64, fault: Option<Fault>) -> Result<(), Violation> {
    // Panics are told with their case; a trace along with them would take memory that counts.
    std::panic::set_hook(Box::new(|_| {}));
    let base = Base::new(Moment::Killed)?;
    let (mut ends, mut hits) = (Ends::default(), Hits::default());
    for nth in 0..count {
        let case = seed.wrapping_add(nth);
        if nth % LINE_EVERY == 0 {
            println!("at {case}");
        }
        if let Err(what) = contained(|| one(&base, case, fault, &mut ends, &mut hits)) {
            println!("bad {case} {}", what.replace('\n', " "));
        }
    }
    println!("ends {} {} {}", ends.opened, ends.refused, ends.peak_kib);
    println!("hits {}", Point::ALL.map(|point| hits.of(point).to_string()).join(" "));
    println!("done {}", seed.wrapping_add(count));
    Ok(())
}

/// Run case `case` again.
///
/// # Errors
/// What was wrong.
pub fn replay(case: u64) -> Result<(), Violation> {
    let base = Base::new(Moment::Killed)?;
    let (mut ends, mut hits) = (Ends::default(), Hits::default());
    contained(|| one(&base, case, None, &mut ends, &mut hits))?;
    println!("{ends}");
    Ok(())
}

fn one(
    base: &Base,
    case: u64,
    fault: Option<Fault>,
    ends: &mut Ends,
    hits: &mut Hits,
) -> Result<(), Violation> {
    let database = base.files.database().ok_or("CURRENT does not read")?;
    let (files, changed) = hostile(&base.files, database, case);
    hits.count(base.point(&changed));
    let disk = files.disk();
    let mut random = Rng::with_seed(case);
    let (before, mapped) = (used_kib(), mapped_kib());
    let opened = attack(&disk, base, &mut random);
    if let Some(fault) = fault {
        fault.strike(&disk, &files);
    }
    let opened = opened?;
    let grown = peak_kib().saturating_sub(before);
    ends.peak_kib = ends.peak_kib.max(grown);
    let bytes = files.bytes() as u64;
    within(grown, bytes, base)?;
    let peak = mapped_kib().1;
    let reserved = if peak > mapped.1 { peak.saturating_sub(mapped.0) } else { 0 };
    if reserved << 10 > limit(bytes, base) + SPARE_MAX {
        return Err(format!("it reserved {reserved} KiB of memory, touched or not"));
    }
    // What is beside the directory: the directory, and what was salvaged on request.
    let names = disk.list(Path::new("/")).map_err(|e| e.to_string())?;
    if let Some(other) = names.iter().find(|entry| !["db", "new"].contains(&entry.name.as_str())) {
        return Err(format!("{:?} was made beside the directory", other.name));
    }
    if opened {
        hits.count(Point::Recovery);
        ends.opened += 1;
    } else {
        ends.refused += 1;
    }
    Ok(())
}

/// Do everything with the directory that a user might; whether it was opened.
pub(crate) fn attack(disk: &MemFs, base: &Base, random: &mut Rng) -> Result<bool, Violation> {
    look_at_files(disk)?;
    let read_only = random.bool();
    let source = [TableSource::Buffered, TableSource::Mapped][random.usize(0..2)];
    let options =
        DatabaseOptions { read_only, table_source: source, durability: Durability::Os, ..base.options() };
    let world = Simulation::on(disk.clone(), random.u64(..));
    let opened = Database::builder(Path::new(DIR)).options(options).env(world.env()).open();
    let was_opened = opened.is_ok();
    if let Ok(db) = opened {
        use_it(&db, read_only);
        let _ = db.close();
    }
    if random.u8(0..4) == 0 {
        let world = Simulation::on(disk.clone(), random.u64(..));
        let _ = Salvage::of(DIR).env(world.env()).run("/new");
    }
    Ok(was_opened)
}

/// `inspect` shows any file there is.
fn look_at_files(disk: &MemFs) -> Result<(), Violation> {
    for entry in disk.list(Path::new(DIR)).map_err(|e| e.to_string())? {
        let Ok(fields) = inspect::file_in(disk, &Path::new(DIR).join(&entry.name)) else { continue };
        let mut at = 0;
        for field in fields.map_while(Result::ok) {
            if field.offset < at || field.offset.saturating_add(field.len) > entry.len {
                return Err(format!("inspect shows {field:?} of {} behind byte {at}", entry.name));
            }
            at = field.offset;
        }
    }
    Ok(())
}

/// Read everything, verify, write: errors are welcome.
fn use_it(db: &Database, read_only: bool) {
    let _ = db.verify();
    for name in db.keyspaces() {
        let Ok(keyspace) = db.existing_keyspace(&name) else { continue };
        let forward = keyspace.iter().map_while(Result::ok).count();
        let backward = keyspace.iter().rev().map_while(Result::ok).count();
        for nth in (0..204).step_by(3).chain([forward, backward]) {
            let _ = keyspace.get(format!("key-{nth:03}"));
        }
        let _ = keyspace.approximate_size::<&[u8]>(..);
        if !read_only {
            let _ = keyspace.put("new", "row");
            let _ = keyspace.delete_range("key-1".."key-15");
            let _ = keyspace.compact_range::<&[u8]>(..);
        }
    }
    if !read_only {
        let _ = db.transact(|tx| {
            for name in db.keyspaces() {
                let keyspace = db.existing_keyspace(&name)?;
                tx.get(&keyspace, "key-001")?;
                tx.put(&keyspace, "key-001", "x")?;
            }
            Ok(())
        });
        let _ = db.flush();
    }
    let _ = db.metrics();
}
