//! Pickers and runs together: random histories over a small tree of real tables, with several jobs under
//! way at the same time, read back level by level as an engine would.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_base::blob::BlobMeta;
use esker_base::cursor::VecCursor;
use esker_base::range_tombstone::Fragments;
use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId, Kind, MergeOperator, SeqNo};
use esker_manifest::{BlobHandle, Edit, TableHandle, Tree};
use esker_sstable::TableCursor;
use proptest::prelude::*;

use crate::Part;
use crate::collect::to_collect;
use crate::run::RunOutput;
use crate::testing::{Append, Content, Lab, cover, drive, entry};
use crate::{
    Below, Busy, JobId, LevelCursor, Load, MergeRun, Plan, RangeRequest, RangeStep, RunInput, RunSource,
    Settings, flush_cut, pick, plan_range,
};

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const KEYS: u16 = 120;

#[derive(Clone, Debug)]
enum Action {
    /// As many writes as the first number says, chosen by the seed, which is the second.
    Write(u8, u64),
    DeleteRange(u16, u16),
    Flush,
    /// Begin the next job, if there is one.
    Start,
    /// A piece of job `n`.
    Step(usize),
    /// Job `n` to its end, and install it.
    Finish(usize),
    /// Job `n` fails.
    Abandon(usize),
    TakeSnapshot,
    DropSnapshot(usize),
    Load(Load),
    CompactRange(u16, u16),
}

struct Job {
    plan: Plan,
    id: JobId,
    /// None for a trivial move.
    run: Option<MergeRun<LevelCursor<TableCursor>>>,
}

struct World {
    lab: Lab,
    settings: Settings,
    tables: Vec<(u8, Arc<TableHandle>)>,
    /// Everything ever written.
    history: Content,
    memtable: Content,
    last: u64,
    snapshots: Vec<u64>,
    busy: Busy,
    jobs: Vec<Job>,
    /// Every blob file that was ever written.
    blobs: BTreeMap<FileNumber, Arc<BlobHandle>>,
    load: Load,
}

/// Puts are of a hundred bytes.
const BLOB_BYTES_MIN: u32 = 60;

fn key(n: u16) -> String {
    format!("{:04}", n % KEYS)
}

impl World {
    fn new() -> World {
        let settings = Settings {
            l0_tables_trigger: 2,
            l0_tables_trigger_loaded: 4,
            memtable_bytes: 6000,
            base_bytes: 6000,
            fanout: 2,
            table_bytes: 4096,
            job_bytes_max: 20_000,
            flush_split_bytes: 4096,
            garbage_percent: 20,
            blob_garbage_percent: 30,
        };
        settings.validate().expect("small, but allowed");
        World {
            lab: Lab::new(),
            settings,
            tables: Vec::new(),
            history: Content::default(),
            memtable: Content::default(),
            last: 0,
            snapshots: Vec::new(),
            busy: Busy::default(),
            jobs: Vec::new(),
            blobs: BTreeMap::new(),
            load: Load::Rested,
        }
    }

    fn tree(&self) -> Tree {
        Tree::build(self.tables.iter().cloned())
    }

    /// The live snapshots and the newest number.
    fn readers(&self) -> Vec<SeqNo> {
        self.snapshots.iter().copied().chain([self.last]).map(SeqNo).collect()
    }

