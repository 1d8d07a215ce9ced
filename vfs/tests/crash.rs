//! What each crash policy promises, and that images are pure functions of trace, policy and seed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use esker_vfs::fs::{File, Fs, read_all, replace};
use esker_vfs::mem::{MemFs, PAGE_BYTES, Policy, SyncFailure, UnitKind};
use proptest::prelude::*;

const SECTOR: usize = 512;

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn create(fs: &MemFs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = fs.create(path(name)).expect("created");
    file.write_at(bytes, 0).expect("written");
    file
}

fn durable(fs: &MemFs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(fs, name, bytes);
    file.sync().expect("synced");
    fs.sync_dir(path("")).expect("synced");
    file
}

/// The bytes of `name`, or `None` if there is no such file.
fn content(fs: &MemFs, name: &str) -> Option<Vec<u8>> {
    fs.stat(path(name)).expect("looked up")?;
    Some(read_all(fs, path(name), u64::MAX).expect("read"))
}

fn now(fs: &MemFs, policy: Policy, seed: u64) -> MemFs {
    fs.image_at(fs.trace_len(), policy, seed)
}

#[test]
fn a_synced_file_whose_name_is_not_may_vanish() {
    let fs = MemFs::simulated();
    create(&fs, "table", b"rows").sync().expect("synced");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "table"), None);
    assert_eq!(content(&now(&fs, Policy::Everything, 0), "table").as_deref(), Some(&b"rows"[..]));
    fs.sync_dir(path("")).expect("synced");
    for policy in Policy::ALL {
        assert_eq!(content(&now(&fs, policy, 1), "table").as_deref(), Some(&b"rows"[..]), "{policy:?}");
    }
}

#[test]
fn renames_and_removals_are_undone_until_the_directory_is_synced() {
    let fs = MemFs::simulated();
    durable(&fs, "old", b"o");
    durable(&fs, "gone", b"g");
    fs.rename(path("old"), path("new")).expect("renamed");
    fs.remove(path("gone")).expect("removed");
    let names = |fs: &MemFs| -> Vec<String> {
        fs.list(path("")).expect("listed").into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names(&now(&fs, Policy::Strict, 0)), ["gone", "old"]);
    assert_eq!(names(&now(&fs, Policy::MetadataBeforeData, 0)), ["new"]);
    // Each change is there or not; the file under its old or its new name, never both, never neither.
    let point = fs.crash_point(fs.trace_len());
    let found: BTreeSet<Vec<String>> =
        point.selections(0, 0).map(|taken| names(&point.image_subset(&taken))).collect();
    let expected: BTreeSet<Vec<String>> = [&["gone", "old"][..], &["old"], &["gone", "new"], &["new"]]
        .iter()
        .map(|names| names.iter().map(|name| (*name).to_owned()).collect())
        .collect();
    assert_eq!(found, expected);
}

/// All images of a trace from call `first` on, under all policies.
fn every_image(fs: &MemFs, first: usize, seeds: u64, mut check: impl FnMut(&MemFs, &str)) {
    for point in fs.sweep().skip(first) {
        for policy in Policy::ALL {
            for seed in 0..if policy.is_seeded() { seeds } else { 1 } {
                check(
                    &point.image(policy, seed),
                    &format!("call {}, {policy:?}, seed {seed}", point.calls()),
                );
            }
        }
        for taken in point.selections(16, 0) {
            check(&point.image_subset(&taken), &format!("call {}, units {taken:?}", point.calls()));
        }
    }
}

#[test]
fn a_replaced_file_is_old_or_new_at_every_moment() {
    let fs = MemFs::simulated();
    let (old, new) = (vec![1; 700], vec![2; 5000]);
    durable(&fs, "CURRENT", &old);
    let before = fs.trace_len();
    replace(&fs, path(""), "CURRENT", "000001.tmp", &new).expect("replaced");
    let mut seen = BTreeSet::new();
    every_image(&fs, before, 20, |image, what| {
        let bytes = content(image, "CURRENT");
        assert!([&old, &new].contains(&bytes.as_ref().unwrap_or(&Vec::new())), "{what}: {bytes:?}");
        seen.insert(bytes);
    });
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_replacement_without_its_sync_is_caught() {
    let fs = MemFs::simulated();
    durable(&fs, "CURRENT", b"old");
    create(&fs, "000001.tmp", b"new");
    fs.rename(path("000001.tmp"), path("CURRENT")).expect("renamed");
    fs.sync_dir(path("")).expect("synced");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "CURRENT").as_deref(), Some(&b""[..]));
}

