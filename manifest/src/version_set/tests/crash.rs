//! A story, interrupted at each call: by a power loss, by one failing call, and again while recovering.

use std::collections::BTreeSet;

use esker_base::{Error, FileNumber, KeyspaceId, SeqNo};

use super::{keyspace, removal};
use crate::testing::disk::{Disk, EFFECTS, Effect, Fault, Survives, survivors};
use crate::testing::{Picture, create, meta, recover, write_table};
use crate::{Edit, VersionSet};

/// What the story's teller was told.
#[derive(Default)]
struct Told {
    /// `create` has returned Ok.
    created: bool,
    /// The state that the last Ok has promised.
    promised: Picture,
    /// A state that may come instead, because a commit's fate is open.
    possible: Option<Picture>,
    /// Every number handed out.
    numbers: BTreeSet<u64>,
    poisoned: bool,
}

impl Told {
    fn number(&mut self, set: &VersionSet) -> FileNumber {
        let number = set.allocate();
        assert!(self.numbers.insert(number.0), "{number} was used before");
        number
    }

    /// Commit `edits` and note what was promised. Whether they are in force.
    fn commit(&mut self, set: &VersionSet, edits: Vec<Edit>) -> bool {
        let next = self.promised.edited(&edits);
        let outcome = set.commit(edits);
        match &outcome {
            Ok(version) => {
                assert!(!self.poisoned, "a poisoned set commits nothing");
                assert_eq!(Picture::of(version), next);
                self.promised = next;
            }
            Err(Error::Aborted { .. }) => assert!(!self.poisoned, "a poisoned set says so"),
            Err(Error::InDoubt { .. }) => {
                self.possible = Some(next);
                self.poisoned = true;
            }
            Err(Error::Poisoned { .. }) => self.poisoned = true,
            Err(other) => panic!("a commit failed with {other}"),
        }
        assert_eq!(Picture::of(&set.current()), self.promised, "reads see what is in force");
        outcome.is_ok()
    }
}

/// Create keyspaces, flush, merge, move, drop and close, going on after whatever fails.
fn tale(disk: &Disk, told: &mut Told) {
    let Ok(set) = create(disk) else { return };
    told.created = true;
    let mut tables: Vec<Edit> = Vec::new();
    for round in 0..3u8 {
        let id = set.current().next_keyspace().0;
        told.commit(&set, vec![keyspace(id, &format!("keyspace {id}"))]);
        let Some(id) = set.current().keyspaces().first().map(|keyspace| keyspace.id.0) else { continue };
        let log = told.number(&set);
        let table = meta(told.number(&set).0, id, &[round], b"\x80");
        if write_table(disk, &table).is_err() {
            continue;
        }
        let add = Edit::AddTable { level: 0, meta: table };
        let newest = Edit::LastSeqNo(SeqNo(u64::from(round) + 1));
        let closed = Edit::ClosedLog { number: log, len: 70 };
        if told.commit(&set, vec![add.clone(), newest, closed, Edit::ForgetLogs { before: log }]) {
            tables.push(add);
        }
        if tables.len() == 2 {
            let merged = meta(told.number(&set).0, id, &[0], b"\x80");
            if write_table(disk, &merged).is_err() {
                continue;
            }
            let output = Edit::AddTable { level: 1, meta: merged.clone() };
            if told.commit(&set, tables.iter().map(removal).chain([output.clone()]).collect()) {
                let moved = Edit::AddTable { level: 3, meta: merged };
                let has_moved = told.commit(&set, vec![moved.clone(), removal(&output)]);
                tables = vec![if has_moved { moved } else { output }];
            }
        }
    }
    let last = set.current().keyspaces().last().map(|keyspace| keyspace.id);
    if let Some(id) = last.filter(|_| set.current().keyspaces().len() > 1) {
        told.commit(&set, vec![Edit::DropKeyspace { id }]);
    }
    let log = told.number(&set);
    told.commit(&set, vec![Edit::CleanClose { log, len: 9 }]);
}

