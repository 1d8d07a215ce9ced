//! Random edits against a plain model, reopened at any moment.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::blob::{BlobMeta, BlobRef};
use esker_base::filename::FileName;
use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_vfs::mem::Policy;
use proptest::prelude::*;

use super::keyspace;
use crate::testing::disk::{Disk, Survives};
use crate::testing::{Picture, create, meta, recover, write_blob, write_table};
use crate::{Edit, VersionSet};

/// What to do next; numbers are reduced to what there is.
#[derive(Clone, Debug)]
enum Step {
    Create,
    Drop(usize),
    /// Tables for level 0, each with a keyspace and bounds.
    Flush(Vec<(usize, u8, u8)>),
    /// Move the tables of a keyspace to a level, as far as they fit.
    Move(usize, u8),
    /// Replace all tables of a level and the next by one.
    Merge(usize, u8),
    /// Close a log, and forget those before it or not.
    Logs(u64, bool),
    Allocate(usize),
    Close,
    /// Open again, after a power loss or not.
    Reopen(Option<u64>),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Create),
        1 => any::<usize>().prop_map(Step::Drop),
        6 => proptest::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4).prop_map(Step::Flush),
        4 => (any::<usize>(), 1u8..7).prop_map(|(n, level)| Step::Move(n, level)),
        3 => (any::<usize>(), 0u8..6).prop_map(|(n, level)| Step::Merge(n, level)),
        2 => (1u64..1000, any::<bool>()).prop_map(|(len, forget)| Step::Logs(len, forget)),
        1 => (0usize..400).prop_map(Step::Allocate),
        1 => Just(Step::Close),
        3 => proptest::option::of(any::<u64>()).prop_map(Step::Reopen),
    ]
}

/// The set under test, and what it ought to be.
struct Run {
    disk: Disk,
    set: VersionSet,
    expected: Picture,
    clean: Option<(FileNumber, u64)>,
    numbers: BTreeSet<u64>,
    next_keyspace: u32,
}

impl Run {
    fn new() -> Run {
        let disk = Disk::default();
        let set = create(&disk).expect("a new database");
        let expected = Picture::default();
        Run { disk, set, expected, clean: None, numbers: BTreeSet::new(), next_keyspace: 1 }
    }

    fn number(&mut self) -> u64 {
        let number = self.set.allocate().0;
        assert!(self.numbers.insert(number), "number {number} was used before");
        assert_eq!(self.numbers.last(), Some(&number));
        // It may have moved the mark of numbers, which is a commit and ends a clean close.
        self.clean = self.clean.filter(|_| self.set.current().marks().clean_close.is_some());
        number
    }

    fn some_keyspace(&self, n: usize) -> Option<u32> {
        let count = self.expected.keyspaces.len();
        self.expected.keyspaces.keys().nth(n.checked_rem(count)?).copied()
    }

    fn tables(&self, keyspace: u32) -> Vec<(u8, TableMeta)> {
        self.expected.keyspaces[&keyspace].2.values().cloned().collect()
    }

    fn new_table(&mut self, keyspace: u32, smallest: u8, largest: u8) -> TableMeta {
        meta(self.number(), keyspace, &[smallest], &[largest])
    }

