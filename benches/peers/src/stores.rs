//! The engines, one file each.

pub(crate) mod esker;
pub(crate) mod fjall;
pub(crate) mod lmdb;
pub(crate) mod null;
pub(crate) mod redb;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocksdb;
