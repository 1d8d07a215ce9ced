//! Transactions that race.

use esker::{Database, Durability, Error, Keyspace, Transaction};
use shuttle::thread;

use super::world::{Rows, Tally, World, count, draw, number, small, value};

/// Commit `body`'s transaction once; whether it did not lose.
fn once(db: &Database, body: impl FnOnce(&mut Transaction) -> esker::Result<()>) -> bool {
    let mut transaction = db.begin().expect("begins");
    body(&mut transaction).expect("reads and writes");
    match transaction.commit() {
        Ok(()) => true,
        Err(Error::Conflict { .. }) => {
            count(&Tally::get().conflicts);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn read(transaction: &Transaction, keyspace: &Keyspace, key: &str) -> esker::Result<u64> {
    Ok(transaction.get(keyspace, key)?.map_or(0, |value| number(&value)))
}

/// Run `body` on `threads` threads, told their number, and wait for them.
fn together(threads: usize, body: impl Fn(usize) + Clone + Send + 'static) {
    let spawn = |nth| {
        let body = body.clone();
        thread::spawn(move || body(nth))
    };
    let threads: Vec<_> = (0..threads).map(spawn).collect();
    for thread in threads {
        thread.join().expect("holds");
    }
}

/// Transfers between accounts, tried again when they lose, and a reader: the sum stays.
pub(super) fn bank() {
    const ACCOUNTS: usize = 3;
    const EACH: u64 = 10;
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 16 << 10));
    for account in 0..ACCOUNTS {
        keyspace.put(format!("{account}"), value(EACH, 8)).expect("is written");
    }
    let sum = |rows: &Rows| rows.numbers().iter().sum::<u64>();
    let whole = EACH * ACCOUNTS as u64;
    let (to_db, to_keyspace) = (db.clone(), keyspace.clone());
    together(3, move |nth| {
        if nth == 2 {
            let snapshot = to_db.snapshot();
            let reader = to_keyspace.at(&snapshot).expect("reads");
            assert_eq!(sum(&Rows::of(reader.range::<&[u8]>(..))), whole, "seen meanwhile");
            return;
        }
        for _ in 0..2 {
            let from = draw(ACCOUNTS);
            let to = (from + 1 + draw(ACCOUNTS - 1)) % ACCOUNTS;
            let moved = to_db.transact(|tx| {
                let (have, had) =
                    (read(tx, &to_keyspace, &from.to_string())?, read(tx, &to_keyspace, &to.to_string())?);
                let amount = have.min(1 + nth as u64);
                tx.put(&to_keyspace, from.to_string(), value(have - amount, 8))?;
                tx.put(&to_keyspace, to.to_string(), value(had + amount, 8))
            });
            match moved {
                Ok(()) => {}
                Err(Error::Conflict { .. }) => count(&Tally::get().conflicts),
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(sum(&Rows::of(keyspace.iter())), whole, "at the end");
    drop(keyspace);
    db.close().expect("closes");
    assert_eq!(sum(&world.now()), whole, "in the files");
}

/// Write skew: each leaves only if another stays, so one stays; while others commit beside them.
pub(super) fn skew() {
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 4 << 10));
    for doctor in ["a", "b", "c"] {
        keyspace.put(doctor, value(1, 8)).expect("is written");
    }
    let (at, on) = (db.clone(), keyspace.clone());
    together(4, move |nth| {
        if nth == 3 {
            on.put("z", value(0, 400)).expect("is written");
            on.put("z", value(0, 400)).expect("is written");
            return;
        }
        let doctors = ["a", "b", "c"];
        let _ = once(&at, |tx| {
            let mut others = 0;
            for doctor in doctors.iter().filter(|doctor| **doctor != doctors[nth]) {
                others += read(tx, &on, doctor)?;
            }
            if others > 0 { tx.put(&on, doctors[nth], value(0, 8)) } else { Ok(()) }
        });
    });
    let rows = Rows::of(keyspace.iter());
    assert!(rows.get("a") + rows.get("b") + rows.get("c") > 0, "all have left");
    drop(keyspace);
    db.close().expect("closes");
}

/// Phantoms: each adds the row only if there is none of that prefix, so there is one.
pub(super) fn phantom() {
    let world = World::new();
    let (db, keyspace) = world.open(small(Durability::Os, 1 << 10));
    keyspace.put("q", value(1, 300)).expect("is written");
    let (at, on) = (db.clone(), keyspace.clone());
    together(4, move |nth| {
        if nth == 3 {
            on.put("q", value(2, 300)).expect("is written");
            return;
        }
        let _ = once(&at, |tx| {
            if tx.prefix(&on, "p").next().is_none() {
                tx.put(&on, format!("p{nth}"), value(1, 300))?;
            }
            Ok(())
        });
    });
    assert_eq!(Rows::of(keyspace.prefix("p")).numbers(), [1], "one has come first");
    drop(keyspace);
    db.close().expect("closes");
}
