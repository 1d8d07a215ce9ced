use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_manifest::Tree;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::busy::Busy;
use crate::score::score;
use crate::settings::Settings;
use crate::sublevels::flush_cut;
use crate::testing::described;

const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// What a picker says of level 0, found by comparing every table with every other and trying every stack.
struct Plain<'a>(&'a Picker<'a>);

impl Plain<'_> {
    fn level0(&self) -> Option<Plan> {
        let Plain(picker) = self;
        self.lone_tables().or_else(|| {
            let worth = match picker.load {
                Load::Read => 1,
                _ => picker.score.l0_depth.min(picker.settings.l0_trigger(picker.load)),
            };
            let sublevels = Sublevels::new(&picker.tree.levels[0]);
            let mut stacks = sublevels.stacks(worth, |_| true);
            stacks.find_map(|stack| self.stack_down(&stack, picker.level0_reason()))
        })
    }

    fn lone_tables(&self) -> Option<Plan> {
        let Plain(picker) = self;
        let (tables, base) = (picker.level_tables(0), picker.score.base_level);
        let mut lone = tables.to_vec();
        lone.retain(|table| {
            let overlaps = |other: &&Arc<TableHandle>| other.meta.bounds.overlaps(&table.meta.bounds);
            let plan = || picker.plan(vec![(0, vec![Arc::clone(table)])], base, picker.level0_reason());
            // Itself, and nothing else.
            tables.iter().filter(overlaps).count() == 1
                && picker.overlapping(base, &table.meta.bounds).is_empty()
                && picker.may_move(base, table)
                && plan().is_some()
        });
        lone.sort_by(|a, b| a.meta.bounds.smallest.cmp(&b.meta.bounds.smallest));
        lone.truncate(MOVED_TABLES_MAX);
        picker.move_apart(0, lone, base, picker.level0_reason())
    }

    fn stack_down(&self, stack: &[usize], reason: Reason) -> Option<Plan> {
        let Plain(picker) = self;
        let base = picker.score.base_level;
        let is_free = |table: &Arc<TableHandle>| {
            let lower = picker.overlapping(base, &table.meta.bounds);
            picker.plan(vec![(0, vec![Arc::clone(table)]), (base, lower)], base, reason).is_some()
        };
        if !self.with_older(stack).iter().all(is_free) {
            return None;
        }
        let mut take = stack.len();
        loop {
            let upper = self.with_older(&stack[..take]);
            let lower = picker.overlapping(base, &hull(&upper)?);
            let beyond = bytes(&upper) + bytes(&lower) > picker.settings.job_bytes_max;
            if take == 1 || !beyond || bytes(&upper) <= bytes(&lower) {
                let upper = self.more_of_level0(&upper, &lower);
                return picker.plan(vec![(0, upper), (base, lower)], base, reason);
            }
            take = take.div_ceil(2);
        }
    }

    fn with_older(&self, seed: &[usize]) -> Tables {
        let mut chosen: Tables = Vec::new();
        for (index, table) in self.0.level_tables(0).iter().enumerate() {
            let overlaps = |newer: &Arc<TableHandle>| newer.meta.bounds.overlaps(&table.meta.bounds);
            if seed.contains(&index) || chosen.iter().any(overlaps) {
                chosen.push(Arc::clone(table));
            }
        }
        chosen
    }

    fn more_of_level0(&self, upper: &[Arc<TableHandle>], lower: &[Arc<TableHandle>]) -> Tables {
        let Plain(picker) = self;
        let span = hull(upper.iter().chain(lower)).expect("a stack has a table");
        let mut total = bytes(upper) + bytes(lower);
        let (mut chosen, mut left_out): (Tables, Tables) = (Vec::new(), Vec::new());
        for table in picker.level_tables(0).iter().rev() {
            let bounds = &table.meta.bounds;
            let is_upper = upper.iter().any(|other| other.number() == table.number());
            let comes = span.union(bounds) == span
                && total + table.meta.file_bytes <= picker.settings.job_bytes_max
                && !left_out.iter().any(|older| older.meta.bounds.overlaps(bounds))
                && !picker.busy.uses(table.number());
            if comes && !is_upper {
                total += table.meta.file_bytes;
            }
            let place = if is_upper || comes { &mut chosen } else { &mut left_out };
            place.push(Arc::clone(table));
        }
        chosen.reverse();
        chosen
    }
}

