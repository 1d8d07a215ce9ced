#![expect(clippy::disallowed_methods, reason = "files are copied and damaged behind the engine's back")]

use std::path::{Path, PathBuf};

use esker_base::error::Error;

use super::{Field, FileKind, Verdict, file};
use crate::{Database, KeyspaceOptions};

/// A closed database with a table, and beside it a log that was copied while it held two batches.
fn sample(dir: &Path) -> PathBuf {
    let db = Database::open(dir).expect("a new database");
    let users = db.keyspace("users", KeyspaceOptions::default()).expect("a keyspace");
    users.put("olya", "1").expect("a put");
    let mut batch = db.batch();
    batch.put(&users, b"\xffkey", b"value").expect("it fits");
    batch.delete(&users, "olya").expect("it fits");
    batch.delete_range(&users, "a".."b").expect("it fits");
    batch.commit().expect("a commit");
    let log = only(dir, "log");
    let copy = dir.join("900000.log");
    std::fs::copy(&log, &copy).expect("a copy");
    db.close().expect("a clean close");
    copy
}

fn only(dir: &Path, extension: &str) -> PathBuf {
    let names = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("a name").path());
    let mut found: Vec<_> = names.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    found.sort();
    found.swap_remove(0)
}

/// The fields, checked to cover the file.
fn fields(path: &Path, kind: FileKind) -> Vec<Field> {
    let inspection = file(path).expect("it opens");
    assert_eq!(inspection.kind(), kind);
    let fields: Vec<Field> = inspection.map(|field| field.expect("it reads")).collect();
    let mut at = 0;
    for field in &fields {
        assert_eq!(field.offset, at, "{field:?}");
        at += field.len;
    }
    assert_eq!(at, std::fs::metadata(path).expect("it is there").len(), "every byte is shown");
    fields
}

#[test]
fn a_log_is_shown_operation_by_operation() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = sample(dir.path());
    let fields = fields(&log, FileKind::Log);
    assert!(fields.iter().all(|field| field.verdict == Verdict::Ok), "{fields:#?}");
    let operations = ["put", "delete", "delete range"];
    let shown: Vec<String> = fields
        .iter()
        .filter(|field| operations.contains(&field.name))
        .map(|field| format!("{} {}", field.name, field.value))
        .collect();
    assert_eq!(
        shown,
        [
            r#"put @1 keyspace 1: "olya" = "1", 1 bytes"#,
            r#"put @2 keyspace 1: "\xffkey" = "value", 5 bytes"#,
            r#"delete @3 keyspace 1: "olya""#,
            r#"delete range @4 keyspace 1: "a" up to before "b""#,
        ]
    );
}

#[test]
fn each_kind_is_known_by_its_content_under_any_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = sample(dir.path());
    let files = [
        (log, FileKind::Log),
        (only(dir.path(), "sst"), FileKind::Table),
        (only(dir.path(), "manifest"), FileKind::Manifest),
        (dir.path().join("CURRENT"), FileKind::Current),
    ];
    for (path, kind) in files {
        assert!(!file(&path).expect("it opens").is_misnamed());
        assert!(fields(&path, kind).iter().all(|field| field.verdict == Verdict::Ok), "{kind}");
        let moved = dir.path().join("rescued");
        std::fs::copy(&path, &moved).expect("a copy");
        assert!(!fields(&moved, kind).is_empty());
        let wrong = dir.path().join(if kind == FileKind::Table { "000777.log" } else { "000777.sst" });
        std::fs::copy(&path, &wrong).expect("a copy");
        assert!(file(&wrong).expect("it opens").is_misnamed());
    }
}

#[test]
fn damage_is_a_field_and_a_damaged_magic_leaves_the_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = sample(dir.path());
    for path in [log, only(dir.path(), "sst"), only(dir.path(), "manifest"), dir.path().join("CURRENT")] {
        let bytes = std::fs::read(&path).expect("it is there");
        let kind = file(&path).expect("it opens").kind();
        // The first and last bytes are the magic numbers; the rest of every file is covered by checksums.
        for at in [0, bytes.len() / 3, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).expect("it is ours");
            let bad = fields(&path, kind).iter().any(|field| field.verdict == Verdict::Bad);
            assert!(bad, "{} at {at}", path.display());
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let notes = dir.path().join("notes.txt");
    std::fs::write(&notes, "hello").expect("it is ours");
    let error = file(&notes).expect_err("it is none of ours");
    assert!(matches!(&error, Error::InvalidArgument { what } if what.contains("notes.txt")), "{error}");
    let absent = file(&dir.path().join("000001.log")).expect_err("it is not there");
    assert!(absent.is_not_found(), "{absent}");
    assert!(file(dir.path()).is_err(), "a directory is no file");
}
