//! Values in files of their own. See FORMAT.md, "Blob files".
//!
//! A blob file is written once, front to back, by the run that writes the rows which refer to its values,
//! and is synced before their table is. It is never changed. A value in it dies when its row is dropped,
//! and the file is removed when no table refers to it.
//!
//! Invariants:
//! 1. A value is handed out only if its record checks and is the one that the row refers to: the record's
//!    checksum covers the key as well, which the row knows.
//! 2. Every length and offset, of a pointer or in the file, is compared with the file's length before it is used.

mod cached;
mod inspect;
mod layout;
mod reader;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

pub use inspect::{BlobInspection, inspect_blob};
pub use reader::BlobReader;
pub use walk::BlobWalk;
pub use writer::BlobWriter;
