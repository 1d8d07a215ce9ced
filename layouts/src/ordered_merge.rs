//! Several sorted sources as one: the merge under salted buckets and column families.
//!
//! Invariant: every source yields its keys in the direction of the merge; then so does the merge. Among
//! equal keys the source of the lower number comes first, or last in reverse.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::Result;

/// The next item of a source.
struct Head<K, T> {
    key: K,
    item: T,
    source: usize,
    reverse: bool,
}

impl<K: Ord, T> Ord for Head<K, T> {
    /// The greatest is the next to be yielded.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = (&self.key, self.source).cmp(&(&other.key, other.source));
        if self.reverse { order } else { order.reverse() }
    }
}

impl<K: Ord, T> PartialOrd for Head<K, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, T> PartialEq for Head<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord, T> Eq for Head<K, T> {}

/// The merge. Holds at most one item of each source; ends after the first error.
pub(crate) struct OrderedMerge<K, T, I> {
    sources: Vec<I>,
    heads: BinaryHeap<Head<K, T>>,
    reverse: bool,
    started: bool,
    /// The source of the item yielded last: read on only when more is asked for.
    behind: Option<usize>,
}

impl<K: Ord, T, I: Iterator<Item = Result<(K, T)>>> OrderedMerge<K, T, I> {
    pub(crate) fn new(sources: Vec<I>, reverse: bool) -> Self {
        let heads = BinaryHeap::with_capacity(sources.len());
        OrderedMerge { sources, heads, reverse, started: false, behind: None }
    }

    /// The next item of source number `source`.
    fn head(&mut self, source: usize) -> Result<Option<Head<K, T>>> {
        let next = self.sources.get_mut(source).and_then(Iterator::next).transpose()?;
        Ok(next.map(|(key, item)| Head { key, item, source, reverse: self.reverse }))
    }

    /// The first of `head` and the heap's; the heap keeps the other. One way down the heap, where to push one
    /// and pop the other takes two.
    fn first(&mut self, mut head: Head<K, T>) -> Head<K, T> {
        if let Some(mut top) = self.heads.peek_mut()
            && *top > head
        {
            std::mem::swap(&mut *top, &mut head);
        }
        head
    }

    fn step(&mut self) -> Result<Option<(K, T)>> {
        if let [only] = self.sources.as_mut_slice() {
            return only.next().transpose();
        }
        if !self.started {
            self.started = true;
            for source in 0..self.sources.len() {
                if let Some(head) = self.head(source)? {
                    self.heads.push(head);
                }
            }
        }
        let behind = self.behind.take().map(|source| self.head(source)).transpose()?.flatten();
        let next = match behind {
            Some(head) => Some(self.first(head)),
            None => self.heads.pop(),
        };
        Ok(next.map(|head| {
            self.behind = Some(head.source);
            (head.key, head.item)
        }))
    }
}

impl<K: Ord, T, I: Iterator<Item = Result<(K, T)>>> Iterator for OrderedMerge<K, T, I> {
    type Item = Result<(K, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step().transpose();
        if matches!(next, Some(Err(_))) {
            self.heads.clear();
            self.sources.clear();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn sources<'a>(lists: &[&'a [u32]]) -> Vec<impl Iterator<Item = Result<(u32, usize)>> + use<'a>> {
        lists
            .iter()
            .enumerate()
            .map(|(source, list)| list.iter().copied().map(move |key| Ok((key, source))))
            .collect()
    }

    #[test]
    fn merges_both_ways_with_ties_by_source() {
        let up = OrderedMerge::new(sources(&[&[1, 4, 4], &[], &[2, 4, 9]]), false);
        let up: Vec<_> = up.map(|next| next.expect("no errors")).collect();
        assert_eq!(up, [(1, 0), (2, 2), (4, 0), (4, 0), (4, 2), (9, 2)]);
        let down = OrderedMerge::new(sources(&[&[4, 4, 1], &[], &[9, 4, 2]]), true);
        let down: Vec<_> = down.map(|next| next.expect("no errors")).collect();
        assert_eq!(down, up.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn an_error_ends_the_merge() {
        let broken = [Ok((1, ())), Err(Error::Conflict { attempts: 1 }), Ok((3, ()))].into_iter();
        let mut merge = OrderedMerge::new(vec![broken], false);
        assert!(matches!(merge.next(), Some(Ok((1, ())))));
        assert!(matches!(merge.next(), Some(Err(Error::Conflict { .. }))));
        assert!(merge.next().is_none());
    }
}
