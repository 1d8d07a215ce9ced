//! A block as the cache sees it: bytes, and something that says how to read them.

/// That.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockMeta;
