//! Who must come before whom: anomalies in histories of lists that are appended to and read.
//!
//! Every appended value is unique, so what a transaction has read says whom it has seen, and the longest
//! list of a key says in which order its values were appended. From that follow three kinds of edges:
//! *ww* from the appender of a value to that of the next, *wr* from an appender to whoever read the value
//! as the last, *rw* from a reader to the appender of the first value it did not see. A cycle is an anomaly:
//! no order of the transactions explains the history. (Adya, "Weak Consistency", 1999; Kingsbury and
//! Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

#[cfg(test)]
mod tests;

/// A key of a list.
pub type ListKey = u64;
/// A value of a list; each is appended once at most.
pub type Appended = u64;

/// One call of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A value was appended to a list.
    Append(ListKey, Appended),
    /// A list was read; one that is not there is empty.
    Read(ListKey, Vec<Appended>),
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its commit was acknowledged.
    Committed,
    /// Its commit was refused, or it was rolled back.
    Aborted,
}

/// A transaction, as its client saw it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What became of it.
    pub fate: Fate,
    /// What it did.
    pub calls: Vec<Call>,
}

/// Why one transaction must come before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// It appended the value before the other's.
    Ww,
    /// The other read what it appended.
    Wr,
    /// The other appended what it did not see yet.
    Rw,
}

/// Something that no order of the committed transactions explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A value was read that nobody appended.
    Garbage(ListKey, Appended),
    /// A value was read whose transaction was aborted (G1a, a dirty read).
    AbortedRead(ListKey, Appended),
    /// A list was read between two values of one transaction (G1b).
    IntermediateRead(ListKey, Appended),
    /// Two reads of a list, neither of which begins with the other.
    Incompatible(ListKey),
    /// A transaction does not see its own append at the end of the list.
    Internal(ListKey),
    /// A committed value is not in the last list (a lost update).
    Lost(ListKey, Appended),
    /// A cycle: transactions by their place in the history, and the edge from each to the next.
    Cycle(Vec<(usize, Edge)>),
}

