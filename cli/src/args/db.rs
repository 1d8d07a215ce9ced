//! `esker db`: one operation on a database.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::keys::KeyFormat;

/// Read and change a database from the shell.
///
/// Keys are given and shown as --key-format says, values as text with \xNN for other bytes. The
/// database is created by the first put.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DbArgs {
    /// The database's directory.
    pub dir: PathBuf,
    /// How keys are given and shown.
    #[arg(long, value_enum, default_value_t = KeyFormat::Text, global = true)]
    pub key_format: KeyFormat,
    /// The keyspace to work in.
    #[arg(long, value_name = "NAME", default_value = "default", global = true)]
    pub keyspace: String,
    /// Show on standard error what the call cost: entries, tables and blocks touched, bytes moved.
    #[arg(long, global = true)]
    pub cost: bool,
    /// What to do.
    #[command(subcommand)]
    pub action: DbAction,
}

/// An operation on a database.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub enum DbAction {
    /// Print a key's value. Exit code 3 if there is none.
    Get {
        /// The key.
        #[arg(allow_hyphen_values = true)]
        key: String,
    },
    /// Set a key's value, durably.
    Put {
        /// The key.
        #[arg(allow_hyphen_values = true)]
        key: String,
        /// The value, as text with \xNN escapes.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a key, durably. Removing an absent key is no error.
    Delete {
        /// The key.
        #[arg(allow_hyphen_values = true)]
        key: String,
    },
    /// Print keys and values in order, one row a line, a tab between them.
    Scan {
        /// The first key.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        start: Option<String>,
        /// The key to stop before.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        end: Option<String>,
        /// Only keys that begin with this. With tuples: the tuples that begin with these fields.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with_all = ["start", "end"])]
        prefix: Option<String>,
        /// Last key first.
        #[arg(long)]
        reverse: bool,
        /// At most this many rows.
        #[arg(long, value_name = "N", value_parser = super::parse_count)]
        limit: Option<u64>,
        /// Leave the values out.
        #[arg(long)]
        keys_only: bool,
    },
    /// Show the shape of the tree: levels, tables, bytes, memory.
    Stats,
    /// Read every byte and check it. Exit code 4 if anything is wrong.
    Verify,
    /// Merge the tables of a range down to one level; the whole keyspace without bounds.
    Compact {
        /// The first key.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        start: Option<String>,
        /// The key to stop before.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        end: Option<String>,
    },
    /// List the keyspaces.
    Keyspaces,
}
