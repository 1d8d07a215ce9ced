//! Vectors of floats: a key per element, and in chunks of sixteen.

use esker_layouts::Result;
use esker_layouts::tuple::Space;
use esker_layouts::vector::{Chunk, Vector};

use super::Bench;
use super::by_hand::{damaged, finish, put_f64, put_text, put_u64, take_f64};
use super::twin::Twin;

const LEN: u64 = 1_000;
const CHUNK: u64 = 16;

fn put_key(out: &mut Vec<u8>, name: &str, chunk: u64) {
    out.clear();
    put_text(out, name);
    put_u64(out, 1);
    put_u64(out, chunk);
}

/// The elements of a chunk of `size` at most.
fn read_chunk(mut stored: &[u8], size: u64) -> Result<Vec<f64>> {
    let mut elements = Vec::new();
    while !stored.is_empty() {
        elements.push(take_f64(&mut stored)?);
    }
    if elements.is_empty() || elements.len() as u64 > size { Err(damaged()) } else { Ok(elements) }
}

fn place(n: usize) -> u64 {
    n as u64 * 7919 % LEN
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let single = Space::new(&("single",));
    let chunked = Space::new(&("chunked",));
    let twin = Twin::filled(|store| {
        let singles = Vector::open(store, &single, Chunk::Elements)?;
        let chunks = Vector::open(store, &chunked, Chunk::Of(16))?;
        for n in 0..LEN {
            singles.push(&(n as f64))?;
            chunks.push(&(n as f64))?;
        }
        Ok(())
    })?;
    let singles: Vector<_, f64> = Vector::open(twin.layout(), &single, Chunk::Elements)?;
    let chunks: Vector<_, f64> = Vector::open(twin.layout(), &chunked, Chunk::Of(16))?;
    let (db, keyspace) = twin.by_hand();
    let (mut buffer, mut value) = (Vec::new(), Vec::new());
    bench.pair(
        "vector element get",
        |n| {
            put_key(&mut buffer, "single", place(n));
            let Some(stored) = keyspace.get(&buffer)? else { return Ok(None) };
            let mut rest = stored.as_ref();
            let element = take_f64(&mut rest)?;
            finish(rest)?;
            Ok(Some(element))
        },
        |n| singles.get(place(n)),
    )?;
    bench.pair(
        "vector element get, chunks of 16",
        |n| {
            put_key(&mut buffer, "chunked", place(n) / CHUNK);
            let Some(stored) = keyspace.get(&buffer)? else { return Ok(None) };
            let elements = read_chunk(&stored, CHUNK)?;
            Ok(elements.get((place(n) % CHUNK) as usize).copied())
        },
        |n| chunks.get(place(n)),
    )?;
    bench.pair(
        "vector element set",
        |n| {
            put_key(&mut buffer, "single", place(n));
            value.clear();
            put_f64(&mut value, n as f64);
            Ok(db.transact(|tx| {
                if tx.get(keyspace, &buffer)?.is_none() {
                    return Ok(false);
                }
                tx.put(keyspace, &buffer, &value)?;
                Ok(true)
            })?)
        },
        |n| Ok(singles.set(place(n), &(n as f64))?.value),
    )?;
    bench.pair(
        "vector element set, chunks of 16",
        |n| {
            put_key(&mut buffer, "chunked", place(n) / CHUNK);
            Ok(db.transact(|tx| {
                let Some(stored) = tx.get(keyspace, &buffer)? else { return Ok(false) };
                let elements = read_chunk(&stored, CHUNK);
                let mut elements = elements.map_err(|error| esker::Error::invalid(error.to_string()))?;
                let Some(element) = elements.get_mut((place(n) % CHUNK) as usize) else { return Ok(false) };
                *element = n as f64;
                value.clear();
                for element in elements {
                    put_f64(&mut value, element);
                }
                tx.put(keyspace, &buffer, &value)?;
                Ok(true)
            })?)
        },
        |n| Ok(chunks.set(place(n), &(n as f64))?.value),
    )?;
    bench.stores(|| twin.check_same())
}
