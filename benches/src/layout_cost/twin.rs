//! Two databases alike: one for the layout, one for what is written by hand.

use esker::{Database, Keyspace};
use esker_layouts::engine::EngineStore;
use esker_layouts::{Error, Result};

use crate::lab::store::{EngineFactory, Store, TemporaryEngine};

/// The two.
pub(super) struct Twin {
    layout: TemporaryEngine,
    by_hand: TemporaryEngine,
}

impl Twin {
    /// Two databases that `fill` has filled, flushed.
    pub(super) fn filled(fill: impl Fn(&EngineStore) -> Result<()>) -> Result<Twin> {
        let twin = Twin { layout: EngineFactory.open()?, by_hand: EngineFactory.open()? };
        for store in [&twin.layout, &twin.by_hand] {
            fill(store)?;
            EngineFactory.settle(store)?;
        }
        Ok(twin)
    }

    /// What the layout works on.
    pub(super) fn layout(&self) -> &EngineStore {
        &self.layout
    }

    /// What the code written by hand works on.
    pub(super) fn by_hand(&self) -> (&Database, &Keyspace) {
        (self.by_hand.database(), self.by_hand.keyspace())
    }

    /// Err unless both hold the same keys with the same values.
    pub(super) fn check_same(&self) -> Result<()> {
        let (mut layout, mut by_hand) = (self.layout.keyspace().iter(), self.by_hand.keyspace().iter());
        loop {
            match (layout.next().transpose()?, by_hand.next().transpose()?) {
                (None, None) => return Ok(()),
                (a, b) if a == b => {}
                (a, b) => {
                    let why = format!("the layout wrote {a:?} where {b:?} was written by hand");
                    return Err(Error::Store(esker::Error::invalid(why)));
                }
            }
        }
    }
}
