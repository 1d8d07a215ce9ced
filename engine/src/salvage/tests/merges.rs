//! An operand counts once, or it is reported; and rows with operands that nobody can fold cost no others.

use esker_base::MergeOperator;
use esker_manifest::{Edit, edit};
use esker_wal::{LogIdentity, LogKind, LogReader};

use super::*;

const KEY: &[u8] = b"k";

fn open(disk: &MemFs) -> crate::Result<Database> {
    let options = DatabaseOptions {
        durability: Durability::Sync,
        memtable_bytes_max: 14 << 10,
        l0_tables_trigger: 1,
        ..DatabaseOptions::default()
    };
    Database::builder(DIR).options(options).env(Simulation::on(disk.clone(), 1).env()).open()
}

/// What a process kill leaves.
fn killed(disk: &MemFs) -> MemFs {
    disk.image_at(disk.trace_len(), Policy::Everything, 0)
}

/// What a kill leaves at the last moment at which `holds`.
fn last_moment(disk: &MemFs, holds: impl Fn(&MemFs) -> bool) -> MemFs {
    let mut images = (0..=disk.trace_len()).rev().map(|nth| disk.image_at(nth, Policy::Everything, 0));
    images.find(|image| holds(image)).expect("there was such a moment")
}

fn has(disk: &MemFs, name: &str) -> bool {
    disk.stat(&path(name)).expect("looked up").is_some()
}

fn counter(disk: &MemFs, keyspace: &str) -> Option<i64> {
    let value = contents(disk, keyspace).remove(KEY)?;
    Some(i64::from_le_bytes(value.try_into().expect("eight bytes")))
}

/// A counter of 1000 in the last level and in another log `operands` times 1. The memtable fills up, it is flushed and compacted,
/// and the log's file is kept for the next one. The disk; what a kill leaves of it last before that file goes; and its name.
fn counted(operands: u32) -> (MemFs, MemFs, String) {
    let disk = MemFs::simulated();
    let db = open(&disk).expect("created");
    let options = KeyspaceOptions::default().with_merge_operator("add-i64");
    let counters = db.keyspace("counters", options).expect("created");
    let rows = db.keyspace("rows", KeyspaceOptions::default()).expect("created");
    counters.put(KEY, 1000i64.to_le_bytes()).expect("put");
    counters.compact_range::<&[u8]>(..).expect("compacted");
    let log = named(&disk, ".log").pop().expect("a log");
    for _ in 0..operands {
        counters.merge(KEY, 1i64.to_le_bytes()).expect("merged");
    }
    let mut nth = 0u32;
    while named(&disk, ".log").last() == Some(&log) {
        rows.put(nth.to_be_bytes(), [7; 500]).expect("put");
        nth += 1;
    }
    db.wait_for_compactions().expect("compacted");
    let value = counters.get(KEY).expect("read").map(|value| value.to_vec());
    assert_eq!(value, Some((1000 + i64::from(operands)).to_le_bytes().to_vec()));
    let left = last_moment(&disk, |image| has(image, &log));
    (disk, left, log)
}

/// The tables that the manifest in force names, and where the last byte of each of its records is that is no seal.
fn told(disk: &MemFs) -> Option<(Vec<FileNumber>, Vec<u64>)> {
    let current = esker_manifest::current_file::read(disk, Path::new(DIR)).ok()?;
    let (database, number) = (current.database, current.manifest);
    let identity = LogIdentity { database, number, kind: LogKind::Manifest };
    let name = FileName::Manifest(number).to_string();
    let mut reader = LogReader::open(disk, &path(&name), identity, None).ok()?;
    let (mut tables, mut ends) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next().ok()? {
        if !record.payload.is_empty() {
            ends.push(record.end - 1);
        }
        for edit in edit::decode(record.payload) {
            match edit.expect("an edit") {
                Edit::AddTable { meta, .. } => tables.push(meta.number),
                Edit::RemoveTable { number, .. } => tables.retain(|table| *table != number),
                _ => {}
            }
        }
    }
    Some((tables, ends))
}

/// How many losses tell of operands in the log `log` that may count twice.
fn undecided(salvaged: &Salvaged, log: &str) -> usize {
    let told =
        salvaged.losses.iter().filter(|loss| loss.file.ends_with(log) && loss.what.contains("twice"));
    let key = Some((KEY.to_vec(), KEY.to_vec()));
    told.inspect(|loss| assert_eq!(loss.keys, key, "{loss:?}")).count()
}

