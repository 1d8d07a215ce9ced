//! `esker workload`: one measured workload on the engine.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};

use super::db::{Codec, parse_blob_bytes_min};
use super::parse_count;

/// Run one workload and print its rate, its latencies and what it cost.
///
/// Keys are 16 bytes, values half compressible. The database is new; it is filled first, unmeasured,
/// where the workload needs rows, and settled (flushed and compacted) before and after.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct WorkloadArgs {
    /// Which workload.
    #[arg(value_enum, value_name = "NAME")]
    pub workload: Workload,
    /// Rows in the database, and operations of the workload (5M, 250_000).
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
    pub rows: u64,
    /// Bytes of each value.
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse_count)]
    pub value_bytes: u64,
    /// Threads that run operations at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Rows in a batch, for fill, overwrite and delete; 1 for single operations.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count)]
    pub batch: u64,
    /// The order of keys: shuffled, or each thread through its own stretch.
    #[arg(long, value_enum, default_value_t = Order::Random)]
    pub order: Order,
    /// When a write returns: sync, interval:MILLISECONDS, os or no-log.
    #[arg(long, value_name = "MODE", default_value = "os", value_parser = parse_durability)]
    pub durability: Durability,
    /// Hand the log to the system through mapped memory instead of calls: faster, but a device that fails under
    /// it ends the program with a signal.
    #[arg(long)]
    pub mapped_log: bool,
    /// How blocks are compressed.
    #[arg(long, value_enum, value_name = "CODEC", default_value_t = Codec::None)]
    pub compression: Codec,
    /// Values of at least this many bytes go to blob files (uncompressed databases only); 0 for none.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = parse_blob_bytes_min)]
    pub blob_bytes_min: u32,
    /// Bytes of the block cache (1G, 64M; powers of ten).
    #[arg(long, value_name = "N", default_value = "256M", value_parser = parse_count)]
    pub cache_bytes: u64,
    /// Where keys, values and orders are drawn from: the same seed, the same operations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Work in this directory, empty or not there yet, and leave the database in it; without it in a
    /// temporary one that is removed.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Examples for `esker workload --help`.
pub const EXAMPLES: &str = "\
Examples:
  esker workload fill --rows 5M
  esker workload fill --order ordered --batch 1000
  esker workload fill --mapped-log
  esker workload overwrite --durability sync --threads 4 --rows 20k
  esker workload get --threads 2 --json > get.json";

/// A workload. All but `fill` begin by filling the database, unmeasured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Put every row once.
    Fill,
    /// Put every row again.
    Overwrite,
    /// Delete every row.
    Delete,
    /// Get rows.
    Get,
    /// Seek to a row and read ten.
    Seek,
    /// Read every row in order.
    Scan,
    /// Half gets, half puts.
    Mixed,
}

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Shuffled; lookups drawn at random.
    Random,
    /// By key.
    Ordered,
}

/// When a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the log is durable.
    Sync,
    /// After the log reached the operating system; durable after this time at the latest.
    Interval(Duration),
    /// After the log reached the operating system.
    Os,
    /// After the memtable; there is no log.
    NoLog,
}

fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "os" => Ok(Durability::Os),
        "no-log" => Ok(Durability::NoLog),
        _ => text
            .strip_prefix("interval:")
            .and_then(|millis| millis.parse().ok())
            .filter(|millis| (1..=3_600_000).contains(millis))
            .map(|millis| Durability::Interval(Duration::from_millis(millis)))
            .ok_or_else(|| "one of sync, interval:MILLISECONDS (1 to 3600000), os, no-log".to_owned()),
    }
}