    fn oldest_snapshot(&self) -> SeqNo {
        self.readers().into_iter().min().expect("the newest number at least")
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Write(count, seed) => self.write(count, seed),
            Action::DeleteRange(from, len) => {
                self.last += 1;
                let (from, to) = (from % KEYS, from % KEYS + len);
                let tombstone = cover(&format!("{from:04}"), &format!("{to:04}"), self.last);
                self.history.tombstones.push(tombstone.clone());
                self.memtable.tombstones.push(tombstone);
            }
            Action::Flush => self.flush(),
            Action::Start => self.start(),
            Action::Step(n) => {
                let jobs = self.jobs.len().max(1);
                if let Some(run) = self.jobs.get_mut(n % jobs).and_then(|job| job.run.as_mut()) {
                    run.step(500).expect("memory");
                }
            }
            Action::Finish(n) if !self.jobs.is_empty() => self.finish(n % self.jobs.len()),
            Action::Abandon(n) if !self.jobs.is_empty() => {
                let job = self.jobs.swap_remove(n % self.jobs.len());
                self.busy.end(job.id);
                drop(job.run);
            }
            Action::Load(load) => self.load = load,
            Action::TakeSnapshot => self.snapshots.push(self.last),
            Action::DropSnapshot(n) if !self.snapshots.is_empty() => {
                self.snapshots.swap_remove(n % self.snapshots.len());
            }
            Action::CompactRange(from, len) => {
                self.compact_range(key(from).into_bytes(), Some(key(from + len).into_bytes()));
            }
            _ => {}
        }
    }

    fn write(&mut self, count: u8, seed: u64) {
        for n in 0..u64::from(count) {
            self.last += 1;
            let dice = (seed ^ (n * 0x9E37_79B9)).wrapping_mul(0xD134_2543_DE82_EF95) >> 20;
            // Neighbouring keys in one batch, so that tables are narrow now and then.
            #[expect(clippy::cast_possible_truncation, reason = "any key will do")]
            let key = key((seed % 100 + dice % 25) as u16);
            let write = match dice / 25 % 20 {
                0..4 => entry(&key, self.last, Kind::Delete, ""),
                4..8 => entry(&key, self.last, Kind::Merge, &format!("m{}", self.last)),
                8 => entry(&key, self.last, Kind::Merge, &format!("~{}", self.last)),
                _ => entry(&key, self.last, Kind::Put, &format!("{:0100}", self.last)),
            };
            self.history.entries.push(write.clone());
            self.memtable.entries.push(write);
        }
    }

    fn flush(&mut self) {
        let memtable = std::mem::take(&mut self.memtable);
        if memtable.is_empty() {
            return;
        }
        let tree = self.tree();
        let tombstones = Arc::new(Fragments::build(&memtable.tombstones));
        let mut run = MergeRun::new(RunInput {
            sources: vec![RunSource::of_memtable(VecCursor::new(memtable.entries), Some(tombstones))],
            snapshots: self.readers(),
            below: Below::flush(&tree),
            output_level: 0,
            part: Part::default(),
            operator: Some(Arc::new(Append)),
            cut: flush_cut(&tree, &self.settings),
            outputs: self.lab.maker(),
            blobs: self.lab.blobs(BLOB_BYTES_MIN, Vec::new(), &[]),
            context: self.lab.context.clone(),
            remove: self.lab.remover(),
        });
        drive(&mut run, 1000).expect("memory");
        let output = run.finish().expect("the inputs are as described");
        self.take_blobs(&output.blobs);
        for meta in output.tables {
            let table = self.handle(meta);
            self.tables.push((0, table));
        }
    }

    fn take_blobs(&mut self, blobs: &[BlobMeta]) {
        self.blobs.extend(blobs.iter().map(|meta| (meta.number, self.lab.blob(meta))));
    }

    fn handle(&self, meta: TableMeta) -> Arc<TableHandle> {
        let blobs = meta.blobs.iter().map(|part| Arc::clone(&self.blobs[&part.number])).collect();
        TableHandle::detached_with(meta, blobs)
    }

    fn start(&mut self) {
        let plan =
            pick(&self.tree(), KEYSPACE, &self.settings, &self.busy, self.oldest_snapshot(), self.load);
        if let Some(plan) = plan {
            self.begin(plan);
        }
    }

    fn begin(&mut self, plan: Plan) {
        let id = self.busy.start(&plan);
        let run = (!plan.trivial_move).then(|| {
            let open = |table: &Arc<TableHandle>| Ok(self.lab.reader(&table.meta));
            MergeRun::new(RunInput {
                sources: RunSource::of_plan(&plan, open).expect("memory"),
                snapshots: self.readers(),
                below: Below::plan(&plan, &self.tree()),
                output_level: plan.output_level,
                part: Part::default(),
                operator: Some(Arc::new(Append)),
                cut: plan.cut.clone(),
                outputs: self.lab.maker(),
                blobs: self.lab.blobs(BLOB_BYTES_MIN, plan.blobs(), &plan.collect),
                context: self.lab.context.clone(),
                remove: self.lab.remover(),
            })
        });
        self.jobs.push(Job { plan, id, run });
    }

    fn finish(&mut self, at: usize) {
        let Job { plan, id, run } = self.jobs.swap_remove(at);
        let outputs = match run {
            Some(mut run) => {
                drive(&mut run, 1000).expect("memory");
                run.finish().expect("the inputs are as described")
            }
            None => RunOutput::default(),
        };
        for edit in plan.edits(&outputs.tables, &outputs.blobs) {
            match edit {
                Edit::RemoveTable { level, number, .. } => {
                    let before = self.tables.len();
                    self.tables.retain(|(l, table)| (*l, table.number()) != (level, number));
                    assert_eq!(
                        self.tables.len() + 1,
                        before,
                        "the input {number} was not in level {level}"
                    );
                }
                Edit::AddBlob { meta } => self.take_blobs(&[meta]),
                Edit::AddTable { level, meta } => {
                    let table = self.handle(meta);
                    self.tables.push((level, table));
                }
                other => panic!("a compaction makes no {other:?}"),
            }
        }
        self.busy.end(id);
        // Panics if tables of a level overlap.
        drop(self.tree());
    }

    fn settle(&mut self) {
        for _ in 0..500 {
            while !self.jobs.is_empty() {
                self.finish(0);
            }
            self.start();
            if self.jobs.is_empty() {
                return;
            }
        }
        panic!(
            "it does not settle: {:?}",
            pick(&self.tree(), KEYSPACE, &self.settings, &self.busy, self.oldest_snapshot(), self.load)
                .map(|p| p.to_string())
        );
    }

    fn compact_range(&mut self, start: Vec<u8>, end: Option<Vec<u8>>) {
        let before = self.lab.next_number();
        let oldest = self.oldest_snapshot();
        let again = FileNumber(0);
        let mut request = RangeRequest { start, end, before, again, oldest, upto: SeqNo::MAX };
        for _ in 0..500 {
            match plan_range(&self.tree(), KEYSPACE, &self.settings, &self.busy, &request) {
                RangeStep::Done if request.again == FileNumber(0) => request.again = self.lab.next_number(),
                RangeStep::Done => return,
                RangeStep::Wait => self.finish(0),
                RangeStep::Run(plan) => {
                    self.begin(*plan);
                    self.finish(self.jobs.len() - 1);
                }
            }
        }
        panic!("compacting a range does not end");
    }

    /// Every reader sees what the history says.
    fn check(&self) -> Result<(), TestCaseError> {
        let tree = self.tree();
        let sources: Vec<Content> = std::iter::once(self.memtable.clone())
            .chain(tree.tables().map(|(_, table)| self.lab.whole_content(&table.meta, &self.blobs)))
            .collect();
        for key in self.history.keys() {
            for upper in self.readers() {
                prop_assert_eq!(
                    get(&sources, &key, upper),
                    self.history.view(&key, upper),
                    "key {} at {}",
                    String::from_utf8_lossy(&key),
                    upper
                );
            }
        }
        Ok(())
    }

    /// The tables hold what is live and nothing else.
    fn check_compacted(&self) -> Result<(), TestCaseError> {
        let tables = self.tables.iter().map(|(_, table)| self.lab.whole_content(&table.meta, &self.blobs));
        let content = tables.fold(Content::default(), |mut all, one| {
            all.add(&one);
            all
        });
        let is_live = |key: &Vec<u8>| matches!(self.history.view(key, SeqNo::MAX), Ok(Some(_)));
        prop_assert!(content.tombstones.is_empty());
        prop_assert!(content.entries.iter().all(|e| e.seqno == SeqNo::ZERO && e.kind == Kind::Put));
        prop_assert_eq!(content.entries.len(), self.history.keys().into_iter().filter(is_live).count());
        Ok(())
    }
}

