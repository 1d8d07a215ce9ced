use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::outputs::Cut;
use crate::testing::{Append, Content, Lab, cover, drive, entry};
use esker_base::FileNumber;
use esker_base::cursor::{OwnedEntry, VecCursor};
use esker_base::ledger::Purpose;
use esker_base::range_tombstone::RangeTombstone;
use esker_base::table_meta::KeyBounds;

/// A run over one source a content, each of one table, with nothing below.
fn input(lab: &Lab, contents: &[Content], snapshots: &[u64]) -> RunInput<LevelCursor<TableCursor>> {
    over(lab, contents.iter().map(|content| lab.source(&[lab.table(content)])).collect(), snapshots)
}

/// The same over these sources.
fn over<C>(lab: &Lab, sources: Vec<RunSource<C>>, snapshots: &[u64]) -> RunInput<C> {
    RunInput {
        sources,
        snapshots: snapshots.iter().copied().map(SeqNo).collect(),
        below: Below::nothing(),
        output_level: 6,
        part: Part::default(),
        operator: Some(Arc::new(Append)),
        cut: Cut::by_size(1 << 20),
        outputs: lab.maker(),
        blobs: BlobRules::none(),
        context: lab.context.clone(),
        remove: lab.remover(),
    }
}

fn of(entries: Vec<OwnedEntry>) -> Content {
    Content { entries, tombstones: Vec::new() }
}

fn merged(lab: &Lab, input: RunInput<LevelCursor<TableCursor>>) -> (RunOutput, Content) {
    let mut run = MergeRun::new(input);
    drive(&mut run, 100).expect("nothing to fail");
    let output = run.finish().expect("the inputs are as described");
    let mut content = Content::default();
    for table in &output.tables {
        content.add(&lab.content(table));
    }
    (output, content)
}

#[test]
fn the_newest_version_survives_at_zero() {
    let lab = Lab::new();
    let newer = of(vec![entry("a", 9, Kind::Put, "new"), entry("b", 8, Kind::Delete, "")]);
    let older = of(vec![
        entry("a", 3, Kind::Put, "old"),
        entry("b", 2, Kind::Put, "x"),
        entry("c", 1, Kind::Put, "c"),
    ]);
    let (output, content) = merged(&lab, input(&lab, &[newer, older], &[9]));
    assert_eq!(content.entries, [entry("a", 0, Kind::Put, "new"), entry("c", 0, Kind::Put, "c")]);
    assert_eq!((output.entries_in, output.zeroed), (5, 2));
    assert_eq!(output.dropped, Dropped { hidden: 2, tombstones: 1, ..Dropped::default() });
    assert_eq!(output.bytes_in, 5 + 7 + 1);
}

#[test]
fn level_0_keeps_its_numbers() {
    let lab = Lab::new();
    let content = of(vec![entry("a", 9, Kind::Put, "new"), entry("b", 8, Kind::Delete, "")]);
    let (_, content) = merged(&lab, RunInput { output_level: 0, ..input(&lab, &[content], &[9]) });
    assert_eq!(content.entries, [entry("a", 9, Kind::Put, "new")]);
}

#[test]
fn a_snapshot_keeps_what_it_sees() {
    let lab = Lab::new();
    let content = of(vec![
        entry("a", 9, Kind::Put, "9"),
        entry("a", 7, Kind::Put, "7"),
        entry("a", 5, Kind::Delete, ""),
        entry("a", 3, Kind::Put, "3"),
    ]);
    let (output, content) = merged(&lab, input(&lab, &[content], &[5, 9]));
    // Number 5 sees the tombstone, which hides 3, and under which nothing is left.
    assert_eq!(content.entries, [entry("a", 9, Kind::Put, "9")]);
    assert_eq!(output.dropped, Dropped { hidden: 2, tombstones: 1, ..Dropped::default() });
}

#[test]
fn what_is_not_visible_yet_hides_nothing() {
    let lab = Lab::new();
    let rows =
        vec![entry("a", 9, Kind::Put, "9"), entry("a", 7, Kind::Put, "7"), entry("a", 5, Kind::Put, "5")];
    let (_, content) = merged(&lab, input(&lab, &[of(rows.clone())], &[5]));
    let zeroed = entry("a", 0, Kind::Put, "5");
    assert_eq!(content.entries, [rows[0].clone(), rows[1].clone(), zeroed]);
}

