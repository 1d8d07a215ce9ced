//! Hashed keys: MD5 digests of both fields of (user, friend); the key itself in the value, and compared.

use esker_layouts::hashed::{HashBy, HashedTable};
use esker_layouts::kv::Bytes;
use esker_layouts::tuple::Space;
use esker_layouts::{Error, Result};
use md5::{Digest, Md5};

use super::Bench;
use super::by_hand::{damaged, put_digest, put_text, put_u64, take_u64};
use super::twin::Twin;

const ROWS: usize = 1_000;

type Key = (String, String);

/// A key by hand: where it lies, and its plain form.
#[derive(Default)]
struct Place {
    at: Vec<u8>,
    plain: Vec<u8>,
}

impl Place {
    fn of(&mut self, key: &Key) {
        self.plain.clear();
        put_text(&mut self.plain, &key.0);
        let first = self.plain.len();
        put_text(&mut self.plain, &key.1);
        self.at.clear();
        put_text(&mut self.at, "reads");
        put_u64(&mut self.at, 1);
        put_digest(&mut self.at, Md5::digest(&self.plain[..first]).into());
        put_digest(&mut self.at, Md5::digest(&self.plain[first..]).into());
    }

    /// The value in what is stored, which must be this key's.
    fn open(&self, stored: &Bytes) -> Result<Bytes> {
        let mut rest = stored.as_ref();
        let len = usize::try_from(take_u64(&mut rest)?).map_err(|_| damaged())?;
        let (plain, value) = rest.split_at_checked(len).ok_or_else(damaged)?;
        if plain != self.plain {
            return Err(Error::Store(esker::Error::invalid("two keys have the same digests")));
        }
        Ok(stored.slice(stored.len() - value.len()..))
    }
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    let space = Space::new(&("reads",));
    let keys: Vec<Key> = (0..ROWS).map(|n| (format!("user {}", n % 50), format!("friend {n}"))).collect();
    let twin = Twin::filled(|store| {
        let table = HashedTable::open(store, &space, HashBy::PerField)?;
        keys.iter().try_for_each(|key| table.put(key, &[7; 16]).map(|_| ()))
    })?;
    let table = HashedTable::open(twin.layout(), &space, HashBy::PerField)?;
    let (db, keyspace) = twin.by_hand();
    let key = |n: usize| &keys[n * 7919 % ROWS];
    let (mut place, mut value) = (Place::default(), Vec::new());
    bench.pair(
        "hashed get",
        |n| {
            place.of(key(n));
            keyspace.get(&place.at)?.map(|stored| place.open(&stored)).transpose()
        },
        |n| Ok(table.get(key(n))?.value),
    )?;
    bench.pair(
        "hashed put",
        |n| {
            place.of(key(n));
            value.clear();
            put_u64(&mut value, place.plain.len() as u64);
            value.extend_from_slice(&place.plain);
            value.extend_from_slice(&[8; 16]);
            let mut collision = None;
            let done = db.transact(|tx| {
                if let Some(stored) = tx.get(keyspace, &place.at)?
                    && let Err(error) = place.open(&stored)
                {
                    collision = Some(error);
                    return Err(esker::Error::invalid("rolled back"));
                }
                tx.put(keyspace, &place.at, &value)
            });
            collision.map_or(Ok(done?), Err)
        },
        |n| table.put(key(n), &[8; 16]).map(|_| ()),
    )?;
    bench.stores(|| twin.check_same())
}