/// Read `key` as an engine would: newest source first, and no further than to the first base.
fn get(sources: &[Content], key: &[u8], upper: SeqNo) -> Result<Option<Vec<u8>>, String> {
    let mut operands: Vec<&[u8]> = Vec::new();
    let mut base = None;
    'sources: for source in sources {
        let gone = source.tombstones.iter().filter(|t| *t.start <= *key && *key < *t.end);
        let gone = gone.map(|t| t.seqno).filter(|seqno| *seqno <= upper).max();
        let mut versions: Vec<_> =
            source.entries.iter().filter(|e| e.key == key && e.seqno <= upper).collect();
        versions.sort_by_key(|e| std::cmp::Reverse(e.seqno));
        for version in versions {
            if gone.is_some_and(|gone| gone > version.seqno) {
                break 'sources;
            }
            match version.kind {
                Kind::Merge => operands.push(&version.value),
                Kind::Put => {
                    base = Some(version.value.as_slice());
                    break 'sources;
                }
                _ => break 'sources,
            }
        }
        if gone.is_some() {
            break;
        }
    }
    if operands.is_empty() {
        return Ok(base.map(<[u8]>::to_vec));
    }
    operands.reverse();
    Append.fold(key, base, &operands).map(Some)
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (1u8..40, any::<u64>()).prop_map(|(count, seed)| Action::Write(count, seed)),
        1 => (0..KEYS, 1u16..60).prop_map(|(from, len)| Action::DeleteRange(from, len)),
        6 => Just(Action::Flush),
        8 => Just(Action::Start),
        4 => any::<usize>().prop_map(Action::Step),
        8 => any::<usize>().prop_map(Action::Finish),
        1 => any::<usize>().prop_map(Action::Abandon),
        1 => Just(Action::TakeSnapshot),
        1 => any::<usize>().prop_map(Action::DropSnapshot),
        1 => prop::sample::select(vec![Load::Rested, Load::Flushing, Load::Read]).prop_map(Action::Load),
        1 => (0..KEYS, 1u16..40).prop_map(|(from, len)| Action::CompactRange(from, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_tree_under_compaction_reads_like_its_history(
        actions in prop::collection::vec(action(), 1..120),
        at_once in any::<bool>(),
    ) {
        let mut world = World::new();
        for (at, action) in actions.iter().enumerate() {
            world.act(action);
            if at % 10 == 9 {
                world.check()?;
            }
        }
        world.check()?;

        world.flush();
        // At once or once everything has calmed down, with snapshots and without: nothing is left of what nobody sees.
        if at_once {
            world.snapshots.clear();
            world.compact_range(Vec::new(), None);
            world.check()?;
            return world.check_compacted();
        }
        world.load = Load::Rested;
        world.settle();
        world.check()?;
        world.snapshots.clear();
        world.settle();
        world.check()?;
        prop_assert_eq!(to_collect(&world.tree(), &world.settings), []);
        world.load = Load::Read;
        world.settle();
        world.check()?;
        prop_assert!(world.tree().levels[0].is_empty());
        world.compact_range(Vec::new(), None);
        world.check()?;
        world.check_compacted()?;
    }
}
