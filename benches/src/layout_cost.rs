//! What the abstraction costs: each layout's operations beside the same engine calls written by hand.
//!
//! A pair is one operation twice: the layout's call, and what a competent user would write without the
//! layout for the same answer with the same guarantees. Both write the same bytes under the same keys (the
//! stores are compared afterwards), read with the same engine calls, and decode to the same type. By hand,
//! key buffers are reused, nothing is generic, and only what this data can hold is decoded, with an error for
//! everything else.
//!
//! The pairs run on two databases with default settings in temporary directories, filled alike, flushed,
//! and warm: what is read lies in the cache. What is not part of the operation, such as making the given key,
//! is done before. [`run`] hands every pair to a [`Bench`]: one compares the answers (the tests), one counts
//! instructions (`examples/layout_cost.rs` under callgrind, which `cargo xtask layout-cost` starts and
//! judges), one takes times (`cargo bench -p esker-bench --bench micro -- layouts`).

mod by_hand;
mod followers;
mod hashed;
mod indexed;
mod promoted;
mod salted;
mod table;
mod tall;
mod twin;
mod vector;
mod wide;

use std::fmt::Debug;

use esker_layouts::Result;

/// The most instructions of a layout's call for one instruction by hand.
pub const LIMIT: f64 = 1.10;

/// What is done with the pairs.
pub trait Bench {
    /// Take the pair `name`. Each side gets the number of the operation, from 0 on, which chooses the key, and
    /// returns its answer. The sides may be called for any numbers, each for the same as the other.
    fn pair<T: PartialEq + Debug>(
        &mut self,
        name: &'static str,
        by_hand: impl FnMut(usize) -> Result<T>,
        layout: impl FnMut(usize) -> Result<T>,
    ) -> Result<()>;

    /// Some pairs are through. `check` errs unless both stores hold the same now, which a bench that calls both
    /// sides for the same numbers can rely on.
    fn stores(&mut self, check: impl FnOnce() -> Result<()>) -> Result<()> {
        check()
    }
}

/// Hand every pair to `bench`.
pub fn run(bench: &mut impl Bench) -> Result<()> {
    tall::run(bench)?;
    wide::run(bench)?;
    hashed::run(bench)?;
    salted::run(bench)?;
    promoted::run(bench)?;
    indexed::run(bench)?;
    table::run(bench)?;
    vector::run(bench)?;
    followers::run(bench)
}

#[cfg(test)]
mod tests;