#[test]
fn a_tombstone_stays_above_what_it_hides() {
    let lab = Lab::new();
    let content = of(vec![entry("a", 9, Kind::Delete, ""), entry("m", 8, Kind::Delete, "")]);
    let bounds = KeyBounds { smallest: b"k".to_vec(), largest: b"z".to_vec(), largest_exclusive: false };
    let below = Below::of_runs(vec![vec![bounds]]);
    let ranges = Content { entries: vec![], tombstones: vec![cover("b", "c", 7), cover("j", "l", 6)] };
    let (output, content) = merged(&lab, RunInput { below, ..input(&lab, &[content, ranges], &[9]) });
    assert_eq!(content.entries, [entry("m", 8, Kind::Delete, "")]);
    assert_eq!(content.tombstones, [cover("j", "l", 6)]);
    assert_eq!((output.dropped.tombstones, output.range_tombstones_dropped), (1, 1));
}

#[test]
fn operands_fold_into_their_base_within_a_stripe() {
    let lab = Lab::new();
    let content = of(vec![
        entry("a", 9, Kind::Merge, "9"),
        entry("a", 8, Kind::Merge, "8"),
        entry("a", 6, Kind::Merge, "6"),
        entry("a", 5, Kind::Put, "5"),
        entry("b", 4, Kind::Merge, "!"),
        entry("b", 3, Kind::Put, "base"),
        entry("c", 2, Kind::Merge, "c"),
    ]);
    let (output, content) = merged(&lab, input(&lab, &[content], &[7, 9]));
    let expected = [
        entry("a", 9, Kind::Merge, "8,9"),
        entry("a", 0, Kind::Put, "5,6"),
        entry("b", 4, Kind::Merge, "!"),
        entry("b", 0, Kind::Put, "base"),
        entry("c", 0, Kind::Put, "c"),
    ];
    assert_eq!(content.entries, expected);
    assert_eq!(output.dropped.folded, 2);
}

#[test]
fn a_panicking_operator_ends_the_run_and_leaves_no_file() {
    let lab = Lab::new();
    let content = of(vec![entry("a", 2, Kind::Merge, "?"), entry("a", 1, Kind::Put, "base")]);
    let first = of((0..200).map(|n| entry(&format!("0{n:04}"), 3 + n, Kind::Put, "some value")).collect());
    let input = RunInput { cut: Cut::by_size(600), ..input(&lab, &[first, content], &[1000]) };
    let before = lab.files();
    let mut run = MergeRun::new(input);
    let held = || lab.context.ledger.held(Purpose::Compaction);
    run.step(100).expect("nothing is wrong with the first rows");
    assert!(held() > 0, "a table is under way");
    let error = drive(&mut run, 100).expect_err("the operator panics");
    assert!(
        matches!(&error, Error::CallbackPanicked { message, .. } if message.contains("holds ?")),
        "{error}"
    );
    assert!(lab.files().len() > before.len(), "some outputs were finished before");
    drop(run);
    assert_eq!((lab.files(), held()), (before, 0));
}

#[test]
fn an_input_that_gives_less_than_promised_is_damage() {
    let lab = Lab::new();
    let rows = || vec![entry("a", 2, Kind::Put, "x"), entry("b", 1, Kind::Put, "y")];
    let mut meta = lab.table(&of(rows()));
    let number = meta.number;
    for (entries, hash) in [(3, meta.content_hash), (2, meta.content_hash ^ 1)] {
        meta.entries = entries;
        meta.content_hash = hash;
        let source =
            RunSource { cursor: VecCursor::new(rows()), tombstones: vec![], tables: vec![meta.clone()] };
        let mut run = MergeRun::new(over(&lab, vec![source], &[9]));
        drive(&mut run, 1 << 20).expect("nothing else is wrong");
        let error = run.finish().expect_err("the description is wrong");
        let Error::Corruption { path, .. } = &error else { panic!("{error}") };
        assert_eq!(path, &Path::new("db").join(FileName::Table(number).to_string()));
    }
}

#[test]
fn a_source_out_of_order_is_damage() {
    /// Gives the same entry twice.
    struct Twice(VecCursor, bool);
    impl Cursor for Twice {
        fn seek_first(&mut self) -> Result<()> {
            self.0.seek_first()
        }
        fn seek_last(&mut self) -> Result<()> {
            self.0.seek_last()
        }
        fn seek(&mut self, target: esker_base::InternalKey<'_>) -> Result<()> {
            self.0.seek(target)
        }
        fn seek_before(&mut self, target: esker_base::InternalKey<'_>) -> Result<()> {
            self.0.seek_before(target)
        }
        fn next(&mut self) -> Result<()> {
            if std::mem::replace(&mut self.1, true) { self.0.next() } else { Ok(()) }
        }
        fn prev(&mut self) -> Result<()> {
            self.0.prev()
        }
        fn valid(&self) -> bool {
            self.0.valid()
        }
        fn key(&self) -> &[u8] {
            self.0.key()
        }
        fn seqno(&self) -> SeqNo {
            self.0.seqno()
        }
        fn kind(&self) -> Kind {
            self.0.kind()
        }
        fn value(&self) -> &[u8] {
            self.0.value()
        }
        fn drain_cost(&mut self, _: &mut OpCost) {}
    }
    let lab = Lab::new();
    let cursor = Twice(VecCursor::new(vec![entry("a", 2, Kind::Put, "x")]), false);
    let sources = vec![RunSource::of_memtable(cursor, None)];
    let mut run = MergeRun::new(over(&lab, sources, &[9]));
    let error = drive(&mut run, 1 << 20).expect_err("twice the same").to_string();
    assert!(error.contains("not in order"), "{error}");
}

