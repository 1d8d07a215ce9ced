//! The one error of the layouts: what the store said, or what a layout refused.

use crate::tuple::{Element, KeyError, KeyErrorKind};

/// The result of every fallible call here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Nothing was written unless the store's own error says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused or failed.
    #[error(transparent)]
    Store(esker::Error),
    /// Other commits kept changing what the transaction had read.
    #[error(
        "the transaction met a conflicting commit {attempts} times; try again when fewer writers touch the same keys"
    )]
    Conflict {
        /// How often it was tried.
        attempts: u32,
    },
    /// A key was not in the state that a conditional write expected. Trying again cannot help by itself.
    #[error("key {key} is not {expected}; read it again and decide")]
    Unexpected {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// What it was expected to be.
        expected: &'static str,
    },
    /// A merge was refused: wrong length of the stored value or operand, or overflow.
    #[error("cannot {merge} on key {key}: {why}")]
    Merge {
        /// Which merge.
        merge: &'static str,
        /// The key, with unprintable bytes escaped.
        key: String,
        /// What was wrong.
        why: &'static str,
    },
    /// An argument the layout cannot store.
    #[error("{what} {given:?} cannot be stored: {why}")]
    BadInput {
        /// Which argument: "user id", "friend id".
        what: &'static str,
        /// Its value, cut to 64 characters.
        given: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A stored key or value is not what this layout writes: another layout's data, or damage.
    #[error(
        "the entry at key {key} was not written by the layout {layout:?} ({source}); open the data with the layout that wrote it"
    )]
    Foreign {
        /// The layout that was reading.
        layout: &'static str,
        /// The key, with unprintable bytes escaped.
        key: String,
        /// What did not decode.
        source: KeyError,
    },
    /// Two different keys have the same digests.
    #[error(
        "{given} and the stored {stored} have the same digest; use a layout that does not hash its keys"
    )]
    HashCollision {
        /// The key asked for, as a tuple.
        given: String,
        /// The key that lies under the digest.
        stored: String,
    },
    /// Another row has the value that a unique index admits once. Nothing was written.
    #[error("index {index:?} admits {value} once, and row {holder} has it; change one of the rows")]
    Duplicate {
        /// The unique index.
        index: String,
        /// The value, as a tuple.
        value: String,
        /// The primary key of the row that has it, as a tuple.
        holder: String,
    },
    /// A lookup in an index that cannot answer yet, or any more.
    #[error("index {index:?} is {state}; build it, or change the rows it lists, before looking up")]
    IndexNotReady {
        /// The index.
        index: String,
        /// Its state.
        state: &'static str,
    },
    /// A namespace was removed or emptied after it was found. Nothing was written.
    #[error(
        "namespace number {number} was removed or emptied since it was found; find it again by its path"
    )]
    StaleNamespace {
        /// Its number in the directory.
        number: u64,
    },
    /// A table or a row was written with another schema than this program's.
    #[error("what lies at key {key} has schema version {stored}, this program knows {known}: {why}")]
    Schema {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// The version stored; 0 for none.
        stored: u64,
        /// The version of the row type.
        known: u64,
        /// What is the matter, and what to do.
        why: &'static str,
    },
    /// The layout needs what the store does not offer.
    #[error(
        "the layout {layout:?} needs {needs}, which the store {store:?} does not offer; open it over another store, such as the engine's"
    )]
    Unsupported {
        /// The layout.
        layout: &'static str,
        /// The missing capability.
        needs: &'static str,
        /// The store.
        store: &'static str,
    },
    /// A tuple did not decode.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Error {
    /// Bad input `given` for `what`, with the reason and the remedy.
    pub fn bad_input(what: &'static str, given: &str, why: impl Into<String>) -> Error {
        Error::BadInput { what, given: given.chars().take(64).collect(), why: why.into() }
    }

    /// The keys `given` and `stored`, packed tuples, have the same digests.
    pub(crate) fn collision(given: &[u8], stored: &[u8]) -> Error {
        Error::HashCollision { given: show(given), stored: show(stored) }
    }

    /// There is no number behind the one that lies at `key`, which `layout` counts up from: it never writes the last one.
    pub(crate) fn no_next(layout: &'static str, key: &[u8]) -> Error {
        Error::foreign(
            layout,
            key,
            KeyError { at: 0, kind: KeyErrorKind::IntegerRange("what is counted up") },
        )
    }

    /// `layout` cannot read what lies at `key`.
    pub fn foreign(layout: &'static str, key: &[u8], source: KeyError) -> Error {
        Error::Foreign { layout, key: esker::printable(key), source }
    }
}

/// A key as people read it: its tuple, or its bytes where it is none.
pub(crate) fn show(key: &[u8]) -> String {
    Element::unpack_all(key)
        .map_or_else(|_| esker::printable(key), |fields| Element::Tuple(fields).to_string())
}

impl From<esker::Error> for Error {
    /// The engine's conflict is the layouts' conflict; everything else is the store's.
    fn from(error: esker::Error) -> Error {
        match error {
            esker::Error::Conflict { attempts } => Error::Conflict { attempts },
            other => Error::Store(other),
        }
    }
}
