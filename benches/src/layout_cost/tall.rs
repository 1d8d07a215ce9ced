//! Tall tables: keys (game, user, day).

use esker_layouts::Result;
use esker_layouts::kv::{Bytes, Go, ScanOptions};
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::Space;

use super::Bench;
use super::by_hand::{finish, put_text, put_u64, take_text, take_u64};
use super::twin::Twin;

const USERS: u64 = 64;
const DAYS: u64 = 20;
const FIRST_DAY: u64 = 20_150_101;

type Key = (String, u64, u64);

fn keys() -> Vec<Key> {
    let key = |user: u64, day| (format!("game {}", user % 4), 1_000 + user, FIRST_DAY + day);
    (0..USERS * DAYS).map(|n| key(n / DAYS, n % DAYS)).collect()
}

/// The key before its day.
fn put_user(out: &mut Vec<u8>, (game, user, _): &Key) {
    out.clear();
    put_text(out, "plays");
    put_text(out, game);
    put_u64(out, *user);
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    put_user(out, key);
    put_u64(out, key.2);
}

/// The key that `stored` is.
fn read_key(stored: &[u8], prefix: &[u8]) -> Result<Key> {
    let mut rest = stored.strip_prefix(prefix).ok_or_else(super::by_hand::damaged)?;
    let key = (take_text(&mut rest)?, take_u64(&mut rest)?, take_u64(&mut rest)?);
    finish(rest)?;
    Ok(key)
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let (space, keys) = (Space::new(&("plays",)), keys());
    let twin = Twin::filled(|store| {
        let table = TallTable::open(store, &space)?;
        keys.iter().try_for_each(|key| table.put(key, &[7; 32]).map(|_| ()))
    })?;
    let table: TallTable<_, Key> = TallTable::open(twin.layout(), &space)?;
    let (_, keyspace) = twin.by_hand();
    let key = |n: usize| &keys[n * 7919 % keys.len()];
    let mut buffer = Vec::new();
    let mut prefix = Vec::new();
    put_text(&mut prefix, "plays");

    let (view, reader) = (table.view()?, keyspace.reader()?);
    bench.pair(
        "tall get",
        |n| {
            put_key(&mut buffer, key(n));
            Ok(reader.get(&buffer)?)
        },
        |n| view.get(key(n)),
    )?;
    bench.pair(
        "tall exists",
        |n| {
            put_key(&mut buffer, key(n));
            Ok(reader.contains(&buffer)?)
        },
        |n| view.exists(key(n)),
    )?;
    bench.pair(
        "tall scan of 20 rows",
        |n| {
            put_user(&mut buffer, key(n));
            let rows = reader.prefix(&buffer).map(|row| {
                let (key, value) = row?;
                Ok((read_key(&key, &prefix)?, value))
            });
            rows.collect::<Result<Vec<(Key, Bytes)>>>()
        },
        |n| {
            let (game, user, _) = key(n);
            view.rows(table.keys().under(&(game.as_str(), *user)), ScanOptions::new())?.collect()
        },
    )?;
    bench.pair(
        "tall visit of 20 rows",
        |n| {
            put_user(&mut buffer, key(n));
            let end = [buffer.as_slice(), &[0xFF]].concat();
            let mut cursor = reader.cursor_over(buffer.as_slice()..end.as_slice())?;
            let (mut days, mut more) = (0, cursor.seek_first()?);
            while more {
                let mut rest = cursor.key().get(buffer.len()..).unwrap_or_default();
                days += take_u64(&mut rest)? + cursor.value().len() as u64;
                more = cursor.next()?;
            }
            Ok(days)
        },
        |n| {
            let (game, user, _) = key(n);
            let mut days = 0;
            view.visit_under(&(game.as_str(), *user), |fields, value| {
                days += fields.field::<u64>()? + value.len() as u64;
                Ok(Go::On)
            })?;
            Ok(days)
        },
    )?;
    bench.pair(
        "tall put",
        |n| {
            put_key(&mut buffer, key(n));
            Ok(keyspace.put(&buffer, [8; 32])?)
        },
        |n| table.put(key(n), &[8; 32]).map(|_| ()),
    )?;
    bench.pair(
        "tall delete",
        |n| {
            put_key(&mut buffer, key(n));
            Ok(keyspace.delete(&buffer)?)
        },
        |n| table.delete(key(n)).map(|_| ()),
    )?;
    bench.stores(|| twin.check_same())
}
