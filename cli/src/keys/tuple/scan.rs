//! The reader of tuple syntax: one pass, no backtracking past a word.

use esker_layouts::tuple::{DEPTH_MAX, Element, TimeUuid, Utc, Uuid};

use crate::keys::{ParseError, hex, text};

/// A position in what was given.
pub(super) struct Scanner<'a> {
    given: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(given: &'a str) -> Self {
        Scanner { given, at: 0 }
    }

    /// An error at the current position.
    pub(super) fn expected(&self, what: impl Into<String>) -> ParseError {
        ParseError::new(self.given, self.at, what)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at == self.given.len()
    }

    pub(super) fn skip_spaces(&mut self) {
        self.at = self.given.len() - self.rest().trim_start().len();
    }

    /// Step over `c` if it is next.
    pub(super) fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    /// The fields up to the closing parenthesis of a tuple that lies `depth` tuples deep, whose opening
    /// one was read.
    pub(super) fn tuple(&mut self, depth: usize) -> Result<Vec<Element<'static>>, ParseError> {
        if depth > DEPTH_MAX {
            return Err(self.expected(format!("tuples nest deeper than {DEPTH_MAX}")));
        }
        let mut fields = Vec::new();
        loop {
            self.skip_spaces();
            if self.eat(')') {
                return Ok(fields);
            }
            fields.push(self.field(depth)?);
            self.skip_spaces();
            if !self.eat(',') && !self.rest().starts_with(')') {
                return Err(self.expected("a comma or ) was expected"));
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.given[self.at..]
    }

    fn field(&mut self, depth: usize) -> Result<Element<'static>, ParseError> {
        if self.eat('(') {
            return Ok(Element::Tuple(self.tuple(depth + 1)?));
        }
        if self.rest().starts_with("b\"") {
            self.at += 1;
            return self.quoted(Quoted::Bytes).map(|bytes| Element::Bytes(bytes.into()));
        }
        if self.rest().starts_with('"') {
            let bytes = self.quoted(Quoted::Text)?;
            let text = String::from_utf8(bytes).expect("text escapes are ASCII or characters");
            return Ok(Element::Text(text.into()));
        }
        self.word(depth)
    }

    /// What stands between quotes, with its escapes replaced.
    fn quoted(&mut self, what: Quoted) -> Result<Vec<u8>, ParseError> {
        let mut bytes = Vec::new();
        self.at += 1;
        while let Some(c) = self.rest().chars().next() {
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(bytes);
                }
                '\\' => self.escape(what, &mut bytes)?,
                c => {
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += c.len_utf8();
                }
            }
        }
        Err(self.expected("a closing \" was expected"))
    }

    fn escape(&mut self, what: Quoted, bytes: &mut Vec<u8>) -> Result<(), ParseError> {
        let rest = &self.rest()[1..];
        if let Some((c, len)) = unicode_escape(rest) {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.at += 1 + len;
            return Ok(());
        }
        let Some((byte, len)) = text::escape(rest) else {
            return Err(self.expected(r#"an escape is one of \xNN, \u{N}, \n, \r, \t, \0, \\, \" and \'"#));
        };
        if what == Quoted::Text && !byte.is_ascii() {
            return Err(self.expected(r#"text takes \u{N} beyond \x7f; bytes are written b"\xff""#));
        }
        bytes.push(byte);
        self.at += 1 + len;
        Ok(())
    }

    /// A field that ends where a comma, a parenthesis or a space stands.
    fn word(&mut self, depth: usize) -> Result<Element<'static>, ParseError> {
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '"');
        let word = self.rest().split(ends).next().unwrap_or_default();
        if self.rest().get(word.len()..).is_some_and(|rest| rest.starts_with('(')) {
            return self.named(word, depth);
        }
        let field = match word {
            "null" => Element::Null,
            "true" => Element::Bool(true),
            "false" => Element::Bool(false),
            _ if word.starts_with("0x") => {
                let bytes = hex::parse(word).map_err(|inner| self.expected(inner.what))?;
                Element::Bytes(bytes.into())
            }
            _ => number(word).or_else(|| uuid(word)).ok_or_else(|| {
                self.expected(r#"null, true, false, a number, "text", 0x bytes, a UUID or ( was expected"#)
            })?,
        };
        self.at += word.len();
        Ok(field)
    }

    /// A field that is a name and then something in parentheses.
    fn named(&mut self, name: &str, depth: usize) -> Result<Element<'static>, ParseError> {
        if name == "desc" {
            if depth >= DEPTH_MAX {
                return Err(self.expected(format!("tuples nest deeper than {DEPTH_MAX}")));
            }
            self.at += name.len() + 1;
            self.skip_spaces();
            let field = self.field(depth + 1)?;
            self.skip_spaces();
            if !self.eat(')') {
                return Err(self.expected("one field and then ) was expected"));
            }
            return Ok(Element::Desc(Box::new(field)));
        }
        let inside = self.rest().get(name.len() + 1..).and_then(|rest| rest.split_once(')'));
        let found = inside.and_then(|(inside, _)| Some((inside.len(), simple(name, inside)?)));
        let Some((len, field)) = found else {
            let what = match name {
                "utc" => {
                    "a moment that exists, as in utc(2014-12-24T18:30:00.000Z), was expected: every part with all \
                     its digits, milliseconds with exactly three"
                }
                _ => {
                    "desc(a field), fixed(0x and digits), utc(2014-12-24T18:30:00.000Z) or v1(a UUID of version 1) \
                     was expected"
                }
            };
            return Err(self.expected(what));
        };
        self.at += name.len() + len + 2;
        Ok(field)
    }
}

/// What a pair of quotes encloses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Text,
    Bytes,
}