/// One write of a random history.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put(u8),
    Delete(u8),
    Merge(u8, &'static str),
    DeleteRange(u8, u8),
}

pub(crate) fn key(n: u8) -> String {
    format!("key{n:02}")
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let k = 0u8..14;
    prop_oneof![
        5 => k.clone().prop_map(Op::Put),
        3 => k.clone().prop_map(Op::Delete),
        3 => (k.clone(), prop_oneof![6 => Just("m"), 2 => Just("~"), 1 => Just("!")]).prop_map(|(k, v)| Op::Merge(k, v)),
        1 => (k, 1u8..6).prop_map(|(k, len)| Op::DeleteRange(k, k + len)),
    ]
}

/// Writes number `first`, `first + 1`, …
pub(crate) fn content(ops: &[Op], first: u64) -> Content {
    let mut content = Content::default();
    for (op, seqno) in ops.iter().zip(first..) {
        match op {
            Op::Put(k) => content.entries.push(entry(&key(*k), seqno, Kind::Put, &format!("v{seqno}"))),
            Op::Delete(k) => content.entries.push(entry(&key(*k), seqno, Kind::Delete, "")),
            Op::Merge(k, mark) => {
                content.entries.push(entry(&key(*k), seqno, Kind::Merge, &format!("{mark}{seqno}")));
            }
            Op::DeleteRange(from, to) => content.tombstones.push(cover(&key(*from), &key(*to), seqno)),
        }
    }
    content
}

/// A history of `ops` (not empty) in several contents, oldest first, cut at `splits`.
pub(crate) fn history(ops: &[Op], splits: &[usize]) -> Vec<Content> {
    let mut ends: Vec<usize> = splits.iter().map(|end| end % ops.len()).collect();
    ends.extend([0, ops.len()]);
    ends.sort_unstable();
    ends.dedup();
    ends.windows(2).map(|w| content(&ops[w[0]..w[1]], w[0] as u64 + 1)).collect()
}

/// Bounds of what is below, as tight as a table for each key would make them.
pub(crate) fn below(content: &Content) -> Below {
    let points = content.keys().into_iter().map(|key| KeyBounds {
        smallest: key.clone(),
        largest: key,
        largest_exclusive: false,
    });
    let ranges = content.tombstones.iter().map(|t| {
        vec![KeyBounds { smallest: t.start.clone(), largest: t.end.clone(), largest_exclusive: true }]
    });
    Below::of_runs(ranges.chain([points.collect()]).collect())
}

