//! Values as people write and read them.
#![expect(clippy::disallowed_methods, reason = "a value may come from a file of the person's")]

use std::io::Read as _;

use clap::ValueEnum;
use esker::limits;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::keys::KeyFormat;

/// How values are given and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueFormat {
    /// As text; \xNN, \n, \t, \\ and the like for what cannot be typed.
    Text,
    /// As hexadecimal digits.
    Hex,
    /// As a tuple in the order-preserving codec.
    Tuple,
    /// As they are, byte for byte; get adds no newline.
    Raw,
}

impl ValueFormat {
    /// The format with escapes that this one is, `None` if it is raw.
    pub(crate) fn escaped(self) -> Option<KeyFormat> {
        match self {
            ValueFormat::Text => Some(KeyFormat::Text),
            ValueFormat::Hex => Some(KeyFormat::Hex),
            ValueFormat::Tuple => Some(KeyFormat::Tuple),
            ValueFormat::Raw => None,
        }
    }

    /// The value that `given` stands for: `-` for standard input and `@FILE` for a file, byte for byte;
    /// anything else in this format.
    pub(crate) fn read(self, given: &str) -> Result<Vec<u8>, Failure> {
        let from_outside = |result: std::io::Result<Vec<u8>>, what: &str| {
            result.map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot read the value from {what}: {error}"))
            })
        };
        let value = match given.strip_prefix('@') {
            _ if given == "-" => {
                let mut value = Vec::new();
                // One byte more than the engine takes is enough to be refused.
                let input = std::io::stdin().lock().take(limits::VALUE_BYTES_MAX as u64 + 1);
                from_outside({ input }.read_to_end(&mut value).map(|_| value), "standard input")?
            }
            Some(path) => from_outside(std::fs::read(path), path).map_err(|failure| {
                failure
                    .hint("a value that begins with @ names a file; \\x40 stands for the character itself")
            })?,
            None => match self.escaped() {
                Some(format) => format.parse(given)?,
                None => given.as_bytes().to_vec(),
            },
        };
        limits::check_value(&value)?;
        Ok(value)
    }
}
