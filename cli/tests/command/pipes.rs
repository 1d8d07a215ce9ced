//! Standard output and standard error that nobody reads: neither changes how a command ends.

use std::process::{Command, ExitStatus, Stdio};

use super::{Sandbox, esker};

/// The end of a pipe that nobody reads.
fn nobody() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn run(arguments: &[&str], out: Stdio, err: Stdio) -> i32 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    let status: ExitStatus = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .status()
        .expect("the binary starts");
    status.code().expect("it ends by itself")
}

/// The exit codes with standard output, standard error, and both unread.
fn unread(arguments: &[&str]) -> [i32; 3] {
    [
        run(arguments, nobody(), Stdio::null()),
        run(arguments, Stdio::null(), nobody()),
        run(arguments, nobody(), nobody()),
    ]
}

#[test]
fn damage_is_told_by_the_exit_code_when_nobody_reads() {
    // Many small blocks and much damage: neither answer fits a buffer, so that writing fails on the way and not only
    // at the end.
    let sandbox = Sandbox::with(&[]);
    sandbox.db(&["create-keyspace", "small", "--block-bytes", "256"]).done();
    let db = esker::Database::open(sandbox.path()).expect("it opens");
    let rows = db.existing_keyspace("small").expect("it is there");
    for row in 0..6_000u32 {
        rows.put(format!("{row:08}"), row.to_le_bytes()).expect("put");
    }
    db.close().expect("a clean close");
    let table = sandbox.named("sst").pop().expect("a table");
    let mut bytes = std::fs::read(&table).expect("it is there");
    let damaged = bytes.len() / 4..bytes.len() / 2;
    bytes[damaged].iter_mut().step_by(256).for_each(|byte| *byte ^= 0x10);
    std::fs::write(&table, bytes).expect("it is ours");
    let (dir, table) = (sandbox.path(), table.to_str().expect("text").to_owned());
    let dir = dir.to_str().expect("text");
    assert!(esker(&["inspect", &table]).out.len() > 2 << 13, "longer than a buffer");
    assert_eq!(unread(&["inspect", &table]), [4; 3]);
    assert_eq!(unread(&["inspect", "--json", &table]), [4; 3]);
    assert_eq!(unread(&["inspect", "--bad", &table]), [4; 3]);
    assert_eq!(unread(&["db", dir, "verify"]), [4; 3]);
    assert_eq!(unread(&["db", dir, "verify", "--json"]), [4; 3]);
    let new = sandbox.dir.path().join("new").display().to_string();
    assert!(esker(&["db", dir, "salvage", "--into", &new]).out.len() > 2 << 13, "longer than a buffer");
    for (at, json) in [(0, &[][..]), (1, &["--json"])] {
        let into = |pass: usize| sandbox.dir.path().join(format!("new-{at}-{pass}")).display().to_string();
        let salvage = |pass, out, err| {
            let into = into(pass);
            run(&[&["db", dir, "salvage", "--into", &into], json].concat(), out, err)
        };
        assert_eq!(salvage(0, nobody(), Stdio::null()), 4);
        assert_eq!(salvage(1, Stdio::null(), nobody()), 4);
        assert_eq!(salvage(2, nobody(), nobody()), 4);
    }
}

#[test]
fn damage_told_in_a_line_is_told_by_the_exit_code_too() {
    let sandbox = Sandbox::with(&[("olya", "x")]);
    let table = sandbox.named("sst").pop().expect("a table");
    let mut bytes = std::fs::read(&table).expect("it is there");
    bytes[10] ^= 0x10;
    std::fs::write(&table, bytes).expect("it is ours");
    let (dir, new) = (sandbox.path(), sandbox.dir.path().join("new"));
    let (dir, new) = (dir.to_str().expect("text"), new.to_str().expect("text"));
    assert_eq!(unread(&["db", dir, "scan"]), [4; 3]);
    assert_eq!(run(&["db", dir, "salvage", "--into", new], nobody(), nobody()), 4);
}

#[test]
fn what_is_done_and_what_is_not_there_are_told_when_nobody_reads() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let dir = sandbox.path();
    let dir = dir.to_str().expect("text");
    assert_eq!(unread(&["db", dir, "scan", "--cost"]), [0; 3]);
    assert_eq!(unread(&["db", dir, "get", "a", "--cost"]), [0; 3]);
    assert_eq!(unread(&["db", dir, "get", "b"]), [3; 3]);
    assert_eq!(unread(&["db", dir, "get", "a", "--key-format", "hex"]), [2; 3]);
    assert_eq!(unread(&["frobnicate"]), [2; 3]);
    assert_eq!(unread(&["--help"]), [0; 3]);
    let log = sandbox.named("sst").pop().expect("a table");
    let misnamed = sandbox.dir.path().join("000001.log");
    std::fs::copy(log, &misnamed).expect("a copy");
    assert_eq!(unread(&["inspect", misnamed.to_str().expect("text")]), [0; 3]);
    assert_eq!(unread(&["workload", "fill", "--rows", "10"]), [0; 3]);
    let report = sandbox.dir.path().join("report");
    let report = report.to_str().expect("text");
    let lab = ["lab", "x1", "--scale", "tiny", "--store", "map", "--report", report];
    assert_eq!(run(&lab, nobody(), nobody()), 0);
}
