//! What the log promises, as tests; each file states one kind of promise.

mod crash;
mod damage;
mod disk;
mod faults;
mod golden;
mod inspection;
mod preallocation;
mod recycle;
mod round_trip;
mod syncing;
mod tails;

use std::path::{Path, PathBuf};

use esker_base::{DatabaseId, FileNumber, Result};
use esker_vfs::fs::Fs;

use crate::{LogIdentity, LogKind, LogReader, LogWriter, Tail};
use disk::Disk;

/// The log that the tests write, if they do not say otherwise.
const LOG: LogIdentity =
    LogIdentity { database: DatabaseId([7; 16]), number: FileNumber(3), kind: LogKind::WriteAhead };

/// A log whose file `LOG` may have been made of.
const OLD: LogIdentity =
    LogIdentity { database: DatabaseId([7; 16]), number: FileNumber(2), kind: LogKind::WriteAhead };

fn dir() -> &'static Path {
    Path::new("/db")
}

fn path_of(identity: LogIdentity) -> PathBuf {
    dir().join(identity.file_name().to_string())
}

fn create(disk: &Disk) -> LogWriter {
    LogWriter::create(disk, dir(), LOG, None, 0).expect("a sound disk")
}

/// A record as read, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    tag: u64,
    offset: u64,
    end: u64,
    payload: Vec<u8>,
}

/// Everything `LOG` holds.
fn read_log(disk: &Disk, closed_len: Option<u64>) -> Result<(Vec<Read>, Tail)> {
    read_all(LogReader::open(disk, &path_of(LOG), LOG, closed_len)?)
}

/// Everything `LOG` of exactly `bytes` holds, which may have been made of an older log.
fn read_reused_bytes(bytes: &[u8]) -> Result<(Vec<Read>, Tail)> {
    let disk = Disk::default();
    disk.create(&path_of(LOG))?.write_at(bytes, 0)?;
    read_all(LogReader::open_recycled(&disk, &path_of(LOG), LOG, None, LOG.number)?)
}

fn read_all(mut reader: LogReader) -> Result<(Vec<Read>, Tail)> {
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        let payload = record.payload.to_vec();
        records.push(Read { tag: record.tag, offset: record.offset, end: record.end, payload });
    }
    assert_eq!(reader.next()?, None, "the end is the end");
    Ok((records, reader.tail()))
}

/// Everything a log of exactly `bytes` holds.
fn read_bytes(bytes: &[u8], closed_len: Option<u64>) -> Result<(Vec<Read>, Tail)> {
    let disk = Disk::default();
    disk.create(&path_of(LOG))?.write_at(bytes, 0)?;
    read_log(&disk, closed_len)
}
