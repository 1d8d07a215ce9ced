use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::cursor::{OwnedEntry, VecCursor};

fn entry(key: &[u8], seqno: u64) -> OwnedEntry {
    let value = format!("{seqno}").into_bytes();
    OwnedEntry { key: key.to_vec(), seqno: SeqNo(seqno), kind: Kind::Put, value }
}

fn walk(merge: &mut impl Cursor) -> Vec<(Vec<u8>, u64)> {
    let mut seen = Vec::new();
    merge.seek_first().expect("sources in memory");
    while merge.valid() {
        seen.push((merge.key().to_vec(), merge.seqno().0));
        merge.next().expect("sources in memory");
    }
    seen
}

#[test]
fn no_source_and_empty_sources_stand_nowhere() {
    let mut none = Merge::<VecCursor>::new(vec![]);
    let mut empty = Merge::new(vec![VecCursor::default(), VecCursor::default()]);
    for merge in [&mut none, &mut empty] {
        for _ in 0..2 {
            merge.seek_first().expect("nothing to fail");
            assert!(!merge.valid() && merge.leader().is_none());
            merge.seek_before(InternalKey::before_all(b"x")).expect("nothing to fail");
            assert!(!merge.valid());
        }
    }
}

#[test]
#[should_panic(expected = "stands nowhere")]
fn stepping_from_nowhere_is_a_mistake() {
    let _ = Merge::new(vec![VecCursor::default()]).next();
}

#[test]
#[should_panic(expected = "walks the other way")]
fn turning_without_a_seek_is_a_mistake() {
    let mut merge = Merge::new(vec![VecCursor::new(vec![entry(b"a", 1), entry(b"b", 2)])]);
    merge.seek_last().expect("memory");
    let _ = merge.next();
}

#[test]
fn a_source_moved_alone_is_taken_up_by_resettle() {
    let left = VecCursor::new((0..10).map(|n| entry(&[n], 1)).collect());
    let right = VecCursor::new((0..10).map(|n| entry(&[n], 2)).collect());
    let mut merge = Merge::new(vec![left, right]);
    merge.seek_first().expect("memory");
    merge.sources_mut()[1].seek(InternalKey::before_all(&[7])).expect("memory");
    merge.resettle().expect("memory");
    let mut seen = Vec::new();
    while merge.valid() {
        seen.push((merge.key()[0], merge.leader()));
        merge.next().expect("memory");
    }
    let only_left = (0..7).map(|n| (n, Some(0)));
    let both = (7..10).flat_map(|n| [(n, Some(1)), (n, Some(0))]);
    assert_eq!(seen, only_left.chain(both).collect::<Vec<_>>());
}

/// Counts its key reads and may fail at a given move.
struct Probe {
    inner: VecCursor,
    moves_left: u32,
    keys: std::cell::Cell<u32>,
}

impl Probe {
    fn new(entries: Vec<OwnedEntry>, moves_left: u32) -> Self {
        Probe { inner: VecCursor::new(entries), moves_left, keys: 0.into() }
    }
    fn tick(&mut self) -> Result<()> {
        if self.moves_left == 0 {
            return Err(Error::corruption(PathBuf::from("probe"), 7, "planted"));
        }
        self.moves_left -= 1;
        Ok(())
    }
}

