//! Under loom: the engine's lock-free modules, included as they are, with the models beside them.
//! Under shuttle: the whole engine. `Cargo.toml` has the commands.
#![cfg(any(loom, shuttle))]
#![cfg_attr(
    loom,
    allow(dead_code, unreachable_pub, reason = "what the engine uses of them, a model need not")
)]

#[cfg(loom)]
mod block;
#[cfg(loom)]
#[path = "../../../vfs/src/os/block_pool/mod.rs"]
pub mod block_pool;
#[cfg(loom)]
#[path = "../../../sstable/src/cache/mod.rs"]
mod cache;
#[cfg(loom)]
#[path = "../../../base/src/event_count/mod.rs"]
mod event_count;
#[cfg(loom)]
pub mod fs;
#[cfg(loom)]
#[path = "../../../engine/src/commit/lead/mod.rs"]
mod lead;
#[cfg(loom)]
#[path = "../../../engine/src/memtable/mod.rs"]
mod memtable;
#[cfg(loom)]
pub mod os;
#[cfg(loom)]
pub mod pages;
#[cfg(loom)]
#[path = "../../../vfs/src/os/region.rs"]
pub mod region;
#[cfg(loom)]
#[path = "../../../vfs/src/scheduler/seam.rs"]
pub mod scheduler;
#[cfg(loom)]
#[path = "../../../engine/src/snapshot_list.rs"]
mod snapshot_list;
#[cfg(loom)]
#[path = "../../../wal/src/syncer/mod.rs"]
mod syncer;

// Under this name those modules find what they use of the floor below, which loom has no place for.
#[cfg(loom)]
extern crate self as esker_vfs;
#[cfg(loom)]
use esker_base::sync;

#[cfg(shuttle)]
pub mod whole;