/// The manifest is whole, and the only one.
#[test]
fn a_forgotten_log_counts_for_nothing_without_current() {
    let (_, left, log) = counted(1);
    assert_eq!(told(&left).expect("it reads").0.len(), 2, "all is compacted");
    for missing in [false, true] {
        let disk = killed(&left);
        if missing {
            disk.remove(&path("CURRENT")).expect("removed");
        } else {
            flip(&disk, "CURRENT", 40);
        }
        assert!(open(&killed(&disk)).is_err());
        let salvaged = salvage(&disk).expect("salvaged");
        assert_eq!(counter(&disk, "counters"), Some(1001));
        let [loss] = &salvaged.losses[..] else { panic!("one loss: {:?}", salvaged.losses) };
        assert!(loss.file.ends_with("CURRENT") && has(&disk, &log), "{loss:?}");
    }
}

/// What the manifest has forgotten before its damage stays forgotten.
#[test]
fn a_forgotten_log_counts_for_nothing_with_half_a_manifest() {
    let (_, disk, log) = counted(1);
    let manifest = named(&disk, ".manifest").pop().expect("a manifest");
    let last = told(&disk).expect("it reads").1.pop().expect("a commit");
    flip(&disk, &manifest, last);
    let salvaged = salvage(&disk).expect("salvaged");
    assert!(salvaged.losses.iter().any(|loss| loss.file.ends_with(&manifest)), "{:?}", salvaged.losses);
    assert_eq!(counter(&disk, "counters"), Some(1001));
    assert_eq!(undecided(&salvaged, &log), 0, "{:?}", salvaged.losses);
}

/// Of two manifests the newer one may never have come into force.
#[test]
fn operands_that_may_count_twice_are_reported() {
    let (_, left, log) = counted(1);
    drop(open(&left).expect("opened"));
    let both = last_moment(&left, |image| {
        let manifests = named(image, ".manifest");
        manifests.len() == 2 && told(image).is_some_and(|(tables, _)| tables.len() == 2)
    });
    assert!(has(&both, &log));
    both.remove(&path("CURRENT")).expect("removed");
    let salvaged = salvage(&both).expect("salvaged");
    assert_eq!(undecided(&salvaged, &log), 1, "{:?}", salvaged.losses);
    assert!(!contents(&both, "rows").is_empty());
}

/// Without a manifest nobody knows the operator. A counter that is in logs alone cannot count twice.
#[test]
fn operands_are_reported_without_a_manifest_where_there_are_tables() {
    let (_, left, log) = counted(1);
    for name in named(&left, ".manifest") {
        left.remove(&path(&name)).expect("removed");
    }
    let salvaged = salvage(&left).expect("salvaged");
    assert_eq!(undecided(&salvaged, &log), 1, "{:?}", salvaged.losses);

    let disk = MemFs::simulated();
    let db = open(&disk).expect("created");
    let options = KeyspaceOptions::default().with_merge_operator("add-i64");
    let counters = db.keyspace("counters", options).expect("created");
    let rows = db.keyspace("rows", KeyspaceOptions::default()).expect("created");
    rows.put("row", "value").expect("put");
    db.flush().expect("flushed");
    rows.put("row", "other").expect("put");
    counters.merge(KEY, 1i64.to_le_bytes()).expect("merged");
    let left = killed(&disk);
    left.remove(&path(&named(&left, ".manifest")[0])).expect("removed");
    let salvaged = salvage(&left).expect("salvaged");
    let of_logs = salvaged.losses.iter().filter(|loss| loss.file.to_string_lossy().ends_with(".log"));
    assert_eq!(of_logs.count(), 0, "{:?}", salvaged.losses);
}

/// A memtable has folded operands into a value, which keeps the number of the last one.
#[test]
fn a_folded_operand_comes_before_the_operand() {
    let (whole, _, log) = counted(33);
    let disk = last_moment(&whole, |image| {
        has(image, &log) && told(image).is_some_and(|(tables, _)| tables.len() == 3)
    });
    for name in named(&disk, ".manifest").into_iter().chain(["CURRENT".to_owned()]) {
        disk.remove(&path(&name)).expect("removed");
    }
    salvage(&disk).expect("salvaged");
    assert_eq!(counter(&disk, "keyspace-1"), Some(1033));
}