/// Where a table begins (or how far behind the one before it), how long it is, whether its end is outside, its bytes, and
/// whether it has a tombstone.
type Shape = (u8, u8, bool, u64, bool);

fn shapes(start: u8, len: u8, count: usize) -> impl Strategy<Value = Vec<Shape>> {
    prop::collection::vec((0..start, 0..len, any::<bool>(), 1u64..10, prop::bool::weighted(0.2)), 0..count)
}

fn table(
    number: usize,
    smallest: u8,
    (_, len, exclusive, file_bytes, tombstone): Shape,
) -> Arc<TableHandle> {
    let number = number as u64 + 1;
    let mut meta = TableMeta {
        file_bytes,
        point_tombstones: u64::from(tombstone),
        largest_seqno: SeqNo(number),
        ..described(number, [smallest], [smallest + len])
    };
    meta.bounds.largest_exclusive = exclusive && len > 0;
    TableHandle::detached(meta)
}

fn side_by_side(first: usize, shapes: &[Shape]) -> Tables {
    let mut next = 0;
    let place = |(number, shape): (usize, &Shape)| {
        let smallest = next + shape.0;
        next = smallest + shape.1 + 1;
        table(first + number, smallest, *shape)
    };
    shapes.iter().enumerate().map(place).collect()
}

/// What runs: the merge of a level-0 table with what belongs to it; that table all by itself, which a picker would not
/// have chosen; or a table of the level below.
#[derive(Clone, Copy, Debug)]
enum Job {
    Merge,
    Alone,
    Below,
}

fn jobs() -> impl Strategy<Value = Vec<(Job, Index)>> {
    let job = prop::sample::select(vec![Job::Merge, Job::Alone, Job::Below]);
    prop::collection::vec((job, any::<Index>()), 0..3)
}

