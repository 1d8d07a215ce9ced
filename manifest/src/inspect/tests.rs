use esker_base::inspect::{Field, Verdict};

use super::inspect;
use crate::testing::disk::Disk;
use crate::testing::{create, dir, meta, write_table};
use crate::{Edit, LEVELS};

fn fields(disk: &Disk, name: &str) -> Vec<Field> {
    let path = dir().join(name);
    let fs = disk.fs();
    let fields: Result<Vec<Field>, _> = inspect(&*fs, &path).expect("it opens").collect();
    let fields = fields.expect("it reads");
    let mut at = 0;
    for field in &fields {
        assert_eq!(field.offset, at, "{field:?}");
        at += field.len;
    }
    assert_eq!(at, disk.bytes(name).len() as u64, "every byte is shown");
    fields
}

fn sample() -> Disk {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let create =
        Edit::CreateKeyspace { id: set.current().next_keyspace(), name: "users".into(), options: vec![1] };
    set.commit(vec![create]).expect("a keyspace");
    let meta = meta(set.allocate().0, 1, b"ant", b"bee");
    write_table(&disk, &meta).expect("a table's file");
    set.commit(vec![Edit::AddTable { level: LEVELS as u8 - 1, meta }]).expect("a table");
    disk
}

#[test]
fn a_manifest_is_shown_edit_by_edit() {
    let disk = sample();
    let fields = fields(&disk, "000001.manifest");
    assert!(fields.iter().all(|field| field.verdict == Verdict::Ok));
    let shown: Vec<String> =
        fields.iter().map(|field| format!("{}: {}", field.name, field.value)).collect();
    let edits = [
        "next keyspace: 1",
        "create keyspace: 1 \"users\", 1 bytes of options",
        "add table: 000002 to level 6 of keyspace 1: 1002 bytes, keys \"ant\" to \"bee\", sequence numbers 2 to 7, \
         10 entries (2 tombstones, 1 operands, 0 hidden versions), 0 range tombstones",
    ];
    for edit in edits {
        assert!(shown.iter().any(|line| line == edit), "{edit:?} is not in {shown:#?}");
    }
}

#[test]
fn damage_is_shown_as_such_and_what_follows_too() {
    let disk = sample();
    let mut bytes = disk.bytes("000001.manifest");
    let at = bytes.windows(5).position(|window| window == b"users").expect("the name");
    bytes[at] ^= 1;
    disk.put("000001.manifest", &bytes);
    let fields = fields(&disk, "000001.manifest");
    assert!(fields.iter().any(|field| field.name == "payload" && field.verdict == Verdict::Bad));
    assert!(fields.iter().any(|field| field.name == "add table" && field.verdict == Verdict::Ok));
}

#[test]
fn current_is_shown_line_by_line() {
    let disk = sample();
    let names: Vec<&str> = fields(&disk, "CURRENT").iter().map(|field| field.name).collect();
    assert_eq!(names, ["title and version", "database", "manifest", "checksum"]);
    assert_eq!(fields(&disk, "CURRENT")[2].value, "manifest 000001");
    disk.put("CURRENT", b"esker database, format 1\nnonsense");
    assert!(fields(&disk, "CURRENT").iter().all(|field| field.verdict == Verdict::Bad));
}

#[test]
fn what_is_empty_is_bad() {
    let disk = sample();
    for name in ["CURRENT", "000001.manifest"] {
        disk.put(name, b"");
        let fields = fields(&disk, name);
        assert_eq!(fields.len(), 1, "{name}");
        assert_eq!((fields[0].len, fields[0].verdict), (0, Verdict::Bad), "{name}");
    }
}

#[test]
fn a_newer_current_is_no_damage() {
    let disk = sample();
    disk.put("CURRENT", b"esker database, format 2\nin another way\n");
    let fields = fields(&disk, "CURRENT");
    assert!(fields.len() == 2 && fields.iter().all(|field| field.verdict == Verdict::Newer), "{fields:?}");
}
