//! Keys as people write and read them: as text, as hexadecimal digits, or as a tuple of typed fields.
//!
//! In every format, what is shown can be given back: parsing what [`text::show`] or [`hex::show`]
//! printed yields the same bytes.

pub mod hex;
pub mod text;
pub mod tuple;

use clap::ValueEnum;

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
