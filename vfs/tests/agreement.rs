//! The same calls do the same on the operating system's files, in memory, on a simulated disk, and in
//! a model that says in a few lines what they should do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use esker_base::Error;
use esker_vfs::fault::FaultFs;
use esker_vfs::fs::{EntryKind, File, Fs, RangeWrites};
use esker_vfs::mem::MemFs;
use esker_vfs::os::OsFs;
use proptest::prelude::*;

const HANDLES: usize = 3;

/// A path out of a few: two directories, three files at the top and in each of the directories.
type Name = usize;
const NAMES: [&str; 11] = ["a", "b", "x", "y", "z", "a/x", "a/y", "a/z", "b/x", "b/y", "b/z"];

#[derive(Clone, Debug)]
enum Op {
    CreateDir(Name),
    CreateNewDir(Name),
    RemoveDir(Name),
    Create(Name, usize),
    Open(Name, usize),
    OpenWritable(Name, usize),
    Close(usize),
    Write(usize, u64, usize),
    /// As `Write`, through memory, if the file has that part and there is such memory.
    Store(usize, u64, usize),
    Read(usize, u64, usize),
    Len(usize),
    SetLen(usize, u64),
    Allocate(usize, u64),
    Sync(usize),
    Rename(Name, Name),
    Remove(Name),
    Link(Name, Name),
    Map(Name),
    List(Option<Name>),
    Stat(Name),
    SyncDir(Name),
}

fn op() -> impl Strategy<Value = Op> {
    let (name, handle, offset) = (|| 0..NAMES.len(), || 0..HANDLES, || 0..10_000_u64);
    prop_oneof![
        2 => (0..2_usize).prop_map(Op::CreateDir),
        2 => (0..NAMES.len()).prop_map(Op::CreateNewDir),
        1 => name().prop_map(Op::RemoveDir),
        4 => (name(), handle()).prop_map(|(name, handle)| Op::Create(name, handle)),
        1 => (name(), handle()).prop_map(|(name, handle)| Op::Open(name, handle)),
        2 => (name(), handle()).prop_map(|(name, handle)| Op::OpenWritable(name, handle)),
        1 => handle().prop_map(Op::Close),
        6 => (handle(), offset(), 0..5000_usize).prop_map(|(handle, at, len)| Op::Write(handle, at, len)),
        3 => (handle(), offset(), 0..5000_usize).prop_map(|(handle, at, len)| Op::Store(handle, at, len)),
        3 => (handle(), offset(), 0..5000_usize).prop_map(|(handle, at, len)| Op::Read(handle, at, len)),
        1 => handle().prop_map(Op::Len),
        1 => (handle(), offset()).prop_map(|(handle, len)| Op::SetLen(handle, len)),
        1 => (handle(), 1..10_000_u64).prop_map(|(handle, len)| Op::Allocate(handle, len)),
        1 => handle().prop_map(Op::Sync),
        3 => (name(), name()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => name().prop_map(Op::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Op::Link(from, to)),
        2 => name().prop_map(Op::Map),
        2 => prop::option::of(name()).prop_map(Op::List),
        2 => name().prop_map(Op::Stat),
        1 => (0..2_usize).prop_map(Op::SyncDir),
    ]
}

/// What a call gave: bytes, names, a length; or the kind of its error. Refusals to write through a
/// handle for reading differ from system to system and count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Bytes(Vec<u8>),
    Len(u64),
    Entries(Vec<(String, EntryKind, u64)>),
    NoHandle,
    ReadOnly,
    Failed(ErrorKind),
}

/// The bytes that the `nth` operation writes.
fn pattern(nth: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((nth * 31 + at) % 251).expect("below 251") + 1).collect()
}

/// A filesystem under test with its open handles.
struct Subject {
    name: &'static str,
    fs: Arc<dyn Fs>,
    base: PathBuf,
    handles: [Option<Arc<dyn File>>; HANDLES],
}

impl Subject {
    fn new(name: &'static str, fs: Arc<dyn Fs>, base: &Path) -> Subject {
        fs.create_dir(base).expect("made");
        Subject { name, fs, base: base.to_path_buf(), handles: Default::default() }
    }

