//! Numbers as people write them.

/// A count: digits, `_` between them, and at the end `k`, `M` or `G` for thousands, millions or
/// billions.
///
/// ```
/// use esker_cli::args::parse_count;
/// assert_eq!(parse_count("5M"), Ok(5_000_000));
/// assert_eq!(parse_count("250_000"), Ok(250_000));
/// assert!(parse_count("5 M").is_err());
/// ```
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("a count is digits, such as 250_000, 250k or 5M".to_owned());
    }
    let number: u64 = digits
        .replace('_', "")
        .parse()
        .map_err(|_| "a count is digits, such as 250_000, 250k or 5M".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "the count is beyond 64 bits".to_owned())
}
