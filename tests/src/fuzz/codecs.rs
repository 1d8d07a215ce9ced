//! The targets of the codecs: any bytes as the payload of a compressed block, and any bytes through the
//! compressor and back.

use esker::{Compression, Database, DatabaseOptions, KeyspaceOptions};
use esker_vfs::sim::Simulation;

use super::targets::{golden_tables, read_table};
use crate::layout::with_block;
use crate::setup::DIR;

/// How a payload is compressed, as a block's trailer says it.
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// LZ4.
pub(super) fn lz4(data: &[u8]) {
    codec(LZ4, Compression::Lz4, data);
}

/// Zstandard. A build that does not have it refuses every block, which has to do no harm either.
pub(super) fn zstd(data: &[u8]) {
    codec(ZSTD, Compression::Zstd { level: 3 }, data);
}

fn codec(code: u8, compression: Compression, data: &[u8]) {
    let [how, low, high, payload @ ..] = data else { return };
    if how % 4 == 3 {
        return there_and_back(compression, usize::from(how / 4) + 1, payload);
    }
    let raw_len = u32::from(u16::from_le_bytes([*low, *high]));
    let stored = [payload, &[code], &raw_len.to_le_bytes(), &[0; 4]].concat();
    for (name, bytes) in golden_tables().take(2) {
        if let Some(changed) = with_block(&bytes, 0, &stored) {
            read_table(name, changed);
        }
    }
}

/// What a compressor has written it reads: values of `len` bytes, or what is left for the last.
fn there_and_back(compression: Compression, len: usize, payload: &[u8]) {
    let options = DatabaseOptions { cache_bytes: 0, ..DatabaseOptions::default() };
    let env = Simulation::new(1).env();
    let db = Database::builder(DIR).options(options).env(env).open().expect("a new database opens");
    let keyspace = KeyspaceOptions { block_bytes: 4096, ..KeyspaceOptions::default() };
    // Without the codec there is no such keyspace.
    let Ok(map) = db.keyspace("map", keyspace.with_compression(compression)) else { return };
    for (key, value) in (0u32..).zip(payload.chunks(len)) {
        map.put(key.to_be_bytes(), value).expect("nothing is wrong with the disk");
    }
    db.flush().expect("nothing is wrong with the disk");
    for (key, value) in (0u32..).zip(payload.chunks(len)) {
        assert_eq!(map.get(key.to_be_bytes()).expect("read").as_deref(), Some(value), "row {key}");
    }
    db.verify().expect("what was just written is whole");
}

/// A Zstandard frame that holds `raw`, a block of the data as it is: the format's plainest spelling.
pub(super) fn zstd_frame(raw: &[u8]) -> Vec<u8> {
    let len = u16::try_from(raw.len()).unwrap_or(u16::MAX);
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    match u8::try_from(len) {
        Ok(len) => frame.extend_from_slice(&[0x20, len]),
        Err(_) => frame.extend([0x60].into_iter().chain((len - 256).to_le_bytes())),
    }
    let header = (u32::from(len) << 3) | 1;
    frame.extend_from_slice(&header.to_le_bytes()[..3]);
    frame.extend_from_slice(&raw[..usize::from(len)]);
    frame
}
