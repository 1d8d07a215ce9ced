//! Accounts: money moves between them, accounts are opened and closed, and whoever counts, in whichever
//! way, finds the same sum.

use std::path::Path;
use std::sync::Arc;

use esker::{Database, Error, Keyspace};
use esker_vfs::mem::MemFs;
use fastrand::Rng;
use parking_lot::Mutex;

use super::{THREADS, Tried};
use crate::driver::Violation;
use crate::planted::Bug;
use crate::points::Hits;
use crate::script::world::{Config, DIR};

/// Transactions of one thread.
const OF_A_THREAD: u64 = 80;
/// Accounts there may be.
const ACCOUNTS: u32 = 12;
/// All the money there is.
const SUM: u64 = 1_000;

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn told(error: Error) -> Violation {
    error.to_string()
}

fn amount(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Sixteen threads.
#[expect(clippy::disallowed_methods, reason = "the threads of a test")]
pub fn with_threads(seed: u64, bug: Option<Bug>) -> Result<Tried, Violation> {
    let hits = Arc::<Mutex<Hits>>::default();
    let mut config = Config { bug, ..Config::draw(seed, true) };
    config.options.durability = esker::Durability::Os;
    let db = config.open(&MemFs::new(), Path::new(DIR), 0, false, &hits).map_err(told)?;
    let accounts = db.keyspace("accounts", config.keyspaces.clone()).map_err(told)?;
    accounts.put(0u32.to_be_bytes(), SUM.to_le_bytes()).map_err(told)?;
    let outcomes: Vec<Result<(), Violation>> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (db, accounts) = (&db, &accounts);
            move || {
                if let Some(bug) = bug {
                    bug.plant_in_engine();
                }
                let mut random = Rng::with_seed(seed.wrapping_mul(1_000).wrapping_add(thread));
                (0..OF_A_THREAD).try_for_each(|_| transaction(db, accounts, &mut random))
            }
        };
        let threads: Vec<_> = (0..THREADS as u64).map(|thread| scope.spawn(work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    outcomes.into_iter().collect::<Result<(), Violation>>()?;
    expect_sum("at the end, a scan", accounts.iter())?;
    drop(accounts);
    db.close().map_err(told)?;
    let hits = *hits.lock();
    Ok((THREADS as u64 * OF_A_THREAD, hits))
}

fn transaction(db: &Database, accounts: &Keyspace, random: &mut Rng) -> Result<(), Violation> {
    let mut account = || random.u32(0..ACCOUNTS).to_be_bytes();
    let (from, to) = (account(), account());
    match random.u8(0..10) {
        0 => expect_sum("a scan", accounts.iter()),
        1 => expect_sum("a reverse scan", accounts.iter().rev()),
        2 => {
            let snapshot = db.snapshot();
            super::give_way();
            expect_sum("a snapshot", accounts.at(&snapshot).map_err(told)?.range::<&[u8]>(..))
        }
        3 => {
            let keys: Vec<[u8; 4]> = (0..ACCOUNTS).map(u32::to_be_bytes).collect();
            let values = accounts.multi_get(&keys).map_err(told)?;
            let sum: u64 = values.iter().map(|value| amount(value.as_deref())).sum();
            if sum == SUM { Ok(()) } else { Err(format!("a multi-get finds {sum}, not {SUM}")) }
        }
        4 => {
            let tx = db.begin().map_err(told)?;
            super::give_way();
            expect_sum("a transaction", tx.range::<&[u8]>(accounts, ..))
        }
        5 => {
            // All that there is goes to one account, whoever had it.
            let outcome = db.transact(|tx| {
                let all: Vec<_> = tx.range::<&[u8]>(accounts, ..).collect::<esker::Result<_>>()?;
                super::give_way();
                let sum: u64 = all.iter().map(|(_, value)| amount(Some(value))).sum();
                tx.delete_range(accounts, [0; 4]..[0xFF; 4])?;
                tx.put(accounts, to, sum.to_le_bytes())
            });
            outcome.map_err(told)
        }
        _ => {
            let outcome = db.transact(|tx| {
                let mine = amount(tx.get(accounts, from)?.as_deref());
                let theirs = amount(tx.get(accounts, to)?.as_deref());
                super::give_way();
                let moved = mine.div_ceil(2);
                if from == to || moved == 0 {
                    return Ok(());
                }
                // An account without money is closed.
                match mine - moved {
                    0 => tx.delete(accounts, from)?,
                    rest => tx.put(accounts, from, rest.to_le_bytes())?,
                }
                tx.put(accounts, to, (theirs + moved).to_le_bytes())
            });
            outcome.map_err(told)
        }
    }
}

fn expect_sum(
    who: &str,
    mut rows: impl Iterator<Item = esker::Result<(esker::Key, esker::Value)>>,
) -> Result<(), Violation> {
    let sum =
        rows.try_fold(0, |sum, row| row.map(|(_, value)| sum + amount(Some(&value)))).map_err(told)?;
    if sum == SUM { Ok(()) } else { Err(format!("{who} finds {sum}, not {SUM}")) }
}
