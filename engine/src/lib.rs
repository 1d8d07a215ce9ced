//! An embedded, ordered key-value engine: a log-structured merge tree written from scratch.

#[expect(dead_code, reason = "the engine above it comes with the commit lane")]
mod memtable;
