//! Which calls fail, and how.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::mem::SyncFailure;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Operation {
    Create,
    Open,
    OpenWritable,
    Map,
    Rename,
    Remove,
    HardLink,
    CreateDir,
    RemoveDir,
    List,
    Stat,
    OpenDir,
    SyncDir,
    Lock,
    StillInPlace,
    FreeSpace,
    Len,
    Read,
    Write,
    SetLen,
    Allocate,
    SyncData,
    Sync,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 23] = [
        Operation::Create,
        Operation::Open,
        Operation::OpenWritable,
        Operation::Map,
        Operation::Rename,
        Operation::Remove,
        Operation::HardLink,
        Operation::CreateDir,
        Operation::RemoveDir,
        Operation::List,
        Operation::Stat,
        Operation::OpenDir,
        Operation::SyncDir,
        Operation::Lock,
        Operation::StillInPlace,
        Operation::FreeSpace,
        Operation::Len,
        Operation::Read,
        Operation::Write,
        Operation::SetLen,
        Operation::Allocate,
        Operation::SyncData,
        Operation::Sync,
    ];

    /// Whether it may change what is on the disk. A lock counts: it creates its file.
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Operation::Open
                | Operation::OpenWritable
                | Operation::Map
                | Operation::List
                | Operation::Stat
                | Operation::OpenDir
                | Operation::StillInPlace
                | Operation::FreeSpace
                | Operation::Len
                | Operation::Read
        )
    }

    /// Whether it makes something durable.
    pub fn syncs(self) -> bool {
        matches!(self, Operation::SyncDir | Operation::SyncData | Operation::Sync)
    }

    /// As error messages name it.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Open | Operation::OpenWritable => "open",
            Operation::Map => "map",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::HardLink => "link",
            Operation::CreateDir => "create directory",
            Operation::RemoveDir => "remove directory",
            Operation::List => "list",
            Operation::Stat | Operation::StillInPlace => "look up",
            Operation::OpenDir => "open directory",
            Operation::SyncDir => "sync directory",
            Operation::Lock => "lock",
            Operation::FreeSpace => "ask the free space of",
            Operation::Len => "ask the length of",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::SetLen => "set the length of",
            Operation::Allocate => "reserve space for",
            Operation::SyncData | Operation::Sync => "sync",
        }
    }
}

/// One call, as a plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Its number among all calls, from 0.
    pub number: u64,
    /// What it does.
    pub operation: Operation,
    /// Its number among the calls of this operation, from 0.
    pub nth: u64,
    /// The path it names (the first, if two); that of the file for calls on files.
    pub path: &'a Path,
}

/// What the system says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The device failed (EIO).
    Device,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// The quota is used up (EDQUOT).
    Quota,
    /// The file would grow too long (EFBIG).
    FileTooLarge,
    /// The filesystem is mounted read-only (EROFS).
    ReadOnly,
    /// The process has no descriptor left (EMFILE).
    Descriptors,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 6] = [
        Cause::Device,
        Cause::NoSpace,
        Cause::Quota,
        Cause::FileTooLarge,
        Cause::ReadOnly,
        Cause::Descriptors,
    ];

    pub(super) fn error(self) -> io::Error {
        match self {
            Cause::Device => crate::mem::device_error(),
            Cause::NoSpace => io::ErrorKind::StorageFull.into(),
            Cause::Quota => io::ErrorKind::QuotaExceeded.into(),
            Cause::FileTooLarge => io::ErrorKind::FileTooLarge.into(),
            Cause::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
            #[cfg(unix)]
            Cause::Descriptors => rustix::io::Errno::MFILE.into(),
            #[cfg(not(unix))]
            Cause::Descriptors => io::Error::other("too many open files"),
        }
    }
}

/// How much of a failing call happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Before,
    /// All of it: only the answer is an error.
    After,
    /// Of a write, this many bytes from its first on; of any other call, nothing.
    Partial(usize),
}

/// What happens to the calls that a [`Fault`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Fail(Cause, Effect),
    Delay(Duration),
}

#[derive(Clone)]
enum Where {
    Number(u64),
    Nth(Operation, u64),
    When(Arc<dyn Fn(&Call<'_>) -> bool + Send + Sync>),
}

/// One planned fault. Unless said otherwise it is a device error, once, before the call had any effect.
///
/// ```
/// use esker_vfs::fault::{Cause, Fault, Operation};
/// let once = Fault::at(12);
/// let disk_full_from_the_third_write_on = Fault::nth(Operation::Write, 2).cause(Cause::NoSpace).sticky();
/// let unreadable = Fault::when(|call| call.operation == Operation::Read && call.path.ends_with("000015.sst"));
/// ```
#[derive(Clone)]
pub struct Fault {
    place: Where,
    sticky: bool,
    spent: bool,
    pub(super) outcome: Outcome,
    pub(super) sync_failure: (SyncFailure, u64),
}

impl Fault {
    fn new(place: Where) -> Fault {
        Fault {
            place,
            sticky: false,
            spent: false,
            outcome: Outcome::Fail(Cause::Device, Effect::Before),
            sync_failure: (SyncFailure::CacheKept, 0),
        }
    }

    /// At call `number` of all.
    pub fn at(number: u64) -> Fault {
        Fault::new(Where::Number(number))
    }

    /// At the `nth` call, from 0, of `operation`.
    pub fn nth(operation: Operation, nth: u64) -> Fault {
        Fault::new(Where::Nth(operation, nth))
    }

    /// At the first call for which `matches` is true. It is asked under the lock of the plan: it must
    /// not call the filesystem.
    pub fn when(matches: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static) -> Fault {
        Fault::new(Where::When(Arc::new(matches)))
    }

    /// What the system says.
    pub fn cause(mut self, cause: Cause) -> Fault {
        self.outcome = match self.outcome {
            Outcome::Fail(_, effect) => Outcome::Fail(cause, effect),
            Outcome::Delay(_) => Outcome::Fail(cause, Effect::Before),
        };
        self
    }

    /// How much of the call happens all the same.
    pub fn effect(mut self, effect: Effect) -> Fault {
        self.outcome = match self.outcome {
            Outcome::Fail(cause, _) => Outcome::Fail(cause, effect),
            Outcome::Delay(_) => Outcome::Fail(Cause::Device, effect),
        };
        self
    }

    /// The call succeeds, but simulated time passes first.
    pub fn delay(mut self, time: Duration) -> Fault {
        self.outcome = Outcome::Delay(time);
        self
    }

    /// Not once: at every later call too ([`Fault::at`]), at every later call of that operation
    /// ([`Fault::nth`]), or at every call that matches ([`Fault::when`]).
    pub fn sticky(mut self) -> Fault {
        self.sticky = true;
        self
    }

    /// What a failed sync leaves, on a disk that can tell; see
    /// [`MemFs::fail_next_sync`](crate::mem::MemFs::fail_next_sync). Without this the cache is kept and
    /// nothing reached the disk.
    pub fn sync_failure(mut self, mode: SyncFailure, seed: u64) -> Fault {
        self.sync_failure = (mode, seed);
        self
    }

    /// Whether this is for `call`.
    pub(super) fn hits(&mut self, call: &Call<'_>) -> bool {
        let hit = match &self.place {
            Where::Number(number) => self.reached(call.number, *number),
            Where::Nth(operation, nth) => call.operation == *operation && self.reached(call.nth, *nth),
            Where::When(matches) => (self.sticky || !self.spent) && matches(call),
        };
        self.spent |= hit;
        hit
    }

    fn reached(&self, number: u64, planned: u64) -> bool {
        number == planned || self.sticky && number > planned
    }
}
