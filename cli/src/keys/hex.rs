//! Bytes as hexadecimal digits.

use super::ParseError;

/// The bytes of pairs of digits, after an optional `0x`, with `_` between pairs where it helps.
///
/// ```
/// use esker_cli::keys::hex;
/// assert_eq!(hex::parse("0x75_73"), Ok(b"us".to_vec()));
/// assert_eq!(hex::show(b"us\xff"), "7573ff");
/// assert!(hex::parse("757").is_err());
/// ```
pub fn parse(given: &str) -> Result<Vec<u8>, ParseError> {
    let mut bytes = Vec::with_capacity(given.len() / 2);
    let mut high: Option<u32> = None;
    for (at, c) in given.char_indices().skip(if given.starts_with("0x") { 2 } else { 0 }) {
        match (c.to_digit(16), high) {
            (Some(digit), None) => high = Some(digit),
            (Some(digit), Some(first)) => {
                bytes.push(u8::try_from(first * 16 + digit).expect("two digits make one byte"));
                high = None;
            }
            (None, None) if c == '_' => {}
            _ => return Err(ParseError::new(given, at, "a hexadecimal digit was expected")),
        }
    }
    if high.is_some() {
        return Err(ParseError::new(
            given,
            given.len(),
            "a second digit is missing, bytes are pairs of digits",
        ));
    }
    Ok(bytes)
}

/// `bytes` as lower-case digits.
pub fn show(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a String takes everything");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse(&show(&all)), Ok(all.clone()));
        assert_eq!(parse(&format!("0x{}", show(&all).to_uppercase())), Ok(all));
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn mistakes_are_placed() {
        assert_eq!(parse("0x7g").expect_err("g is no digit").at, 4);
        assert_eq!(parse("7_5").expect_err("inside a pair").at, 2);
        assert_eq!(parse("éa").expect_err("é is no digit").at, 1);
        assert_eq!(parse("abc").expect_err("half a byte").at, 4);
    }
}
