//! Bytes as text, with escapes for what is not text.

use super::ParseError;

/// The bytes of `given`: its UTF-8, with `\xNN`, `\n`, `\r`, `\t`, `\0`, `\\`, `\"` and `\'` replaced.
///
/// ```
/// use esker_cli::keys::text;
/// assert_eq!(text::parse(r"user\x00\xff"), Ok(b"user\x00\xff".to_vec()));
/// assert_eq!(text::show(b"user\x00\xff"), r"user\0\xff");
/// assert_eq!(text::show("Оля".as_bytes()), "Оля");
/// ```
pub fn parse(given: &str) -> Result<Vec<u8>, ParseError> {
    let mut bytes = Vec::with_capacity(given.len());
    let mut rest = given;
    while let Some(c) = rest.chars().next() {
        let at = given.len() - rest.len();
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            bytes.extend_from_slice(&given.as_bytes()[at..at + c.len_utf8()]);
            continue;
        }
        let (byte, len) = escape(rest).ok_or_else(|| {
            ParseError::new(given, at, r#"an escape is one of \xNN, \n, \r, \t, \0, \\, \" and \'"#)
        })?;
        bytes.push(byte);
        rest = &rest[len..];
    }
    Ok(bytes)
}

/// The byte that the escape at the start of `rest`, after its backslash, stands for, and the escape's
/// length.
pub(super) fn escape(rest: &str) -> Option<(u8, usize)> {
    let simple = |byte| Some((byte, 1));
    match rest.as_bytes().first()? {
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'0' => simple(0),
        b'\\' => simple(b'\\'),
        b'"' => simple(b'"'),
        b'\'' => simple(b'\''),
        b'x' => {
            let digits = rest.get(1..3).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
            Some((u8::from_str_radix(digits, 16).ok()?, 3))
        }
        _ => None,
    }
}

/// `bytes` as text that [`parse`] reads back: printable characters as they are, everything else
/// escaped. A row a line stays a row a line.
pub fn show(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\0' => out.push_str("\\0"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\\' => out.push_str("\\\\"),
                c if is_invisible(c) => escape_bytes(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        escape_bytes(&mut out, chunk.invalid());
    }
    out
}

/// Characters a terminal would act on or not show: controls, separators, and marks of direction.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn escape_bytes(out: &mut String, bytes: &[u8]) {
    use std::fmt::Write as _;
    for byte in bytes {
        write!(out, "\\x{byte:02x}").expect("a String takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse(&show(&all)), Ok(all));
        for text in ["", "плюс ✓ é", "tab\there", "\u{202e}evil", "a\\x41", "\u{85}"] {
            assert_eq!(parse(&show(text.as_bytes())), Ok(text.as_bytes().to_vec()), "{text:?}");
        }
    }

    #[test]
    fn nothing_shown_moves_the_cursor() {
        let all: Vec<u8> = (0..=255).collect();
        assert!(!show(&all).chars().any(char::is_control));
        assert_eq!(show("\u{202e}a".as_bytes()), r"\xe2\x80\xaea");
    }

    #[test]
    fn mistakes_are_placed() {
        for (given, at) in [(r"é\q", 2), (r"\x4", 1), (r"ab\xg0", 3), ("\\", 1), (r"\xé", 1)] {
            assert_eq!(parse(given).expect_err(given).at, at, "{given}");
        }
    }
}