#[test]
fn sectors_are_whole_and_tears_fall_between_them() {
    let fs = MemFs::simulated();
    let file = durable(&fs, "log", &[1; 8 * SECTOR]);
    file.write_at(&[2; 6 * SECTOR], 100).expect("written");
    for policy in [Policy::SectorTear, Policy::RandomSectors] {
        let (mut torn, mut images) = (0, BTreeSet::new());
        for seed in 0..200 {
            let image = now(&fs, policy, seed);
            let bytes = content(&image, "log").expect("there");
            assert_eq!(bytes.len(), 8 * SECTOR);
            assert!(bytes[..100].iter().all(|byte| *byte == 1));
            let written: Vec<u8> = bytes[100..100 + 6 * SECTOR].to_vec();
            for (at, byte) in written.iter().enumerate() {
                let first_of_sector = ((100 + at) / SECTOR * SECTOR).max(100) - 100;
                assert_eq!(*byte, written[first_of_sector], "{policy:?}, seed {seed}, byte {at}");
            }
            torn += u32::from(written.contains(&1) && written.contains(&2));
            images.insert(image.content_hash());
        }
        assert!(torn > 50, "{policy:?}: {torn}");
        assert!(images.len() > 20, "{policy:?}: {}", images.len());
    }
}

#[test]
fn a_sector_written_twice_may_be_as_after_the_first_write() {
    let fs = MemFs::simulated();
    let file = durable(&fs, "log", &[0; SECTOR]);
    file.write_at(b"first", 0).expect("written");
    file.write_at(b"second", 100).expect("written");
    let point = fs.crash_point(fs.trace_len());
    let found: BTreeSet<(bool, bool)> = point
        .selections(0, 0)
        .map(|taken| {
            let bytes = content(&point.image_subset(&taken), "log").expect("there");
            (bytes.starts_with(b"first"), bytes[100..].starts_with(b"second"))
        })
        .collect();
    // Never the second alone: a cache writes out a sector as it stands.
    assert_eq!(found, BTreeSet::from([(false, false), (true, false), (true, true)]));
}

#[test]
fn length_and_bytes_may_part() {
    let fs = MemFs::simulated();
    let file = durable(&fs, "log", b"start");
    file.write_at(&[7; 600], 5).expect("written");
    let longer = content(&now(&fs, Policy::MetadataBeforeData, 0), "log").expect("there");
    assert_eq!(longer, [&b"start"[..], &[0; 600]].concat());
    assert_eq!(content(&now(&fs, Policy::DataBeforeMetadata, 0), "log").expect("there"), b"start");
    // Bytes past the durable length are not there when the file grows again.
    let image = now(&fs, Policy::DataBeforeMetadata, 0);
    image.open_writable(path("log")).expect("opened").set_len(50).expect("grown");
    assert_eq!(content(&image, "log").expect("there"), [&b"start"[..], &[0; 45]].concat());
}

#[test]
fn a_truncation_that_is_not_synced_may_be_undone_and_never_shows_old_bytes_again() {
    let fs = MemFs::simulated();
    let file = durable(&fs, "log", &[9; 3000]);
    file.set_len(10).expect("cut");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "log").expect("there"), [9; 3000]);
    file.set_len(2000).expect("grown");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "log").expect("there"), [9; 3000]);
    let regrown = [&[9; 10][..], &[0; 1990]].concat();
    for policy in [Policy::Everything, Policy::MetadataBeforeData] {
        assert_eq!(content(&now(&fs, policy, 0), "log").expect("there"), regrown, "{policy:?}");
    }
    file.sync().expect("synced");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "log").expect("there"), regrown);
}

#[test]
fn freed_blocks_show_in_new_files() {
    let fs = MemFs::simulated();
    durable(&fs, "old", &[b'o'; 4096]);
    fs.remove(path("old")).expect("removed");
    fs.sync_dir(path("")).expect("synced");
    let file = fs.create(path("new")).expect("created");
    fs.sync_dir(path("")).expect("synced");
    file.write_at(&[b'n'; 3000], 0).expect("written");
    let mut stale = 0;
    for seed in 0..50 {
        let bytes = content(&now(&fs, Policy::StaleBlocks, seed), "new").expect("there");
        assert_eq!(bytes.len(), 3000);
        assert!(bytes.iter().all(|byte| b"on".contains(byte)), "seed {seed}");
        stale += u32::from(bytes.contains(&b'o'));
    }
    assert!(stale > 20, "{stale}");
    file.sync().expect("synced");
    assert_eq!(content(&now(&fs, Policy::StaleBlocks, 0), "new").expect("there"), [b'n'; 3000]);
}

