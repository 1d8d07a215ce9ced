//! The corpus: a few inputs a target, committed under `tests/fuzz/corpus`, and what fuzzing has found.
#![expect(clippy::disallowed_methods, reason = "test data is read from the source tree")]

use std::fs;
use std::path::PathBuf;

use super::codecs::zstd_frame;
use super::run;
use crate::driver::Violation;
use crate::files::{holds_rows, is_log, is_table};
use crate::golden::fixture;
use crate::layout::{BLOB_FOOTER, BLOB_HEADER, TRAILER, fragments, pieces, table};

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus"))
}

/// Run target `name` over its corpus; how many inputs there were.
///
/// # Errors
/// If the corpus cannot be read.
pub fn replay(name: &str) -> Result<u64, Violation> {
    let dir = root().join(name);
    let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut count = 0;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        run(name, &fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?);
        count += 1;
    }
    Ok(count)
}

/// The inputs that a target starts from, made from the golden database.
///
/// # Errors
/// If that is not there.
pub fn seeds(name: &str) -> Result<Vec<Vec<u8>>, Violation> {
    let files = fixture::files(crate::golden::VERSION)?;
    let all = || files.iter();
    let payloads = |ending: &'static str| {
        all().filter(move |(name, _)| name.ends_with(ending)).flat_map(|(_, bytes)| {
            fragments(bytes).into_iter().map(|f| bytes[f.payload..f.end].to_vec()).collect::<Vec<_>>()
        })
    };
    let tables = || all().filter(|(name, _)| is_table(name));
    let piece = |from_end: usize| {
        let found = tables().filter_map(move |(name, bytes)| {
            let all = pieces(name, bytes);
            Some(bytes[all.get(all.len().checked_sub(from_end)?)?.clone()].to_vec())
        });
        found.take(2)
    };
    let small = |data: Vec<u8>| [vec![0], data].concat();
    Ok(match name {
        "wal_record" | "batch" => payloads(".log").step_by(9).take(6).collect(),
        "wal_file" => {
            all().filter(|(name, _)| is_log(name)).map(|(_, b)| b[..b.len().min(600)].to_vec()).collect()
        }
        "manifest" => payloads(".manifest").step_by(11).take(6).collect(),
        "table_tail" => (1u8..4)
            .flat_map(|which| piece(which.into()).map(move |p| [vec![which - 1, 0], p].concat()))
            .collect(),
        "data_block" => tables()
            .filter_map(|(_, b)| Some(small(b[table(b)?.blocks.first()?.clone()].to_vec())))
            .take(3)
            .collect(),
        "blob_file" => all()
            .filter(|(name, _)| holds_rows(name) && !is_table(name))
            .map(|(_, bytes)| bytes[BLOB_HEADER..bytes.len() - BLOB_FOOTER].to_vec())
            .take(4)
            .collect(),
        "filter" => tables()
            .filter_map(|(_, b)| Some(small(b[table(b)?.parts[1].clone()].to_vec())))
            .take(3)
            .collect(),
        "tuple" => {
            use esker_layouts::tuple::pack;
            vec![
                pack(&("user", 42)),
                pack(&(1.5f64, vec![1u8, 0, 2], -7i64)),
                pack(&(true, Some(0i64), ("a", 1))),
            ]
        }
        "options" => {
            vec![vec![0x80, 0x20, 10, 1, 0, 0, 3, b'm', b'a', b'x'], vec![0x80, 4, 0, 2, 0, 0, 1, 0, 0]]
        }
        "directory" => {
            (0u64..4).map(|seed| [seed.to_le_bytes().to_vec(), vec![3, 70, 0, 9]].concat()).collect()
        }
        "lz4" | "zstd" => {
            let code = u8::from(name == "lz4");
            let blocks = tables().flat_map(|(_, b)| {
                let blocks = table(b).unwrap_or_default().blocks;
                blocks
                    .into_iter()
                    .map(|block| b[block.clone()].split_at(block.len() - TRAILER))
                    .collect::<Vec<_>>()
            });
            let stored = blocks.filter(|(_, trailer)| trailer[0] == code).map(|(payload, trailer)| {
                let payload = if code == 0 { zstd_frame(payload) } else { payload.to_vec() };
                [&[0], &trailer[1..3], &payload].concat()
            });
            let there_and_back = [vec![39, 0, 0], vec![7; 300], (0..=255).collect()].concat();
            stored.take(3).chain([there_and_back]).collect()
        }
        // Bytes that spell a history.
        _ => (0u8..5).map(|mode| spelled(mode, name == "crashes")).collect(),
    })
}

/// A mode's history of bytes that are drawn, with a crash in its middle or without.
fn spelled(mode: u8, crash: bool) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(mode.into());
    let history = (0..400).map(|_| random.u8(..));
    let head = if crash { vec![0, 0x80, mode, 1, mode, mode] } else { vec![mode, mode] };
    head.into_iter().chain(history).collect()
}
