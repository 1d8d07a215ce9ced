//! `esker inspect`: the bytes of one file, explained.

use std::path::PathBuf;

use clap::Args;

/// Show every field of a log, table, blob file, manifest or CURRENT: its offset, its name, its value, and whether its
/// checksum holds.
///
/// Reads the file and nothing else: the database need not be whole, and may be open elsewhere. Keys
/// are shown as text, with \xNN for other bytes. Exit code 4 if a checksum does not hold.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct InspectArgs {
    /// The file. Its content tells what it is; if that is damaged, its name does (000012.log, 000015.sst,
    /// 000016.blob, 000007.manifest, CURRENT).
    pub file: PathBuf,
    /// Show only the fields whose checksum does not hold.
    #[arg(long)]
    pub bad: bool,
    /// Print a JSON object a line.
    #[arg(long)]
    pub json: bool,
}
