//! What stores offer and what layouts need.

use crate::{Error, Result};

/// What a store offers.
#[expect(clippy::struct_excessive_bools, reason = "independent yes-or-no answers, each with a name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The store's name, for messages and reports.
    pub name: &'static str,
    /// The longest key, in bytes.
    pub key_bytes_max: usize,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
    /// A commit of several keys is atomic and conflicts with commits that changed what it read.
    pub transactions: bool,
    /// Scans can go from the last key down.
    pub reverse: bool,
    /// Merges without a read.
    pub merge: bool,
    /// A range is removed by one write, at a cost that does not depend on how much it holds.
    pub range_delete: bool,
    /// Writes survive the process, if the store was opened so: the engine's says true also of a database in memory.
    pub durable: bool,
}

/// What a layout needs of its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Atomic commits of several keys with conflict detection.
    pub transactions: bool,
    /// Reverse scans.
    pub reverse: bool,
    /// Merges.
    pub merge: bool,
}

impl Needs {
    /// Refuse `caps` that lack something the layout `layout` needs.
    pub fn check(&self, layout: &'static str, caps: &Caps) -> Result<()> {
        let pairs = [
            (self.transactions, caps.transactions, "transactions over several keys"),
            (self.reverse, caps.reverse, "reverse scans"),
            (self.merge, caps.merge, "merges"),
        ];
        match pairs.into_iter().find(|(needed, offered, _)| *needed && !offered) {
            Some((_, _, needs)) => Err(Error::Unsupported { layout, needs, store: caps.name }),
            None => Ok(()),
        }
    }
}
