//! A deletion of all keys within some bounds, as operations.

use std::ops::Bound;

use esker_base::bounds::Bounds;
use esker_base::key::{after, prefix_end};
use esker_base::limits;
use esker_base::{KeyspaceId, Kind};

use super::ops::Op;

/// A deletion of all keys within some bounds as the log has it. A range delete is half-open there, `[start, end)`, and is
/// left out if no key lies within; one without an end is two operations: a range delete up to the largest key there can be,
/// and a delete of that key (`open`).
pub(crate) struct RangeDelete {
    start: Vec<u8>,
    end: Vec<u8>,
    open: bool,
}

impl RangeDelete {
    /// A bound may be longer than keys are.
    pub(crate) fn of(bounds: Bounds) -> Self {
        let start = match bounds.start {
            Bound::Unbounded => Some(Vec::new()),
            Bound::Included(key) => first_from(key),
            Bound::Excluded(key) => just_after(&key),
        };
        // Behind the largest key there is nothing.
        let Some(start) = start else {
            return RangeDelete { start: Vec::new(), end: Vec::new(), open: false };
        };
        let end = match bounds.end {
            Bound::Unbounded => None,
            Bound::Included(key) => just_after(&key),
            Bound::Excluded(key) => first_from(key),
        };
        let open = end.is_none();
        let end = end.unwrap_or_else(|| vec![0xFF; limits::KEY_BYTES_MAX]);
        RangeDelete { start, end, open }
    }

    /// Its operations in `keyspace`.
    pub(crate) fn ops(&self, keyspace: KeyspaceId) -> impl Iterator<Item = Op<'_>> + Clone {
        let range = Op { keyspace, kind: Kind::RangeDelete, key: &self.start, value: &self.end };
        let last = Op { keyspace, kind: Kind::Delete, key: &self.end, value: &[] };
        [(range, self.start < self.end), (last, self.open)]
            .into_iter()
            .filter_map(|(op, counts)| counts.then_some(op))
    }
}

/// The smallest key that does not come before `key`, no longer than keys may be; `None` if there is none.
fn first_from(key: Vec<u8>) -> Option<Vec<u8>> {
    if key.len() <= limits::KEY_BYTES_MAX { Some(key) } else { just_after(&key) }
}

/// The smallest key after `key`, no longer than keys may be; `None` if there is none.
fn just_after(key: &[u8]) -> Option<Vec<u8>> {
    match key.get(..limits::KEY_BYTES_MAX) {
        None => Some(after(key)),
        Some(longest) => prefix_end(longest),
    }
}
