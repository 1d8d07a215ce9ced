//! Every released format is opened for ever.

use std::path::Path;

use esker::{Database, DatabaseOptions, TableSource};
use esker_base::filename::FileName;
use esker_tests::dump::{compare_gets, compare_scan, difference, dump};
use esker_tests::files::Files;
use esker_tests::golden::{self, fixture};
use esker_tests::oracle::Contents;
use esker_tests::setup::DIR;
use esker_vfs::sim::Simulation;

/// What the golden database of version `version` holds.
fn contents(version: u32) -> Contents {
    golden::states(version).pop().expect("a history has an end").contents
}

fn open(files: &Files, options: DatabaseOptions) -> Database {
    let world = Simulation::on(files.disk(), 7);
    let db = Database::builder(Path::new(DIR)).options(options).env(world.env()).open();
    db.expect("a released format opens")
}

#[test]
fn every_version_is_opened_and_gives_every_answer() {
    (1..=golden::VERSION).for_each(opens_and_gives_every_answer);
}

fn opens_and_gives_every_answer(version: u32) {
    let files = fixture::files(version).expect("it is committed");
    let contents = contents(version);
    assert_eq!(fixture::answers(version).expect("they are committed"), fixture::listing(&contents));
    for (read_only, table_source) in [
        (true, TableSource::Buffered),
        (true, TableSource::Mapped),
        (false, TableSource::Buffered),
        (false, TableSource::Mapped),
    ] {
        let options = DatabaseOptions { read_only, table_source, ..golden::options() };
        let db = open(&files, options);
        db.verify().expect("it is whole");
        let found = dump(&db).expect("it is read");
        assert!(found == contents, "{}", difference(&found, &contents));
        for (name, rows) in &contents {
            let keyspace = db.existing_keyspace(name).expect("it is there");
            compare_scan(&keyspace, rows).expect("scans agree");
            let keys: Vec<Vec<u8>> = (0..210).map(|nth| format!("key-{nth:03}").into_bytes()).collect();
            compare_gets(&keyspace, &keys, rows).expect("gets agree");
        }
        if !read_only {
            // What this version makes of it holds the same.
            db.wait_for_compactions().expect("background work succeeds");
            assert!(dump(&db).expect("it is read") == contents);
            db.verify().expect("it is whole");
        }
        db.close().expect("it closes");
    }
}

#[test]
fn the_committed_copies_have_everything_in_them() {
    (1..=golden::VERSION).for_each(has_everything_in_it);
}

fn has_everything_in_it(version: u32) {
    let files = fixture::files(version).expect("it is committed");
    assert!(files.bytes() <= 256 << 10, "{} bytes", files.bytes());
    let count = |wanted: fn(FileName) -> bool| {
        files.names().iter().filter_map(|name| FileName::parse(name)).filter(|name| wanted(*name)).count()
    };
    assert_eq!(count(|name| matches!(name, FileName::Current)), 1);
    assert_eq!(count(|name| matches!(name, FileName::Manifest(_))), 1);
    assert!(count(|name| matches!(name, FileName::Log(_))) >= 2, "a sealed log and an active one");
    assert!(count(|name| matches!(name, FileName::Table(_))) >= 6);

    let db = open(&files, DatabaseOptions { read_only: true, ..golden::options() });
    let metrics = db.metrics();
    let rows = metrics.keyspaces.iter().find(|keyspace| keyspace.name == "rows").expect("it is there");
    assert!(rows.levels.len() >= 3, "{:?}", rows.levels);
    let levels = || metrics.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    assert!(levels().any(|level| level.range_tombstones > 0));
    assert!(levels().any(|level| level.point_tombstones > 0));
    assert_eq!(db.keyspaces(), ["lists", "rows"]);
    assert!(metrics.sealed_memtables > 0, "logs that no table holds");

    let tables = files.iter().filter(|(name, _)| esker_tests::files::is_table(name));
    let codecs: Vec<u8> = tables.map(|(_, bytes)| codec_of_first_block(bytes)).collect();
    assert!(codecs.contains(&0) && codecs.contains(&1), "raw and LZ4 blocks: {codecs:?}");
    let mut tables = files.iter().filter(|(name, _)| esker_tests::files::is_table(name));
    let padded = tables.any(|(_, bytes)| first_block(bytes).len() == 4096);
    assert_eq!(padded, version == 2, "a block that ends with a page");
    let blobs = count(|name| matches!(name, FileName::Blob(_)));
    assert_eq!(blobs > 2, version >= 3, "{blobs} blob files");
    assert!(version < 3 || metrics.keyspaces.iter().any(|keyspace| keyspace.blobs.dead_bytes > 0));
    let hidden: u64 = levels().map(|level| level.hidden_versions).sum();
    assert_eq!(hidden > 0, version >= 4, "{hidden} versions that only a snapshot saw");
}

/// The codec byte of a table's first block.
fn codec_of_first_block(table: &[u8]) -> u8 {
    let block = first_block(table);
    block[block.len() - 9]
}

/// A table's first block as it is stored: see the format, footer and index.
fn first_block(table: &[u8]) -> &[u8] {
    let footer = table.len() - 104;
    let u32_at = |at: usize| {
        usize::try_from(u32::from_le_bytes(table[at..at + 4].try_into().expect("four bytes")))
            .expect("fits")
    };
    let index = u32_at(footer + 60);
    let prefix = usize::from(u16::from_le_bytes(table[index + 5..index + 7].try_into().expect("two")));
    let stored = u32_at(index + 7 + prefix);
    &table[..stored]
}

#[test]
fn the_generator_makes_such_a_database() {
    let (first, second) = (golden::golden().expect("it is made"), golden::golden().expect("it is made"));
    assert!(first.files == second.files, "the same history twice");
    let db = open(&first.files, DatabaseOptions { read_only: true, ..golden::options() });
    let (found, expected) = (dump(&db).expect("it is read"), contents(golden::VERSION));
    assert!(found == expected, "{}", difference(&found, &expected));
}

/// `cargo test -p esker-tests --test golden -- --ignored commit`, once in a format version's life.
#[test]
#[ignore = "writes into the source tree"]
fn commit_a_version_that_is_not_there() {
    let made = golden::golden().expect("it is made");
    fixture::commit(golden::VERSION, &made.files, &contents(golden::VERSION)).expect("it is written");
}
