//! Salted tables: keys (second, source) in eight buckets by source.
//!
//! By hand, too, the list of epochs is read with every write and every view, or the number of buckets could not
//! be changed beside writers.

use esker_layouts::kv::{Bytes, ScanOptions};
use esker_layouts::salted::{Salt, SaltedTable};
use esker_layouts::tuple::Space;
use esker_layouts::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::Bench;
use super::by_hand::{damaged, finish, put_text, put_u64, take_bytes, take_text, take_u64};
use super::twin::Twin;

const SECONDS: u64 = 2_000;
const BUCKETS: u32 = 8;
const NESTED: u8 = 5;

type Key = (u64, String);

struct Epoch {
    number: u64,
    buckets: u64,
    fields: Vec<u64>,
}

fn behind(input: &[u8], byte: u8) -> Result<&[u8]> {
    input.strip_prefix(&[byte]).ok_or_else(damaged)
}

/// The stored list of epochs, oldest first.
fn read_epochs(mut stored: &[u8]) -> Result<Vec<Epoch>> {
    let mut epochs = Vec::new();
    while !stored.is_empty() {
        let mut rest = behind(stored, NESTED)?;
        let (number, version, buckets) = (take_u64(&mut rest)?, take_u64(&mut rest)?, take_u64(&mut rest)?);
        let chosen = take_bytes(&mut rest)?;
        stored = behind(rest, 0)?;
        let (mut chosen, mut fields) = (chosen.as_slice(), Vec::new());
        while !chosen.is_empty() {
            fields.push(take_u64(&mut chosen)?);
        }
        if version != 1 || buckets == 0 || fields.is_empty() {
            return Err(damaged());
        }
        epochs.push(Epoch { number, buckets, fields });
    }
    if epochs.is_empty() { Err(damaged()) } else { Ok(epochs) }
}

fn put_space(out: &mut Vec<u8>) {
    out.clear();
    put_text(out, "points");
}

/// Where the rows of a bucket lie.
fn put_bucket(out: &mut Vec<u8>, epoch: &Epoch, bucket: u64) {
    put_space(out);
    put_u64(out, 1);
    put_u64(out, epoch.number);
    put_u64(out, bucket);
}

/// A key by hand: plain, and how long its first field is.
#[derive(Default)]
struct Plain {
    bytes: Vec<u8>,
    first: usize,
    chosen: Vec<u8>,
}

impl Plain {
    fn of(&mut self, key: &Key) {
        self.bytes.clear();
        put_u64(&mut self.bytes, key.0);
        self.first = self.bytes.len();
        put_text(&mut self.bytes, &key.1);
    }

    fn bucket(&mut self, epoch: &Epoch) -> Result<u64> {
        self.chosen.clear();
        for field in &epoch.fields {
            self.chosen.extend_from_slice(match field {
                0 => &self.bytes[..self.first],
                1 => &self.bytes[self.first..],
                _ => return Err(damaged()),
            });
        }
        Ok(xxh3_64(&self.chosen) % epoch.buckets)
    }

    /// Write the place of the key in `epoch` to `out`.
    fn place(&mut self, out: &mut Vec<u8>, epoch: &Epoch) -> Result<()> {
        let bucket = self.bucket(epoch)?;
        put_bucket(out, epoch, bucket);
        out.extend_from_slice(&self.bytes);
        Ok(())
    }
}

/// The next row of a bucket: its place, where the key starts in it, and the value.
struct Head {
    place: Bytes,
    start: usize,
    value: Bytes,
}

impl Head {
    fn key(&self) -> &[u8] {
        self.place.get(self.start..).unwrap_or_default()
    }
}

fn advance(scan: &mut esker::Scan, start: usize) -> Result<Option<Head>> {
    let next = scan.next().transpose()?;
    Ok(next.map(|(place, value)| Head { place, start, value }))
}

