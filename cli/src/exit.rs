//! How the command ends: one meaning for each exit code, so that scripts can branch on it.

use std::process::ExitCode;

/// What the exit code says. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// 0: it was done.
    Done = 0,
    /// 1: it failed while running: the system, a full disk, a refused write.
    Failed = 1,
    /// 2: the command line was not understood, or asks for what is out of bounds. Nothing was changed.
    Usage = 2,
    /// 3: there is no such key, or no such keyspace.
    NotFound = 3,
    /// 4: bytes on disk are damaged or missing, or `verify` found something wrong.
    Damaged = 4,
    /// 5: another process or handle has the database open.
    Locked = 5,
}

/// The exit codes as `--help` lists them.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  failed while running (the message on standard error says what and where)
  2  the command line was not understood, or asks for what is out of bounds; nothing was changed
  3  there is no such key, or no such keyspace
  4  damage: bytes on disk are not what was written, or verify found something wrong
  5  the database is locked by another process";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_code() {
        let all = [Exit::Done, Exit::Failed, Exit::Usage, Exit::NotFound, Exit::Damaged, Exit::Locked];
        for exit in all {
            let listed =
                HELP.lines().any(|line| line.trim_start().starts_with(&format!("{} ", exit as u8)));
            assert!(listed, "{exit:?}");
        }
    }
}
