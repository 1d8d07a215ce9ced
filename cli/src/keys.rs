//! Keys as people write and read them: as text, as hexadecimal digits, or as a tuple of typed fields.
//!
//! In every format, what [`KeyFormat::show`] printed can be given back to [`KeyFormat::parse`] and is
//! the same key again; but for floats that are no number, whose spare bits `NaN` does not show.

pub mod hex;
pub mod text;
pub mod tuple;

use clap::ValueEnum;
use esker_layouts::tuple::{KeyRange, Space, pack};

/// How keys are given and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyFormat {
    /// As text; \xNN, \n, \t, \\ and the like for what cannot be typed.
    Text,
    /// As hexadecimal digits: 75736572, 0x75736572 or 7573_6572.
    Hex,
    /// As a tuple in the order-preserving codec: ("user", 42, -1.5, 0xff, null, true, (1, 2)).
    Tuple,
}

impl KeyFormat {
    /// The key that `given` stands for. Where tuples are expected, `0x` and digits stand for a key
    /// that is none.
    pub fn parse(self, given: &str) -> Result<Vec<u8>, ParseError> {
        match self {
            KeyFormat::Text => text::parse(given),
            KeyFormat::Hex => hex::parse(given),
            KeyFormat::Tuple if given.starts_with("0x") => hex::parse(given),
            KeyFormat::Tuple => tuple::parse(given).map(|fields| pack(fields.as_slice())),
        }
    }

    /// The keys that begin with what `given` stands for: with its bytes or, of a tuple, with its whole fields.
    ///
    /// ```
    /// use esker_cli::keys::KeyFormat;
    /// let ages = KeyFormat::Tuple.prefix(r#"("age")"#)?;
    /// assert!(ages.contains(&KeyFormat::Tuple.parse(r#"("age", 42)"#)?));
    /// // The same bytes at the beginning, but another text.
    /// assert!(!ages.contains(&KeyFormat::Tuple.parse(r#"("age\0x", 42)"#)?));
    /// # Ok::<(), esker_cli::keys::ParseError>(())
    /// ```
    pub fn prefix(self, given: &str) -> Result<KeyRange, ParseError> {
        match self {
            KeyFormat::Tuple if !given.starts_with("0x") => {
                tuple::parse(given).map(|fields| Space::root().under(fields.as_slice()))
            }
            _ => self.parse(given).map(|bytes| KeyRange::prefix(&bytes)),
        }
    }

    /// `key` as people read it. One that is not an encoded tuple is shown in hexadecimal digits after
    /// `0x`, so that a listing goes on.
    ///
    /// ```
    /// use esker_cli::keys::KeyFormat;
    /// assert_eq!(KeyFormat::Tuple.show(b"\x02user\0\x15\x2a"), r#"("user", 42)"#);
    /// assert_eq!(KeyFormat::Tuple.show(b"user"), "0x75736572");
    /// ```
    pub fn show(self, key: &[u8]) -> String {
        match self {
            KeyFormat::Text => text::show(key),
            KeyFormat::Hex => hex::show(key),
            KeyFormat::Tuple => tuple::show(key).unwrap_or_else(|_| format!("0x{}", hex::show(key))),
        }
    }
}

/// Why a key was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at} of {given:?}: {what}")]
pub struct ParseError {
    /// What was given.
    pub given: String,
    /// Where it stopped making sense, in characters from 1.
    pub at: usize,
    /// What was expected there.
    pub what: String,
}

impl ParseError {
    /// Expected `what` at byte `at` of `given`.
    fn new(given: &str, at: usize, what: impl Into<String>) -> ParseError {
        let at = given.char_indices().take_while(|(offset, _)| *offset < at).count() + 1;
        ParseError { given: given.to_owned(), at, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_the_key_again() {
        for key in [b"".as_slice(), b"user", b"\x02user\0\x15\x2a", b"\x02user", b"\xff\0\n\\"] {
            for format in KeyFormat::value_variants() {
                let shown = format.show(key);
                assert_eq!(format.parse(&shown).as_deref(), Ok(key), "{format:?} {shown}");
            }
        }
    }
}
