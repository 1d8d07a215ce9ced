//! Keys of many ranges, each kept once.
//!
//! Scans of a queue's head lie within each other, and a layout watches one range again with each of its writes: what is
//! added to a set that has it costs one look-up and no memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use esker_base::KeyspaceId;
use esker_base::bounds::Bounds;
use esker_base::key::after;

/// The keys that any of the ranges added holds, in ranges that neither overlap nor touch.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    /// By keyspace; where each starts, and where it ends. A keyspace of which an empty range was added has none.
    keyspaces: BTreeMap<KeyspaceId, BTreeMap<Vec<u8>, End>>,
}

/// Where a range ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Before this key.
    Before(Vec<u8>),
    /// With the last key there can be.
    Last,
}

impl End {
    fn is_behind(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < end.as_slice(),
            End::Last => true,
        }
    }
}

impl RangeSet {
    /// Add the keys within `bounds`. [`Bounds::nothing`] changes nothing; of other bounds that hold no key the keyspace counts.
    pub(super) fn add(&mut self, keyspace: KeyspaceId, bounds: Bounds) {
        if bounds.are_nothing() {
            return;
        }
        let ranges = self.keyspaces.entry(keyspace).or_default();
        let start = match bounds.start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key,
            Bound::Excluded(key) => after(&key),
        };
        let mut end = match bounds.end {
            Bound::Unbounded => End::Last,
            Bound::Included(key) => End::Before(after(&key)),
            Bound::Excluded(key) => End::Before(key),
        };
        if !end.is_behind(&start) {
            return;
        }
        // What touches it joins it; from the last on, which is the only one if it has all of it.
        loop {
            let up_to_end = match &end {
                End::Before(end) => Bound::Included(end.as_slice()),
                End::Last => Bound::Unbounded,
            };
            let before = ranges.range_mut::<[u8], _>((Bound::Unbounded, up_to_end)).next_back();
            let Some((other, other_end)) = before.filter(|(_, other_end)| match other_end {
                End::Before(other_end) => *other_end >= start,
                End::Last => true,
            }) else {
                break;
            };
            if *other <= start {
                // Nothing before it touches this one, or it.
                if *other_end < end {
                    *other_end = end;
                }
                return;
            }
            let (other, other_end) = (other.clone(), std::mem::replace(other_end, End::Last));
            ranges.remove(&other);
            end = end.max(other_end);
        }
        ranges.insert(start, end);
    }

    /// Whether `key` is among them.
    pub(super) fn contains(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let ranges = self.keyspaces.get(&keyspace);
        let last = ranges.and_then(|ranges| ranges.range::<[u8], _>(upto).next_back());
        last.is_some_and(|(_, last)| last.is_behind(key))
    }

    /// Whether any key from `start` up to `end`, which is not one, is among them.
    pub(super) fn overlaps(&self, keyspace: KeyspaceId, start: &[u8], end: &[u8]) -> bool {
        let upto = (Bound::Unbounded, Bound::Excluded(end));
        let ranges = self.keyspaces.get(&keyspace);
        let last = ranges.and_then(|ranges| ranges.range::<[u8], _>(upto).next_back());
        start < end && last.is_some_and(|(_, last)| last.is_behind(start))
    }

    /// The keyspaces of which anything was added.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.keyspaces.keys().copied()
    }

    /// The ranges, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (KeyspaceId, Bounds)> {
        self.keyspaces.iter().flat_map(|(keyspace, ranges)| {
            ranges.iter().map(|(start, end)| {
                let end = match end {
                    End::Before(end) => Bound::Excluded(end.clone()),
                    End::Last => Bound::Unbounded,
                };
                (*keyspace, Bounds { start: Bound::Included(start.clone()), end })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: KeyspaceId = KeyspaceId(1);

    fn set<'a>(ranges: impl IntoIterator<Item = &'a Bounds>) -> RangeSet {
        let mut set = RangeSet::default();
        ranges.into_iter().for_each(|bounds| set.add(MAP, bounds.clone()));
        set
    }

    /// A set has the keys that any of the ranges has, in the order of keys, none twice, and says so each way it is asked.
    #[test]
    fn a_set_holds_what_its_ranges_hold() {
        let bounds = |key: &str| [Bound::Included(key.into()), Bound::Excluded(key.into())];
        let ends: Vec<Bound<Vec<u8>>> =
            ["", "b", "c"].into_iter().flat_map(bounds).chain([Bound::Unbounded]).collect();
        let starts = ends.iter().flat_map(|start| ends.iter().map(move |end| (start.clone(), end.clone())));
        let all: Vec<Bounds> = starts.map(|(start, end)| Bounds { start, end }).collect();
        let holds = |bounds: &Bounds, key: &[u8]| {
            !bounds.are_nothing() && !bounds.before_start(key) && !bounds.past_end(key)
        };
        let keys = [&b""[..], b"\0", b"a", b"b", b"b\0", b"bb", b"c", b"c\0", b"d"];
        for some in all.iter().flat_map(|a| all.iter().map(move |b| [a, b])) {
            for third in all.iter().step_by(5) {
                let ranges = [some[0], third, some[1]];
                let set = set(ranges);
                let kept: Vec<_> = set.iter().collect();
                for (index, key) in keys.into_iter().enumerate() {
                    let held = ranges.iter().any(|bounds| holds(bounds, key));
                    let times = kept.iter().filter(|(_, bounds)| holds(bounds, key)).count();
                    assert_eq!(times, usize::from(held), "{ranges:?} {kept:?} {key:?}");
                    assert_eq!(set.contains(MAP, key), held, "{ranges:?} {key:?}");
                    assert!(!set.contains(KeyspaceId(2), key));
                    for end in &keys[index..] {
                        let overlap = kept.iter().any(|(_, bounds)| bounds.overlap(key, end));
                        assert_eq!(set.overlaps(MAP, key, end), overlap, "{kept:?} {key:?} {end:?}");
                    }
                }
                assert!(kept.iter().map(|(_, bounds)| &bounds.start).is_sorted_by(|a, b| match (a, b) {
                    (Bound::Included(a), Bound::Included(b)) => a < b,
                    _ => false,
                }));
            }
        }
    }

    #[test]
    fn ranges_within_each_other_are_one() {
        let to = |end: u8| Bounds { start: Bound::Unbounded, end: Bound::Included(vec![end]) };
        let within = [to(3), to(9), to(9), to(5)];
        assert_eq!(set(&within).iter().count(), 1);
        // One that has many of them within.
        let apart: Vec<Bounds> = (0..200)
            .step_by(2)
            .map(|n| Bounds { start: Bound::Included(vec![n]), end: Bound::Excluded(vec![n + 1]) })
            .collect();
        let mut all = set(&apart);
        assert_eq!(all.iter().count(), 100);
        all.add(MAP, Bounds { start: Bound::Included(vec![21]), end: Bound::Excluded(vec![100]) });
        assert_eq!(all.iter().count(), 100 - 40, "from 20 to 101 is one");
        all.add(MAP, Bounds { start: Bound::Unbounded, end: Bound::Unbounded });
        assert_eq!(all.iter().count(), 1);
    }

    #[test]
    fn ranges_of_different_keyspaces_stay_apart() {
        let mut set = RangeSet::default();
        for id in [2, 1, 2, 1] {
            set.add(KeyspaceId(id), Bounds { start: Bound::Unbounded, end: Bound::Unbounded });
        }
        set.add(KeyspaceId(3), Bounds::nothing());
        set.add(KeyspaceId(4), Bounds { start: Bound::Excluded(vec![1]), end: Bound::Included(vec![1]) });
        assert_eq!(set.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(set.keyspaces().map(|id| id.0).collect::<Vec<_>>(), [1, 2, 4]);
    }
}