impl Anomaly {
    /// A cycle's name by its edges.
    pub fn class(&self) -> &'static str {
        let Anomaly::Cycle(edges) = self else { return "not a cycle" };
        let count = |kind: Edge| edges.iter().filter(|(_, edge)| *edge == kind).count();
        match (count(Edge::Rw), count(Edge::Wr)) {
            (0, 0) => "G0, a write cycle",
            (0, _) => "G1c, a circular flow of information",
            (1, _) => "G-single, a read skew or lost update",
            _ => "G2, a write skew or long fork",
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::Cycle(edges) => {
                write!(f, "{}:", self.class())?;
                edges.iter().try_for_each(|(from, edge)| write!(f, " T{from} {edge:?} ->"))?;
                edges.first().map_or(Ok(()), |(first, _)| write!(f, " T{first}"))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// The first anomalies of `history`. Its last transaction has read every list, alone, after all others.
pub fn find(history: &[Observed]) -> Vec<Anomaly> {
    let mut anomalies = Vec::new();
    let appenders = appenders(history);
    let lists = lists(history, &mut anomalies);
    for (key, list) in &lists {
        for value in list {
            match appenders.get(value) {
                Some((other, _)) if other != key => anomalies.push(Anomaly::Garbage(*key, *value)),
                None => anomalies.push(Anomaly::Garbage(*key, *value)),
                Some((_, by)) if history[*by].fate == Fate::Aborted => {
                    anomalies.push(Anomaly::AbortedRead(*key, *value));
                }
                Some(_) => {}
            }
        }
    }
    for (value, (key, by)) in &appenders {
        let there = lists.get(key).is_some_and(|list| list.contains(value));
        if history[*by].fate == Fate::Committed && !there {
            anomalies.push(Anomaly::Lost(*key, *value));
        }
    }
    if anomalies.is_empty() {
        let graph = graph(history, &lists, &appenders, &mut anomalies);
        anomalies.extend(cycle(&graph, history.len()));
    }
    anomalies
}

/// Who appended each value, and to which list.
fn appenders(history: &[Observed]) -> BTreeMap<Appended, (ListKey, usize)> {
    let mut appenders = BTreeMap::new();
    for (by, transaction) in history.iter().enumerate() {
        for call in &transaction.calls {
            if let Call::Append(key, value) = call {
                appenders.insert(*value, (*key, by));
            }
        }
    }
    appenders
}

/// The longest list of each key that a committed transaction has read, all others being its beginnings.
/// What a transaction appended itself is not part of it before others see it.
fn lists(history: &[Observed], anomalies: &mut Vec<Anomaly>) -> BTreeMap<ListKey, Vec<Appended>> {
    let mut lists: BTreeMap<ListKey, Vec<Appended>> = BTreeMap::new();
    for transaction in history.iter().filter(|transaction| transaction.fate == Fate::Committed) {
        for (key, read) in outer_reads(transaction, anomalies) {
            let longest = lists.entry(key).or_default();
            let common = longest.iter().zip(read).take_while(|(a, b)| a == b).count();
            if common < longest.len().min(read.len()) {
                anomalies.push(Anomaly::Incompatible(key));
            } else if read.len() > longest.len() {
                *longest = read.to_vec();
            }
        }
    }
    lists
}

/// What a transaction has read of what others appended: each read without its own values at the end.
fn outer_reads<'a>(
    transaction: &'a Observed,
    anomalies: &mut Vec<Anomaly>,
) -> Vec<(ListKey, &'a [Appended])> {
    let mut own: BTreeMap<ListKey, Vec<Appended>> = BTreeMap::new();
    let mut reads = Vec::new();
    for call in &transaction.calls {
        match call {
            Call::Append(key, value) => own.entry(*key).or_default().push(*value),
            Call::Read(key, list) => {
                let mine = own.get(key).map(Vec::as_slice).unwrap_or_default();
                match list.strip_suffix(mine) {
                    Some(outer) => reads.push((*key, outer)),
                    None => anomalies.push(Anomaly::Internal(*key)),
                }
            }
        }
    }
    reads
}

type Graph = BTreeMap<usize, BTreeSet<(usize, Edge)>>;

/// The edges between different committed transactions.
fn graph(
    history: &[Observed],
    lists: &BTreeMap<ListKey, Vec<Appended>>,
    appenders: &BTreeMap<Appended, (ListKey, usize)>,
    anomalies: &mut Vec<Anomaly>,
) -> Graph {
    let mut graph = Graph::new();
    let by = |value: &Appended| appenders[value].1;
    let mut edge = |from: usize, to: usize, kind: Edge| {
        if from != to {
            graph.entry(from).or_default().insert((to, kind));
        }
    };
    for list in lists.values() {
        list.windows(2).for_each(|pair| edge(by(&pair[0]), by(&pair[1]), Edge::Ww));
    }
    for (reader, transaction) in history.iter().enumerate() {
        if transaction.fate != Fate::Committed {
            continue;
        }
        for (key, read) in outer_reads(transaction, &mut Vec::new()) {
            let list = &lists[&key];
            if let Some(last) = read.last() {
                edge(by(last), reader, Edge::Wr);
                // The next value belongs to the same transaction: it was read half done.
                let next = list.get(read.len());
                if next.is_some_and(|next| by(next) == by(last)) && by(last) != reader {
                    anomalies.push(Anomaly::IntermediateRead(key, *last));
                }
            }
            if let Some(next) = list.get(read.len()) {
                edge(reader, by(next), Edge::Rw);
            }
        }
    }
    graph
}

/// A shortest cycle, of the worst class there is.
fn cycle(graph: &Graph, len: usize) -> Option<Anomaly> {
    [&[Edge::Ww][..], &[Edge::Ww, Edge::Wr], &[Edge::Ww, Edge::Wr, Edge::Rw]].into_iter().find_map(
        |kinds| {
            let within = cyclic(graph, len, kinds);
            let shortest = within.iter().filter_map(|from| around(graph, *from, &within, kinds));
            shortest.min_by_key(Vec::len).map(Anomaly::Cycle)
        },
    )
}

/// The edges from `from` of these kinds.
fn edges<'a>(graph: &'a Graph, from: usize, kinds: &'a [Edge]) -> impl Iterator<Item = (usize, Edge)> + 'a {
    graph.get(&from).into_iter().flatten().copied().filter(|(_, edge)| kinds.contains(edge))
}

/// The transactions that neither nobody comes before nor nobody comes after, others like that left out:
/// every cycle is among them, and if there is none, they are none.
fn cyclic(graph: &Graph, len: usize, kinds: &[Edge]) -> BTreeSet<usize> {
    let mut before = vec![0usize; len];
    (0..len).for_each(|from| edges(graph, from, kinds).for_each(|(to, _)| before[to] += 1));
    let mut left: BTreeSet<usize> = (0..len).collect();
    let mut free: Vec<usize> = (0..len).filter(|at| before[*at] == 0).collect();
    while let Some(at) = free.pop() {
        left.remove(&at);
        for (to, _) in edges(graph, at, kinds) {
            before[to] -= 1;
            if before[to] == 0 {
                free.push(to);
            }
        }
    }
    left
}

/// A shortest way from `from` back to it.
fn around(
    graph: &Graph,
    from: usize,
    within: &BTreeSet<usize>,
    kinds: &[Edge],
) -> Option<Vec<(usize, Edge)>> {
    let mut came: BTreeMap<usize, (usize, Edge)> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for (to, edge) in edges(graph, at, kinds).filter(|(to, _)| within.contains(to)) {
            if came.contains_key(&to) {
                continue;
            }
            came.insert(to, (at, edge));
            if to == from {
                let mut way = vec![came[&from]];
                while way[way.len() - 1].0 != from {
                    way.push(came[&way[way.len() - 1].0]);
                }
                way.reverse();
                return Some(way);
            }
            queue.push_back(to);
        }
    }
    None
}
