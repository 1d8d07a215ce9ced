//! The bodies of the fuzz targets that read files.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use esker::{Database, DatabaseOptions, inspect};
use esker_base::blob::BlobPointer;
use esker_base::checksum::key_hash;
use esker_base::filename::FileName;
use esker_base::{DatabaseId, FileNumber, OpCost};
use esker_layouts::tuple::{Element, Fields, pack};
use esker_manifest::{Edit, edit};
use esker_sstable::{BlobReader, BlobWalk, CursorOptions, TableReader};
use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use esker_vfs::open_files::OpenFiles;
use esker_vfs::sim::Simulation;
use esker_wal::{LogIdentity, LogKind, LogReader};
use fastrand::Rng;

use crate::damage::base::{Base, Moment};
use crate::files::{Files, is_table};
use crate::hostile::attack;
use crate::hostile::mutate::hostile;
use crate::layout::{
    BLOB_FOOTER, BLOB_HEADER, BLOB_RECORD, LOG_HEADER, TRAILER, blob_records, pieces, repair, table,
};
use crate::setup::DIR;

static BASE: LazyLock<Base> =
    LazyLock::new(|| Base::new(Moment::Killed).expect("the golden database is committed"));

fn database() -> DatabaseId {
    BASE.files.database().expect("CURRENT names it")
}

/// The last file of the golden database with this ending.
fn named(ending: &str) -> String {
    BASE.files.names().into_iter().rfind(|name| name.ends_with(ending)).expect("it has every kind")
}

/// A log of one record whose payload is `payload`: its header is that of the golden file `name`.
fn log_of(name: &str, tag: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = BASE.files.get(name).unwrap_or_default()[..LOG_HEADER].to_vec();
    bytes.extend_from_slice(&[0; 8]);
    // A full fragment with a short tag, before any sync.
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes()[..3]);
    bytes.push(1);
    bytes.extend_from_slice(&tag.to_le_bytes());
    bytes.extend_from_slice(payload);
    repair(name, &mut bytes, database());
    bytes
}

/// Read the log `name` of `disk` to its end; the payloads of its records.
fn read_log(disk: &MemFs, name: &str) -> Option<Vec<Vec<u8>>> {
    let Some(FileName::Log(number)) = FileName::parse(name) else { return None };
    let identity = LogIdentity { database: database(), number, kind: LogKind::WriteAhead };
    let mut reader = LogReader::open(disk, &Path::new(DIR).join(name), identity, None).ok()?;
    let mut payloads = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(record)) => payloads.push(record.payload.to_vec()),
            Ok(None) => return Some(payloads),
            Err(_) => return None,
        }
    }
}

/// Open the database in `files` for reading and read all of it.
fn open_and_read(files: &Files) {
    let options = DatabaseOptions { read_only: true, ..BASE.options() };
    let env = Simulation::on(files.disk(), 1).env();
    let Ok(db) = Database::builder(Path::new(DIR)).options(options).env(env).open() else { return };
    // A forged table may have its rows in any order: only what verifies has to agree with itself.
    let verified = db.verify().is_ok();
    for name in db.keyspaces() {
        let Ok(keyspace) = db.existing_keyspace(&name) else { continue };
        let forward = keyspace.iter().take_while(Result::is_ok).count();
        let backward = keyspace.iter().rev().take_while(Result::is_ok).count();
        let errs = keyspace.iter().chain(keyspace.iter().rev()).any(|row| row.is_err());
        assert!(!verified || errs || forward == backward, "{forward} rows forward, {backward} in reverse");
        let _ = keyspace.get("key-001");
    }
}

/// Every field that `inspect` shows lies in the file.
fn show(disk: &MemFs, name: &str) {
    let path = Path::new(DIR).join(name);
    let len = disk.open(&path).and_then(|file| file.len()).expect("it is there");
    for field in inspect::file_in(disk, &path).into_iter().flatten().map_while(Result::ok) {
        assert!(field.offset.saturating_add(field.len) <= len, "{field:?} of {len} bytes");
    }
}

/// A payload comes back from a log as it went in.
pub(super) fn wal_record(data: &[u8]) {
    let name = named(".log");
    let mut files = Files::default();
    files.put(&name, log_of(&name, 1, data));
    let disk = files.disk();
    assert_eq!(read_log(&disk, &name).as_deref(), Some(&[data.to_vec()][..]));
    show(&disk, &name);
}

