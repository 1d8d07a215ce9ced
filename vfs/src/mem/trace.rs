//! The calls that change a disk.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::directory::{DirId, InodeId};
use super::inode::SyncFailure;
use crate::trace::TraceHash;

/// One call that succeeded in changing something (a failed sync changes something too).
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The path it named, for messages.
    pub(super) path: Arc<Path>,
    pub(super) action: Action,
}

/// What a call does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Create {
        dir: DirId,
        name: Arc<str>,
        inode: InodeId,
    },
    Link {
        dir: DirId,
        name: Arc<str>,
        inode: InodeId,
    },
    Remove {
        dir: DirId,
        name: Arc<str>,
        inode: InodeId,
    },
    Rename {
        from: (DirId, Arc<str>),
        to: (DirId, Arc<str>),
        inode: InodeId,
        replaced: Option<InodeId>,
    },
    MakeDir {
        dir: DirId,
        name: Arc<str>,
        made: DirId,
    },
    RemoveDir {
        dir: DirId,
        name: Arc<str>,
        removed: DirId,
    },
    Write {
        inode: InodeId,
        offset: u64,
        bytes: Bytes,
    },
    SetLen {
        inode: InodeId,
        len: u64,
    },
    Reserve {
        inode: InodeId,
        len: u64,
    },
    /// `honest` is false if the disk only says that it synced.
    Sync {
        inode: InodeId,
        honest: bool,
    },
    SyncDir {
        dir: DirId,
        honest: bool,
    },
    FailSync {
        inode: InodeId,
        mode: SyncFailure,
        seed: u64,
    },
    FailSyncDir {
        dir: DirId,
        seed: u64,
    },
}

impl Action {
    /// Whether names that were pending are durable or lost after it.
    pub(super) fn settles_names(&self) -> bool {
        matches!(self, Action::SyncDir { honest: true, .. } | Action::FailSyncDir { .. })
    }
}

impl Call {
    /// Take everything that the call does into `hash`.
    pub(super) fn hash_into(&self, hash: &mut TraceHash) {
        let (kind, numbers, bytes): (u64, [u64; 3], &[u8]) = match &self.action {
            Action::Create { dir, inode, .. } => (1, [*dir, *inode, 0], b""),
            Action::Link { dir, inode, .. } => (2, [*dir, *inode, 0], b""),
            Action::Remove { dir, inode, .. } => (3, [*dir, *inode, 0], b""),
            Action::Rename { from, to, inode, .. } => (4, [from.0, to.0, *inode], to.1.as_bytes()),
            Action::MakeDir { dir, made, .. } => (5, [*dir, *made, 0], b""),
            Action::RemoveDir { dir, removed, .. } => (6, [*dir, *removed, 0], b""),
            Action::Write { inode, offset, bytes } => (7, [*inode, *offset, 0], bytes),
            Action::SetLen { inode, len } => (8, [*inode, *len, 0], b""),
            Action::Reserve { inode, len } => (9, [*inode, *len, 0], b""),
            Action::Sync { inode, honest } => (10, [*inode, u64::from(*honest), 0], b""),
            Action::SyncDir { dir, honest } => (11, [*dir, u64::from(*honest), 0], b""),
            Action::FailSync { inode, mode, seed } => (12, [*inode, *mode as u64, *seed], b""),
            Action::FailSyncDir { dir, seed } => (13, [*dir, *seed, 0], b""),
        };
        hash.number(kind);
        for number in numbers {
            hash.number(number);
        }
        hash.bytes(self.path.as_os_str().as_encoded_bytes());
        hash.bytes(bytes);
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.action {
            Action::Create { .. } => write!(f, "create {path}"),
            Action::Link { .. } => write!(f, "link {path}"),
            Action::Remove { .. } => write!(f, "remove {path}"),
            Action::Rename { to, .. } => write!(f, "rename {path} to {}", to.1),
            Action::MakeDir { .. } => write!(f, "create directory {path}"),
            Action::RemoveDir { .. } => write!(f, "remove directory {path}"),
            Action::Write { offset, bytes, .. } => {
                write!(f, "write {path}: {} bytes at {offset}", bytes.len())
            }
            Action::SetLen { len, .. } => write!(f, "set the length of {path} to {len}"),
            Action::Reserve { len, .. } => write!(f, "reserve {len} bytes for {path}"),
            Action::Sync { honest: true, .. } => write!(f, "sync {path}"),
            Action::SyncDir { honest: true, .. } => write!(f, "sync directory {path}"),
            Action::Sync { .. } | Action::SyncDir { .. } => write!(f, "pretend to sync {path}"),
            Action::FailSync { mode, seed, .. } => write!(f, "fail to sync {path} ({mode:?}, seed {seed})"),
            Action::FailSyncDir { seed, .. } => write!(f, "fail to sync directory {path} (seed {seed})"),
        }
    }
}
