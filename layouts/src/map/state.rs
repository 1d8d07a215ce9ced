//! The versions of every key, the live snapshots, and the writes of recent commits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;

use crate::kv::KeyRange;

/// A commit's number; 0 is the empty store.
pub(super) type Version = u64;

/// The versions of one key, ascending; `None` is a removal.
type History = Vec<(Version, Option<Bytes>)>;

#[derive(Debug, Default)]
pub(super) struct State {
    rows: BTreeMap<Bytes, History>,
    /// The newest commit.
    newest: Version,
    /// Live snapshots: version and how many hold it.
    snapshots: BTreeMap<Version, usize>,
    /// What each commit wrote, as long as a snapshot older than it lives.
    log: VecDeque<(Version, Vec<Written>)>,
    /// Keys that will have a superfluous version once no snapshot is older than the number.
    garbage: VecDeque<(Version, Bytes)>,
}

/// Something a commit wrote.
#[derive(Clone, Debug)]
pub(super) enum Written {
    Key(Bytes),
    Range(KeyRange),
}

impl State {
    pub(super) fn newest(&self) -> Version {
        self.newest
    }

    pub(super) fn versions(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }

    /// Hold the newest version.
    pub(super) fn acquire(&mut self) -> Version {
        *self.snapshots.entry(self.newest).or_default() += 1;
        self.newest
    }

    /// Let `version` go.
    pub(super) fn release(&mut self, version: Version) {
        if let Some(holders) = self.snapshots.get_mut(&version) {
            *holders -= 1;
            if *holders == 0 {
                self.snapshots.remove(&version);
                self.collect();
            }
        }
    }

    /// The value of `key` as of `version`.
    pub(super) fn get(&self, key: &[u8], version: Version) -> Option<&Bytes> {
        visible(self.rows.get(key)?, version)
    }

    /// The live rows of `range` as of `version`, in key order, usable from both ends.
    pub(super) fn range(
        &self,
        range: &KeyRange,
        version: Version,
    ) -> impl DoubleEndedIterator<Item = (&Bytes, &Bytes)> {
        let start = Bound::Included(range.start.as_slice());
        let end = match range.end.as_deref() {
            Some(end) => Bound::Excluded(end.max(&range.start)),
            None => Bound::Unbounded,
        };
        self.rows
            .range::<[u8], _>((start, end))
            .filter_map(move |(key, history)| Some((key, visible(history, version)?)))
    }

    /// What commits later than `version` wrote.
    pub(super) fn written_since(&self, version: Version) -> impl Iterator<Item = &Written> {
        let first = self.log.partition_point(|(number, _)| *number <= version);
        self.log.range(first..).flat_map(|(_, writes)| writes)
    }

    /// Install `changes` as the next commit, of which `written` is the trace for others' conflicts.
    pub(super) fn install(&mut self, changes: Vec<(Bytes, Option<Bytes>)>, written: Vec<Written>) {
        self.newest += 1;
        let version = self.newest;
        for (key, value) in changes {
            let history = self.rows.entry(key.clone()).or_default();
            history.push((version, value));
            self.garbage.push_back((version, key));
        }
        if !self.snapshots.is_empty() {
            self.log.push_back((version, written));
        }
        self.collect();
    }

    /// Drop what no live snapshot can see.
    fn collect(&mut self) {
        let oldest = self.snapshots.keys().next().copied().unwrap_or(self.newest);
        while self.log.front().is_some_and(|(version, _)| *version <= oldest) {
            self.log.pop_front();
        }
        while let Some((_, key)) = self.garbage.pop_front_if(|(version, _)| *version <= oldest) {
            let Some(history) = self.rows.get_mut(&key) else { continue };
            let seen = history.partition_point(|(version, _)| *version <= oldest);
            history.drain(..seen.saturating_sub(1));
            if history.first().is_some_and(|(version, value)| *version <= oldest && value.is_none()) {
                history.remove(0);
            }
            if history.is_empty() {
                self.rows.remove(&key);
            }
        }
    }
}

fn visible(history: &[(Version, Option<Bytes>)], version: Version) -> Option<&Bytes> {
    history.iter().rev().find(|(number, _)| *number <= version)?.1.as_ref()
}
