//! `esker workload`, small.

use super::{Sandbox, esker, json};

#[test]
fn every_workload_prints_its_figures() {
    for workload in ["fill", "overwrite", "delete", "get", "seek", "scan", "mixed"] {
        let ran = esker(&["workload", workload, "--rows", "500", "--threads", "2"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        for part in ["500 rows of 16 + 100 B", "p99.9", "rate", "harness", "space amplification"] {
            assert!(ran.out.contains(part), "{workload}: {part:?} is not in {}", ran.out);
        }
        assert_eq!(ran.out.contains("write amplification"), !["get", "seek", "scan"].contains(&workload));
        assert!(!ran.err.contains('%'), "no bars without a terminal: {}", ran.err);
    }
}

#[test]
fn json_holds_the_same_figures_and_dir_keeps_the_rows() {
    let sandbox = Sandbox::new();
    let path = sandbox.path();
    let path = path.to_str().expect("a path in ASCII");
    let line = ["workload", "fill", "--rows", "500", "--batch", "100", "--json", "--dir", path];
    let ran = esker(
        &[&line[..], &["--durability", "sync", "--compression", "lz4", "--order", "ordered"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let figures = json(&ran.out);
    assert_eq!((&figures["operations"], &figures["latencies"][0]["count"]), (&500.into(), &5.into()));
    assert_eq!(figures["settings"]["durability"], "sync");
    assert_eq!(figures["settings"]["mapped_log"], false);
    assert_eq!(figures["settings"]["compression"], "lz4");
    let rows = sandbox.db(&["scan", "--keyspace", "workload", "--keys-only"]).done();
    assert_eq!(rows.lines().count(), 500);
    assert_eq!(rows.lines().nth(42), Some("0000000000000042"));
    // It is somebody's now.
    let before = sandbox.files();
    esker(&line).failed(2, &["not empty", "db"]);
    assert!(before == sandbox.files(), "it has changed the directory");
}

#[test]
fn a_mapped_log_is_named_where_it_was_asked_for() {
    let ran = esker(&["workload", "fill", "--rows", "500", "--mapped-log"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("durability os, log mapped"), "{}", ran.out);
}

#[test]
fn options_out_of_range_make_nothing() {
    let sandbox = Sandbox::new();
    let path = sandbox.path();
    let path = path.to_str().expect("a path in ASCII");
    let refused: [&[&str]; 9] = [
        &["walk"],
        &["get", "--rows", "0"],
        &["get", "--threads", "0"],
        &["get", "--threads", "2000"],
        &["get", "--batch", "10"],
        &["fill", "--value-bytes", "2G"],
        &["fill", "--durability", "interval:0"],
        &["fill", "--cache-bytes", "1_000_000G"],
        &["fill", "--blob-bytes-min", "5"],
    ];
    for arguments in refused {
        esker(&[&["workload"], arguments, &["--dir", path]].concat()).failed(2, &["error: "]);
        assert!(sandbox.path().symlink_metadata().is_err(), "{arguments:?} made a directory");
    }
}