/// The first `limit` rows from `start` on, in order.
fn merged(
    reader: &esker::Reader,
    epochs: &[Epoch],
    start: &[u8],
    limit: usize,
) -> Result<Vec<(Key, Bytes)>> {
    let (mut scans, mut heads, mut rows) = (Vec::new(), Vec::new(), Vec::with_capacity(limit));
    let (mut from, mut end) = (Vec::new(), Vec::new());
    for epoch in epochs {
        for bucket in 0..epoch.buckets {
            put_bucket(&mut from, epoch, bucket);
            let behind = from.len();
            end.clone_from(&from);
            end.push(0xFF);
            from.extend_from_slice(start);
            let mut scan = reader.range(from.as_slice()..end.as_slice());
            heads.push(advance(&mut scan, behind)?);
            scans.push(scan);
        }
    }
    loop {
        let least = heads.iter().enumerate().filter_map(|(n, head)| Some((n, head.as_ref()?.key())));
        let Some((n, _)) = least.min_by_key(|(_, key)| *key) else { return Ok(rows) };
        let Some(head) = heads[n].take() else { return Ok(rows) };
        let mut rest = head.key();
        let key = (take_u64(&mut rest)?, take_text(&mut rest)?);
        finish(rest)?;
        let start = head.start;
        rows.push((key, head.value));
        if rows.len() == limit {
            return Ok(rows);
        }
        heads[n] = advance(&mut scans[n], start)?;
    }
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let (space, salt) = (Space::new(&("points",)), Salt::new(BUCKETS, &[1]));
    let keys: Vec<Key> = (0..SECONDS).map(|second| (second, format!("source {}", second % 32))).collect();
    let twin = Twin::filled(|store| {
        let table = SaltedTable::open(store, &space, &salt)?;
        keys.iter().try_for_each(|key| table.put(key, &[7; 16]).map(|_| ()))
    })?;
    let table = SaltedTable::open(twin.layout(), &space, &salt)?;
    let (db, keyspace) = twin.by_hand();
    let key = |n: usize| &keys[n * 7919 % keys.len()];
    let (mut plain, mut buffer) = (Plain::default(), Vec::new());
    let mut record = Vec::new();
    put_space(&mut record);
    put_u64(&mut record, 0);

    bench.pair(
        "salted put",
        |n| {
            plain.of(key(n));
            let mut failed = None;
            let done = db.transact(|tx| {
                let stored = tx.get(keyspace, &record)?.unwrap_or_default();
                let mut write = || -> Result<()> {
                    for (age, epoch) in read_epochs(&stored)?.iter().rev().enumerate() {
                        plain.place(&mut buffer, epoch)?;
                        if age == 0 {
                            tx.put(keyspace, &buffer, [8; 16])?;
                        } else {
                            tx.delete(keyspace, &buffer)?;
                        }
                    }
                    Ok(())
                };
                write().map_err(|error| {
                    failed = Some(error);
                    esker::Error::invalid("rolled back")
                })
            });
            failed.map_or(Ok(done?), Err)
        },
        |n| table.put(key(n), &[8; 16]).map(|_| ()),
    )?;
    let (view, reader) = (table.view()?, keyspace.reader()?);
    let epochs = read_epochs(&reader.get(&record)?.ok_or_else(damaged)?)?;
    bench.pair(
        "salted get",
        |n| {
            plain.of(key(n));
            for epoch in epochs.iter().rev() {
                plain.place(&mut buffer, epoch)?;
                if let Some(value) = reader.get(&buffer)? {
                    return Ok::<_, Error>(Some(value));
                }
            }
            Ok(None)
        },
        |n| view.get(key(n)),
    )?;
    bench.pair(
        "salted scan of 20 rows in order",
        |n| {
            plain.of(key(n));
            merged(&reader, &epochs, &plain.bytes, 20)
        },
        |n| view.between(key(n).clone().., ScanOptions::new().limit(20))?.collect(),
    )?;
    bench.stores(|| twin.check_same())
}
