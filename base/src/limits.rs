//! The largest things the engine takes, in bytes. Beyond them a call is refused with
//! [`Error::TooLarge`].

use crate::{Error, Result};

/// The longest key.
pub const KEY_BYTES_MAX: usize = 65_535;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// The largest encoded batch.
pub const BATCH_BYTES_MAX: usize = 1 << 31;
/// The longest keyspace name.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 255;

/// Refuse a key longer than [`KEY_BYTES_MAX`].
#[inline]
pub fn check_key(key: &[u8]) -> Result<()> {
    check("key", key.len(), KEY_BYTES_MAX)
}

/// Refuse a value longer than [`VALUE_BYTES_MAX`].
#[inline]
pub fn check_value(value: &[u8]) -> Result<()> {
    check("value", value.len(), VALUE_BYTES_MAX)
}

/// Refuse `what` if its `len` exceeds `max`.
#[inline]
pub fn check(what: &'static str, len: usize, max: usize) -> Result<()> {
    if len > max {
        return Err(Error::TooLarge { what, len: len as u64, max: max as u64 });
    }
    Ok(())
}
