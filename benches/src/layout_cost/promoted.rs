//! A promoted field: keys (time, source), stored as (source, time).

use esker_layouts::Result;
use esker_layouts::kv::{Bytes, ScanOptions};
use esker_layouts::promoted::PromotedTable;
use esker_layouts::tuple::Space;

use super::Bench;
use super::by_hand::{damaged, finish, put_text, put_u64, take_text, take_u64};
use super::twin::Twin;

const TIMES: u64 = 2_000;
const SOURCES: u64 = 8;

type Key = (u64, String);

/// (space, rows).
fn prefix() -> Vec<u8> {
    let mut prefix = Vec::new();
    put_text(&mut prefix, "temperature");
    put_u64(&mut prefix, 1);
    prefix
}

fn put_key(out: &mut Vec<u8>, prefix: &[u8], (time, source): (u64, &str)) {
    out.clear();
    out.extend_from_slice(prefix);
    put_text(out, source);
    put_u64(out, time);
}

fn read_key(prefix: &[u8], at: &[u8]) -> Result<Key> {
    let mut rest = at.strip_prefix(prefix).ok_or_else(damaged)?;
    let source = take_text(&mut rest)?;
    let time = take_u64(&mut rest)?;
    finish(rest)?;
    Ok((time, source))
}

/// The sources that have rows: one seek each.
fn sources(reader: &esker::Reader, prefix: &[u8]) -> Result<Vec<String>> {
    let mut cursor = reader.cursor()?;
    let (mut found, mut to) = (Vec::new(), prefix.to_vec());
    while cursor.seek(&to)? {
        let Some(mut rest) = cursor.key().strip_prefix(prefix) else { break };
        let source = take_text(&mut rest)?;
        to.truncate(prefix.len());
        put_text(&mut to, &source);
        to.push(0xFF);
        found.push(source);
    }
    Ok(found)
}

/// The first `limit` rows from `time` on, in order.
fn merged(reader: &esker::Reader, prefix: &[u8], time: u64, limit: usize) -> Result<Vec<(Key, Bytes)>> {
    let advance = |scan: &mut esker::Scan| -> Result<Option<(Key, Bytes)>> {
        let Some((at, value)) = scan.next().transpose()? else { return Ok(None) };
        Ok(Some((read_key(prefix, &at)?, value)))
    };
    let (mut scans, mut heads, mut rows) = (Vec::new(), Vec::new(), Vec::with_capacity(limit));
    let (mut from, mut end) = (Vec::new(), Vec::new());
    for source in sources(reader, prefix)? {
        put_key(&mut from, prefix, (time, &source));
        end.clear();
        end.extend_from_slice(prefix);
        put_text(&mut end, &source);
        end.push(0xFF);
        let mut scan = reader.range(from.as_slice()..end.as_slice());
        heads.push(advance(&mut scan)?);
        scans.push(scan);
    }
    loop {
        let least = heads.iter().enumerate().filter_map(|(n, head)| Some((n, &head.as_ref()?.0)));
        let Some((n, _)) = least.min_by_key(|(_, key)| *key) else { return Ok(rows) };
        rows.extend(heads[n].take());
        if rows.len() == limit {
            return Ok(rows);
        }
        heads[n] = advance(&mut scans[n])?;
    }
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let space = Space::new(&("temperature",));
    let keys: Vec<Key> = (0..TIMES).map(|time| (time, format!("source {}", time % SOURCES))).collect();
    let twin = Twin::filled(|store| {
        let table = PromotedTable::open(store, &space, 1)?;
        keys.iter().try_for_each(|key| table.put(key, &[7; 16]).map(|_| ()))
    })?;
    let table: PromotedTable<_, Key> = PromotedTable::open(twin.layout(), &space, 1)?;
    let (_, keyspace) = twin.by_hand();
    let key = |n: usize| &keys[n * 7919 % keys.len()];
    let prefix = prefix();
    let mut buffer = Vec::new();
    bench.pair(
        "promoted put",
        |n| {
            put_key(&mut buffer, &prefix, (key(n).0, &key(n).1));
            Ok(keyspace.put(&buffer, [8; 16])?)
        },
        |n| table.put(key(n), &[8; 16]).map(|_| ()),
    )?;
    let (view, reader) = (table.view()?, keyspace.reader()?);
    bench.pair(
        "promoted get",
        |n| {
            put_key(&mut buffer, &prefix, (key(n).0, &key(n).1));
            Ok(reader.get(&buffer)?)
        },
        |n| view.get(key(n)),
    )?;
    bench.pair(
        "promoted scan of 20 rows of a source",
        |n| {
            buffer.clear();
            buffer.extend_from_slice(&prefix);
            put_text(&mut buffer, &key(n).1);
            let rows = reader.prefix(&buffer).take(20).map(|row| {
                let (at, value) = row?;
                Ok((read_key(&prefix, &at)?, value))
            });
            rows.collect::<Result<Vec<(Key, Bytes)>>>()
        },
        |n| view.of(&key(n).1, ScanOptions::new().limit(20))?.collect(),
    )?;
    bench.pair(
        "promoted range of 20 rows over 8 sources",
        |n| merged(&reader, &prefix, key(n).0, 20),
        |n| view.between((key(n).0,).., ScanOptions::new().limit(20))?.collect(),
    )?;
    bench.stores(|| twin.check_same())
}
