//! The slides' salt, to the letter: one byte, a signed remainder, before the eight bytes of the time.
//!
//! The source stands behind the time, so that events of one moment do not replace each other.

use esker_layouts::kv::{Bytes, Costed, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use esker_layouts::tuple::Space;
use esker_layouts::{OpCost, Result};

use super::events::Event;
use super::orders::{Events, VALUE, count, in_one, put_raw};

/// How many prefixes the slides tell a reader to list: one a server, from 0.
pub(super) const PREFIXES: i8 = 16;

/// `(byte) (Long.hashCode(timestamp) % servers)`, as Java computes it.
pub(super) fn prefix(timestamp: u64) -> i8 {
    let bits = timestamp.cast_signed();
    #[expect(clippy::cast_possible_truncation, reason = "Java's hash code folds the halves of a long")]
    let hash = (bits ^ (timestamp >> 32).cast_signed()) as i32;
    i8::try_from(hash % i32::from(PREFIXES)).unwrap_or_default()
}

/// The first key with `prefix`. Keys are bytes: a negative prefix sorts behind all others.
pub(super) fn start(space: &Space, prefix: i8) -> Vec<u8> {
    [space.prefix(), &prefix.to_be_bytes()].concat()
}

fn at(space: &Space, prefix: i8, time: u64) -> Vec<u8> {
    [start(space, prefix), time.to_be_bytes().to_vec()].concat()
}

/// A table of events under the slides' salt. It reads what the slides forget, too: prefixes below 0.
pub(super) struct SlidesSalt<'k, S> {
    store: &'k S,
    space: Space,
}

impl<'k, S: OrderedKv> SlidesSalt<'k, S> {
    pub(super) fn new(store: &'k S, space: Space) -> Self {
        SlidesSalt { store, space }
    }

    fn key(&self, event: Event) -> Vec<u8> {
        let salted = at(&self.space, prefix(event.time), event.time);
        [salted, event.source.to_be_bytes().to_vec()].concat()
    }

    fn range(&self, prefix: i8, from: u64, to: u64) -> KeyRange {
        KeyRange { start: at(&self.space, prefix, from), end: Some(at(&self.space, prefix, to)) }
    }

    fn event(&self, key: &Bytes) -> Option<Event> {
        let rest = key.get(self.space.prefix().len() + 1..)?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        Some(Event { time: number(rest.get(..8)?)?, source: number(rest.get(8..)?)? })
    }
}

impl<S: OrderedKv> Events for SlidesSalt<'_, S> {
    fn put(&self, event: Event) -> Result<OpCost> {
        put_raw(self.store, &self.key(event), &VALUE)
    }

    fn put_all(&self, events: &[Event]) -> Result<OpCost> {
        in_one(self.store, |tx| {
            for event in events {
                tx.put(&self.key(*event), &VALUE);
            }
            Ok(())
        })
    }

    fn get(&self, event: Event) -> Result<Costed<bool>> {
        let read = self.store.read()?;
        Ok(Costed { value: read.get(&self.key(event))?.is_some(), cost: read.cost() })
    }

    fn between(&self, from: u64, to: u64) -> Result<Costed<Vec<Event>>> {
        let read = self.store.read()?;
        let mut found = Vec::new();
        for prefix in 1 - PREFIXES..PREFIXES {
            for row in read.scan(self.range(prefix, from, to), ScanOptions::new())? {
                found.extend(self.event(&row?.0));
            }
        }
        found.sort_unstable();
        Ok(Costed { value: found, cost: read.cost() })
    }

    fn as_told(&self, from: u64, to: u64) -> Result<Option<usize>> {
        let read = self.store.read()?;
        let counts = (0..PREFIXES).map(|prefix| count(&read, self.range(prefix, from, to)));
        counts.sum::<Result<usize>>().map(Some)
    }
}