impl Cursor for Probe {
    fn seek_first(&mut self) -> Result<()> {
        self.tick()?;
        self.inner.seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        self.tick()?;
        self.inner.seek_last()
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.tick()?;
        self.inner.seek(target)
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.tick()?;
        self.inner.seek_before(target)
    }
    fn next(&mut self) -> Result<()> {
        self.tick()?;
        self.inner.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.tick()?;
        self.inner.prev()
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn key(&self) -> &[u8] {
        self.keys.set(self.keys.get() + 1);
        self.inner.key()
    }
    fn seqno(&self) -> SeqNo {
        self.inner.seqno()
    }
    fn kind(&self) -> Kind {
        self.inner.kind()
    }
    fn value(&self) -> &[u8] {
        self.inner.value()
    }
    fn drain_cost(&mut self, cost: &mut OpCost) {
        cost.seeks += 1;
    }
}

#[test]
fn an_error_is_final() {
    let good = Probe::new((0..9).map(|n| entry(&[n, 0], 1)).collect(), 1000);
    let bad = Probe::new((0..9).map(|n| entry(&[n, 1], 1)).collect(), 4);
    let mut merge = Merge::new(vec![good, bad]);
    merge.seek_first().expect("the first move is good");
    let mut rows = 0;
    let error = loop {
        rows += 1;
        if let Err(error) = merge.next() {
            break error;
        }
    };
    assert_eq!(rows, 8, "four moves of the bad source: one seek, three steps");
    assert!(error.is_corruption() && !merge.valid());
    for again in [merge.next(), merge.prev(), merge.seek_first(), merge.seek_last(), merge.resettle()] {
        assert!(again.is_err_and(|e| e.is_corruption()));
    }
    assert!(!merge.valid());
}

#[test]
fn a_run_costs_one_comparison_a_row() {
    // Keys with distinct heads: the merge reads a key once to take its head, and never again.
    let run = Probe::new((0..100).map(|n| entry(&[1, n], 1)).collect(), 1000);
    let others = (2..9u8).map(|first| Probe::new(vec![entry(&[first], 1)], 1000));
    let mut merge = Merge::new(std::iter::once(run).chain(others).collect());
    assert_eq!(walk(&mut merge).len(), 107);
    let keys = merge.sources()[0].keys.get();
    assert_eq!(keys, 200, "100 heads and the 100 reads of this test");
    let mut cost = OpCost::default();
    merge.drain_cost(&mut cost);
    assert_eq!(cost.seeks, 8);
}

#[derive(Clone, Debug)]
enum Move {
    First,
    Last,
    Seek(Vec<u8>, u64),
    SeekBefore(Vec<u8>, u64),
    Next(u8),
    Prev(u8),
}

/// Few distinct keys, some with equal heads, so that ties are common.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..3, 0..4),
        prop::collection::vec(0u8..3, 0..3).prop_map(|tail| [b"longhead".as_slice(), &tail].concat()),
        (0usize..3, prop::collection::vec(prop_oneof![0u8..3, Just(0xFF)], 0..12)).prop_map(
            |(start, tail)| {
                let start = [&[b'p'; 20][..], &[b'p'; 290], &[0xFF; 9]][start];
                [start, &tail].concat()
            }
        ),
        Just(vec![0xFF; 8]),
        Just(vec![0xFF; 9]),
    ]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => (key(), 0u64..220).prop_map(|(k, n)| Move::Seek(k, n)),
        2 => (key(), 0u64..220).prop_map(|(k, n)| Move::SeekBefore(k, n)),
        6 => (1u8..12).prop_map(Move::Next),
        6 => (1u8..12).prop_map(Move::Prev),
    ];
    prop::collection::vec(one, 1..40)
}

/// Have `cursor` stand where it stands, for a walk in `direction`.
fn turn(cursor: &mut impl Cursor, direction: Direction) {
    let (key, seqno) = (cursor.key().to_vec(), cursor.seqno());
    match direction {
        Direction::Forward => cursor.seek(InternalKey::new(&key, seqno)),
        Direction::Backward => cursor.seek_before(InternalKey::new(&key, SeqNo(seqno.0 - 1))),
    }
    .expect("memory");
    assert_eq!(cursor.internal_key(), InternalKey::new(&key, seqno));
}

fn apply(cursor: &mut impl Cursor, step: &Move) -> Vec<Option<OwnedEntry>> {
    let mut seen = Vec::new();
    match step {
        Move::Next(_) if cursor.valid() => turn(cursor, Direction::Forward),
        Move::Prev(_) if cursor.valid() => turn(cursor, Direction::Backward),
        _ => {}
    }
    let mut note = |c: &dyn Cursor| {
        seen.push(c.valid().then(|| OwnedEntry {
            key: c.key().to_vec(),
            seqno: c.seqno(),
            kind: c.kind(),
            value: c.value().to_vec(),
        }));
    };
    match step {
        Move::First => cursor.seek_first().expect("memory"),
        Move::Last => cursor.seek_last().expect("memory"),
        Move::Seek(k, n) => cursor.seek(InternalKey::new(k, SeqNo(*n))).expect("memory"),
        Move::SeekBefore(k, n) => cursor.seek_before(InternalKey::new(k, SeqNo(*n))).expect("memory"),
        Move::Next(times) => {
            for _ in 0..*times {
                if cursor.valid() {
                    cursor.next().expect("memory");
                }
                note(cursor);
            }
        }
        Move::Prev(times) => {
            for _ in 0..*times {
                if cursor.valid() {
                    cursor.prev().expect("memory");
                }
                note(cursor);
            }
        }
    }
    note(cursor);
    seen
}

/// Entries with these keys, numbered as they come: a merge of as many sources, each entry in the one beside its key, and
/// all of them.
fn dealt(rows: Vec<(Vec<u8>, usize)>, sources: usize) -> (Merge<VecCursor>, Vec<OwnedEntry>) {
    let mut parts = vec![Vec::new(); sources];
    let mut all = Vec::new();
    for (n, (key, source)) in rows.into_iter().enumerate() {
        let entry = entry(&key, n as u64 + 1);
        parts[source % sources].push(entry.clone());
        all.push(entry);
    }
    (Merge::new(parts.into_iter().map(VecCursor::new).collect()), all)
}

