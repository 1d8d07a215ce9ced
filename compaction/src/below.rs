//! What lies below a run's output: whether an older version of a key may still be there.
//!
//! A tombstone may go only where nothing is left for it to hide. The answer is taken from the bounds of
//! the tables below, as they were when the job was planned. That stays true while the job runs: whatever
//! moves down meanwhile was, when the job was planned, either below already or inside the job's own
//! range, and then it is one of the job's inputs (see [`busy`](crate::busy)).

use esker_base::planted::{self, Planted};
use esker_base::table_meta::KeyBounds;
use esker_manifest::Tree;

use crate::plan::Plan;

/// The key ranges that tables below the output cover. Questions come in ascending key order.
#[derive(Clone, Debug, Default)]
pub struct Below {
    /// One list for each sorted run: ascending, not overlapping.
    runs: Vec<Run>,
}

#[derive(Clone, Debug)]
struct Run {
    bounds: Vec<KeyBounds>,
    /// The first table that does not end before the last key asked for.
    at: usize,
}

impl Below {
    /// Nothing lies below: the output is the oldest data of its range.
    pub fn nothing() -> Below {
        Below::default()
    }

    /// Something may lie below every key: nothing is dropped that hides anything.
    pub fn anything() -> Below {
        Below::of_runs(vec![vec![KeyBounds {
            smallest: Vec::new(),
            largest: vec![0xFF; esker_base::limits::KEY_BYTES_MAX + 1],
            largest_exclusive: true,
        }]])
    }

    /// What lies below a flush into `tree`: everything, level 0 included. The flush must be of the
    /// oldest memtable that is not in `tree` yet.
    pub fn flush(tree: &Tree) -> Below {
        let mut runs: Vec<Vec<KeyBounds>> = Vec::new();
        for level in &tree.levels {
            let bounds = level.tables().iter().map(|table| table.meta.bounds.clone());
            if level.is_sorted() {
                runs.push(bounds.collect());
            } else {
                runs.extend(bounds.map(|one| vec![one]));
            }
        }
        Below::of_runs(runs)
    }

    /// What lies below `plan`'s output: the deeper levels, as far as they overlap its inputs.
    pub fn plan(plan: &Plan, tree: &Tree) -> Below {
        let deeper = tree.levels.iter().skip(usize::from(plan.output_level) + 1);
        Below::of_runs(
            deeper
                .map(|level| level.overlapping(&plan.bounds).map(|t| t.meta.bounds.clone()).collect())
                .collect(),
        )
    }

    /// Sorted runs of bounds, each ascending and not overlapping.
    pub fn of_runs(runs: Vec<Vec<KeyBounds>>) -> Below {
        let runs = runs.into_iter().filter(|bounds| !bounds.is_empty());
        Below { runs: runs.map(|bounds| Run { bounds, at: 0 }).collect() }
    }

    /// Whether nothing at all lies below.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a table below may hold `key`. Keys must not descend from one question to the next.
    #[inline]
    pub fn may_hold(&mut self, key: &[u8]) -> bool {
        !planted::is(Planted::EarlyTombstone) && self.runs.iter_mut().any(|run| run.may_hold(key))
    }

    /// Whether a table below may hold a key in `start..end`. Independent of [`Below::may_hold`].
    pub fn may_hold_within(&self, start: &[u8], end: &[u8]) -> bool {
        self.runs.iter().any(|run| {
            let first = run.bounds.partition_point(|bounds| bounds.ends_before(start));
            run.bounds.get(first).is_some_and(|bounds| bounds.smallest.as_slice() < end)
        })
    }
}

impl Run {
    fn may_hold(&mut self, key: &[u8]) -> bool {
        while let Some(bounds) = self.bounds.get(self.at) {
            if !bounds.ends_before(key) {
                return bounds.smallest.as_slice() <= key;
            }
            self.at += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(smallest: &str, largest: &str, largest_exclusive: bool) -> KeyBounds {
        KeyBounds { smallest: smallest.into(), largest: largest.into(), largest_exclusive }
    }

    #[test]
    fn keys_and_ranges() {
        let mut below = Below::of_runs(vec![
            vec![bounds("b", "d", false), bounds("f", "h", true)],
            vec![],
            vec![bounds("x", "y", false)],
        ]);
        let answers = ["a", "b", "d", "e", "f", "g", "h", "x", "y", "z"]
            .map(|key| (key, below.may_hold(key.as_bytes())));
        let held: Vec<&str> = answers.iter().filter(|(_, held)| *held).map(|(key, _)| *key).collect();
        assert_eq!(held, ["b", "d", "f", "g", "x", "y"]);
        let within = |start: &str, end: &str| below.may_hold_within(start.as_bytes(), end.as_bytes());
        assert!(within("a", "c") && within("d", "e") && within("w", "z"));
        assert!(!within("a", "b") && !within("da", "f") && !within("h", "x"));
        assert!(!below.is_nothing() && Below::nothing().is_nothing());
        assert!(Below::anything().may_hold(&[0xFF; 300]) && Below::anything().may_hold(b""));
    }
}
