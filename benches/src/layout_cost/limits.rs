//! How much more than by hand a layout's operation may cost.

/// The most instructions of a layout's call for one instruction by hand.
pub const LIMIT: f64 = 1.10;

/// The limit of a pair that has its own, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The name of the pair.
    pub pair: &'static str,
    /// The most instructions of the layout's call for one by hand.
    pub ratio: f64,
    /// What the instructions above [`LIMIT`] are spent on.
    pub reason: &'static str,
}

/// The pairs that may cost more than [`LIMIT`].
pub(super) const EXCEPTIONS: &[Limit] = &[Limit {
    pair: "indexed put, one of two entries moved",
    ratio: 1.12,
    reason: "each index reads the old and the new row for itself",
}];

/// The limit of the pair `name`.
pub fn limit_of(name: &'static str) -> Limit {
    let own = EXCEPTIONS.iter().find(|limit| limit.pair == name).copied();
    own.unwrap_or(Limit { pair: name, ratio: LIMIT, reason: "" })
}
