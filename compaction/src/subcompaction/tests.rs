use esker_base::range_tombstone::{Fragments, RangeTombstone};
use esker_base::table_meta::TableMeta;
use esker_base::{Error, Kind, Result, SeqNo};
use esker_sstable::TableCursor;
use proptest::prelude::*;

use super::*;
use crate::below::Below;
use crate::blobs::BlobRules;
use crate::level_cursor::LevelCursor;
use crate::outputs::Cut;
use crate::run::tests::{below, check_outputs, history, key, op};
use crate::run::{MergeRun, RunInput, RunOutput};
use crate::testing::{Append, Content, Lab, cover, entry};

type Run = MergeRun<LevelCursor<TableCursor>>;

/// What all parts are told alike.
struct Told {
    tables: Vec<TableMeta>,
    snapshots: Vec<SeqNo>,
    below: Below,
    output_level: u8,
    operator: bool,
    cut: Cut,
}

impl Told {
    fn of(lab: &Lab, contents: &[Content]) -> Told {
        Told {
            tables: contents.iter().map(|content| lab.table(content)).collect(),
            snapshots: vec![SeqNo(1000)],
            below: Below::nothing(),
            output_level: 6,
            operator: true,
            cut: Cut::by_size(1 << 20),
        }
    }

    fn run(&self, lab: &Lab, part: Part) -> Run {
        MergeRun::new(RunInput {
            sources: self.tables.iter().map(|meta| lab.source(std::slice::from_ref(meta))).collect(),
            snapshots: self.snapshots.clone(),
            below: self.below.clone(),
            output_level: self.output_level,
            part,
            operator: self.operator.then(|| Arc::new(Append) as _),
            cut: self.cut.clone(),
            outputs: lab.maker(),
            blobs: BlobRules::none(),
            context: lab.context.clone(),
            remove: lab.remover(),
        })
    }

    /// Carry the parts out, their steps in an order that `order` picks.
    fn carry_out(&self, lab: &Lab, parts: Vec<Part>, order: &[usize]) -> Result<RunOutput> {
        let mut runs: Vec<Run> = parts.into_iter().map(|part| self.run(lab, part)).collect();
        let mut left: Vec<usize> = (0..runs.len()).collect();
        for turn in order.iter().cycle() {
            if left.is_empty() {
                break;
            }
            let at = turn % left.len();
            if runs[left[at]].step(100)? {
                left.remove(at);
            }
        }
        MergeRun::finish_parts(runs)
    }
}

fn cut_at(cuts: &[&str]) -> Vec<Part> {
    Part::between(&cuts.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>())
}

fn read(lab: &Lab, output: &RunOutput) -> Content {
    let mut content = Content::default();
    output.tables.iter().for_each(|table| content.add(&lab.content(table)));
    content
}

/// The tombstones with what outputs have cut of them put together again.
fn whole(mut tombstones: Vec<RangeTombstone>) -> Vec<RangeTombstone> {
    tombstones.sort_by(|a, b| (a.seqno, &a.start).cmp(&(b.seqno, &b.start)));
    let mut whole: Vec<RangeTombstone> = Vec::new();
    for next in tombstones {
        match whole.last_mut() {
            Some(last) if last.seqno == next.seqno && last.end == next.start => last.end = next.end,
            _ => whole.push(next),
        }
    }
    whole
}