#[test]
fn a_sector_that_was_written_shows_nothing_stale() {
    let fs = MemFs::simulated();
    durable(&fs, "old", &[b'o'; 4096]);
    fs.remove(path("old")).expect("removed");
    let file = durable(&fs, "new", b"");
    file.write_at(&[b'n'; 400], 100).expect("written");
    file.write_at(&[b'n'; 400], 2000).expect("written");
    let mut kept = 0;
    for seed in 0..50 {
        let bytes = content(&now(&fs, Policy::StaleBlocks, seed), "new").expect("there");
        let (first, between) = (&bytes[..512], &bytes[512..1024]);
        assert_eq!(between, [b'o'; 512], "the block is new and this sector was not written");
        if first.contains(&b'n') {
            kept += 1;
            assert_eq!(first, [&[0; 100][..], &[b'n'; 400], &[0; 12]].concat(), "seed {seed}");
        } else {
            assert_eq!(first, [b'o'; 512], "seed {seed}");
        }
    }
    assert!(kept > 2, "{kept}");
}

#[test]
fn a_rename_that_survives_alone_leaves_the_file_that_had_the_name_before() {
    let fs = MemFs::simulated();
    durable(&fs, "x", b"before");
    fs.remove(path("x")).expect("removed");
    create(&fs, "x", b"");
    fs.rename(path("x"), path("y")).expect("renamed");
    let point = fs.crash_point(fs.trace_len());
    assert_eq!(point.pending_units().len(), 3);
    let image = point.image_subset(&[false, false, true]);
    assert_eq!(content(&image, "x").expect("there"), b"before");
    assert_eq!(content(&image, "y").expect("there"), b"");
}

#[test]
fn a_reserved_extent_reads_as_zeros_or_as_written() {
    let fs = MemFs::simulated();
    durable(&fs, "old", &[b'o'; 8192]);
    fs.remove(path("old")).expect("removed");
    let file = fs.create(path("log")).expect("created");
    file.allocate(8192).expect("reserved");
    file.sync().expect("synced");
    fs.sync_dir(path("")).expect("synced");
    file.write_at(&[b'n'; 2000], 0).expect("written");
    for seed in 0..50 {
        let bytes = content(&now(&fs, Policy::StaleBlocks, seed), "log").expect("there");
        assert!(bytes.iter().all(|byte| b"n\0".contains(byte)), "seed {seed}");
    }
}

#[test]
fn files_survive_in_any_order_and_each_as_a_prefix() {
    let fs = MemFs::simulated();
    let (first, second) = (durable(&fs, "1", b""), durable(&fs, "2", b""));
    for round in 0..6_u64 {
        first.write_at(&[1; 40], round * 40).expect("written");
        second.write_at(&[2; 600], round * 600).expect("written");
    }
    let lengths = |policy| -> BTreeSet<(usize, usize)> {
        let images = (0..300).map(|seed| now(&fs, policy, seed));
        images
            .map(|image| {
                let (one, two) =
                    (content(&image, "1").expect("there"), content(&image, "2").expect("there"));
                assert!(
                    one.iter().all(|byte| *byte == 1) && two.iter().all(|byte| *byte == 2),
                    "{policy:?}"
                );
                (one.len() / 40, two.len() / 600)
            })
            .collect()
    };
    assert_eq!(lengths(Policy::CrossFileReorder), BTreeSet::from([(0, 0), (6, 0), (0, 6), (6, 6)]));
    assert_eq!(lengths(Policy::PerFilePrefix).len(), 49);
}

