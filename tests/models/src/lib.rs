//! Under loom: the engine's lock-free modules, included as they are, with the models beside them.
//! Under shuttle: the whole engine. `Cargo.toml` has the commands.
#![cfg(any(loom, shuttle))]
#![cfg_attr(
    loom,
    allow(dead_code, unreachable_pub, reason = "what the engine uses of them, a model need not")
)]

#[cfg(loom)]
#[path = "../../../engine/src/memtable/mod.rs"]
mod memtable;

#[cfg(shuttle)]
pub mod whole;
