//! Which cells a query wants, beyond ranges of rows and columns.

use crate::kv::KeyRange;

/// A test on cells, made while scanning: what does not pass is neither returned nor counted against the
/// limits in rows, cells and bytes. Where the test bounds the column names, the bounds become part of
/// the key range, so cells outside need not be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The column has this name.
    Column(Vec<u8>),
    /// The column's name starts so.
    ColumnPrefix(Vec<u8>),
    /// The value is this.
    Value(Vec<u8>),
    /// The value starts so.
    ValuePrefix(Vec<u8>),
    /// Every one of these passes (all cells, if there are none).
    All(Vec<Filter>),
    /// One of these passes (no cell, if there are none).
    Any(Vec<Filter>),
    /// This one does not pass.
    Not(Box<Filter>),
}

impl Filter {
    /// Whether a cell passes.
    pub fn passes(&self, column: &[u8], value: &[u8]) -> bool {
        match self {
            Filter::Column(name) => column == name,
            Filter::ColumnPrefix(start) => column.starts_with(start),
            Filter::Value(wanted) => value == wanted,
            Filter::ValuePrefix(start) => value.starts_with(start),
            Filter::All(filters) => filters.iter().all(|filter| filter.passes(column, value)),
            Filter::Any(filters) => filters.iter().any(|filter| filter.passes(column, value)),
            Filter::Not(filter) => !filter.passes(column, value),
        }
    }

    /// Whether the answer depends on the value.
    pub(super) fn needs_value(&self) -> bool {
        match self {
            Filter::Column(_) | Filter::ColumnPrefix(_) => false,
            Filter::Value(_) | Filter::ValuePrefix(_) => true,
            Filter::All(filters) | Filter::Any(filters) => filters.iter().any(Filter::needs_value),
            Filter::Not(filter) => filter.needs_value(),
        }
    }

    /// A range that holds every column that can pass.
    pub(super) fn columns(&self) -> KeyRange {
        match self {
            Filter::Column(name) => KeyRange::point(name),
            Filter::ColumnPrefix(start) => KeyRange::prefix(start),
            Filter::All(filters) => {
                filters.iter().map(Filter::columns).fold(KeyRange::all(), |a, b| intersection(&a, &b))
            }
            Filter::Value(_) | Filter::ValuePrefix(_) | Filter::Any(_) | Filter::Not(_) => KeyRange::all(),
        }
    }
}

/// The keys in both ranges.
pub(super) fn intersection(a: &KeyRange, b: &KeyRange) -> KeyRange {
    let end = match (&a.end, &b.end) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (end, None) | (None, end) => end.as_ref(),
    };
    KeyRange { start: a.start.clone().max(b.start.clone()), end: end.cloned() }
}
