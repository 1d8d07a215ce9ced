//! What the calls of a trace were for, so that a suite can say which moments it has crashed at.

use std::collections::BTreeSet;
use std::fmt;

use esker_base::FileNumber;
use esker_base::event::Event;
use esker_base::filename::FileName;
use esker_vfs::mem::MemFs;

/// What a call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A commit's log record, or a log's sync.
    Log,
    /// The beginning of a new log.
    Rotation,
    /// A flush: its tables, and the log it removes.
    Flush,
    /// A compaction: its tables, and the inputs it removes.
    Compaction,
    /// The manifest, `CURRENT`, and the directory.
    Manifest,
    /// Anything while the database was being opened.
    Recovery,
    /// Something else: a table of a job that did not end.
    Other,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 7] = [
        Point::Log,
        Point::Rotation,
        Point::Flush,
        Point::Compaction,
        Point::Manifest,
        Point::Recovery,
        Point::Other,
    ];
}

/// How often each was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits([u64; Point::ALL.len()]);

impl Hits {
    /// One more of `point`.
    pub fn count(&mut self, point: Point) {
        self.0[point as usize] += 1;
    }

    /// Those of `other` too.
    pub fn add(&mut self, other: &Hits) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// How often `point` was hit.
    pub fn of(&self, point: Point) -> u64 {
        self.0[point as usize]
    }
}

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Point::ALL.map(|point| format!("{} {point:?}", self.of(point)).to_lowercase());
        f.write_str(&parts.join(", "))
    }
}

/// The tables that jobs have made, as events tell.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    flushed: BTreeSet<FileNumber>,
    compacted: BTreeSet<FileNumber>,
}

impl Tables {
    /// Which kind of job has made table `number`.
    pub(crate) fn maker(&self, number: FileNumber) -> Point {
        match (self.flushed.contains(&number), self.compacted.contains(&number)) {
            (true, _) => Point::Flush,
            (_, true) => Point::Compaction,
            _ => Point::Other,
        }
    }

    /// Which kind of job has made blob file `number`: the one that made the next table, for the rows that refer to a
    /// file are written after its values.
    pub(crate) fn maker_of_values(&self, number: FileNumber) -> Point {
        let next = |made: &BTreeSet<FileNumber>| made.range(number..).next().copied();
        match (next(&self.flushed), next(&self.compacted)) {
            (Some(flushed), Some(compacted)) if compacted < flushed => Point::Compaction,
            (Some(_), _) => Point::Flush,
            (None, Some(_)) => Point::Compaction,
            (None, None) => Point::Other,
        }
    }

    /// Take note of `event`.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Flushed { tables, .. } => {
                self.flushed.extend(tables.iter().map(|(_, number, _)| *number));
            }
            Event::Compacted { inputs, outputs, .. } if inputs != outputs => {
                self.compacted.extend(outputs);
            }
            _ => {}
        }
    }
}

/// What each call of a trace was for.
#[derive(Clone, Debug, Default)]
pub struct Points {
    /// Ranges of calls within which the database was opened.
    opens: Vec<(usize, usize)>,
    of_calls: Vec<Point>,
}

impl Points {
    /// The calls from `from` to before `to` opened the database.
    pub fn opened(&mut self, from: usize, to: usize) {
        self.opens.push((from, to));
    }

    /// Find out about every call of `disk`.
    pub fn classify(&mut self, disk: &MemFs, tables: &Tables) {
        self.of_calls = (0..disk.trace_len())
            .map(|call| {
                if self.opens.iter().any(|(from, to)| (*from..*to).contains(&call)) {
                    return Point::Recovery;
                }
                kind(&disk.describe_call(call), tables)
            })
            .collect();
    }

    /// What call number `call` was for.
    pub fn of_call(&self, call: usize) -> Point {
        self.of_calls.get(call).copied().unwrap_or(Point::Other)
    }
}

/// What the call described as `text` was for.
fn kind(text: &str, tables: &Tables) -> Point {
    let name = text.split([' ', '/', ':']).find_map(FileName::parse);
    match name {
        Some(FileName::Log(_)) if text.starts_with("remove") => Point::Flush,
        Some(FileName::Log(_))
            if text.starts_with("create") || text.starts_with("reserve") || text.ends_with(" at 0") =>
        {
            Point::Rotation
        }
        Some(FileName::Log(_)) => Point::Log,
        Some(FileName::Table(_) | FileName::Blob(_)) if text.starts_with("remove") => Point::Compaction,
        Some(FileName::Blob(number)) => tables.maker_of_values(number),
        Some(FileName::Table(number)) if tables.flushed.contains(&number) => Point::Flush,
        Some(FileName::Table(number)) if tables.compacted.contains(&number) => Point::Compaction,
        Some(FileName::Manifest(_) | FileName::Current | FileName::Temporary(_)) => Point::Manifest,
        None if text.starts_with("sync directory") => Point::Manifest,
        _ => Point::Other,
    }
}