#[test]
fn few_units_give_all_subsets_and_many_give_each_omission_and_survivor() {
    let fs = MemFs::simulated();
    let file = durable(&fs, "log", b"");
    file.write_at(&[1; 5000], 0).expect("written");
    let point = fs.crash_point(fs.trace_len());
    let kinds: Vec<UnitKind> = point.pending_units().iter().map(|unit| unit.kind).collect();
    assert_eq!(kinds, [UnitKind::Length, UnitKind::Page(0), UnitKind::Page(1)]);
    assert_eq!(point.selections(100, 0).count(), 8);
    // Without the length the bytes do not show.
    let images: BTreeSet<u64> =
        point.selections(0, 0).map(|taken| point.image_subset(&taken).content_hash()).collect();
    assert_eq!(images.len(), 5);

    file.write_at(&vec![2; 20 * 4096], 0).expect("written");
    let point = fs.crash_point(fs.trace_len());
    let units = point.pending_units().len();
    assert_eq!(units, 3 + 1 + 20);
    let taken: Vec<usize> =
        point.selections(100, 7).map(|taken| taken.iter().filter(|unit| **unit).count()).collect();
    assert_eq!(taken.len(), 2 * units + 100);
    assert!(taken[..units].iter().all(|count| *count == units - 1));
    assert!(taken[units..2 * units].iter().all(|count| *count == 1));
}

#[test]
fn a_disk_that_lies_about_syncs_keeps_nothing() {
    let fs = MemFs::simulated();
    fs.set_sync_lies(true);
    durable(&fs, "log", b"lost");
    assert!(fs.describe_call(2).contains("pretend"), "{}", fs.describe_call(2));
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "log"), None);
    fs.set_sync_lies(false);
    fs.sync_dir(path("")).expect("synced");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "log").as_deref(), Some(&b""[..]));
}

#[test]
fn after_a_failed_sync_a_later_one_proves_nothing() {
    for mode in [SyncFailure::CacheKept, SyncFailure::CacheReverted] {
        let fs = MemFs::simulated();
        let file = durable(&fs, "log", b"one ");
        file.write_at(b"two ", 4).expect("written");
        fs.fail_next_sync(mode, 0);
        assert!(file.sync().is_err());
        let seen = content(&fs, "log").expect("there");
        let expected = if mode == SyncFailure::CacheKept { &b"one two "[..] } else { &b"one "[..] };
        assert_eq!(seen, expected, "{mode:?}");
        file.sync().expect("the next sync says Ok");
        assert_eq!(content(&now(&fs, Policy::Everything, 0), "log").expect("there"), b"one ", "{mode:?}");
        // What is written and synced from then on is durable, over a hole where bytes were lost.
        file.write_at(b"three", 8).expect("written");
        file.sync().expect("synced");
        let after = content(&now(&fs, Policy::Strict, 0), "log").expect("there");
        assert_eq!(after, b"one \0\0\0\0three", "{mode:?}");
    }
}

#[test]
fn a_failed_sync_of_a_directory_loses_names_at_the_next_crash() {
    let fs = MemFs::simulated();
    create(&fs, "table", b"rows").sync().expect("synced");
    fs.fail_next_sync(SyncFailure::CacheKept, 0);
    assert!(fs.sync_dir(path("")).is_err());
    fs.sync_dir(path("")).expect("the next sync says Ok");
    assert!(content(&fs, "table").is_some());
    assert_eq!(content(&now(&fs, Policy::Everything, 0), "table"), None);
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let fs = MemFs::simulated();
    fs.set_capacity(Some(4 * PAGE_BYTES));
    let file = create(&fs, "log", &[1; 4096]);
    file.allocate(3 * PAGE_BYTES).expect("reserved");
    file.write_at(&[2; 8192], 4096).expect("reserved space cannot run out");
    assert_eq!(fs.free_space(path("")).expect("asked"), Some(PAGE_BYTES));
    let full = file.write_at(&[3; 8192], 3 * PAGE_BYTES).expect_err("no room");
    assert!(full.is_no_space(), "{full}");
    assert_eq!(file.len().expect("asked"), 3 * PAGE_BYTES, "a refused write changes nothing");
    fs.remove(path("log")).expect("removed");
    assert_eq!(fs.free_space(path("")).expect("asked"), Some(PAGE_BYTES), "an open file keeps its space");
    drop(file);
    assert_eq!(fs.free_space(path("")).expect("asked"), Some(4 * PAGE_BYTES));
}

