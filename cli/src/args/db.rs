//! `esker db`: one operation on a database.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, value_parser};

use crate::keys::KeyFormat;
use crate::values::ValueFormat;

/// Read and change a database from the shell.
///
/// Keys are given and shown as --key-format says, values as --value-format says. Reading changes
/// nothing, not even by creating a file; the database must not be open elsewhere.
///
/// A program's own merge operators are unknown here: where a keyspace has one, the database's other
/// keyspaces can be read, and nothing can be written.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DbArgs {
    /// The database's directory.
    pub dir: PathBuf,
    /// How keys are given and shown.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = KeyFormat::Text, global = true)]
    pub key_format: KeyFormat,
    /// How values are given and shown.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ValueFormat::Text, global = true)]
    pub value_format: ValueFormat,
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

/// Examples for `esker db --help`.
pub const EXAMPLES: &str = "\
Examples:
  esker db people create-keyspace default
  esker db people put olya 'likes skiing'
  esker db people put photo @olya.jpg
  esker db people get olya
  esker db people scan --prefix o --limit 10
  esker db people checkpoint --into people-today
  esker db people put '(\"age\", 42)' olya --key-format tuple --keyspace by-age --create";

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
        /// The value, up to 1 GiB; @FILE takes it from a file and - from standard input, byte for byte.
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Create the keyspace if there is none. The database must be there: create-keyspace makes one.
        #[arg(long)]
        create: bool,
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
        /// Only keys that begin with this. With tuples: the tuples that begin with these whole fields.
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
        /// Print a JSON object a line; keys and values in it are text in the formats asked for.
        #[arg(long)]
        json: bool,
    },
    /// Show the shape of the trees: levels, tables, bytes, options.
    Stats {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read every byte and check it. Exit code 4 if anything is wrong.
    Verify {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy the database, as it is now, into a new one. Nobody else may have it open.
    ///
    /// Its tables and blob files become hard links, or copies where there are none to be had (on another
    /// filesystem). What is linked is shared: damage to a file is damage to both databases. A backup is a copy of the new
    /// database on another device. (A program that has the database open makes one with Database::checkpoint.)
    Checkpoint {
        /// The new database's directory, which must not exist; what it lies in must.
        #[arg(long, value_name = "NEW")]
        into: PathBuf,
    },
    /// Copy what is readable of a damaged database into a new one. Exit code 4 if something was not.
    ///
    /// The damaged database is only read, and need not open: its CURRENT and manifest may be damaged or gone.
    /// Every file and range of keys that could not be copied is listed. A keyspace with a merge operator of
    /// a program's own becomes one without: keys with operands have the value below them, or are missing.
    Salvage {
        /// The new database's directory, which must not exist.
        #[arg(long, value_name = "NEW")]
        into: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Merge the tables of a range down to one level; the whole keyspace without bounds.
    Compact {
        /// The first key.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        start: Option<String>,
        /// The key to stop before.
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        end: Option<String>,
    },
    /// List the keyspaces, one a line.
    Keyspaces {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a keyspace, and before it the database if the directory is empty or not there.
    ///
    /// The options are stored with it and hold for its lifetime. Creating one that is there with the
    /// same options is no error.
    CreateKeyspace(NewKeyspace),
    /// Drop a keyspace and everything in it.
    DropKeyspace {
        /// Its name.
        name: String,
    },
}

/// A keyspace's name and options.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct NewKeyspace {
    /// Its name, up to 255 bytes.
    pub name: String,
    /// Bytes at which a data block is cut, before compression.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = value_parser!(u32).range(256..=1 << 20))]
    pub block_bytes: u32,
    /// Bits a key in the filters; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u8).range(0..=32))]
    pub filter_bits: u8,
    /// How blocks are compressed.
    #[arg(long, value_enum, value_name = "CODEC", default_value_t = Codec::None)]
    pub compression: Codec,
    /// What merges of its keys do.
    #[arg(long, value_name = "NAME", value_parser = ["add-i64", "add-u64", "min", "max", "append"])]
    pub merge_operator: Option<String>,
    /// Values of at least this many bytes go to blob files, unless blocks are compressed; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = parse_blob_bytes_min)]
    pub blob_bytes_min: u32,
}

/// From how many bytes on values go to blob files.
pub(super) fn parse_blob_bytes_min(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes| matches!(bytes, 0 | 16..=0x4000_0000));
    bytes.ok_or_else(|| "it is 0, or 16 to 1073741824".to_owned())
}

/// A block compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    /// None.
    None,
    /// LZ4: fast.
    Lz4,
}

impl From<Codec> for esker::Compression {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::None => esker::Compression::None,
            Codec::Lz4 => esker::Compression::Lz4,
        }
    }
}