/// What is on `disk` is what was promised, or what was left open; and numbers go on.
fn check(disk: &Disk, told: &Told, what: &str) {
    let set = match recover(disk) {
        Ok((set, _)) => set,
        // A creation that never returned may have come to nothing; then it can be had again.
        Err(Error::NotADatabase { .. }) if !told.created => {
            create(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            return;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let found = Picture::of(&set.current());
    assert!(found == told.promised || Some(&found) == told.possible.as_ref(), "{what}: {found:?}");
    let next = set.allocate().0;
    assert!(told.numbers.last() < Some(&next), "{what}: {next} after {:?}", told.numbers.last());
    // What one recovery has shown, the next one shows, whatever was not synced in between.
    let again = recover(&disk.after_power_loss(Survives::Nothing));
    let (again, _) = again.unwrap_or_else(|error| panic!("{what}, the second time: {error}"));
    assert_eq!(Picture::of(&again.current()), found, "{what}");
    let number = again.allocate().0;
    assert!(number > next, "{what}: {number} after {next}");
}

#[test]
fn the_tale_itself_ends_well() {
    let disk = Disk::default();
    let mut told = Told::default();
    tale(&disk, &mut told);
    assert!(!told.poisoned && told.possible.is_none());
    assert_eq!((told.promised.keyspaces.len(), told.promised.last_seqno), (2, 3));
    let levels: Vec<u8> = told.promised.keyspaces[&1].2.values().map(|(level, _)| *level).collect();
    assert_eq!(levels, [3]);
    let (set, recovered) = recover(&disk).expect("it opens");
    assert!(recovered.clean_close.is_some());
    assert!(set.current().keyspace(KeyspaceId(3)).is_none());
    assert_eq!(set.current().next_keyspace(), KeyspaceId(4));
}

/// The calls that the tale makes when nothing fails.
fn tale_calls() -> u64 {
    let disk = Disk::default();
    tale(&disk, &mut Told::default());
    disk.calls()
}

#[test]
fn what_an_open_has_shown_survives_even_if_it_had_never_been_synced() {
    let disk = Disk::default();
    let set = create(&disk).expect("a new database");
    // The sync fails, and so does everything after it: the process is killed with its record in memory.
    disk.break_at(Some(Fault { call: 1, effect: Effect::None, forever: true }));
    assert!(matches!(set.commit(vec![keyspace(1, "users")]), Err(Error::InDoubt { .. })));
    disk.break_at(None);
    let (set, _) = recover(&disk).expect("it opens");
    assert_eq!(set.current().keyspaces().len(), 1, "the record was readable");
    let (set, _) = recover(&disk.after_power_loss(Survives::Nothing)).expect("it opens");
    assert_eq!(set.current().keyspaces().len(), 1);
}

#[test]
fn a_power_loss_at_any_call_keeps_what_was_promised() {
    for call in 0..tale_calls() {
        for effect in EFFECTS {
            let disk = Disk::default();
            let mut told = Told::default();
            disk.break_at(Some(Fault { call, effect, forever: true }));
            tale(&disk, &mut told);
            for survives in survivors() {
                let what = format!("call {call}, effect {effect:?}, survives {survives:?}");
                check(&disk.after_power_loss(survives), &told, &what);
            }
        }
    }
}

#[test]
fn one_failing_call_is_reported_as_what_it_is() {
    let (mut went_on, mut poisoned) = (0, 0);
    for call in 0..tale_calls() {
        for effect in EFFECTS {
            let disk = Disk::default();
            let mut told = Told::default();
            disk.break_at(Some(Fault { call, effect, forever: false }));
            tale(&disk, &mut told);
            *(if told.poisoned { &mut poisoned } else { &mut went_on }) += 1;
            for survives in survivors() {
                let what = format!("call {call}, effect {effect:?}, survives {survives:?}");
                check(&disk.after_power_loss(survives), &told, &what);
            }
        }
    }
    assert!(went_on > poisoned && poisoned > 0, "{went_on} went on, {poisoned} did not");
}

#[test]
fn recovery_may_be_interrupted_at_any_call() {
    let disk = Disk::default();
    let mut told = Told::default();
    tale(&disk, &mut told);
    for outer in [Survives::Nothing, Survives::Everything] {
        let image = disk.after_power_loss(outer);
        recover(&image).expect("it opens");
        for call in 0..image.calls() {
            for (effect, forever) in EFFECTS
                .map(|effect| (effect, true))
                .into_iter()
                .chain(EFFECTS.map(|effect| (effect, false)))
            {
                let image = disk.after_power_loss(outer);
                image.break_at(Some(Fault { call, effect, forever }));
                // It may succeed: some calls are best effort.
                let opened = recover(&image);
                drop(opened);
                for survives in survivors() {
                    let what = format!("recovery's call {call}, effect {effect:?}, survives {survives:?}");
                    check(&image.after_power_loss(survives), &told, &what);
                }
            }
        }
    }
}

/// Commits in the middle of which the manifest outgrows its content. `before` comes shortly before.
fn growth(disk: &Disk, told: &mut Told, before: impl Fn(&Disk)) {
    let set = create(disk).expect("a new database");
    told.created = true;
    told.commit(&set, vec![keyspace(1, "users")]);
    let key = vec![b'k'; 65_000];
    let mut last: Option<Edit> = None;
    for round in 0..11 {
        if round == 7 {
            before(disk);
        }
        let table = meta(told.number(&set).0, 1, &key, &key);
        if write_table(disk, &table).is_err() {
            continue;
        }
        let add = Edit::AddTable { level: 1, meta: table };
        if told.commit(&set, last.iter().map(removal).chain([add.clone()]).collect()) {
            last = Some(add);
        }
    }
}

#[test]
fn a_rewrite_may_be_interrupted_at_any_call() {
    let disk = Disk::default();
    growth(&disk, &mut Told::default(), |disk| disk.break_at(None));
    assert!(!disk.names().contains(&"000001.manifest".to_owned()), "{:?}", disk.names());
    for call in 0..disk.calls() {
        for effect in EFFECTS {
            for forever in [true, false] {
                let disk = Disk::default();
                let mut told = Told::default();
                growth(&disk, &mut told, |disk| disk.break_at(Some(Fault { call, effect, forever })));
                for survives in survivors() {
                    let what = format!("call {call}, {effect:?}, forever {forever}, survives {survives:?}");
                    check(&disk.after_power_loss(survives), &told, &what);
                }
            }
        }
    }
}

/// A process that has a descriptor for the new manifest and none for `CURRENT` goes on with the old one.
#[test]
fn a_rewrite_without_descriptors_is_put_off() {
    let disk = Disk::default();
    let mut told = Told::default();
    growth(&disk, &mut told, Disk::keep_descriptors_from_current);
    assert!(disk.has_failed() && !told.poisoned);
    assert!(disk.names().contains(&"000001.manifest".to_owned()), "{:?}", disk.names());
    check(&disk.after_power_loss(Survives::Nothing), &told, "without descriptors");
}