    fn run(&mut self, op: &Op, nth: usize) -> Outcome {
        match self.call(op, nth) {
            Ok(outcome) => outcome,
            // Linux's word for a rename onto a directory that the file itself stands in.
            Err(Error::Io { source, .. })
                if matches!(op, Op::Rename(..)) && source.kind() == ErrorKind::DirectoryNotEmpty =>
            {
                Outcome::Failed(ErrorKind::IsADirectory)
            }
            Err(Error::Io { source, .. }) => Outcome::Failed(source.kind()),
            Err(other) => panic!("{}: {other}", self.name),
        }
    }

    fn call(&mut self, op: &Op, nth: usize) -> esker_base::Result<Outcome> {
        let at = |name: Name| self.base.join(NAMES[name]);
        let handle = |handle: usize| self.handles[handle].as_ref();
        let written =
            |result: esker_base::Result<()>| Ok(result.map_or(Outcome::ReadOnly, |()| Outcome::Done));
        match *op {
            Op::CreateDir(name) => self.fs.create_dir(&at(name))?,
            Op::CreateNewDir(name) => self.fs.create_new_dir(&at(name))?,
            Op::RemoveDir(name) => self.fs.remove_dir(&at(name))?,
            Op::Create(name, slot) => self.handles[slot] = Some(self.fs.create(&at(name))?),
            Op::Open(name, slot) => self.handles[slot] = Some(self.fs.open(&at(name))?),
            Op::OpenWritable(name, slot) => self.handles[slot] = Some(self.fs.open_writable(&at(name))?),
            Op::Close(slot) => self.handles[slot] = None,
            Op::Write(slot, offset, len) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                return written(file.write_at(&pattern(nth, len), offset));
            }
            Op::Store(slot, offset, len) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                let has = offset + len as u64 <= file.len()?;
                let writes = if nth.is_multiple_of(2) { RangeWrites::Called } else { RangeWrites::Stored };
                return match file.map_range(offset, len, writes) {
                    Some(mut range) => {
                        assert!(has, "{}: a map of what the file does not have", self.name);
                        written(range.write_at(&pattern(nth, len), offset))
                    }
                    None if has => written(file.write_at(&pattern(nth, len), offset)),
                    None => Ok(Outcome::Done),
                };
            }
            Op::Read(slot, offset, len) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                let mut buffer = vec![0; len];
                let count = file.read_at(&mut buffer, offset)?;
                buffer.truncate(count);
                return Ok(Outcome::Bytes(buffer));
            }
            Op::Len(slot) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                return Ok(Outcome::Len(file.len()?));
            }
            Op::SetLen(slot, len) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                return written(file.set_len(len));
            }
            Op::Allocate(slot, len) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                return written(file.allocate(len));
            }
            Op::Sync(slot) => {
                let Some(file) = handle(slot) else { return Ok(Outcome::NoHandle) };
                file.sync_data()?;
            }
            Op::Rename(from, to) => self.fs.rename(&at(from), &at(to))?,
            Op::Remove(name) => self.fs.remove(&at(name))?,
            Op::Link(from, to) => self.fs.hard_link(&at(from), &at(to))?,
            Op::Map(name) => return Ok(Outcome::Bytes(self.fs.map(&at(name))?.to_vec())),
            Op::List(name) => {
                let dir = name.map_or(self.base.clone(), at);
                let entries = self.fs.list(&dir)?;
                return Ok(Outcome::Entries(
                    entries.into_iter().map(|entry| (entry.name, entry.kind, entry.len)).collect(),
                ));
            }
            Op::Stat(name) => {
                let found = self.fs.stat(&at(name))?;
                return Ok(Outcome::Entries(
                    found.into_iter().map(|entry| (entry.name, entry.kind, entry.len)).collect(),
                ));
            }
            Op::SyncDir(name) => self.fs.sync_dir(&at(name))?,
        }
        Ok(Outcome::Done)
    }
}

type Bytes = Rc<RefCell<Vec<u8>>>;

#[derive(Clone)]
enum Node {
    Dir,
    File(Bytes),
}