    fn commit(&mut self, edits: Vec<Edit>) {
        if edits.is_empty() {
            return;
        }
        self.clean = edits.iter().find_map(|edit| match edit {
            Edit::CleanClose { log, len } => Some((*log, *len)),
            _ => None,
        });
        self.expected = self.expected.edited(&edits);
        let version = self.set.commit(edits).expect("it commits");
        assert_eq!(Picture::of(&version), self.expected);
        assert_eq!(version.next_keyspace(), KeyspaceId(self.next_keyspace));
        assert_eq!(version.marks().clean_close, self.clean);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create => {
                let id = self.next_keyspace;
                self.next_keyspace += 1;
                self.commit(vec![keyspace(id, &format!("keyspace {id}"))]);
            }
            Step::Drop(n) => {
                let dropped = self.some_keyspace(n).map(|id| Edit::DropKeyspace { id: KeyspaceId(id) });
                self.commit(dropped.into_iter().collect());
            }
            Step::Flush(tables) => self.flush(tables),
            Step::Move(n, level) => self.move_tables(n, level),
            Step::Merge(n, level) => self.merge(n, level),
            Step::Logs(len, forget) => {
                let log = FileNumber(self.number());
                let mut edits = vec![Edit::ClosedLog { number: log, len }];
                edits.extend(forget.then_some(Edit::ForgetLogs { before: log }));
                self.commit(edits);
            }
            Step::Allocate(count) => {
                for _ in 0..count {
                    self.number();
                }
            }
            Step::Close => {
                let log = FileNumber(self.number());
                self.commit(vec![Edit::CleanClose { log, len: 5 }]);
            }
            Step::Reopen(seed) => self.reopen(seed),
        }
        for name in self.set.take_garbage() {
            let mut keyspaces = self.expected.keyspaces.values();
            let live = match name {
                FileName::Table(number) => keyspaces.any(|(_, _, tables)| tables.contains_key(&number.0)),
                FileName::Blob(number) => self.expected.blobs.contains_key(&number.0),
                _ => true,
            };
            assert!(!live, "{name} is in the tree");
            self.disk.take(&name.to_string());
        }
    }

    fn flush(&mut self, tables: Vec<(usize, u8, u8)>) {
        let mut edits = Vec::new();
        for (n, from, to) in tables {
            let Some(id) = self.some_keyspace(n) else { continue };
            let mut meta = self.new_table(id, from.min(to), from.max(to));
            // Every other table comes with a blob file.
            if from % 2 == 0 {
                let blob = BlobMeta {
                    number: FileNumber(self.number()),
                    keyspace: meta.keyspace,
                    file_bytes: 900,
                    values: 3,
                    value_bytes: 800,
                };
                write_blob(&self.disk, &blob).expect("a blob file");
                meta.blobs = vec![BlobRef { number: blob.number, values: 3, value_bytes: 800 }];
                edits.push(Edit::AddBlob { meta: blob });
            }
            write_table(&self.disk, &meta).expect("a table's file");
            edits.push(Edit::AddTable { level: 0, meta });
        }
        let newest = self.expected.last_seqno + edits.len() as u64;
        edits.push(Edit::LastSeqNo(SeqNo(newest)));
        self.commit(edits);
    }

    fn move_tables(&mut self, n: usize, level: u8) {
        let Some(id) = self.some_keyspace(n) else { return };
        let (mut there, elsewhere): (Vec<_>, Vec<_>) =
            self.tables(id).into_iter().partition(|(at, _)| *at == level);
        let mut edits = Vec::new();
        for (at, meta) in elsewhere {
            if there.iter().all(|(_, other)| !other.bounds.overlaps(&meta.bounds)) {
                edits.push(Edit::RemoveTable { keyspace: meta.keyspace, level: at, number: meta.number });
                edits.push(Edit::AddTable { level, meta: meta.clone() });
                there.push((level, meta));
            }
        }
        self.commit(edits);
    }

    fn merge(&mut self, n: usize, level: u8) {
        let Some(id) = self.some_keyspace(n) else { return };
        let mut inputs = self.tables(id);
        inputs.retain(|(at, _)| (level..=level + 1).contains(at));
        let bounds = inputs.iter().map(|(_, meta)| meta.bounds.clone()).reduce(|a, b| a.union(&b));
        let Some(bounds) = bounds else { return };
        let mut output = self.new_table(id, 0, 0);
        output.bounds = bounds;
        // Of what the inputs refer to, the greater numbers are passed on.
        let parts = inputs.iter().flat_map(|(_, meta)| &meta.blobs).map(|part| (part.number, *part));
        let parts: BTreeMap<FileNumber, BlobRef> = parts.collect();
        let one = |part: BlobRef| BlobRef { values: 1, value_bytes: 5, ..part };
        output.blobs = parts.into_values().skip(usize::from(level % 2)).map(one).take(10).collect();
        write_table(&self.disk, &output).expect("a table's file");
        let mut edits = vec![Edit::AddTable { level: level + 1, meta: output }];
        edits.extend(inputs.iter().map(|(level, meta)| Edit::RemoveTable {
            keyspace: meta.keyspace,
            level: *level,
            number: meta.number,
        }));
        self.commit(edits);
    }

    fn reopen(&mut self, seed: Option<u64>) {
        if let Some(seed) = seed {
            self.disk = self
                .disk
                .after_power_loss(Survives::Some(Policy::ALL[seed as usize % Policy::ALL.len()], seed));
        }
        let (set, recovered) = recover(&self.disk).expect("it opens");
        self.set = set;
        assert_eq!(Picture::of(&self.set.current()), self.expected);
        assert_eq!(self.set.current().next_keyspace(), KeyspaceId(self.next_keyspace));
        assert_eq!(recovered.clean_close, self.clean);
        self.clean = None;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_set_is_what_the_model_is(list in proptest::collection::vec(steps(), 1..60)) {
        let mut run = Run::new();
        for step in list {
            run.step(step);
        }
        run.reopen(Some(1));
    }
}
