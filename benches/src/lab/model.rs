//! What every operation must cost: formulas of the degree, and the check that counters equal them.
//!
//! d is the user's degree before the operation. Cells are keys of their own; the client is the naive one
//! of the article. One call is one get, one scan or one commit.
//!
//! | layout | add: read / written / calls | check: read / calls | delete: read / written + tombstones / calls |
//! |---|---|---|---|
//! | default | d / 1 / 2 | d / 1 | d / 1 + 1 / 2 |
//! | count | 1 / 2 / 2 | d + 1 / 1 | d + 1 / 2 + 1 / 2 |
//! | column, row, hash | 0 / 1 / 1 | 1 / 1 | 0 / 0 + 1 / 1 |
//! | relational | 1 / 3 / 3 | 1 / 1 | 1 / 0 + 2 / 2 |
//!
//! Exactly: deleting the last column moves nothing (one write less); shifting writes one cell for every
//! later column; a count or sequence that does not exist yet is asked for but cannot be read; and a point
//! lookup of an absent key is a call that reads no key, so hits and misses of `check` differ by one key.

use esker_layouts::OpCost;
use esker_layouts::followers::{HoleFilling, Layout};
use serde::Serialize;

/// A business operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Add one friend.
    Add,
    /// Ask whether one user reads another.
    Check,
    /// Delete one friend.
    Delete,
}

impl Operation {
    /// In the article's order.
    pub const ALL: [Operation; 3] = [Operation::Add, Operation::Check, Operation::Delete];

    /// The operation's name.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Add => "add",
            Operation::Check => "check",
            Operation::Delete => "delete",
        }
    }
}

/// One operation with everything its cost depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Add a friend.
    Add {
        /// The user's degree before.
        degree: u64,
        /// Whether the user ever had a friend (then its count exists).
        user_known: bool,
        /// Whether anybody ever had one (then the table's sequence exists).
        table_known: bool,
    },
    /// Ask for a friend.
    Check {
        /// The user's degree.
        degree: u64,
        /// Whether the user ever had a friend.
        user_known: bool,
        /// Whether the answer is yes.
        present: bool,
    },
    /// Delete a friend.
    Delete {
        /// The user's degree before.
        degree: u64,
        /// How many columns come after the friend's.
        later: u64,
    },
}

impl Step {
    /// Which operation it is.
    pub fn operation(&self) -> Operation {
        match self {
            Step::Add { .. } => Operation::Add,
            Step::Check { .. } => Operation::Check,
            Step::Delete { .. } => Operation::Delete,
        }
    }

    /// The user's degree before the operation.
    pub fn degree(&self) -> u64 {
        match *self {
            Step::Add { degree, .. } | Step::Check { degree, .. } | Step::Delete { degree, .. } => degree,
        }
    }
}

/// The counters that the formulas speak of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Keys read.
    pub read: u64,
    /// Keys written.
    pub written: u64,
    /// Tombstones written.
    pub tombstones: u64,
    /// Calls into the store.
    pub calls: u64,
}

impl Counters {
    /// The counters the store kept.
    pub fn of(cost: &OpCost) -> Counters {
        Counters {
            read: cost.keys_read,
            written: cost.keys_written,
            tombstones: cost.tombstones_written,
            calls: cost.calls,
        }
    }

    /// Add `other`.
    pub fn add(&mut self, other: &Counters) {
        self.read += other.read;
        self.written += other.written;
        self.tombstones += other.tombstones;
        self.calls += other.calls;
    }

    /// Keys touched: read, written or removed.
    pub fn touched(&self) -> u64 {
        self.read + self.written + self.tombstones
    }
}

impl std::fmt::Display for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counters { read, written, tombstones, calls } = self;
        write!(f, "{read} read / {written} written + {tombstones} removed / {calls} calls")
    }
}