/// The character of `u{N}` at the start of `rest`, and its length.
fn unicode_escape(rest: &str) -> Option<(char, usize)> {
    let (digits, _) = rest.strip_prefix("u{")?.split_once('}')?;
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((c, digits.len() + 3))
}

fn number(word: &str) -> Option<Element<'static>> {
    // Digits alone are an integer or nothing: one beyond 128 bits must not become a float.
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok().map(Element::Int);
    }
    match word.strip_suffix("f32") {
        Some(short) => short.parse().ok().map(Element::F32),
        None => word.parse().ok().map(Element::F64),
    }
}

/// `8-4-4-4-12` hexadecimal digits.
fn uuid(word: &str) -> Option<Element<'static>> {
    let lengths = word.split('-').map(str::len);
    if !lengths.eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let bytes = hex::parse(&word.replace('-', "")).ok()?;
    bytes.try_into().ok().map(|bytes| Element::Uuid(Uuid(bytes)))
}

/// The field `name(inside)`.
fn simple(name: &str, inside: &str) -> Option<Element<'static>> {
    match name {
        "fixed" => {
            let bytes = hex::parse(inside).ok().filter(|bytes| bytes.len() <= 255)?;
            Some(Element::Fixed(bytes.into()))
        }
        "utc" => moment(inside).map(Element::Utc),
        "v1" => match uuid(inside)? {
            Element::Uuid(uuid) => TimeUuid::new(uuid).map(Element::TimeUuid),
            _ => None,
        },
        _ => None,
    }
}

/// `2014-12-24T18:30:00.000Z`, each part with all its digits: of `.5` nobody can say whether it is half a second or
/// five milliseconds.
fn moment(given: &str) -> Option<Utc> {
    let (date, time) = given.strip_suffix('Z')?.split_once('T')?;
    let (clock, ms) = time.split_once('.')?;
    // The parser of numbers would take a sign too.
    let part = |text: &str, digits: usize| -> Option<u16> {
        let whole = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| text.parse().ok())?
    };
    let small = |text: &str| u8::try_from(part(text, 2)?).ok();
    let parts =
        |text, separator| <[&str; 3]>::try_from(str::split(text, separator).collect::<Vec<_>>()).ok();
    let ([year, month, day], [hour, minute, second]) = (parts(date, '-')?, parts(clock, ':')?);
    let day = Utc::day(part(year, 4)?, small(month)?, small(day)?)?;
    day.at(small(hour)?, small(minute)?, small(second)?, part(ms, 3)?)
}