#[test]
fn an_image_is_a_disk_of_its_own_that_may_crash_again() {
    let fs = MemFs::simulated();
    let file = durable(&fs, "log", b"one");
    file.write_at(b"two", 3).expect("written");
    let image = now(&fs, Policy::Everything, 0);
    assert_eq!(image.trace_len(), 0);
    let before = fs.content_hash();
    assert_eq!(image.content_hash(), before);
    image.open_writable(path("log")).expect("opened").write_at(b"six", 6).expect("written");
    assert_eq!(content(&now(&image, Policy::Strict, 0), "log").expect("there"), b"onetwo");
    assert_eq!(content(&image, "log").expect("there"), b"onetwosix");
    assert_eq!(fs.content_hash(), before);
}

#[test]
fn a_directory_goes_with_its_name() {
    let fs = MemFs::simulated();
    fs.create_dir(path("db")).expect("made");
    create(&fs, "db/log", b"x").sync().expect("synced");
    fs.sync_dir(path("db")).expect("synced");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "db/log"), None);
    fs.sync_dir(path("/")).expect("synced");
    assert_eq!(content(&now(&fs, Policy::Strict, 0), "db/log").expect("there"), b"x");
}

/// A random workload on a few files, told by numbers.
#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Write(u8, u16, u16),
    SetLen(u8, u16),
    Allocate(u8, u16),
    Sync(u8),
    Rename(u8, u8),
    Link(u8, u8),
    Remove(u8),
    SyncDir,
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0..5_u8;
    prop_oneof![
        3 => name().prop_map(Op::Create),
        6 => (name(), 0..9000_u16, 1..3000_u16).prop_map(|(file, at, len)| Op::Write(file, at, len)),
        1 => (name(), 0..9000_u16).prop_map(|(file, len)| Op::SetLen(file, len)),
        1 => (name(), 0..9000_u16).prop_map(|(file, len)| Op::Allocate(file, len)),
        3 => name().prop_map(Op::Sync),
        2 => (name(), name()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Op::Link(from, to)),
        2 => name().prop_map(Op::Remove),
        2 => Just(Op::SyncDir),
    ]
}

/// The same disk in the simplest terms: whole copies of what is seen and what is durable.
#[derive(Clone, Debug, Default)]
struct Naive {
    /// By file: what is seen, what is durable.
    files: Vec<(Vec<u8>, Vec<u8>)>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
}

impl Naive {
    fn dump(&self, durable: bool) -> BTreeMap<String, Vec<u8>> {
        let names = if durable { &self.durable_names } else { &self.names };
        let bytes = |file: usize| if durable { &self.files[file].1 } else { &self.files[file].0 };
        names.iter().map(|(name, file)| (name.clone(), bytes(*file).clone())).collect()
    }
}

fn dump(fs: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let entries = fs.list(path("")).expect("listed");
    entries
        .into_iter()
        .map(|entry| (entry.name.clone(), content(fs, &entry.name).expect("there")))
        .collect()
}

/// Do `op` on both; whether it changed anything.
fn run(fs: &MemFs, naive: &mut Naive, op: &Op, nth: usize) {
    let name = |number: &u8| format!("f{number}");
    let open = |number: &u8| fs.open_writable(path(&name(number)));
    match op {
        Op::Create(file) => {
            if fs.create(path(&name(file))).is_ok() {
                naive.names.insert(name(file), naive.files.len());
                naive.files.push(Default::default());
            }
        }
        Op::Write(file, at, len) => {
            let bytes = vec![u8::try_from(nth % 250).expect("small") + 1; usize::from(*len)];
            if let Ok(handle) = open(file) {
                handle.write_at(&bytes, u64::from(*at)).expect("written");
                let seen = &mut naive.files[naive.names[&name(file)]].0;
                let (start, end) = (usize::from(*at), usize::from(*at) + bytes.len());
                seen.resize(seen.len().max(end), 0);
                seen[start..end].copy_from_slice(&bytes);
            }
        }
        Op::SetLen(file, len) | Op::Allocate(file, len) => {
            if let Ok(handle) = open(file) {
                let seen = &mut naive.files[naive.names[&name(file)]].0;
                if matches!(op, Op::SetLen(..)) {
                    handle.set_len(u64::from(*len)).expect("set");
                    seen.resize(usize::from(*len), 0);
                } else {
                    handle.allocate(u64::from(*len)).expect("reserved");
                    seen.resize(seen.len().max(usize::from(*len)), 0);
                }
            }
        }
        Op::Sync(file) => {
            if let Ok(handle) = open(file) {
                handle.sync_data().expect("synced");
                let (seen, durable) = &mut naive.files[naive.names[&name(file)]];
                durable.clone_from(seen);
            }
        }
        Op::Rename(from, to) => {
            if fs.rename(path(&name(from)), path(&name(to))).is_ok()
                && naive.names.get(&name(from)) != naive.names.get(&name(to))
            {
                let file = naive.names.remove(&name(from)).expect("it was renamed");
                naive.names.insert(name(to), file);
            }
        }
        Op::Link(from, to) => {
            if fs.hard_link(path(&name(from)), path(&name(to))).is_ok() {
                naive.names.insert(name(to), naive.names[&name(from)]);
            }
        }
        Op::Remove(file) => {
            if fs.remove(path(&name(file))).is_ok() {
                naive.names.remove(&name(file));
            }
        }
        Op::SyncDir => {
            fs.sync_dir(path("")).expect("synced");
            naive.durable_names = naive.names.clone();
        }
    }
}

