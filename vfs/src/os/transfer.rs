//! All or an error: positional transfers that go on after short and interrupted calls.

use std::io::{self, ErrorKind};

/// Fill `buffer` from `offset` on by `read`, until it is full or the file ends; the bytes read.
pub(super) fn read_fully(
    buffer: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(again) if again.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
    Ok(filled)
}

/// Put `len` bytes from `offset` on, or as many as the file has, onto the end of `buffer` by `read`, which
/// is told how many are missing. Returns how many came.
#[cfg(all(unix, not(miri)))]
pub(super) fn read_onto_fully(
    buffer: &mut Vec<u8>,
    len: usize,
    offset: u64,
    mut read: impl FnMut(&mut Vec<u8>, usize, u64) -> io::Result<usize>,
) -> io::Result<usize> {
    buffer.reserve(len);
    let mut filled = 0;
    while filled < len {
        match read(buffer, len - filled, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(again) if again.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
    Ok(filled)
}

/// Put all of `bytes` at `offset` by `write`.
pub(super) fn write_fully(
    bytes: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match write(rest, offset.saturating_add(written as u64)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(again) if again.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How the system answers the nth of a row of calls for `len` bytes: in full, with one byte, with
    /// all but one, or interrupted.
    fn answer(style: u32, nth: u32, len: usize) -> io::Result<usize> {
        match (style + nth) % 4 {
            0 => Ok(len),
            1 => Ok(1),
            2 => Ok((len - 1).max(1)),
            _ => Err(ErrorKind::Interrupted.into()),
        }
    }

    #[test]
    fn short_and_interrupted_calls_do_not_show() {
        let content: Vec<u8> = (0..=255).collect();
        for style in 0..4 {
            for len in [0, 1, 2, 100, 256] {
                let mut nth = 0;
                let mut buffer = vec![0; len];
                let read = read_fully(&mut buffer, 0, |rest, offset| {
                    nth += 1;
                    let count = answer(style, nth, rest.len())?;
                    let from = usize::try_from(offset).expect("small");
                    rest[..count].copy_from_slice(&content[from..from + count]);
                    Ok(count)
                });
                assert_eq!(read.expect("read"), len);
                assert_eq!(buffer, content[..len]);

                let mut written = vec![0; len];
                write_fully(&content[..len], 0, |rest, offset| {
                    nth += 1;
                    let count = answer(style, nth, rest.len())?;
                    let from = usize::try_from(offset).expect("small");
                    written[from..from + count].copy_from_slice(&rest[..count]);
                    Ok(count)
                })
                .expect("written");
                assert_eq!(written, content[..len]);
            }
        }
    }

    #[test]
    fn the_end_of_the_file_ends_a_read_and_errors_end_both() {
        let mut buffer = [0; 10];
        let mut left = 4_usize;
        let read = read_fully(&mut buffer, 0, |rest, _| {
            let count = left.min(3).min(rest.len());
            left -= count;
            Ok(count)
        });
        assert_eq!(read.expect("read"), 4);
        let full = || io::Error::from(ErrorKind::StorageFull);
        assert!(read_fully(&mut buffer, 0, |_, _| Err(full())).is_err());
        let mut calls = 0;
        let failed = write_fully(&buffer, 0, |_, _| {
            calls += 1;
            if calls == 1 { Ok(5) } else { Err(full()) }
        });
        assert_eq!(failed.expect_err("full").kind(), ErrorKind::StorageFull);
        let stuck = write_fully(&buffer, 0, |_, _| Ok(0)).expect_err("no progress");
        assert_eq!(stuck.kind(), ErrorKind::WriteZero);
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    fn what_comes_in_parts_is_put_onto_the_end() {
        let content: Vec<u8> = (0..=255).collect();
        for style in 0..4 {
            for len in [0, 1, 2, 100, 256] {
                let mut nth = 0;
                let mut appended = vec![9; 3];
                let read = read_onto_fully(&mut appended, len, 0, |buffer, most, offset| {
                    nth += 1;
                    let count = answer(style, nth, most)?;
                    let from = usize::try_from(offset).expect("small");
                    buffer.extend_from_slice(&content[from..from + count]);
                    Ok(count)
                });
                assert_eq!(read.expect("read"), len);
                assert_eq!(appended, [&[9; 3], &content[..len]].concat());
            }
        }
    }
}
