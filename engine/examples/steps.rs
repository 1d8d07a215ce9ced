//! A lesson: background work one step at a time, on one thread. `cargo run -p esker --example steps`
//!
//! The world is simulated: a disk in memory, a clock that moves when something happens, and a scheduler whose steps run when
//! they are asked for (and a few now and then after a commit, as the seed says). The same seed and calls give the same run.

use std::sync::Arc;
use std::time::Duration;

use esker::event::Event;
use esker::vfs::Env;
use esker::vfs::sim::Simulation;
use esker::{Database, DatabaseOptions, Keyspace, KeyspaceOptions, OpCost, Result};

/// What the engine says that it did, and why.
fn tell(event: &Event) {
    match event {
        Event::MemtableSealed { log, reason, .. } => println!("    sealed memtable {log}: {reason:?}"),
        Event::Flushed { log, .. } => println!("    flushed memtable {log}"),
        Event::Compacted { to_level, reason, .. } => println!("    merged into level {to_level}: {reason}"),
        _ => {}
    }
}

/// Run what is due, one step after the other, and show what that has made of the tree.
fn run(world: &Simulation, db: &Database) {
    while let Some(job) = world.steps.step() {
        println!("  step: {job}");
    }
    for level in db.metrics().keyspaces[0].levels.iter().filter(|level| level.tables > 0) {
        println!("  level {}: {} tables, {} rows", level.level, level.tables, level.entries);
    }
}

/// What it takes to learn that a row is not there.
fn look(map: &Keyspace) -> Result<()> {
    let mut cost = OpCost::default();
    map.get_costed(7_u32.to_be_bytes(), &mut cost)?;
    println!("  an absent row: {} tables asked, {} filters knew", cost.tables, cost.filter_negatives);
    Ok(())
}

fn main() -> Result<()> {
    let (env, world) = Env::simulated(7);
    let small = DatabaseOptions { memtable_bytes_max: 1 << 16, l0_tables_trigger: 2, ..Default::default() };
    let db = Database::builder("/lesson").options(small).env(env).listener(Arc::new(tell)).open()?;
    let map = db.keyspace("map", KeyspaceOptions::default())?;
    for round in 1..=3_u8 {
        println!("round {round}: every second row is written");
        let mut batch = db.batch();
        for row in (0..1_000_u32).step_by(2) {
            batch.put(&map, row.to_be_bytes(), [round; 100])?;
        }
        batch.commit()?;
        run(&world, &db);
    }
    look(&map)?;
    println!("nobody writes for six seconds");
    world.clock.advance(Duration::from_secs(6));
    run(&world, &db);
    look(&map)?;
    db.close()
}