/// What the calls should do.
#[derive(Default)]
struct Model {
    names: BTreeMap<&'static str, Node>,
    handles: [Option<(Bytes, bool)>; HANDLES],
}

impl Model {
    /// Whether the directory that `name` stands in is there.
    fn check_parent(&self, name: Name) -> Result<&'static str, ErrorKind> {
        let name = NAMES[name];
        match name.split_once('/').map(|(dir, _)| self.names.get(dir)) {
            Some(Some(Node::File(_))) => Err(ErrorKind::NotADirectory),
            Some(None) => Err(ErrorKind::NotFound),
            Some(Some(Node::Dir)) | None => Ok(name),
        }
    }

    fn node(&self, name: Name) -> Result<Node, ErrorKind> {
        self.names.get(self.check_parent(name)?).cloned().ok_or(ErrorKind::NotFound)
    }

    fn free(&self, name: Name) -> Result<&'static str, ErrorKind> {
        let name = self.check_parent(name)?;
        if self.names.contains_key(name) { Err(ErrorKind::AlreadyExists) } else { Ok(name) }
    }

    fn file(&self, name: Name, otherwise: ErrorKind) -> Result<Bytes, ErrorKind> {
        match self.node(name)? {
            Node::File(bytes) => Ok(bytes),
            Node::Dir => Err(otherwise),
        }
    }

    fn dir(&self, name: Name) -> Result<(), ErrorKind> {
        match self.node(name)? {
            Node::Dir => Ok(()),
            Node::File(_) => Err(ErrorKind::NotADirectory),
        }
    }

    fn within(&self, dir: &str) -> Vec<(String, EntryKind, u64)> {
        let inside = self.names.iter().filter_map(|(name, node)| match (name.split_once('/'), dir) {
            (None, "") => Some((*name, node)),
            (Some((parent, name)), dir) if parent == dir => Some((name, node)),
            _ => None,
        });
        inside.map(|(name, node)| entry(name, node)).collect()
    }

    fn run(&mut self, op: &Op, nth: usize) -> Outcome {
        self.call(op, nth).unwrap_or_else(Outcome::Failed)
    }

    fn call(&mut self, op: &Op, nth: usize) -> Result<Outcome, ErrorKind> {
        match *op {
            Op::CreateDir(name) => match self.node(name) {
                Ok(Node::Dir) => {}
                Ok(Node::File(_)) => return Err(ErrorKind::AlreadyExists),
                Err(_) => {
                    self.names.insert(self.free(name)?, Node::Dir);
                }
            },
            Op::CreateNewDir(name) => {
                self.names.insert(self.free(name)?, Node::Dir);
            }
            Op::RemoveDir(name) => {
                self.dir(name)?;
                if !self.within(NAMES[name]).is_empty() {
                    return Err(ErrorKind::DirectoryNotEmpty);
                }
                self.names.remove(NAMES[name]);
            }
            Op::Create(name, slot) => {
                let bytes = Bytes::default();
                self.names.insert(self.free(name)?, Node::File(Rc::clone(&bytes)));
                self.handles[slot] = Some((bytes, true));
            }
            Op::Open(name, slot) => {
                self.handles[slot] = Some((self.file(name, ErrorKind::InvalidInput)?, false));
            }
            Op::OpenWritable(name, slot) => {
                self.handles[slot] = Some((self.file(name, ErrorKind::InvalidInput)?, true));
            }
            Op::Close(slot) => self.handles[slot] = None,
            Op::Rename(from, to) => {
                self.check_parent(from)?;
                let target = self.check_parent(to)?;
                let node = self.node(from)?;
                match (&node, self.names.get(target)) {
                    (Node::File(one), Some(Node::File(other))) if Rc::ptr_eq(one, other) => {}
                    (_, Some(Node::Dir)) => return Err(ErrorKind::IsADirectory),
                    _ => {
                        self.names.remove(NAMES[from]);
                        self.names.insert(target, node);
                    }
                }
            }
            Op::Remove(name) => {
                self.file(name, ErrorKind::IsADirectory)?;
                self.names.remove(NAMES[name]);
            }
            Op::Link(from, to) => {
                let bytes = self.file(from, ErrorKind::InvalidInput)?;
                self.names.insert(self.free(to)?, Node::File(bytes));
            }
            Op::Map(name) => {
                return Ok(Outcome::Bytes(self.file(name, ErrorKind::InvalidInput)?.borrow().clone()));
            }
            Op::List(Some(name)) => {
                self.dir(name)?;
                return Ok(Outcome::Entries(self.within(NAMES[name])));
            }
            Op::List(None) => return Ok(Outcome::Entries(self.within(""))),
            Op::Stat(name) => {
                let leaf = NAMES[name].rsplit('/').next().expect("a last component");
                return match self.node(name) {
                    Ok(node) => Ok(Outcome::Entries(vec![entry(leaf, &node)])),
                    Err(ErrorKind::NotFound) => Ok(Outcome::Entries(Vec::new())),
                    Err(other) => Err(other),
                };
            }
            Op::SyncDir(name) => self.dir(name)?,
            Op::Write(slot, ..)
            | Op::Store(slot, ..)
            | Op::Read(slot, ..)
            | Op::Len(slot)
            | Op::SetLen(slot, _)
            | Op::Allocate(slot, _)
            | Op::Sync(slot) => return Ok(self.on_handle(op, slot, nth)),
        }
        Ok(Outcome::Done)
    }

    fn on_handle(&mut self, op: &Op, slot: usize, nth: usize) -> Outcome {
        let Some((bytes, writable)) = &self.handles[slot] else { return Outcome::NoHandle };
        let mut bytes = bytes.borrow_mut();
        let place = |offset: u64| usize::try_from(offset).expect("small");
        match *op {
            Op::Write(_, _, 0) | Op::Store(_, _, 0) | Op::Sync(_) => {}
            Op::Store(_, offset, len) if place(offset) + len > bytes.len() => {}
            Op::Read(_, offset, len) => {
                let end = bytes.len().min(place(offset) + len);
                return Outcome::Bytes(bytes.get(place(offset)..end).unwrap_or_default().to_vec());
            }
            Op::Len(_) => return Outcome::Len(bytes.len() as u64),
            _ if !writable => return Outcome::ReadOnly,
            Op::Write(_, offset, len) | Op::Store(_, offset, len) => {
                let end = place(offset) + len;
                let longer = bytes.len().max(end);
                bytes.resize(longer, 0);
                bytes[place(offset)..end].copy_from_slice(&pattern(nth, len));
            }
            Op::SetLen(_, len) => bytes.resize(place(len), 0),
            Op::Allocate(_, len) => {
                let longer = bytes.len().max(place(len));
                bytes.resize(longer, 0);
            }
            _ => unreachable!("not an operation on a handle: {op:?}"),
        }
        Outcome::Done
    }
}

fn entry(name: &str, node: &Node) -> (String, EntryKind, u64) {
    match node {
        Node::Dir => (name.to_owned(), EntryKind::Directory, 0),
        Node::File(bytes) => (name.to_owned(), EntryKind::File, bytes.borrow().len() as u64),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_filesystem_does_the_same(ops in prop::collection::vec(op(), 1..80)) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut subjects = [
            Subject::new("os", Arc::new(OsFs::new()), &dir.path().join("base")),
            Subject::new("memory", Arc::new(MemFs::new()), Path::new("/base")),
            Subject::new("simulated", Arc::new(MemFs::simulated()), Path::new("base")),
            Subject::new("fault-free", Arc::new(FaultFs::new(Arc::new(MemFs::simulated()))), Path::new("base")),
        ];
        let mut model = Model::default();
        for (nth, op) in ops.iter().enumerate() {
            // Only files are renamed.
            if let Op::Rename(from, _) = op && matches!(model.node(*from), Ok(Node::Dir)) {
                continue;
            }
            let expected = model.run(op, nth);
            for subject in &mut subjects {
                prop_assert_eq!(&subject.run(op, nth), &expected, "{} at {} {:?}", subject.name, nth, op);
            }
        }
    }
}
