//! Keys as one would write and read them by hand: the tuple codec's bytes for the three types of field that
//! the pairs use.

use std::borrow::Cow;

use esker_layouts::{Error, Result};

const BYTES: u8 = 0x01;
const TEXT: u8 = 0x02;
const ZERO: u8 = 0x14;
const F64: u8 = 0x21;
const UUID: u8 = 0x30;

/// `content` with its zero bytes escaped, and the terminator.
fn put_escaped(out: &mut Vec<u8>, content: &[u8]) {
    if content.contains(&0) {
        for &byte in content {
            out.push(byte);
            if byte == 0 {
                out.push(0xFF);
            }
        }
    } else {
        out.extend_from_slice(content);
    }
    out.push(0);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(TEXT);
    put_escaped(out, text.as_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(BYTES);
    put_escaped(out, bytes);
}

#[expect(clippy::cast_possible_truncation, reason = "at most 8")]
pub(super) fn put_u64(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    let skip = value.leading_zeros() as usize / 8;
    out.push(ZERO + (8 - skip) as u8);
    out.extend_from_slice(&bytes[skip..]);
}

pub(super) fn put_f64(out: &mut Vec<u8>, value: f64) {
    let bits = value.to_bits();
    out.push(F64);
    out.extend_from_slice(&(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }).to_be_bytes());
}

pub(super) fn put_digest(out: &mut Vec<u8>, digest: [u8; 16]) {
    out.push(UUID);
    out.extend_from_slice(&digest);
}

/// What is stored is not what was written.
#[cold]
pub(super) fn damaged() -> Error {
    Error::Store(esker::Error::invalid("the stored bytes are of another layout"))
}

/// The rest of `input` behind the byte `code`.
fn behind(input: &[u8], code: u8) -> Result<&[u8]> {
    match input.split_first() {
        Some((&found, rest)) if found == code => Ok(rest),
        _ => Err(damaged()),
    }
}

fn take_escaped<'a>(input: &mut &'a [u8], code: u8) -> Result<Cow<'a, [u8]>> {
    let mut rest = behind(input, code)?;
    let mut unescaped: Option<Vec<u8>> = None;
    loop {
        let len = rest.iter().position(|&byte| byte == 0).ok_or_else(damaged)?;
        let (run, after) = rest.split_at(len);
        if after.get(1) == Some(&0xFF) {
            let content = unescaped.get_or_insert_default();
            content.extend_from_slice(run);
            content.push(0);
            rest = &after[2..];
            continue;
        }
        *input = &after[1..];
        return Ok(match unescaped {
            None => Cow::Borrowed(run),
            Some(mut content) => {
                content.extend_from_slice(run);
                Cow::Owned(content)
            }
        });
    }
}

/// The text at the start of `input`, which then starts behind it.
pub(super) fn take_text(input: &mut &[u8]) -> Result<String> {
    String::from_utf8(take_escaped(input, TEXT)?.into_owned()).map_err(|_| damaged())
}

/// The bytes at the start of `input`, which then starts behind them.
pub(super) fn take_bytes(input: &mut &[u8]) -> Result<Vec<u8>> {
    Ok(take_escaped(input, BYTES)?.into_owned())
}

/// The number at the start of `input`, which then starts behind it.
pub(super) fn take_u64(input: &mut &[u8]) -> Result<u64> {
    let (&code, rest) = input.split_first().ok_or_else(damaged)?;
    let len = usize::from(code.wrapping_sub(ZERO));
    let (body, rest) = rest.split_at_checked(len).filter(|_| len <= 8).ok_or_else(damaged)?;
    if body.first() == Some(&0) {
        return Err(damaged());
    }
    *input = rest;
    Ok(body.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// The float at the start of `input`, which then starts behind it.
pub(super) fn take_f64(input: &mut &[u8]) -> Result<f64> {
    let (ordered, rest) = behind(input, F64)?.split_first_chunk::<8>().ok_or_else(damaged)?;
    *input = rest;
    let ordered = u64::from_be_bytes(*ordered);
    Ok(f64::from_bits(if ordered >> 63 == 0 { !ordered } else { ordered & !(1 << 63) }))
}

/// Err unless all of `input` was taken.
pub(super) fn finish(input: &[u8]) -> Result<()> {
    if input.is_empty() { Ok(()) } else { Err(damaged()) }
}
