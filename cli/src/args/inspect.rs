//! `esker inspect`: the bytes of one file, explained.

use std::path::PathBuf;

use clap::Args;

/// Show every field of a log, table, blob file, manifest or CURRENT: its offset, its name, its value, and whether its
/// checksum holds.
///
/// Reads the file and nothing else: the database need not be whole, and may be open elsewhere. Keys
/// are shown as text, with \xNN for other bytes. Exit code 4 if a checksum does not hold, or bytes are none of the
/// format's; 1 if nothing is wrong, but the format is newer than any that this build reads.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct InspectArgs {
    /// The file. Its content tells what it is; if that is damaged, its name does (000012.log, 000015.sst,
    /// 000016.blob, 000007.manifest, CURRENT).
    pub file: PathBuf,
    /// Show only the fields that are not known to be right: bad, unchecked (what would tell is bad) and newer (the format).
    #[arg(long)]
    pub bad: bool,
    /// Print a JSON object a line.
    #[arg(long)]
    pub json: bool,
}
