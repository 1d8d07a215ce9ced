//! `stats`: the shape of the trees.

use esker::{Database, KeyspaceMetrics, KeyspaceOptions, LevelMetrics};
use serde::Serialize;

use super::open_to_read;
use crate::args::db::DbArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::keys::text;
use crate::output::{self, Out, bytes, count, say, table};

/// What `stats --json` says.
#[derive(Serialize)]
struct Stats {
    dir: String,
    table_bytes: u64,
    blob_bytes: u64,
    /// Memory taken by what is in the logs and in no table yet.
    unflushed_bytes: u64,
    keyspaces: Vec<KeyspaceStats>,
}

#[derive(Serialize)]
struct KeyspaceStats {
    name: String,
    block_bytes: u32,
    filter_bits_per_key: u8,
    /// Level 0 first; deeper levels as the last one.
    compression: Vec<String>,
    merge_operator: Option<String>,
    /// Values from this length on go to blob files; 0 for none.
    blob_bytes_min: u32,
    blobs: BlobStats,
    levels: Vec<LevelStats>,
}

#[derive(Serialize)]
struct BlobStats {
    files: u64,
    bytes: u64,
    live_values: u64,
    live_bytes: u64,
    dead_bytes: u64,
}

#[derive(Serialize)]
struct LevelStats {
    level: u8,
    tables: u64,
    bytes: u64,
    entries: u64,
    point_tombstones: u64,
    hidden_versions: u64,
    range_tombstones: u64,
}

pub(super) fn stats(args: &DbArgs, json: bool, out: Out<'_>) -> Result<Exit, Failure> {
    let stats = collect(args, &open_to_read(&args.dir)?)?;
    if json {
        output::json(out, &stats)?;
        return Ok(Exit::Done);
    }
    let tables =
        stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.tables).sum();
    say!(out, "{}: {} in {}", stats.dir, bytes(stats.table_bytes), output::counted(tables, "table"))?;
    let blobs: u64 = stats.keyspaces.iter().map(|keyspace| keyspace.blobs.files).sum();
    if blobs > 0 {
        let dead: u64 = stats.keyspaces.iter().map(|keyspace| keyspace.blobs.dead_bytes).sum();
        let files = output::counted(blobs, "blob file");
        say!(out, "{} in {files}, {} of it dead values", bytes(stats.blob_bytes), bytes(dead))?;
    }
    if stats.unflushed_bytes > 0 {
        say!(out, "in the logs and in no table yet: {} of memory once open", bytes(stats.unflushed_bytes))?;
    }
    if stats.keyspaces.is_empty() {
        say!(out, "no keyspaces")?;
        return Ok(Exit::Done);
    }
    say!(out)?;
    output::show(out, &levels(&stats))?;
    say!(out)?;
    output::show(out, &options(&stats))?;
    Ok(Exit::Done)
}

fn collect(args: &DbArgs, db: &Database) -> Result<Stats, Failure> {
    let metrics = db.metrics();
    let memtables = metrics.memory.iter().find(|(purpose, _)| *purpose == "memtables");
    let mut keyspaces = Vec::new();
    for keyspace in &metrics.keyspaces {
        keyspaces.push(of_keyspace(keyspace, &db.keyspace_options(&keyspace.name)?));
    }
    keyspaces.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Stats {
        dir: args.dir.display().to_string(),
        table_bytes: metrics.table_bytes,
        blob_bytes: metrics.blob_bytes,
        unflushed_bytes: memtables.map_or(0, |(_, bytes)| *bytes),
        keyspaces,
    })
}

fn of_keyspace(metrics: &KeyspaceMetrics, options: &KeyspaceOptions) -> KeyspaceStats {
    let level = |level: &LevelMetrics| LevelStats {
        level: level.level,
        tables: level.tables,
        bytes: level.bytes,
        entries: level.entries,
        point_tombstones: level.point_tombstones,
        hidden_versions: level.hidden_versions,
        range_tombstones: level.range_tombstones,
    };
    KeyspaceStats {
        name: metrics.name.clone(),
        block_bytes: options.block_bytes,
        filter_bits_per_key: options.filter_bits_per_key,
        compression: options.compression.iter().map(|c| format!("{c:?}").to_lowercase()).collect(),
        merge_operator: options.merge_operator.clone(),
        blob_bytes_min: options.blob_bytes_min,
        blobs: BlobStats {
            files: metrics.blobs.files,
            bytes: metrics.blobs.bytes,
            live_values: metrics.blobs.live_values,
            live_bytes: metrics.blobs.live_bytes,
            dead_bytes: metrics.blobs.dead_bytes,
        },
        levels: metrics.levels.iter().map(level).collect(),
    }
}

fn levels(stats: &Stats) -> comfy_table::Table {
    let mut table = table(&[
        "keyspace",
        ">level",
        ">tables",
        ">size",
        ">entries",
        ">tombstones",
        ">hidden versions",
        ">range tombstones",
    ]);
    for keyspace in &stats.keyspaces {
        let mut name = text::show(keyspace.name.as_bytes());
        if keyspace.levels.is_empty() {
            let dash = || "–".to_owned();
            table.add_row([name, dash(), count(0), dash(), dash(), dash(), dash(), dash()]);
            continue;
        }
        for level in &keyspace.levels {
            table.add_row([
                std::mem::take(&mut name),
                level.level.to_string(),
                count(level.tables),
                bytes(level.bytes),
                count(level.entries),
                count(level.point_tombstones),
                count(level.hidden_versions),
                count(level.range_tombstones),
            ]);
        }
    }
    table
}

fn options(stats: &Stats) -> comfy_table::Table {
    let mut table = table(&["keyspace", ">block", ">filter bits", "compression", "merge operator"]);
    for keyspace in &stats.keyspaces {
        table.add_row([
            text::show(keyspace.name.as_bytes()),
            bytes(keyspace.block_bytes.into()),
            keyspace.filter_bits_per_key.to_string(),
            keyspace.compression.join(", "),
            keyspace.merge_operator.clone().unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    table
}
