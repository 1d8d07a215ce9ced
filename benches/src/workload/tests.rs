#![expect(clippy::disallowed_methods, reason = "directories are looked at behind the engine's back")]

use esker::{Compression, Database, DatabaseOptions, Durability, KeyspaceOptions};

use super::{Figures, Order, Silent, Workload, WorkloadError, WorkloadOptions, run};

fn small(workload: Workload, dir: &std::path::Path) -> WorkloadOptions {
    // Memtables so small that there are flushes and compactions.
    let database = DatabaseOptions {
        memtable_bytes_max: 64 << 10,
        level_base_bytes: Some(256 << 10),
        table_bytes: 64 << 10,
        ..DatabaseOptions::default()
    };
    WorkloadOptions { rows: 5_000, threads: 2, database, ..WorkloadOptions::new(workload, dir) }
}

fn run_small(workload: Workload, change: impl FnOnce(&mut WorkloadOptions)) -> Figures {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = small(workload, dir.path());
    change(&mut options);
    let figures = run(&options, &mut Silent).expect("it runs");
    let db = Database::builder(dir.path()).read_only(true).open().expect("the database stays");
    let rows = db.existing_keyspace("workload").expect("its keyspace").iter().count() as u64;
    assert_eq!(rows, if workload == Workload::Delete { 0 } else { options.rows });
    figures
}

#[test]
fn every_workload_runs_in_either_order_and_counts_its_calls() {
    let workloads = [
        Workload::Fill,
        Workload::Overwrite,
        Workload::Delete,
        Workload::Get,
        Workload::Seek,
        Workload::Scan,
        Workload::Mixed,
    ];
    for workload in workloads {
        for order in [Order::Random, Order::Ordered] {
            let figures = run_small(workload, |options| options.order = order);
            let calls: u64 = figures.latencies.iter().map(|latency| latency.count).sum();
            // Two threads scan 2,500 rows each in steps of 1,000.
            assert_eq!(calls, if workload == Workload::Scan { 6 } else { 5_000 }, "{workload}");
            assert!(
                figures
                    .latencies
                    .iter()
                    .all(|l| l.p50_nanos <= l.p999_nanos && l.p999_nanos <= l.longest_nanos)
            );
            assert_eq!(figures.writes.is_some(), workload.writes(), "{workload}");
            assert!(figures.harness_nanos > 0.0 && figures.per_second >= figures.settled_per_second);
        }
    }
}

#[test]
fn write_amplification_is_what_the_files_hold() {
    let figures = run_small(Workload::Fill, |_| {});
    let writes = figures.writes.expect("a fill writes");
    assert_eq!(writes.user_bytes, 5_000 * 116);
    // Each row at least once in the log and once in a table, where keys share their prefixes; a settled
    // tree of several levels wrote more.
    assert!(writes.log_bytes >= writes.user_bytes && writes.flushed_bytes > writes.user_bytes / 10 * 9);
    assert!(writes.amplification > 2.0, "{writes:?}");
    let space = figures.space.amplification.expect("rows are live");
    assert!((0.9..1.5).contains(&space), "{space}");
}

#[test]
fn without_a_log_nothing_is_logged() {
    let figures = run_small(Workload::Fill, |options| options.database.durability = Durability::NoLog);
    assert_eq!(figures.writes.expect("a fill writes").log_bytes, 0);
}

#[test]
fn values_are_about_half_compressible() {
    let figures = run_small(Workload::Fill, |options| {
        options.value_bytes = 400;
        options.keyspace = KeyspaceOptions::default().with_compression(Compression::Lz4);
    });
    let space = figures.space.amplification.expect("rows are live");
    assert!((0.45..0.7).contains(&space), "{space}");
}

#[test]
fn batches_are_timed_as_one_call() {
    let figures = run_small(Workload::Delete, |options| options.batch = 100);
    assert_eq!((figures.latencies[0].count, figures.latencies[0].rows_per_call), (50, 100));
}

#[test]
fn a_get_reads_about_a_block() {
    let figures = run_small(Workload::Get, |_| {});
    let reads = figures.reads.expect("gets read");
    assert!((0.9..1.2).contains(&(reads.cached_blocks + reads.disk_blocks)), "{reads:?}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = dir.path().join("db");
    let refused: [fn(&mut WorkloadOptions); 6] = [
        |options| options.rows = 0,
        |options| options.value_bytes = (1 << 30) + 1,
        |options| options.threads = 0,
        |options| options.batch = 0,
        |options| options.batch = 2,
        |options| options.database.level_fanout = 1,
    ];
    for change in refused {
        let mut options = small(Workload::Get, &target);
        change(&mut options);
        let error = run(&options, &mut Silent).expect_err("out of bounds");
        assert!(matches!(error, WorkloadError::BadOption(_)), "{error}");
        assert!(!target.try_exists().expect("its parent is ours"), "{error} came too late");
    }
}

#[test]
fn somebody_elses_directory_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("letter"), "dear").expect("it is ours");
    let error = run(&small(Workload::Fill, dir.path()), &mut Silent).expect_err("it is not empty");
    assert!(matches!(error, WorkloadError::NotEmpty(_)), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1);
}
