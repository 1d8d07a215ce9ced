//! Tuples as people write them.
//!
//! | field | written | note |
//! |---|---|---|
//! | null | `null` | |
//! | boolean | `true`, `false` | |
//! | integer | `42`, `-1` | up to 128 bits |
//! | 64-bit float | `1.5`, `-2e9`, `inf`, `-inf`, `NaN` | a point or an exponent tells it from an integer |
//! | 32-bit float | `1.5f32` | |
//! | text | `"user"` | with `\n`, `\t`, `\\`, `\"`, `\xNN` (ASCII), `\u{2713}` |
//! | bytes | `0xff00`, `b"a\xff"` | `0xff` is the byte 255, not the integer |
//! | UUID | `123e4567-e89b-12d3-a456-426614174000` | |
//! | tuple | `(1, 2)`, `()`, `(1,)` | nests to 32 levels |

mod scan;

use super::ParseError;

/// How deep tuples nest here.
pub const DEPTH_MAX: usize = 32;

/// A field of a tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// Text.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A UUID.
    Uuid([u8; 16]),
    /// A nested tuple.
    Tuple(Vec<Field>),
}

/// The fields of the tuple `given`, which stands in parentheses.
///
/// ```
/// use esker_cli::keys::tuple::{Field, parse};
/// let fields = parse(r#"("user", 42, 0xff, (null, true))"#)?;
/// assert_eq!(fields[0], Field::Text("user".to_owned()));
/// assert_eq!(fields[2], Field::Bytes(vec![0xff]));
/// assert_eq!(fields[3], Field::Tuple(vec![Field::Null, Field::Bool(true)]));
/// # Ok::<(), esker_cli::keys::ParseError>(())
/// ```
pub fn parse(given: &str) -> Result<Vec<Field>, ParseError> {
    let mut scanner = scan::Scanner::new(given);
    scanner.skip_spaces();
    if !scanner.eat('(') {
        return Err(scanner.expected("a tuple begins with ("));
    }
    let fields = scanner.tuple(1)?;
    scanner.skip_spaces();
    if !scanner.at_end() {
        return Err(scanner.expected("nothing may follow the tuple"));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;
