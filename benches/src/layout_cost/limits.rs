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

const fn own(pair: &'static str, ratio: f64, reason: &'static str) -> Limit {
    Limit { pair, ratio, reason }
}

/// The pairs that may cost more than [`LIMIT`].
pub(super) const EXCEPTIONS: &[Limit] = &[
    own("wide put of 1 column", 1.20, "the change is a value of its own, with copies of names and value"),
    own(
        "wide put of 10 columns",
        1.15,
        "the change is a value of its own, with copies of names and values",
    ),
    own("hashed get", 1.18, "ends of fields are looked for in the packed key; the cost is returned, too"),
    own("promoted put", 1.15, "the promoted field is looked for in the packed key and turned to the front"),
    own("promoted get", 1.22, "the promoted field is looked for in the packed key and turned to the front"),
    own(
        "promoted scan of 20 rows of a source",
        1.22,
        "each row's packed key is made for the merge, then decoded",
    ),
    own(
        "promoted range of 20 rows over 8 sources",
        1.15,
        "each row's packed key is made for the merge, then decoded",
    ),
    own(
        "indexed put, one of two entries moved",
        1.15,
        "each index reads the old and the new row for itself",
    ),
    own("followers V3 check", 1.18, "the cost is returned, too: a reader and its counters"),
    own("followers V4 check", 1.27, "the cost is returned, too: a reader and its counters"),
];

/// The limit of the pair `name`.
pub fn limit_of(name: &'static str) -> Limit {
    let own = EXCEPTIONS.iter().find(|limit| limit.pair == name).copied();
    own.unwrap_or(Limit { pair: name, ratio: LIMIT, reason: "" })
}