/// What `step` must cost in `layout`.
///
/// ```
/// use esker_bench::lab::model::{expected, Counters, Step};
/// use esker_layouts::followers::{HoleFilling, Layout};
/// let last = Step::Delete { degree: 7, later: 0 };
/// assert_eq!(
///     expected(Layout::Count(HoleFilling::MoveLast), &last),
///     Counters { read: 8, written: 1, tombstones: 1, calls: 2 },
/// );
/// ```
pub fn expected(layout: Layout, step: &Step) -> Counters {
    let counters = |read, written, tombstones, calls| Counters { read, written, tombstones, calls };
    let moved = |filling, later: u64| match filling {
        HoleFilling::MoveLast => later.min(1),
        HoleFilling::ShiftAll => later,
    };
    match (layout, *step) {
        (Layout::Default(_), Step::Add { degree: d, .. }) => counters(d, 1, 0, 2),
        (Layout::Default(_), Step::Check { degree: d, .. }) => counters(d, 0, 0, 1),
        (Layout::Default(filling), Step::Delete { degree: d, later }) => {
            counters(d, moved(filling, later), 1, 2)
        }
        (Layout::Count(_), Step::Add { user_known, .. }) => counters(u64::from(user_known), 2, 0, 2),
        (Layout::Count(_), Step::Check { degree: d, user_known, .. }) => {
            counters(d + u64::from(user_known), 0, 0, 1)
        }
        (Layout::Count(filling), Step::Delete { degree: d, later }) => {
            counters(d + 1, moved(filling, later) + 1, 1, 2)
        }
        (Layout::Column | Layout::Row | Layout::Hash, Step::Add { .. }) => counters(0, 1, 0, 1),
        (Layout::Column | Layout::Row | Layout::Hash, Step::Delete { .. }) => counters(0, 0, 1, 1),
        (Layout::Relational, Step::Add { table_known, .. }) => counters(u64::from(table_known), 3, 0, 3),
        (Layout::Relational, Step::Delete { .. }) => counters(1, 0, 2, 2),
        (Layout::Column | Layout::Row | Layout::Hash | Layout::Relational, Step::Check { present, .. }) => {
            counters(u64::from(present), 0, 0, 1)
        }
    }
}

/// How a cost grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Not at all: O(1).
    Constant,
    /// By so much for every friend, on top of a fixed part: O(n).
    Affine,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Form::Constant => "constant",
            Form::Affine => "affine",
        })
    }
}

/// How the cost of `operation` in `layout` grows with the degree: the article's table of complexities,
/// and constant for the relational layout.
pub fn growth(layout: Layout, operation: Operation) -> Form {
    match (layout, operation) {
        (Layout::Default(_), _) | (Layout::Count(_), Operation::Check | Operation::Delete) => Form::Affine,
        _ => Form::Constant,
    }
}

/// The comparison of counters with formulas over many operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Operations compared.
    pub operations: u64,
    /// Operations whose counters equalled the formula.
    pub equal: u64,
    /// The first that did not, in words.
    pub first_mismatch: Option<String>,
}

impl Tally {
    /// Compare one operation.
    pub fn compare(&mut self, step: &Step, counted: &Counters, formula: &Counters) {
        self.note(counted == formula, || {
            let name = step.operation().name();
            let degree = step.degree();
            format!("{name} at degree {degree} counted {counted}, the formula says {formula}")
        });
    }

    /// Note one comparison that came out `equal`; `mismatch` tells what differs.
    pub fn note(&mut self, equal: bool, mismatch: impl FnOnce() -> String) {
        self.operations += 1;
        if equal {
            self.equal += 1;
        } else if self.first_mismatch.is_none() {
            self.first_mismatch = Some(mismatch());
        }
    }

    /// Whether every operation matched (and there was one).
    pub fn all_equal(&self) -> bool {
        self.operations > 0 && self.equal == self.operations
    }

    /// Add another comparison.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.equal += other.equal;
        if self.first_mismatch.is_none() {
            self.first_mismatch.clone_from(&other.first_mismatch);
        }
    }
}