/// Have `bytes` be the only manifest, called `name`, and no `CURRENT`.
fn put_back(disk: &MemFs, name: &str, bytes: &[u8]) {
    for name in named(disk, ".manifest").into_iter().chain(["CURRENT".to_owned()]) {
        disk.remove(&path(&name)).expect("removed");
    }
    let file = disk.create(&path(name)).expect("created");
    file.write_at(bytes, 0).expect("written");
}

/// An older manifest, left by a crash, does not hide what has been written since, be it told by a table that it
/// names and that is gone or by a log.
#[test]
fn an_older_manifest_alone_hides_nothing() {
    for compacts in [true, false] {
        let (_, left, _) = counted(1);
        let older = named(&left, ".manifest").pop().expect("a manifest");
        let bytes = files(&left).remove(&older).expect("it is there");
        let db = open(&left).expect("opened");
        let rows = db.existing_keyspace("rows").expect("there");
        rows.put("new", "row").expect("put");
        if compacts {
            rows.compact_range::<&[u8]>(..).expect("compacted");
        }
        db.flush().expect("flushed");
        let disk = killed(&left);
        put_back(&disk, &older, &bytes);
        let salvaged = salvage(&disk).expect("salvaged");
        let found = contents(&disk, "rows");
        assert_eq!(found.get(&b"new"[..]).map(Vec::as_slice), Some(&b"row"[..]), "{:?}", salvaged.losses);
        assert_eq!(counter(&disk, "counters"), Some(1001));
    }
}

/// Its tables were replaced since, by one that it does not name.
#[test]
fn an_older_manifest_alone_does_not_hide_what_a_compaction_has_made() {
    let (whole, disk, log) = counted(1);
    let before = last_moment(&whole, |image| told(image).is_some_and(|(tables, _)| tables.len() == 3));
    let older = named(&before, ".manifest").pop().expect("a manifest");
    let bytes = files(&before).remove(&older).expect("it is there");
    put_back(&disk, &older, &bytes);
    let salvaged = salvage(&disk).expect("salvaged");
    // The log is read again: nobody knows that the table has what is in it.
    assert!(matches!(counter(&disk, "counters"), Some(1001 | 1002)), "{:?}", salvaged.losses);
    assert_eq!(undecided(&salvaged, &log), 1, "{:?}", salvaged.losses);
}

/// A manifest that has lost its end, at the border of a record, says nothing of that. Nothing is hidden that it told of there: no
/// table, and no row in a log of a keyspace that was created there.
#[test]
fn a_manifest_without_its_end_hides_nothing() {
    for durability in [Durability::Sync, Durability::NoLog] {
        let disk = MemFs::simulated();
        let options = DatabaseOptions { durability, ..DatabaseOptions::default() };
        let env = Simulation::on(disk.clone(), 1).env();
        let db = Database::builder(DIR).options(options).env(env).open().expect("created");
        for name in ["first", "second", "third"] {
            let map = db.keyspace(name, KeyspaceOptions::default()).expect("created");
            for key in ["a", "b", "c"] {
                map.put(key, name).expect("put");
            }
            if name != "third" || durability == Durability::NoLog {
                db.flush().expect("flushed");
            }
        }
        let left = killed(&disk);
        let manifest = named(&left, ".manifest").pop().expect("a manifest");
        let bytes = files(&left).remove(&manifest).expect("it is there");
        let (_, ends) = told(&left).expect("it reads");
        assert!(ends.len() > 5, "{ends:?}");
        for end in ends {
            let disk = killed(&left);
            let end = usize::try_from(end).expect("a short file") + 1;
            put_back(&disk, &manifest, &bytes[..end]);
            let salvaged = salvage(&disk).expect("salvaged");
            assert_eq!(salvaged.rows.values().sum::<u64>(), 9, "{durability:?}, {end}: {salvaged:?}");
        }
    }
}

/// Keeps the newest operand.
struct Newest;

impl MergeOperator for Newest {
    fn name(&self) -> &'static str {
        "newest"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Ok(operands.last().copied().or(base).unwrap_or_default().to_vec())
    }
}

