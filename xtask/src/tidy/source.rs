//! As much of Rust's grammar as the rules need: which bytes are code.

/// `source` with the insides of comments, strings and character literals blanked: same length in
/// lines, and every remaining word is code.
///
/// Knows line and nested block comments, plain, byte, C and raw strings, and tells a character
/// literal from a lifetime.
pub(crate) fn code_of(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let len = comment(rest)
            .or_else(|| raw_string(rest, at.checked_sub(1).map(|before| bytes[before])))
            .or_else(|| string(rest))
            .or_else(|| character(rest));
        if let Some(len) = len {
            let blanked = rest[..len].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' });
            out.extend(blanked);
            at += len;
        } else {
            out.push(rest[0]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn comment(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"//") {
        return Some(rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with(b"/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    Some(rest.len())
}

/// `r"…"`, `r#"…"#` and so on; a prefix `b` or `c` is left standing before it.
fn raw_string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    // An `r` at the end of a longer word begins no string, but for the prefixes.
    let begins = before.is_none_or(|byte| !is_word(byte) || byte == b'b' || byte == b'c');
    let after = rest.strip_prefix(b"r").filter(|_| begins)?;
    let hashes = after.iter().take_while(|&&byte| byte == b'#').count();
    let body = after[hashes..].strip_prefix(b"\"")?;
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let len = body.windows(end.len()).position(|window| window == end)?;
    Some(1 + hashes + 1 + len + end.len())
}

fn string(rest: &[u8]) -> Option<usize> {
    let body = rest.strip_prefix(b"\"")?;
    let mut at = 0;
    while at < body.len() {
        match body[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 2),
            _ => at += 1,
        }
    }
    Some(rest.len())
}

/// `'x'`, `'\n'`, `'\u{1f600}'`; a lifetime has no closing quote after one character.
fn character(rest: &[u8]) -> Option<usize> {
    let body = rest.strip_prefix(b"'")?;
    if body.first() == Some(&b'\\') {
        let close = body.iter().skip(2).position(|&byte| byte == b'\'')?;
        return Some(close + 4);
    }
    let text = std::str::from_utf8(&body[..body.len().min(4)])
        .or_else(|error| std::str::from_utf8(&body[..error.valid_up_to()]))
        .ok()?;
    let width = text.chars().next()?.len_utf8();
    (body.get(width) == Some(&b'\'')).then_some(width + 2)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where `word` stands in `text` with no letter, digit or underscore at either side, as offsets.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).is_none_or(|before| !is_word(bytes[before]));
        before && bytes.get(at + word.len()).is_none_or(|&after| !is_word(after))
    })
}

/// The number of the line that holds offset `at`, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].split(|&byte| byte == b'\n').count()
}

/// The offset just past the bracket that closes the one at `open`; the end of `code` if none does.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests;
