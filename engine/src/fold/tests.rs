//! Which operators a database keeps.

use crate::{Database, KeyspaceOptions, Result};

/// A database that goes on creating and dropping keyspaces keeps the operators of those that are there.
#[test]
fn the_operators_of_dropped_keyspaces_are_forgotten() -> Result<()> {
    let db = Database::in_memory()?;
    let options = KeyspaceOptions::default().with_merge_operator("append");
    let kept = db.keyspace("kept", options.clone())?;
    for round in 0..20 {
        let name = format!("passing {round}");
        db.keyspace(&name, options.clone())?.merge("key", "operand")?;
        db.drop_keyspace(&name)?;
    }
    let known: Vec<_> = db.core().merge_operators.load().keys().copied().collect();
    assert_eq!(known, [kept.id()]);
    kept.merge("key", "a")?;
    kept.merge("key", "b")?;
    assert_eq!(kept.get("key")?.as_deref(), Some(&b"ab"[..]));
    Ok(())
}