fn start(job: Job, at: Index, tree: &Tree, settings: &Settings, busy: &mut Busy) {
    let score = score(tree, settings, Load::Rested);
    let base = score.base_level;
    let one = |level: u8| {
        let tables = tree.levels[usize::from(level)].tables();
        (!tables.is_empty()).then(|| (level, vec![Arc::clone(at.get(tables))]))
    };
    let of = |inputs, to| Plan::new(tree, KEYSPACE, settings, inputs, to, Reason::Asked);
    let plan = match job {
        Job::Merge if !tree.levels[0].is_empty() => {
            let picker = Picker::new(tree, KEYSPACE, settings, busy, Load::Rested, &score);
            Plain(&picker).stack_down(&[at.index(tree.levels[0].len())], Reason::Asked)
        }
        Job::Merge => None,
        Job::Alone => one(0).map(|input| of(vec![input], base)),
        Job::Below => one(base).map(|input| of(vec![input], (base + 1).min(6))),
    };
    if let Some(plan) = plan.filter(|plan| busy.allows(plan)) {
        busy.start(&plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// With so few tables there are fewer stacks than are tried.
    #[test]
    fn plans_are_those_of_comparing_all_tables(
        level0 in shapes(50, 14, 16),
        base in shapes(6, 6, 8),
        last in shapes(6, 6, 8),
        jobs in jobs(),
        job_bytes_max in 5u64..80,
        trigger in 1usize..5,
    ) {
        let settings = Settings {
            l0_tables_trigger: trigger,
            l0_tables_trigger_loaded: 2 * trigger,
            job_bytes_max,
            ..Settings::default()
        };
        let mut tables: Vec<(u8, Arc<TableHandle>)> = Vec::new();
        tables.extend(level0.iter().enumerate().map(|(at, shape)| (0, table(100 + at, shape.0, *shape))));
        tables.extend(side_by_side(20, &base).into_iter().map(|table| (5, table)));
        tables.extend(side_by_side(0, &last).into_iter().map(|table| (6, table)));
        let tree = Tree::build(tables);
        let mut busy = Busy::default();
        for (job, at) in jobs {
            start(job, at, &tree, &settings, &mut busy);
        }
        let text = |plan: Option<Plan>| plan.map(|plan| plan.to_string());
        for load in [Load::Rested, Load::Flushing, Load::Read] {
            let score = score(&tree, &settings, load);
            let picker = Picker::new(&tree, KEYSPACE, &settings, &busy, load, &score);
            let plain = Plain(&picker);
            prop_assert_eq!(text(picker.level0()), text(plain.level0()));
            for index in 0..level0.len() {
                let plan = picker.stack_down(&[index], Reason::Asked);
                prop_assert_eq!(text(plan), text(plain.stack_down(&[index], Reason::Asked)));
            }
        }
    }
}

/// Tables in `columns`, in each `depth` of them, each of which begins a little behind the next older one.
fn in_columns(columns: u32, depth: u32) -> Vec<(u8, Arc<TableHandle>)> {
    let places = (0..depth).flat_map(|layer| (0..columns).map(move |column| column * 1000 + layer));
    let table = |(number, start): (u64, u32)| {
        let meta = described(number, start.to_be_bytes(), (start + 500).to_be_bytes());
        (0, TableHandle::detached(TableMeta { largest_seqno: SeqNo(number), ..meta }))
    };
    (1u64..).zip(places).map(table).collect()
}

/// Whatever is in the way of many small tables, a pick answers.
#[test]
fn twenty_thousand_tables_in_deep_columns_are_no_burden() {
    let settings = Settings::default();
    let below = TableHandle::detached(described(30_000, [0], [u8::MAX]));
    let mut tables = in_columns(500, 40);
    tables.push((5, Arc::clone(&below)));
    let tree = Tree::build(tables);
    let score = score(&tree, &settings, Load::Rested);
    let level0 = |busy: &Busy| Picker::new(&tree, KEYSPACE, &settings, busy, Load::Rested, &score).level0();
    let plan = level0(&Busy::default()).expect("it is deep");
    // All that lies over the one table below goes down with it.
    assert_eq!(plan.tables().count(), 20_001);
    // In use are the oldest table of each stack, and the table that each would be merged with.
    let oldest = tree.levels[0].tables()[19_500..].to_vec();
    for inputs in [vec![(0, oldest)], vec![(5, vec![below])]] {
        let mut busy = Busy::default();
        busy.start(&Plan::new(&tree, KEYSPACE, &settings, inputs, 6, Reason::Asked));
        assert!(level0(&busy).is_none());
    }
}

#[test]
fn twenty_thousand_tables_side_by_side_are_no_burden() {
    let settings = Settings { flush_split_bytes: 4096, ..Settings::default() };
    let mut tables = in_columns(20_000, 1);
    tables.extend((0u32..20_000).map(|gap| {
        let [from, to] = [600, 900].map(|behind| (gap * 1000 + behind).to_be_bytes());
        (5, TableHandle::detached(described(30_000 + u64::from(gap), from, to)))
    }));
    let tree = Tree::build(tables);
    let score = score(&tree, &settings, Load::Rested);
    let picker_of = |busy| Picker::new(&tree, KEYSPACE, &settings, busy, Load::Rested, &score);
    let plan = picker_of(&Busy::default()).level0().expect("each may move");
    assert!(plan.trivial_move && plan.tables().count() == MOVED_TABLES_MAX);
    assert_eq!(flush_cut(&tree, &settings).before.len(), 7);
}

/// However many stacks cannot go down, one that can does.
#[test]
fn a_stack_goes_down_beside_hundreds_that_a_job_holds() {
    let settings = Settings::default();
    // Some five tables are over each key of the last column, six over those of the others.
    let mut tables = in_columns(301, 6);
    let last = 300u32 * 1000;
    tables.retain(|(_, table)| table.number() != FileNumber(6 * 301));
    let below = |number, from: u32, to: u32| {
        TableHandle::detached(described(number, from.to_be_bytes(), to.to_be_bytes()))
    };
    let held = below(30_000, 0, last - 1);
    tables.push((5, Arc::clone(&held)));
    tables.push((5, below(30_001, last, last + 999)));
    let tree = Tree::build(tables);
    let mut busy = Busy::default();
    busy.start(&Plan::new(&tree, KEYSPACE, &settings, vec![(5, vec![held])], 6, Reason::Asked));
    let score = score(&tree, &settings, Load::Rested);
    let plan = Picker::new(&tree, KEYSPACE, &settings, &busy, Load::Rested, &score).level0();
    let plan = plan.expect("nothing is in its way");
    assert!(plan.bounds.smallest.as_slice() >= last.to_be_bytes().as_slice(), "{plan}");
    assert_eq!(plan.tables().count(), 6, "{plan}");
}
