//! Tuples as people write them, over the codec of `esker_layouts::tuple`.
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
//! | descending | `desc("a")` | around any field |
//! | fixed width | `fixed(0x80000001)` | the ordered bytes, at most 255 |
//! | calendar fields | `utc(2014-12-24T18:30:00.000Z)` | years 0000 to 9999, UTC; always three digits of milliseconds |
//! | version-1 UUID | `v1(6c385000-8bb0-11e4-8005-020000000001)` | sorted by its time |
//! | tuple | `(1, 2)`, `()`, `(1,)` | nests to 64 levels |

mod scan;

use std::fmt::Write as _;

use esker_layouts::tuple::{Element, KeyError};

use super::ParseError;

/// The fields of the tuple `given`, which stands in parentheses.
///
/// ```
/// use esker_cli::keys::tuple::{parse, show};
/// use esker_layouts::tuple::{Element, pack};
/// let fields = parse(r#"("user", 42, 0xff, (null, true))"#)?;
/// assert_eq!(fields[1], Element::Int(42));
/// let key = pack(fields.as_slice());
/// assert_eq!(show(&key).as_deref(), Ok(r#"("user", 42, b"\xff", (null, true))"#));
/// # Ok::<(), esker_cli::keys::ParseError>(())
/// ```
pub fn parse(given: &str) -> Result<Vec<Element<'static>>, ParseError> {
    let mut scanner = scan::Scanner::new(given);
    scanner.skip_spaces();
    if !scanner.eat('(') {
        return Err(scanner.expected("a tuple begins with ("));
    }
    // The outer parentheses are the key itself, not a field.
    let fields = scanner.tuple(0)?;
    scanner.skip_spaces();
    if !scanner.at_end() {
        return Err(scanner.expected("nothing may follow the tuple"));
    }
    Ok(fields)
}

/// The tuple that `key` encodes, as [`parse`] reads it; an error if `key` is not an encoded tuple.
pub fn show(key: &[u8]) -> Result<String, KeyError> {
    let mut out = String::from("(");
    for (index, field) in Element::unpack_all(key)?.iter().enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        write!(out, "{separator}{field}").expect("a String takes everything");
    }
    out.push(')');
    Ok(out)
}

#[cfg(test)]
mod tests;