/// A change of one file: a write of so many bytes at an offset, or a new length, or reserved space.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write(usize, usize),
    SetLen(usize),
    Allocate(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..9000_usize, 1..3000_usize).prop_map(|(at, len)| Change::Write(at, len)),
        2 => (0..9000_usize).prop_map(Change::SetLen),
        1 => (0..9000_usize).prop_map(Change::Allocate),
    ]
}

/// What a crash leaves of a file, byte by byte. `states` has the file before the changes and after
/// each, `taken` the units that survive.
fn survivor(changes: &[Change], states: &[Vec<u8>], taken: &[(usize, UnitKind)]) -> Vec<u8> {
    let length = taken.iter().filter(|(_, kind)| *kind == UnitKind::Length).map(|(nth, _)| nth + 1).max();
    let len = states[length.unwrap_or(0)].len();
    let covers = |nth: usize, at: usize| match changes[nth] {
        Change::Write(from, len) => (from / SECTOR..=(from + len - 1) / SECTOR).contains(&(at / SECTOR)),
        Change::SetLen(_) | Change::Allocate(_) => false,
    };
    let byte = |at: usize| {
        let page = UnitKind::Page((at / 4096) as u64);
        // The sector is as it was after this many changes; the durable length hides later cuts.
        let whole =
            taken.iter().filter(|(nth, kind)| *kind == page && covers(*nth, at)).map(|(nth, _)| nth + 1);
        let version = whole.max().unwrap_or(0);
        let cut = (version..length.unwrap_or(0))
            .any(|nth| matches!(changes[nth], Change::SetLen(len) if len <= at));
        if cut { 0 } else { states[version].get(at).copied().unwrap_or(0) }
    };
    (0..len).map(byte).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each call: a strict crash loses exactly what was not synced, a kill loses nothing, and no
    /// policy shows a byte that was never written at its place.
    #[test]
    fn crashes_of_random_workloads(ops in prop::collection::vec(op(), 1..60), seed: u64) {
        let (fs, mut naive) = (MemFs::simulated(), Naive::default());
        let mut moments = vec![(0, naive.clone())];
        for (nth, op) in ops.iter().enumerate() {
            run(&fs, &mut naive, op, nth);
            moments.push((fs.trace_len(), naive.clone()));
        }
        prop_assert_eq!(dump(&fs), naive.dump(false));
        let mut points: BTreeMap<usize, _> = fs.sweep().map(|point| (point.calls(), point)).collect();
        for (calls, naive) in &moments {
            let point = points.remove(calls);
            let Some(point) = point else { continue };
            prop_assert_eq!(dump(&point.image(Policy::Strict, seed)), naive.dump(true), "strict, call {}", calls);
            prop_assert_eq!(dump(&point.image(Policy::Everything, seed)), naive.dump(false), "all, call {}", calls);
            let units = point.pending_units().len();
            let none = point.image_subset(&vec![false; units]);
            prop_assert_eq!(none.content_hash(), point.image(Policy::Strict, 0).content_hash());
            let all = point.image_subset(&vec![true; units]);
            prop_assert_eq!(all.content_hash(), point.image(Policy::Everything, 0).content_hash());
            for policy in Policy::ALL {
                let image = point.image(policy, seed);
                prop_assert_eq!(image.content_hash(), point.image(policy, seed).content_hash());
                prop_assert!(image.sweep().all(|point| point.is_settled()));
            }
        }
        // Asked for out of order, images are the same.
        let calls = fs.trace_len();
        for at in [calls, calls / 2, calls] {
            let swept = fs.sweep().nth(at).expect("within the trace").image(Policy::RandomSectors, seed);
            prop_assert_eq!(fs.image_at(at, Policy::RandomSectors, seed).content_hash(), swept.content_hash());
        }
    }

    /// Any subset of units leaves of a file what a byte-by-byte account says.
    #[test]
    fn subsets_leave_what_they_say(
        start in 0..6000_usize,
        changes in prop::collection::vec(change(), 1..12),
        seeds in prop::collection::vec(any::<u64>(), 8),
    ) {
        let fs = MemFs::simulated();
        let file = durable(&fs, "f", &vec![255; start]);
        let first = fs.trace_len();
        let mut states = vec![vec![255; start]];
        for (nth, change) in changes.iter().enumerate() {
            let mut state = states[nth].clone();
            match *change {
                Change::Write(at, len) => {
                    let bytes = vec![u8::try_from(nth).expect("few") + 1; len];
                    file.write_at(&bytes, at as u64).expect("written");
                    state.resize(state.len().max(at + len), 0);
                    state[at..at + len].copy_from_slice(&bytes);
                }
                Change::SetLen(len) => {
                    file.set_len(len as u64).expect("set");
                    state.resize(len, 0);
                }
                Change::Allocate(len) => {
                    file.allocate(len as u64).expect("reserved");
                    state.resize(state.len().max(len), 0);
                }
            }
            states.push(state);
        }
        let point = fs.crash_point(fs.trace_len());
        let units = point.pending_units();
        for seed in seeds {
            let chosen: Vec<bool> = (0..units.len()).map(|unit| seed >> (unit % 64) & 1 == 1).collect();
            let taken: Vec<(usize, UnitKind)> = units
                .iter()
                .zip(&chosen)
                .filter(|(_, chosen)| **chosen)
                .map(|(unit, _)| (usize::try_from(unit.call).expect("few") - first, unit.kind))
                .collect();
            let left = content(&point.image_subset(&chosen), "f").expect("there");
            prop_assert!(left == survivor(&changes, &states, &taken), "units {:?}", taken);
        }
    }

    #[test]
    fn equal_runs_have_equal_traces(ops in prop::collection::vec(op(), 1..40)) {
        let runs: Vec<MemFs> = (0..2).map(|_| {
            let (fs, mut naive) = (MemFs::simulated(), Naive::default());
            ops.iter().enumerate().for_each(|(nth, op)| run(&fs, &mut naive, op, nth));
            fs
        }).collect();
        prop_assert_eq!(runs[0].trace_hash(), runs[1].trace_hash());
        prop_assert_eq!(runs[0].content_hash(), runs[1].content_hash());
        let before = runs[0].trace_hash();
        runs[0].create(path("another")).expect("created");
        prop_assert_ne!(runs[0].trace_hash(), before);
    }
}

