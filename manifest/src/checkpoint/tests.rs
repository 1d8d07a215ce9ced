use esker_base::KeyspaceId;

use super::write_checkpoint;
use crate::Edit;
use crate::testing::disk::{Disk, Survives};
use crate::testing::{DATABASE, Picture, create, dir, meta, recover, write_table};

#[test]
fn a_checkpoint_opens_as_the_version_it_was_made_of() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    let log = set.allocate();
    let table = meta(set.allocate().0, 1, b"a", b"b");
    write_table(&disk, &table).expect("a table's file");
    let version = set
        .commit(vec![
            Edit::CreateKeyspace { id: KeyspaceId(1), name: "users".into(), options: vec![1] },
            Edit::AddTable { level: 0, meta: table.clone() },
            Edit::ClosedLog { number: log, len: 44 },
        ])
        .expect("a version");
    set.commit(vec![Edit::DropKeyspace { id: KeyspaceId(1) }]).expect("what happens later is not in it");

    let target = Disk::default();
    write_table(&target, &table).expect("a copy of the table");
    write_checkpoint(&*target.fs(), dir(), DATABASE, &version).expect("a checkpoint");
    let (copy, recovered) = recover(&target.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(Picture::of(&copy.current()), Picture::of(&version));
    assert_eq!(recovered.closed_logs.get(&log), Some(&44));
    assert_eq!((recovered.orphans, recovered.database), (vec![], DATABASE));
    assert!(copy.allocate() > table.number);
}