pub(crate) fn check_outputs(lab: &Lab, tables: &[TableMeta]) -> Result<(), TestCaseError> {
    for pair in tables.windows(2) {
        prop_assert!(pair[0].bounds.ends_before(&pair[1].bounds.smallest), "outputs overlap: {:?}", pair);
    }
    for table in tables {
        lab.reader(table).verify(&mut OpCost::default()).expect("the table is sound");
        let content = lab.content(table);
        prop_assert!(content.keys().iter().all(|key| table.bounds.contains(key)));
        let inside =
            |t: &RangeTombstone| table.bounds.contains(&t.start) && !table.bounds.ends_before(&t.start);
        prop_assert!(content.tombstones.iter().all(inside));
        prop_assert!(table.number > FileNumber(0));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_reader_sees_the_same_before_and_after(
        ops in prop::collection::vec(op(), 1..120),
        splits in prop::collection::vec(0usize..120, 1..6),
        (lower, upper) in (0usize..3, 0usize..2),
        snapshots in prop::collection::vec(0u64..125, 0..4),
        unpublished in 0u64..6,
        cuts in prop::collection::btree_set(0u8..14, 0..5),
        table_bytes in prop_oneof![Just(1u64), 100u64..1000, Just(1 << 20)],
        (boundary_bytes, crossings_max) in (0u64..600, 1usize..4),
        operator in any::<bool>(),
        budget in 1u64..500,
        output_level in prop_oneof![Just(0u8), Just(6)],
    ) {
        let lab = Lab::new();
        // The history is cut into parts; the oldest few lie below the run, the newest few above it.
        let parts = history(&ops, &splits);
        let lower = lower.min(parts.len() - 1);
        let upper = (parts.len() - upper).max(lower + 1);
        let (mut beneath, mut above) = (Content::default(), Content::default());
        parts[..lower].iter().for_each(|part| beneath.add(part));
        parts[upper..].iter().for_each(|part| above.add(part));
        let inputs = &parts[lower..upper];

        let newest = (ops.len() as u64).saturating_sub(unpublished);
        let mut snapshots: Vec<u64> = snapshots.into_iter().filter(|s| *s <= newest).collect();
        snapshots.push(newest);
        let mut readers: Vec<u64> = snapshots.clone();
        readers.extend(newest..=ops.len() as u64 + 1);

        let mut input = input(&lab, inputs, &snapshots);
        input.below = below(&beneath);
        input.output_level = output_level;
        input.cut = Cut {
            table_bytes,
            before: cuts.iter().map(|k| key(*k).into_bytes()).collect(),
            boundary_bytes,
            crossings_max,
        };
        if !operator {
            input.operator = None;
        }
        let (output, after) = {
            let mut run = MergeRun::new(input);
            drive(&mut run, budget).expect("nothing to fail");
            let output = run.finish().expect("the inputs are as described");
            let mut after = Content::default();
            output.tables.iter().for_each(|table| after.add(&lab.content(table)));
            (output, after)
        };
        check_outputs(&lab, &output.tables)?;
        prop_assert_eq!(output.entries_in - output.dropped.total(), after.entries.len() as u64);

        // Cleaning up ends: a table that every reader sees whole hides nothing.
        let oldest = SeqNo(snapshots.iter().copied().min().expect("there is the newest"));
        let is_clean = |table: &TableMeta| table.largest_seqno > oldest || table.hidden_versions == 0;
        prop_assert!(output.tables.iter().all(is_clean), "{:?}", output.tables);

        let mut whole_before = beneath.clone();
        let mut whole_after = beneath.clone();
        parts[lower..].iter().for_each(|part| whole_before.add(part));
        whole_after.add(&after);
        whole_after.add(&above);
        for key in whole_before.keys() {
            for &reader in &readers {
                prop_assert_eq!(
                    whole_before.view(&key, SeqNo(reader)),
                    whole_after.view(&key, SeqNo(reader)),
                    "key {} at {}", String::from_utf8_lossy(&key), reader
                );
            }
        }
        // Nobody looks back, nothing lies below: nothing but live values is left, under number zero.
        let settled = snapshots.len() == 1 && unpublished == 0 && lower == 0 && operator && output_level > 0;
        let refused = after.entries.iter().any(|e| e.value.contains(&b'!'));
        if settled && upper == parts.len() && !refused {
            prop_assert!(after.tombstones.is_empty());
            prop_assert!(after.entries.iter().all(|e| e.kind == Kind::Put && e.seqno == SeqNo::ZERO));
        }
        // What was merged can be merged again, under another cut.
        if !output.tables.is_empty() {
            let mut again = self::input(&lab, &[], &snapshots);
            again.sources.push(lab.source(&output.tables));
            again.below = below(&beneath);
            again.output_level = output_level;
            let (_, twice) = merged(&lab, again);
            let mut whole_twice = beneath.clone();
            whole_twice.add(&twice);
            whole_twice.add(&above);
            for key in whole_before.keys() {
                for &reader in &readers {
                    let reader = SeqNo(reader);
                    prop_assert_eq!(whole_after.view(&key, reader), whole_twice.view(&key, reader));
                }
            }
        }
    }
}

/// A forged table may refer to anything: a run does not hand that on to the manifest.
#[test]
fn a_pointer_to_a_file_that_no_input_names_is_damage() {
    use esker_base::blob::BlobPointer;
    let lab = Lab::new();
    let pointer = BlobPointer { number: FileNumber(999), offset: 44, len: 5000, checksum: 1 };
    let (key, value) = (b"a".to_vec(), pointer.encode().to_vec());
    let content = of(vec![OwnedEntry { key, seqno: SeqNo(5), kind: Kind::BlobPut, value }]);
    let blobs = lab.blobs(64, Vec::new(), &[]);
    let mut run = MergeRun::new(RunInput { blobs, ..input(&lab, &[content], &[9]) });
    let error = drive(&mut run, 100).expect_err("nobody named it");
    assert!(
        matches!(error, Error::Corruption { .. }) && error.to_string().contains("000999.blob"),
        "{error}"
    );
}
