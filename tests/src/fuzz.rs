//! Fuzz targets: ordinary functions over bytes, run by `tests/fuzz` under libFuzzer and, over the committed
//! corpus, by the tests. A target panics if something does not hold.
//!
//! The first bytes decide, the rest is data: decoders see it behind checksums that are right.

mod corpus;
mod targets;

pub use corpus::{replay, seeds};

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 11] = [
    ("wal_record", targets::wal_record),
    ("wal_file", targets::wal_file),
    ("manifest", targets::manifest),
    ("table_tail", targets::table_tail),
    ("data_block", targets::data_block),
    ("filter", targets::filter),
    ("tuple", targets::tuple),
    ("batch", targets::batch),
    ("options", targets::options),
    ("directory", targets::directory),
    ("operations", targets::operations),
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
