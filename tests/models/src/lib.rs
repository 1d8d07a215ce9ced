//! The engine's lock-free modules, included as they are, with the models beside them.
//! `Cargo.toml` has the command.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "what the engine uses of them, a model need not")]

#[path = "../../../engine/src/memtable/mod.rs"]
mod memtable;
