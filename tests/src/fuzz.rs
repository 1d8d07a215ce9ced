//! Fuzz targets: ordinary functions over bytes, run by `tests/fuzz` under libFuzzer and, over the committed
//! corpus, by the tests. A target panics if something does not hold.
//!
//! The first bytes decide, the rest is data: decoders see it behind checksums that are right.

mod codecs;
mod corpus;
mod spelled;
mod targets;

pub use corpus::{replay, seeds};

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 15] = [
    ("wal_record", targets::wal_record),
    ("wal_file", targets::wal_file),
    ("manifest", targets::manifest),
    ("table_tail", targets::table_tail),
    ("data_block", targets::data_block),
    ("filter", targets::filter),
    ("blob_file", targets::blob_file),
    ("tuple", targets::tuple),
    ("batch", targets::batch),
    ("options", targets::options),
    ("directory", targets::directory),
    ("lz4", codecs::lz4),
    ("zstd", codecs::zstd),
    ("operations", spelled::operations),
    ("crashes", spelled::crashes),
];

/// The target `name`.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, body)| *body)
}

/// Run target `name` on `data`.
///
/// # Panics
/// If something does not hold, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    target(name).expect("a target of this name")(data);
}
