//! `esker inspect`: the bytes of one file, explained.

use std::path::PathBuf;

use clap::Args;

use crate::keys::KeyFormat;

/// Show every field of a log, table or manifest: its offset, its name, its value, and whether its
/// checksum holds.
///
/// Reads the file and nothing else: the database need not be whole, and may be open elsewhere. Exit
/// code 4 if a checksum does not hold.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct InspectArgs {
    /// The file, under the name the database gave it (000012.log, 000015.sst, 000007.manifest).
    pub file: PathBuf,
    /// How keys are shown.
    #[arg(long, value_enum, default_value_t = KeyFormat::Text)]
    pub key_format: KeyFormat,
}