/// Ranks order the sources behind the leader by where they stand.
fn check_ranks(merge: &Merge<VecCursor>) {
    if !merge.ranks.are_chosen() {
        return;
    }
    let rank = |source: &VecCursor| match merge.direction {
        _ if !source.valid() => u128::MAX,
        Direction::Forward => merge.ranks.of(source.key()),
        Direction::Backward => !merge.ranks.of(source.key()),
    };
    let behind: Vec<usize> = merge.order.iter().skip(1).map(|place| place.source).collect();
    for pair in behind.windows(2) {
        let [a, b] = [&merge.sources[pair[0]], &merge.sources[pair[1]]].map(rank);
        assert_eq!(merge.ranks.order(pair[0], pair[1]), a.cmp(&b));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    #[test]
    fn equals_one_cursor_over_everything(
        rows in prop::collection::vec((key(), 0usize..9), 0..120),
        sources in 1usize..9,
        moves in moves(),
    ) {
        let (mut merge, all) = dealt(rows, sources);
        let mut expected = VecCursor::new(all);
        for step in &moves {
            prop_assert_eq!(apply(&mut merge, step), apply(&mut expected, step), "after {:?}", step);
            if let Some(leader) = merge.leader() {
                prop_assert_eq!(merge.sources()[leader].internal_key(), expected.internal_key());
            }
        }

    }

    #[test]
    fn a_step_in_a_run_leads_on_exactly_while_the_leader_does(
        rows in prop::collection::vec((key(), 0usize..9), 0..120),
        sources in 1usize..9,
    ) {
        let (mut merge, all) = dealt(rows, sources);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut expected = VecCursor::new(all.clone());
            let step = |cursor: &mut dyn Cursor| match direction {
                Direction::Forward => cursor.next(),
                Direction::Backward => cursor.prev(),
            };
            if direction == Direction::Forward {
                merge.seek_first().and_then(|()| expected.seek_first()).expect("memory");
            } else {
                merge.seek_last().and_then(|()| expected.seek_last()).expect("memory");
            }
            while merge.valid() {
                prop_assert_eq!(merge.internal_key(), expected.internal_key());
                let (leader, left) = (merge.leader(), merge.key().to_vec());
                let taken = match direction {
                    _ if !merge.leads_alone() => RunStep::Stays,
                    Direction::Forward => merge.next_in_run(),
                    Direction::Backward => merge.prev_in_run(),
                };
                let goes_on = merge.leader() == leader && merge.leads_alone();
                match taken {
                    RunStep::Leads { entry, .. } => {
                        prop_assert!(goes_on && merge.key() != left);
                        prop_assert_eq!(entry.key, std::ptr::from_ref(merge.key()));
                    }
                    RunStep::Ended => prop_assert!(!goes_on),
                    RunStep::Stays => step(&mut merge).expect("memory"),
                }
                step(&mut expected).expect("memory");
                check_ranks(&merge);
            }
            prop_assert!(!expected.valid());
        }
    }

    #[test]
    fn a_lent_leader_goes_on_below_the_runner_up(
        rows in prop::collection::vec((key(), 0usize..9), 1..120),
        sources in 1usize..9,
    ) {
        let (mut merge, all) = dealt(rows, sources);
        let mut seen = 0;
        merge.seek_first().expect("memory");
        while merge.valid() {
            seen += 1 + merge.pass_older().expect("memory");
            let leader = merge.leader();
            let second = merge.second().filter(|second| second.valid()).map(|second| second.key().to_vec());
            let (lent, below) = merge.leader_below();
            let is_below = match below {
                Below::Head(below) => {
                    prop_assert_eq!(below, second.map_or(u64::MAX, |second| head(&second)));
                    head(lent.key()) < below
                }
                Below::Key(below) => {
                    prop_assert_eq!(Some(below), second.as_deref());
                    prop_assert_eq!(head(below), head(lent.key()));
                    lent.key() < below
                }
            };
            let last = lent.key().to_vec();
            prop_assert!(is_below || head(&last) == u64::MAX, "a leader which leads alone");
            let mut moved = false;
            let step = merge.next_behind_run(|lent| {
                let step = lent.next_distinct();
                moved = step.is_some();
                step
            });
            let leads = merge.leader() == leader && merge.leads_alone();
            match step {
                RunStep::Leads { .. } => prop_assert!(moved && leads),
                RunStep::Ended => prop_assert!(moved && !leads),
                RunStep::Stays => prop_assert!(!moved && leads && merge.key() == &last[..]),
            }
            if !moved {
                merge.next().expect("memory");
                while merge.valid() && merge.key() == last {
                    seen += 1;
                    merge.next().expect("memory");
                }
            }
        }
        prop_assert_eq!(seen, all.len() as u64);
    }

    #[test]
    fn passing_older_versions_leaves_each_key_once_and_a_seek_finds_them(
        rows in prop::collection::vec((key(), 0usize..9), 1..120),
        sources in 1usize..9,
        back_at in 0usize..200,
    ) {
        let (mut merge, all) = dealt(rows, sources);
        let mut expected = VecCursor::new(all.clone());
        merge.seek_first().expect("memory");
        expected.seek_first().expect("memory");
        let (mut keys, mut entries) = (0, 0);
        while merge.valid() {
            prop_assert_eq!(merge.internal_key(), expected.internal_key());
            let newest = merge.internal_key();
            let newest = (newest.user.to_vec(), newest.seqno);
            entries += 1 + merge.pass_older().expect("memory");
            prop_assert!(merge.leads_alone());
            prop_assert_eq!((merge.key(), merge.seqno()), (newest.0.as_slice(), newest.1));
            if keys == back_at {
                let here = InternalKey::new(&newest.0, newest.1);
                merge.seek_before(here).expect("memory");
                expected.seek_before(here).expect("memory");
                prop_assert_eq!(merge.valid(), expected.valid());
                if merge.valid() {
                    prop_assert_eq!(merge.internal_key(), expected.internal_key());
                }
                return Ok(());
            }
            keys += 1;
            merge.next().expect("memory");
            while merge.valid() && merge.key() == newest.0 {
                entries += 1;
                merge.next().expect("memory");
            }
            while expected.valid() && expected.key() == newest.0 {
                expected.next().expect("memory");
            }
        }
        prop_assert!(!expected.valid());
        prop_assert_eq!(entries, all.len() as u64);
    }

    #[test]
    fn passing_what_is_overwritten_leaves_the_newest_that_is_seen(
        rows in prop::collection::vec((key(), 0usize..9), 1..120),
        sources in 1usize..9,
        bound in (0u64..210).prop_map(SeqNo),
    ) {
        let (mut merge, mut all) = dealt(rows, sources);
        merge.seek_last().expect("memory");
        let (mut last_seen, mut unseen, mut entries) = (Vec::<(Vec<u8>, SeqNo)>::new(), Vec::new(), 0);
        while merge.valid() {
            entries += 1 + merge.pass_overwritten(bound);
            let here = (merge.key().to_vec(), merge.seqno());
            if here.1 > bound {
                unseen.push(here);
            } else {
                last_seen.retain(|(key, _)| *key != here.0);
                last_seen.push(here);
            }
            merge.prev().expect("memory");
        }
        prop_assert_eq!(entries, all.len() as u64);
        all.sort_by(|a, b| b.internal_key().cmp(&a.internal_key()));
        let (newer, mut seen): (Vec<_>, Vec<_>) = all.into_iter().partition(|entry| entry.seqno > bound);
        let pairs = |entries: Vec<OwnedEntry>| entries.into_iter().map(|e| (e.key, e.seqno)).collect::<Vec<_>>();
        prop_assert_eq!(unseen, pairs(newer));
        seen.reverse();
        seen.dedup_by(|older, newer| older.key == newer.key);
        seen.reverse();
        prop_assert_eq!(last_seen, pairs(seen));
    }

    #[test]
    fn passing_what_hides_leaves_the_newest_of_each_other_key(
        rows in prop::collection::vec((key(), 0usize..9), 1..120),
        sources in 1usize..9,
        max in 0u32..9,
        hides in prop::collection::vec(any::<bool>(), 201),
    ) {
        let hides = |seqno: SeqNo| hides[usize::try_from(seqno.0).expect("few")];
        let (mut merge, mut all) = dealt(rows, sources);
        merge.seek_first().expect("memory");
        let (mut seen, mut entries) = (Vec::new(), 0);
        while merge.valid() {
            let passed = merge.pass_hiding(max, |source| hides(source.seqno())).expect("memory");
            prop_assert!(passed.leading <= max);
            entries += u64::from(passed.leading) + passed.hidden;
            if !merge.valid() {
                break;
            }
            let newest = (merge.key().to_vec(), merge.seqno());
            while merge.valid() && merge.key() == newest.0 {
                entries += 1;
                merge.next().expect("memory");
            }
            if !hides(newest.1) {
                seen.push(newest);
            }
        }
        prop_assert_eq!(entries, all.len() as u64);
        all.sort_by(|a, b| a.internal_key().cmp(&b.internal_key()));
        all.dedup_by(|older, newer| older.key == newer.key);
        let left = all.into_iter().filter(|entry| !hides(entry.seqno));
        prop_assert_eq!(seen, left.map(|entry| (entry.key, entry.seqno)).collect::<Vec<_>>());
    }
}
