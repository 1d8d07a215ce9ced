//! Histories written by hand: those with an anomaly, and those that only look like one.

use super::{Anomaly, Call, Edge, Fate, Observed, find};

const X: u64 = 1;
const Y: u64 = 2;

fn append(key: u64, value: u64) -> Call {
    Call::Append(key, value)
}

fn read(key: u64, list: &[u64]) -> Call {
    Call::Read(key, list.to_vec())
}

fn committed(calls: &[Call]) -> Observed {
    Observed { fate: Fate::Committed, calls: calls.to_vec() }
}

fn aborted(calls: &[Call]) -> Observed {
    Observed { fate: Fate::Aborted, calls: calls.to_vec() }
}

fn class(history: &[Observed]) -> &'static str {
    let anomalies = find(history);
    assert_eq!(anomalies.len(), 1, "{anomalies:?}");
    anomalies[0].class()
}

#[test]
fn a_serial_history_has_no_anomaly() {
    let history = [
        committed(&[read(X, &[]), append(X, 1), read(X, &[1])]),
        committed(&[read(X, &[1]), append(Y, 2), append(Y, 3)]),
        aborted(&[read(X, &[1]), append(X, 9)]),
        committed(&[read(Y, &[2, 3]), append(X, 4)]),
        committed(&[read(X, &[1, 4]), read(Y, &[2, 3])]),
    ];
    assert_eq!(find(&history), []);
}

#[test]
fn an_old_snapshot_is_no_anomaly_by_itself() {
    // The second reads what was before the first, and comes before it.
    let history = [
        committed(&[append(X, 1), append(Y, 2)]),
        committed(&[read(X, &[]), read(Y, &[])]),
        committed(&[read(X, &[1]), read(Y, &[2])]),
    ];
    assert_eq!(find(&history), []);
}

#[test]
fn a_write_skew() {
    let history = [
        committed(&[read(X, &[]), read(Y, &[]), append(X, 1)]),
        committed(&[read(X, &[]), read(Y, &[]), append(Y, 2)]),
        committed(&[read(X, &[1]), read(Y, &[2])]),
    ];
    assert_eq!(class(&history), "G2, a write skew or long fork");
}

#[test]
fn a_long_fork() {
    let history = [
        committed(&[append(X, 1)]),
        committed(&[append(Y, 2)]),
        committed(&[read(X, &[1]), read(Y, &[])]),
        committed(&[read(X, &[]), read(Y, &[2])]),
        committed(&[read(X, &[1]), read(Y, &[2])]),
    ];
    assert_eq!(class(&history), "G2, a write skew or long fork");
    assert!(matches!(&find(&history)[0], Anomaly::Cycle(edges) if edges.len() == 4));
}

#[test]
fn a_phantom() {
    // Both found the range empty and each put another key into it.
    let history = [
        committed(&[read(X, &[]), read(Y, &[]), append(X, 1)]),
        committed(&[read(X, &[]), read(Y, &[]), append(Y, 2)]),
        committed(&[read(X, &[1]), read(Y, &[2])]),
    ];
    assert_eq!(class(&history), "G2, a write skew or long fork");
}

#[test]
fn a_lost_update() {
    // Both read the list and wrote it back with a value of their own behind.
    let overwritten = [
        committed(&[read(X, &[]), append(X, 1)]),
        committed(&[read(X, &[]), append(X, 2)]),
        committed(&[read(X, &[2])]),
    ];
    assert_eq!(find(&overwritten), [Anomaly::Lost(X, 1)]);
    // Blind appends behind an old read keep both values, and are a skew all the same.
    let appended = [
        committed(&[read(X, &[]), append(X, 1)]),
        committed(&[read(X, &[]), append(X, 2)]),
        committed(&[read(X, &[1, 2])]),
    ];
    assert_eq!(class(&appended), "G-single, a read skew or lost update");
}

#[test]
fn a_read_skew() {
    let history = [
        committed(&[append(X, 1), append(Y, 2)]),
        committed(&[read(X, &[]), read(Y, &[2])]),
        committed(&[read(X, &[1]), read(Y, &[2])]),
    ];
    assert_eq!(class(&history), "G-single, a read skew or lost update");
}

#[test]
fn dirty_and_intermediate_reads() {
    let dirty = [aborted(&[append(X, 1)]), committed(&[read(X, &[1])])];
    assert_eq!(find(&dirty), [Anomaly::AbortedRead(X, 1)]);
    let half = [
        committed(&[append(X, 1), append(X, 2)]),
        committed(&[read(X, &[1])]),
        committed(&[read(X, &[1, 2])]),
    ];
    assert!(find(&half).contains(&Anomaly::IntermediateRead(X, 1)));
}

#[test]
fn circular_flows() {
    let writes = [
        committed(&[append(X, 1), append(Y, 4)]),
        committed(&[append(X, 2), append(Y, 3)]),
        committed(&[read(X, &[1, 2]), read(Y, &[3, 4])]),
    ];
    assert_eq!(class(&writes), "G0, a write cycle");
    let flow = [
        committed(&[append(X, 1), read(Y, &[2])]),
        committed(&[append(Y, 2), read(X, &[1])]),
        committed(&[read(X, &[1]), read(Y, &[2])]),
    ];
    assert_eq!(class(&flow), "G1c, a circular flow of information");
    let Anomaly::Cycle(edges) = &find(&flow)[0] else { panic!("no cycle") };
    assert_eq!(edges.iter().map(|(_, edge)| *edge).collect::<Vec<_>>(), [Edge::Wr, Edge::Wr]);
}

#[test]
fn values_from_nowhere_and_orders_that_differ() {
    assert_eq!(find(&[committed(&[read(X, &[7])])]), [Anomaly::Garbage(X, 7)]);
    let orders = [
        committed(&[append(X, 1)]),
        committed(&[append(X, 2)]),
        committed(&[read(X, &[1, 2])]),
        committed(&[read(X, &[2, 1])]),
    ];
    assert_eq!(find(&orders), [Anomaly::Incompatible(X)]);
    let own = [committed(&[append(X, 1), read(X, &[])]), committed(&[read(X, &[1])])];
    assert_eq!(find(&own), [Anomaly::Internal(X)]);
}