/// `cargo test -p esker-vfs --release --test crash -- --ignored --nocapture` prints images a second.
#[test]
#[ignore = "a measurement; wants a release build"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn images_a_second() {
    let fs = MemFs::simulated();
    fs.create_dir(path("db")).expect("made");
    fs.sync_dir(path("")).expect("synced");
    for table in 0..8 {
        create(&fs, &format!("db/{table}.sst"), &vec![7; 20_000]).sync().expect("synced");
    }
    fs.sync_dir(path("db")).expect("synced");
    let log = fs.create(path("db/log")).expect("created");
    for record in 0..300_u64 {
        log.write_at(&[3; 140], record * 140).expect("written");
        if record % 20 == 19 {
            log.sync_data().expect("synced");
        }
    }
    create(&fs, "db/new.sst", &vec![9; 30_000]);
    let start = std::time::Instant::now();
    let mut images = 0_u32;
    for point in fs.sweep() {
        for policy in Policy::ALL {
            for seed in 0..if policy.is_seeded() { 20 } else { 1 } {
                assert!(point.image(policy, seed).trace_len() == 0);
                images += 1;
            }
        }
    }
    let a_second = f64::from(images) / start.elapsed().as_secs_f64();
    println!("{images} images, {a_second:.0} a second");
    assert!(cfg!(debug_assertions) || a_second > 50_000.0, "{a_second:.0} images a second");
}
