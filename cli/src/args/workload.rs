//! `esker workload`: one measured workload on the engine.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::parse_count;

/// Run one workload and print its rate, its latencies and what it cost.
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
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// When a write returns: sync, interval:MILLISECONDS, os or no-log.
    #[arg(long, value_name = "MODE", default_value = "os", value_parser = parse_durability)]
    pub durability: Durability,
    /// Work in this directory, which must not hold a database yet; without it in a temporary one.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write the figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A workload. All but `fill` begin by filling the database, unmeasured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Put every row once, in random order.
    Fill,
    /// Put every row again, in random order.
    Overwrite,
    /// Get rows at random.
    Get,
    /// Seek to a random row and read ten.
    Seek,
    /// Read every row in order.
    Scan,
    /// Half gets, half puts, at random.
    Mixed,
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
            .filter(|millis| *millis > 0)
            .map(|millis| Durability::Interval(Duration::from_millis(millis)))
            .ok_or_else(|| "one of sync, interval:MILLISECONDS, os, no-log".to_owned()),
    }
}