/// Any bytes are a log, or are not; the same with a header and checksums that are right.
pub(super) fn wal_file(data: &[u8]) {
    let name = named(".log");
    for repaired in [false, true] {
        let mut bytes = data.to_vec();
        if repaired {
            bytes = [&BASE.files.get(&name).unwrap_or_default()[..LOG_HEADER], data].concat();
            repair(&name, &mut bytes, database());
        }
        let mut files = Files::default();
        files.put(&name, bytes);
        let disk = files.disk();
        let _ = read_log(&disk, &name);
        show(&disk, &name);
    }
}

/// A list of edits is read as it would be written, and a database with such a manifest opens or does not.
pub(super) fn manifest(data: &[u8]) {
    if let Ok(edits) = edit::decode(data).collect::<Result<Vec<Edit>, _>>() {
        let again: Vec<Edit> = edit::decode(&edit::encode(&edits)).filter_map(Result::ok).collect();
        assert_eq!(again, edits);
    }
    let name = named(".manifest");
    let mut files = BASE.files.clone();
    files.put(&name, log_of(&name, 0, data));
    open_and_read(&files);
    show(&files.disk(), &name);
}

/// The golden database with `bytes` as its table `name`, checksums made right: what the reader finds in the
/// table agrees with itself, and the database opens or does not.
pub(super) fn read_table(name: &str, mut bytes: Vec<u8>) {
    repair(name, &mut bytes, database());
    let mut files = BASE.files.clone();
    files.put(name, bytes);
    let disk = files.disk();
    show(&disk, name);
    let fs: Arc<dyn Fs> = Arc::new(disk);
    let Ok(reader) = TableReader::open_unlisted(&OpenFiles::new(fs, 1), &Path::new(DIR).join(name)) else {
        return;
    };
    let reader = Arc::new(reader);
    let mut cost = OpCost::default();
    let whole = reader.verify(&mut cost).is_ok();
    let mut entries = Vec::new();
    let damage = reader.salvage(|key, seqno, _, _| entries.push((key.to_vec(), seqno)));
    for (key, seqno) in &entries {
        let found = reader.get(key, key_hash(key), *seqno, &mut cost);
        assert!(!whole || found.is_ok_and(|found| found.is_some()), "a whole table does not find its key");
    }
    assert!(!whole || damage.is_empty());
    drop(reader.cursor(CursorOptions::default()));
    open_and_read(&files);
}

/// Write `data` into piece number `nth` of the golden table, from `at` on, and read the table.
fn table_with(nth: impl Fn(&[std::ops::Range<usize>]) -> usize, data: &[u8]) {
    let [at, rest @ ..] = data else { return };
    for (name, mut bytes) in golden_tables().take(3) {
        let all = pieces(name, &bytes);
        let Some(piece) = all.get(nth(&all)) else { continue };
        let start = (piece.start + usize::from(*at)).min(piece.end);
        let len = rest.len().min(piece.end - start);
        bytes[start..start + len].copy_from_slice(&rest[..len]);
        read_table(name, bytes);
    }
}

/// The tables of the golden database, by name.
pub(super) fn golden_tables() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let tables = BASE.tables.keys().filter(|name| is_table(name));
    tables.map(|name| (name.as_str(), BASE.files.get(name).unwrap_or_default().to_vec()))
}

/// Footer, index and properties.
pub(super) fn table_tail(data: &[u8]) {
    let [which, data @ ..] = data else { return };
    table_with(|all| all.len().saturating_sub(1 + usize::from(*which % 3)), data);
}

/// Data blocks, raw and compressed.
pub(super) fn data_block(data: &[u8]) {
    table_with(|_| 0, data);
}

/// The filter: a table with another one has the same entries.
pub(super) fn filter(data: &[u8]) {
    let of_filter = |name: &str| {
        let parts = table(BASE.files.get(name)?)?;
        (parts.parts[1].len() > TRAILER).then_some(parts.blocks.len())
    };
    let before = BASE
        .tables
        .keys()
        .filter(|name| is_table(name))
        .find_map(|name| of_filter(name))
        .unwrap_or_default();
    table_with(|all| before.min(all.len().saturating_sub(1)), data);
}