/// With the operator all is there; without it, what needs none.
#[test]
fn a_keyspace_without_its_operator_is_salvaged_as_far_as_it_goes() {
    let disk = MemFs::simulated();
    let env = Simulation::on(disk.clone(), 1).env();
    let db = Database::builder(DIR).env(env).merge_operator(Arc::new(Newest)).open().expect("created");
    let merged = db.keyspace("merged", KeyspaceOptions::default().with_merge_operator("newest"));
    let merged = merged.expect("created");
    let others = db.keyspace("others", KeyspaceOptions::default()).expect("created");
    for key in ["a", "b", "c"] {
        merged.put(key, "old").expect("put");
        others.put(key, "1").expect("put");
    }
    db.flush().expect("flushed");
    merged.put("c", "new").expect("put");
    for key in ["a", "b", "d"] {
        merged.merge(key, "new").expect("merged");
    }
    merged.merge("e", "gone").expect("merged");
    merged.delete("e").expect("deleted");
    let left = killed(&disk);
    let rows = |rows: &[(&str, &str)]| -> Rows {
        rows.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    };

    let without = killed(&left);
    let salvaged = salvage(&without).expect("salvaged");
    let [loss] = &salvaged.losses[..] else { panic!("one loss: {:?}", salvaged.losses) };
    assert_eq!(loss.keyspace.as_deref(), Some("merged"));
    assert_eq!(loss.keys, Some((b"a".to_vec(), b"d".to_vec())));
    assert!(loss.what.contains("\"newest\" is not registered"), "{loss:?}");
    assert!(loss.what.contains("2 have an older value and 1 have none"), "{loss:?}");
    assert_eq!(contents(&without, "merged"), rows(&[("a", "old"), ("b", "old"), ("c", "new")]));
    assert_eq!(salvaged.rows, [("merged".to_owned(), 3), ("others".to_owned(), 3)].into());
    assert_eq!(contents(&without, "others").len(), 3);

    let env = Simulation::on(left.clone(), 9).env();
    let salvaged = Salvage::of(DIR).env(env).merge_operator(Arc::new(Newest)).run(NEW).expect("salvaged");
    assert!(salvaged.losses.is_empty(), "{:?}", salvaged.losses);
    let env = Simulation::on(left.clone(), 2).env();
    let db = Database::builder(NEW).env(env).merge_operator(Arc::new(Newest)).open().expect("opened");
    let merged = db.existing_keyspace("merged").expect("it is there");
    for key in ["a", "b", "c", "d"] {
        assert_eq!(merged.get(key).expect("read").as_deref(), Some(&b"new"[..]), "{key}");
    }
    assert_eq!(merged.get("e").expect("read"), None);
}

/// A keyspace of which no row needs the operator is told of as well: it has none any more.
#[test]
fn a_keyspace_that_loses_its_operator_alone_is_told_of() {
    let disk = MemFs::simulated();
    let env = Simulation::on(disk.clone(), 1).env();
    let db = Database::builder(DIR).env(env).merge_operator(Arc::new(Newest)).open().expect("created");
    let merged = db.keyspace("merged", KeyspaceOptions::default().with_merge_operator("newest"));
    merged.expect("created").put("a", "value").expect("put");
    let left = killed(&disk);
    let salvaged = salvage(&left).expect("salvaged");
    let [loss] = &salvaged.losses[..] else { panic!("one loss: {:?}", salvaged.losses) };
    assert_eq!((loss.keyspace.as_deref(), &loss.keys), (Some("merged"), &None));
    assert_eq!(contents(&left, "merged").len(), 1);
}

/// A range tombstone that was compacted away, and is there still, hides a row that was put since and has lost its number: that is told.
#[test]
fn what_an_obsolete_tombstone_may_hide_is_told() {
    let disk = MemFs::simulated();
    let env = Simulation::on(disk.clone(), 1).env();
    let db = Database::builder(DIR).env(env).open().expect("created");
    let map = db.keyspace("map", KeyspaceOptions::default()).expect("created");
    map.put("k", "old").expect("put");
    db.flush().expect("flushed");
    map.delete_range("a".."z").expect("deleted");
    db.flush().expect("flushed");
    let replaced = files(&disk);
    let tombstone = named(&disk, ".sst").pop().expect("a table");
    map.put("k", "new").expect("put");
    map.compact_range::<&[u8]>(..).expect("compacted");
    db.wait_for_compactions().expect("compacted");
    let left = killed(&disk);
    assert!(!has(&left, &tombstone));
    for name in named(&left, ".manifest").into_iter().chain(["CURRENT".to_owned()]) {
        left.remove(&path(&name)).expect("removed");
    }
    left.create(&path(&tombstone)).expect("created").write_at(&replaced[&tombstone], 0).expect("written");
    let salvaged = salvage(&left).expect("salvaged");
    assert_eq!(salvaged.rows["keyspace-1"], 0, "{salvaged:?}");
    assert!(salvaged.losses.iter().any(|loss| loss.what.contains("rows be missing")), "{salvaged:?}");
}
