//! Who reads whom: variants 3, 4 and 5.

use esker_layouts::followers::{Layout, open};
use esker_layouts::{Error, Result};
use md5::{Digest, Md5};

use super::Bench;
use super::by_hand::{finish, put_text, put_u64, take_text};
use super::twin::Twin;

const PAIRS: usize = 1_000;

/// Refuse ids that no key should be made of.
fn check(user: &str, friend: &str) -> Result<()> {
    let max = esker::limits::KEY_BYTES_MAX / 4;
    if user.is_empty() || friend.is_empty() || user.len() > max || friend.len() > max {
        return Err(Error::Store(esker::Error::invalid("an id has 1 to 16,383 bytes")));
    }
    Ok(())
}

fn column_key(out: &mut Vec<u8>, user: &str, friend: &str) -> Result<()> {
    check(user, friend)?;
    out.clear();
    put_text(out, user);
    put_text(out, friend);
    Ok(())
}

fn row_key(out: &mut Vec<u8>, user: &str, friend: &str) -> Result<()> {
    check(user, friend)?;
    if user.contains('.') || friend.contains('.') {
        return Err(Error::Store(esker::Error::invalid("an id holds no dot")));
    }
    out.clear();
    out.push(2);
    out.extend_from_slice(user.as_bytes());
    out.push(b'.');
    out.extend_from_slice(friend.as_bytes());
    if out.contains(&0) {
        // The codec escapes zeros: as any text, then.
        out.clear();
        put_text(out, &format!("{user}.{friend}"));
    } else {
        out.push(0);
    }
    Ok(())
}

fn hash_key(out: &mut Vec<u8>, user: &str, friend: &str) -> Result<()> {
    check(user, friend)?;
    out.clear();
    out.extend_from_slice(&Md5::digest(user.as_bytes()));
    out.extend_from_slice(&Md5::digest(friend.as_bytes()));
    Ok(())
}

fn is_of(stored: &[u8], user: &str, friend: &str) -> Result<bool> {
    let mut rest = stored;
    let found = (take_text(&mut rest)?, take_text(&mut rest)?);
    finish(rest)?;
    if (found.0.as_str(), found.1.as_str()) == (user, friend) {
        return Ok(true);
    }
    Err(Error::Store(esker::Error::invalid("two pairs have the same digests")))
}

pub(super) fn run(bench: &mut impl Bench) -> Result<()> {
    // Every other pair is there.
    let pairs: Vec<(String, String)> =
        (0..PAIRS).map(|n| (format!("user {}", n / 20), format!("friend {n}"))).collect();
    let ids = |n: usize| {
        let (user, friend) = &pairs[n * 7919 % PAIRS];
        (user.as_str(), friend.as_str())
    };
    let fill = |layout| {
        let pairs = &pairs;
        move |store: &_| {
            let friends = open(store, layout)?;
            pairs.iter().step_by(2).try_for_each(|(user, friend)| friends.add(user, friend).map(|_| ()))
        }
    };
    let (mut buffer, mut value) = (Vec::new(), Vec::new());

    let twin = Twin::filled(fill(Layout::Column))?;
    let friends = open(twin.layout(), Layout::Column)?;
    let (_, keyspace) = twin.by_hand();
    bench.pair(
        "followers V3 check",
        |n| {
            column_key(&mut buffer, ids(n).0, ids(n).1)?;
            Ok(keyspace.contains(&buffer)?)
        },
        |n| Ok(friends.check(ids(n).0, ids(n).1)?.value),
    )?;
    bench.pair(
        "followers V3 add",
        |n| {
            column_key(&mut buffer, ids(n).0, ids(n).1)?;
            value.clear();
            put_u64(&mut value, 1);
            Ok(keyspace.put(&buffer, &value)?)
        },
        |n| friends.add(ids(n).0, ids(n).1).map(|_| ()),
    )?;
    drop(friends);
    bench.stores(|| twin.check_same())?;

    let twin = Twin::filled(fill(Layout::Row))?;
    let friends = open(twin.layout(), Layout::Row)?;
    let (_, keyspace) = twin.by_hand();
    bench.pair(
        "followers V4 check",
        |n| {
            row_key(&mut buffer, ids(n).0, ids(n).1)?;
            Ok(keyspace.contains(&buffer)?)
        },
        |n| Ok(friends.check(ids(n).0, ids(n).1)?.value),
    )?;
    bench.pair(
        "followers V4 add",
        |n| {
            row_key(&mut buffer, ids(n).0, ids(n).1)?;
            Ok(keyspace.put(&buffer, [])?)
        },
        |n| friends.add(ids(n).0, ids(n).1).map(|_| ()),
    )?;
    drop(friends);
    bench.stores(|| twin.check_same())?;

    let twin = Twin::filled(fill(Layout::Hash))?;
    let friends = open(twin.layout(), Layout::Hash)?;
    let (_, keyspace) = twin.by_hand();
    bench.pair(
        "followers V5 check",
        |n| {
            let (user, friend) = ids(n);
            hash_key(&mut buffer, user, friend)?;
            keyspace.get_with(&buffer, |stored| is_of(stored, user, friend))?.unwrap_or(Ok(false))
        },
        |n| Ok(friends.check(ids(n).0, ids(n).1)?.value),
    )?;
    bench.pair(
        "followers V5 add",
        |n| {
            let (user, friend) = ids(n);
            hash_key(&mut buffer, user, friend)?;
            value.clear();
            put_text(&mut value, user);
            put_text(&mut value, friend);
            Ok(keyspace.put(&buffer, &value)?)
        },
        |n| friends.add(ids(n).0, ids(n).1).map(|_| ()),
    )?;
    drop(friends);
    bench.stores(|| twin.check_same())
}
