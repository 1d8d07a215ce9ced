//! Magic numbers and format versions of the four kinds of file that hold bytes.
//!
//! A file starts (logs, manifests, blob files) or ends (tables) with its magic number and version. A build reads
//! every version up to its own and refuses a newer one with
//! [`Error::FormatTooNew`](crate::Error::FormatTooNew).

/// First bytes of a log.
pub const LOG_MAGIC: [u8; 8] = *b"eskerLOG";
/// First bytes of a manifest, which is a log with this magic number in its header.
pub const MANIFEST_MAGIC: [u8; 8] = *b"eskerMAN";
/// Last bytes of a table.
pub const TABLE_MAGIC: [u8; 8] = *b"eskerSST";
/// First bytes of a blob file.
pub const BLOB_MAGIC: [u8; 8] = *b"eskerBLB";
/// Last bytes of a blob file.
pub const BLOB_END_MAGIC: [u8; 8] = *b"eskerBLE";

/// The newest log format this build reads, and the one it writes. Version 2 has shorter headers before records.
pub const LOG_VERSION: u32 = 2;
/// The newest manifest format this build reads, and the one it writes. Version 2 knows blob files, version 3 tables
/// with hidden versions, version 4 has the headers of a log of version 2.
pub const MANIFEST_VERSION: u32 = 4;
/// The newest table format this build reads, and the one it writes. Version 2 has blocks that end in zeros,
/// version 3 rows whose values lie in blob files, version 4 counts hidden versions.
pub const TABLE_VERSION: u32 = 4;
/// The newest format of blob files this build reads and writes.
pub const BLOB_VERSION: u32 = 1;