/// A place to cut: at a key, right behind it, or right before it.
fn place() -> impl Strategy<Value = Vec<u8>> {
    let at = 0u8..20;
    prop_oneof![
        3 => at.clone().prop_map(|k| key(k).into_bytes()),
        1 => at.clone().prop_map(|k| [key(k).as_bytes(), &[0]].concat()),
        1 => at.prop_map(|k| [key(k).as_bytes()[..4].to_vec(), vec![b'0' + k / 10]].concat()),
        1 => prop_oneof![Just(b"a".to_vec()), Just(b"z".to_vec())],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn parts_come_to_what_one_run_comes_to(
        ops in prop::collection::vec(op(), 1..120),
        splits in prop::collection::vec(0usize..120, 1..6),
        lower in 0usize..3,
        snapshots in prop::collection::vec(0u64..125, 0..4),
        unpublished in 0u64..6,
        places in prop::collection::btree_set(place(), 0..5),
        boundaries in prop::collection::btree_set(0u8..14, 0..5),
        table_bytes in prop_oneof![Just(1u64), 100u64..1000, Just(1 << 20)],
        operator in any::<bool>(),
        order in prop::collection::vec(0usize..5, 1..20),
        output_level in prop_oneof![Just(0u8), Just(6)],
    ) {
        let lab = Lab::new();
        let history = history(&ops, &splits);
        let (beneath, inputs) = history.split_at(lower.min(history.len() - 1));
        let newest = (ops.len() as u64).saturating_sub(unpublished);
        let mut told = Told::of(&lab, inputs);
        told.snapshots = snapshots.into_iter().filter(|s| *s < newest).chain([newest]).map(SeqNo).collect();
        let mut all_beneath = Content::default();
        for content in beneath {
            all_beneath.add(content);
        }
        told.below = below(&all_beneath);
        told.output_level = output_level;
        told.operator = operator;
        told.cut = Cut {
            table_bytes,
            before: boundaries.iter().map(|k| key(*k).into_bytes()).collect(),
            boundary_bytes: table_bytes / 2,
            crossings_max: 3,
        };
        let alone = told.carry_out(&lab, vec![Part::default()], &[0]).expect("nothing to fail");
        let cuts: Vec<Vec<u8>> = places.into_iter().collect();
        let shared = told.carry_out(&lab, Part::between(&cuts), &order).expect("nothing to fail");

        check_outputs(&lab, &shared.tables)?;
        let (before, after) = (read(&lab, &alone), read(&lab, &shared));
        prop_assert_eq!(before.entries, after.entries);
        prop_assert_eq!(whole(before.tombstones), whole(after.tombstones));
        prop_assert_eq!(
            RunOutput { tables: Vec::new(), ..alone },
            RunOutput { tables: Vec::new(), ..shared.clone() }
        );
        for cut in &cuts {
            let across = |table: &TableMeta| table.bounds.smallest < *cut && !table.bounds.ends_before(cut);
            prop_assert!(!shared.tables.iter().any(across), "a table reaches over a cut");
        }
    }
}

fn rows(keys: &[&str]) -> Content {
    let entries = keys.iter().zip(1..).map(|(key, n)| entry(key, n, Kind::Put, "value")).collect();
    Content { entries, tombstones: Vec::new() }
}

#[test]
fn what_a_cut_loses_or_doubles_is_found() {
    let lab = Lab::new();
    let told = Told::of(&lab, &[rows(&["a", "b", "c", "d"]), rows(&["ab", "bb", "cb"])]);
    let files = lab.files();
    let part = |start: &str, end: &str| {
        let key = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        Part { start: key(start), end: key(end) }
    };
    let wrong = [
        // The first entry behind the cut is in no part, or in both.
        vec![part("", "b"), part("bb", "")],
        vec![part("", "bb"), part("b", "")],
        // One is lost and another doubled: the count is right.
        vec![part("", "b"), part("bb", "d"), part("cb", "")],
        // The last entry, the first entry.
        vec![part("", "b"), part("b", "d")],
        vec![part("ab", "b"), part("b", "")],
    ];
    for parts in wrong {
        let error = told.carry_out(&lab, parts.clone(), &[0, 1]).expect_err("the parts are wrong");
        assert!(matches!(error, Error::Corruption { .. }), "{parts:?}: {error}");
        assert_eq!(lab.files(), files, "outputs stay behind");
    }
    told.carry_out(&lab, vec![part("", "b"), part("b", "d"), part("d", "")], &[0, 1])
        .expect("all is right");
}

#[test]
fn an_input_that_lies_is_found_over_the_sum() {
    let lab = Lab::new();
    for change in [|meta: &mut TableMeta| meta.entries += 1, |meta: &mut TableMeta| meta.content_hash ^= 1]
    {
        let mut told = Told::of(&lab, &[rows(&["a", "b"]), rows(&["c", "d"])]);
        let files = lab.files();
        let mut runs: Vec<Run> = Vec::new();
        for part in cut_at(&["b", "c"]) {
            let mut run = told.run(&lab, part);
            while !run.step(10).expect("what it gives is in order") {}
            runs.push(run);
        }
        change(&mut told.tables[1]);
        let sources = told.tables.clone();
        for run in &mut runs {
            run.describe_anew(1, vec![sources[1].clone()]);
        }
        let error = MergeRun::finish_parts(runs).expect_err("the description is wrong");
        let Error::Corruption { path, .. } = &error else { panic!("{error}") };
        assert!(path.ends_with(format!("{}.sst", sources[1].number)), "{}", path.display());
        assert_eq!(lab.files(), files, "outputs stay behind");
    }
}

/// A table whose description is narrower than what it holds: what comes of it would overlap others in the tree.
#[test]
fn an_input_that_reaches_beyond_its_description_is_found() {
    let lab = Lab::new();
    let narrower: [fn(&mut TableMeta); 4] = [
        |meta| meta.bounds.smallest = b"cc".to_vec(),
        |meta| meta.bounds.largest = b"c".to_vec(),
        |meta| meta.bounds.largest_exclusive = true,
        |meta| meta.largest_seqno = SeqNo(0),
    ];
    for narrow in narrower {
        for cuts in [&[][..], &["d"]] {
            let mut told = Told::of(&lab, &[rows(&["c", "d", "e"])]);
            // Nobody's numbers become zero.
            told.snapshots.insert(0, SeqNo(0));
            let files = lab.files();
            let mut runs: Vec<Run> = Vec::new();
            for part in cut_at(cuts) {
                let mut run = told.run(&lab, part);
                while !run.step(10).expect("what it gives is in order") {}
                runs.push(run);
            }
            narrow(&mut told.tables[0]);
            for run in &mut runs {
                run.describe_anew(0, told.tables.clone());
            }
            let error = MergeRun::finish_parts(runs).expect_err("the description is wrong");
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
            assert_eq!(lab.files(), files, "outputs stay behind");
        }
    }
}

#[test]
fn a_part_that_fails_takes_all_with_it() {
    let lab = Lab::new();
    let mut content = rows(&["a", "b", "c", "d", "e"]);
    // The operator panics at it.
    content.entries.push(entry("d", 9, Kind::Merge, "?"));
    let mut told = Told::of(&lab, &[content]);
    told.cut = Cut::by_size(1);
    let files = lab.files();
    for order in [[0, 1, 2], [2, 1, 0], [1, 1, 1]] {
        let error = told.carry_out(&lab, cut_at(&["b", "d"]), &order).expect_err("the operator panics");
        assert!(matches!(error, Error::CallbackPanicked { .. }), "{error}");
        assert_eq!(lab.files(), files, "outputs stay behind");
    }
}

#[test]
fn tombstones_are_clipped_to_the_part() {
    let list = Fragments::build(&[cover("b", "f", 1), cover("h", "k", 2)]).list().to_vec();
    let clipped = |part: Part| {
        let show = |f: &Fragment| {
            [f.start.as_slice(), f.end.as_slice()].map(|k| String::from_utf8_lossy(k).into_owned())
        };
        part.clip(list.clone()).iter().map(|f| show(f).join("-")).collect::<Vec<_>>()
    };
    assert_eq!(clipped(Part::default()), ["b-f", "h-k"]);
    let parts: Vec<_> = cut_at(&["b", "d", "f", "i"]).into_iter().map(clipped).collect();
    assert_eq!(parts, [vec![], vec!["b-d"], vec!["d-f"], vec!["h-i"], vec!["i-k"]]);
}

#[test]
fn a_tombstone_that_is_dropped_is_counted_once() {
    let lab = Lab::new();
    let tombstones = vec![cover("a", "z", 9), cover("c", "e", 8)];
    let told = Told::of(&lab, &[rows(&["a", "m", "y"]), Content { entries: Vec::new(), tombstones }]);
    let alone = told.carry_out(&lab, vec![Part::default()], &[0]).expect("nothing to fail");
    let shared = told.carry_out(&lab, cut_at(&["b", "d", "zz"]), &[0]).expect("nothing to fail");
    assert!(shared.tables.is_empty() && shared.dropped.range_deleted == 3);
    assert_eq!(shared, alone);
    assert!(alone.range_tombstones_dropped > 1);
}

/// How many bytes of `tables` lie in each part, in percent.
fn shares(tables: &[Arc<TableReader>], parts: usize) -> Vec<u64> {
    let offset = |key: &[u8]| tables.iter().map(|table| table.approximate_offset(key)).sum::<u64>();
    let total: u64 = tables.iter().map(|table| table.data_bytes()).sum();
    let mut ends: Vec<u64> = cuts(tables, parts).iter().map(|cut| offset(cut)).collect();
    ends.push(total);
    let starts = [0].into_iter().chain(ends.clone());
    starts.zip(&ends).map(|(start, end)| (end - start) * 100 / total).collect()
}

#[test]
fn parts_are_of_about_the_same_size() {
    let lab = Lab::new();
    let table = |from: u32, to: u32, step: usize| {
        let keys: Vec<String> = (from..to).step_by(step).map(|n| format!("{n:06}")).collect();
        lab.reader(&lab.table(&rows(&keys.iter().map(String::as_str).collect::<Vec<_>>())))
    };
    // A level in tables, what was flushed over it, and a corner where more was written.
    let level = [table(0, 2000, 1), table(2000, 5000, 1), table(5000, 6000, 1)];
    let flushed = [table(0, 6000, 7), table(3, 6000, 5), table(5500, 5900, 1)];
    let tables: Vec<_> = level.into_iter().chain(flushed).collect();
    assert_eq!(shares(&tables, 1), [100]);
    for parts in [2, 3, 5] {
        let shares = shares(&tables, parts);
        let fair = 100 / parts as u64;
        assert!(
            shares.len() == parts && shares.iter().all(|share| share.abs_diff(fair) <= 3),
            "{shares:?}"
        );
    }
}

#[test]
fn what_cannot_be_cut_is_not() {
    let lab = Lab::new();
    let versions = (1..500).map(|n| entry("one key", n, Kind::Put, "value")).collect();
    let one = lab.reader(&lab.table(&Content { entries: versions, tombstones: Vec::new() }));
    assert!(cuts(&[one], 4).len() <= 1);
    let none = Content { entries: Vec::new(), tombstones: vec![cover("a", "z", 1)] };
    assert!(cuts(&[lab.reader(&lab.table(&none))], 4).is_empty());
    assert!(cuts(&[], 4).is_empty());
}

#[test]
fn a_flush_is_cut_where_its_tables_are_if_that_is_near() {
    let names: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let separators: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let cuts = |before: &[&str], parts| {
        let before = before.iter().map(|key| key.as_bytes().to_vec()).collect();
        let cut = Cut { before, ..Cut::by_size(1) };
        let cuts = flush_cuts(&separators, &cut, parts);
        cuts.into_iter().map(|key| String::from_utf8(key).expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(cuts(&[], 1), [""; 0]);
    assert_eq!(cuts(&[], 2), ["20"]);
    assert_eq!(cuts(&[], 4), ["10", "20", "30"]);
    assert_eq!(cuts(&["05", "17", "24x", "35"], 2), ["17"]);
    assert_eq!(cuts(&["05", "36"], 2), ["20"], "too far off");
    // Two parts want the same place; one is fewer.
    assert_eq!(cuts(&["15"], 4), ["10", "20", "30"]);
    assert_eq!(cuts(&["11"], 4), ["11", "20", "30"]);
    assert_eq!(flush_cuts(&separators[..7], &Cut::by_size(1), 4), [[0u8; 0]; 0], "too little to share");
}
