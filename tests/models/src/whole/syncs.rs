//! Syncs that fail, and syncs that are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker::Durability;
use esker::vfs::fault::{Fault, Operation};
use shuttle::thread;

use super::world::{Counts, World, check_pairs, draw, put_pair, small};

/// A sync fails, and the next would say Ok: once one of the writers has heard of it, nothing that is begun is
/// acknowledged, and what was acknowledged outlives the power.
pub(super) fn failing_sync() {
    const WRITERS: usize = 3;
    let (world, faults) = World::failing();
    let world = Arc::new(world);
    let (db, keyspace) = world.open(small(Durability::Sync, 64 << 10));
    let nth = faults.count(Operation::SyncData) + draw(4) as u64;
    faults.plan(Fault::nth(Operation::SyncData, nth));
    let counts = Counts::of(WRITERS);
    let failed = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, keyspace, world) = (db.clone(), keyspace.clone(), world.clone());
        let (counts, failed) = (counts.clone(), failed.clone());
        threads.push(thread::spawn(move || {
            for number in 1..=2 {
                let too_late = failed.load(Ordering::SeqCst);
                if put_pair(&db, &keyspace, writer, number, 8).is_err() {
                    failed.store(true, Ordering::SeqCst);
                    continue;
                }
                assert!(!too_late, "acknowledged after a failed sync");
                counts.acknowledge(writer, number);
                let promised = counts.acknowledged();
                counts.promise(world.disk.trace_len(), promised);
            }
        }));
    }
    for thread in threads {
        thread.join().expect("holds");
    }
    counts.check_promises(&world);
    drop(keyspace);
    // Closing may fail, for the reason that the writers heard; what it leaves must open.
    let _ = db.close();
    check_pairs(&world.after_power_loss(world.disk.trace_len()), &counts.acknowledged());
}

/// Commits that are not synced, a timer that syncs now and then or no log at all, and `persist`: what was
/// acknowledged before it began outlives the power once it has returned.
pub(super) fn persist() {
    const WRITERS: usize = 2;
    let durability =
        if draw(3) == 0 { Durability::NoLog } else { Durability::Interval(Duration::from_millis(1)) };
    let world = Arc::new(World::new());
    let (db, keyspace) = world.open(small(durability, 2 << 10));
    let counts = Counts::of(WRITERS);
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, keyspace) = (db.clone(), keyspace.clone());
        let (counts, world) = (counts.clone(), world.clone());
        threads.push(thread::spawn(move || {
            for number in 1..=2 {
                put_pair(&db, &keyspace, writer, number, 100).expect("is written");
                counts.acknowledge(writer, number);
                if draw(2) == 0 {
                    let promised = counts.acknowledged();
                    db.persist().expect("is durable");
                    counts.promise(world.disk.trace_len(), promised);
                }
            }
        }));
    }
    for thread in threads {
        thread.join().expect("holds");
    }
    counts.check_promises(&world);
    drop(keyspace);
    db.close().expect("closes");
    check_pairs(&world.now(), &[2; WRITERS]);
}