/// The records of a blob file, behind checksums and totals that are right: what verifies is read record by record.
pub(super) fn blob_file(data: &[u8]) {
    let name = named(".blob");
    let golden = BASE.files.get(&name).unwrap_or_default();
    let (header, footer) = (&golden[..BLOB_HEADER], &golden[golden.len() - BLOB_FOOTER..]);
    let mut bytes = [header, data, footer].concat();
    let records = blob_records(&bytes);
    let keys = |record: &std::ops::Range<usize>| {
        let len = usize::from(u16::from_le_bytes([bytes[record.start + 8], bytes[record.start + 9]]));
        record.start + BLOB_RECORD..record.start + BLOB_RECORD + len
    };
    let keys: Vec<_> = records.iter().map(keys).collect();
    let values: usize = records.iter().zip(&keys).map(|(record, key)| record.end - key.end).sum();
    let at = bytes.len() - BLOB_FOOTER;
    for (nth, total) in [records.len(), values, bytes.len()].into_iter().enumerate() {
        bytes[at + nth * 8..at + nth * 8 + 8].copy_from_slice(&(total as u64).to_le_bytes());
    }
    repair(&name, &mut bytes, database());
    let mut files = BASE.files.clone();
    files.put(&name, bytes.clone());
    let disk = files.disk();
    show(&disk, &name);
    let reader = BlobReader::open_unlisted(&OpenFiles::new(Arc::new(disk), 1), &Path::new(DIR).join(&name))
        .expect("its ends are whole");
    let reader = Arc::new(reader);
    let mut cost = OpCost::default();
    let whole = records.last().map_or(BLOB_HEADER, |record| record.end) == at;
    assert_eq!(reader.verify(&mut cost).is_ok(), whole);
    let mut walk = BlobWalk::default();
    for (record, key) in records.iter().zip(keys) {
        let checksum = [0, 1, 2, 3].map(|nth| bytes[record.start + nth]);
        let pointer = BlobPointer {
            number: reader.meta().number,
            offset: record.start as u64,
            len: u32::try_from(record.end - key.end).unwrap_or(u32::MAX),
            checksum: u32::from_le_bytes(checksum),
        };
        let value = &bytes[key.end..record.end];
        assert_eq!(reader.read(&bytes[key.clone()], &pointer, &mut cost).expect("it checks"), value);
        assert_eq!(walk.value(&reader, &bytes[key], &pointer, &mut cost).expect("it checks"), value);
    }
    open_and_read(&files);
}

/// Fields of a tuple key, one after the other, are where the one before ended.
pub(super) fn tuple(data: &[u8]) {
    let mut fields = Fields::new(data);
    while !fields.at_end() {
        let before = fields.position();
        if Element::unpack(&mut fields).is_err() {
            break;
        }
        assert!(fields.position() > before && fields.position() <= data.len());
    }
    if let Ok(all) = Element::unpack_all(data) {
        assert_eq!(pack(all.as_slice()), data, "another spelling of {all:?}");
    }
}

/// Operations in a log record.
pub(super) fn batch(data: &[u8]) {
    let name = named(".log");
    let tag = 1 << 20;
    let mut files = BASE.files.clone();
    files.put(&name, log_of(&name, tag, data));
    open_and_read(&files);
    show(&files.disk(), &name);
}

/// The stored options of a keyspace.
pub(super) fn options(data: &[u8]) {
    let create = Edit::CreateKeyspace {
        id: esker_base::KeyspaceId(1),
        name: "k".to_owned(),
        options: data.to_vec(),
    };
    let edits =
        [create, Edit::ForgetLogs { before: FileNumber(1 << 20) }, Edit::NextFile(FileNumber(1 << 20))];
    let name = named(".manifest");
    let mut files = Files::default();
    files.put("CURRENT", BASE.files.get("CURRENT").unwrap_or_default().to_vec());
    files.put(&name, log_of(&name, 0, &edit::encode(&edits)));
    let log = FileName::Log(FileNumber(1 << 20)).to_string();
    let empty = [BASE.files.get(&named(".log")).unwrap_or_default()[..LOG_HEADER].to_vec()].concat();
    files.put(&log, empty);
    open_and_read(&files);
}

/// A number at the start of `data`, and the rest.
fn number(data: &[u8]) -> (u64, &[u8]) {
    let mut bytes = [0; 8];
    let len = data.len().min(8);
    bytes[..len].copy_from_slice(&data[..len]);
    (u64::from_le_bytes(bytes), &data[len..])
}

/// A whole directory: hostile changes by number, then bytes of `data` put where it says.
pub(super) fn directory(data: &[u8]) {
    let (seed, mut rest) = number(data);
    let (mut files, _) = hostile(&BASE.files, database(), seed);
    while let [file, low, high, value, more @ ..] = rest {
        let names = files.names();
        let name = &names[usize::from(*file) % names.len()];
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        files.edit(name, |bytes| {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = *value;
            }
            repair(name, bytes, database());
        });
        rest = more;
    }
    attack(&files.disk(), &BASE, &mut Rng::with_seed(seed)).expect("nothing is shown that is not there");
}
