//! Values as people write and read them.
#![expect(clippy::disallowed_types, reason = "a value may come from a file of the person's")]

use std::fs::File;
use std::io::Read;

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
    /// anything else in this format. Refused if it is longer than the engine takes.
    pub(crate) fn read(self, given: &str) -> Result<Vec<u8>, Failure> {
        self.read_within(given, limits::VALUE_BYTES_MAX)
    }

    /// [`read`](Self::read) of at most `bytes_max` bytes, whatever the file: one without an end takes no more memory.
    fn read_within(self, given: &str, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        // One byte more than is taken is enough to be refused.
        let bounded = |input: &mut dyn Read| {
            let mut value = Vec::new();
            input.take(bytes_max as u64 + 1).read_to_end(&mut value).map(|_| value)
        };
        let from_outside = |result: std::io::Result<Vec<u8>>, what: &str| {
            result.map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot read the value from {what}: {error}"))
            })
        };
        let value = match given.strip_prefix('@') {
            _ if given == "-" => from_outside(bounded(&mut std::io::stdin().lock()), "standard input")?,
            Some(path) => {
                let value = File::open(path).and_then(|mut file| bounded(&mut file));
                from_outside(value, path).map_err(|failure| {
                    failure.hint(
                        "a value that begins with @ names a file; \\x40 stands for the character itself",
                    )
                })?
            }
            None => match self.escaped() {
                Some(format) => format.parse(given)?,
                None => given.as_bytes().to_vec(),
            },
        };
        limits::check("value", value.len(), bytes_max)?;
        Ok(value)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files are prepared as a person would")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_far_as_a_value_reaches() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |len| {
            let path = dir.path().join(format!("{len}"));
            std::fs::write(&path, vec![7; len]).expect("it is ours");
            ValueFormat::Text.read_within(&format!("@{}", path.display()), 10)
        };
        assert_eq!(file(10).expect("it fits"), [7; 10]);
        let failure = file(11).expect_err("too long");
        assert_eq!(failure.exit, Exit::Usage, "{failure:?}");
    }

    /// It has no end: without a bound the memory has.
    #[test]
    #[cfg(unix)]
    fn a_file_without_an_end_is_refused() {
        let failure = ValueFormat::Text.read_within("@/dev/zero", 1_000).expect_err("too long");
        assert_eq!(failure.exit, Exit::Usage, "{failure:?}");
    }
}
