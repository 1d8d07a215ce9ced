//! Changes that a forger would make: fields set to what hurts, pieces moved, doubled and taken out, blocks
//! that claim to be large; and then every checksum made right.

use esker_base::DatabaseId;
use esker_base::filename::FileName;
use fastrand::Rng;

use crate::files::Files;
use crate::layout::{Fragment, TRAILER, array, fragments, pieces, repair, table};

/// Values that decoders get wrong.
fn nasty(random: &mut Rng, len: usize) -> u64 {
    let len = len as u64;
    let powers = 1u64 << random.u32(0..64);
    let choices = [
        0,
        1,
        2,
        0x7f,
        0x80,
        0xff,
        0xffff,
        u64::from(u32::MAX),
        u64::MAX,
        i64::MAX.cast_unsigned(),
        (1 << 55) - 1,
        (1 << 54) - 1,
        (1 << 48) - 1,
        len,
        len.wrapping_sub(1),
        len + 1,
        powers,
        powers.wrapping_sub(1),
        random.u64(..),
        random.u64(0..300),
    ];
    choices[random.usize(0..choices.len())]
}

/// The golden directory with one to five hostile changes, and which file was changed first.
pub fn hostile(golden: &Files, database: DatabaseId, seed: u64) -> (Files, String) {
    let mut random = Rng::with_seed(seed ^ 0x686f_7374_696c_6521);
    let mut files = golden.clone();
    let mut first = None;
    for _ in 0..random.usize(1..6) {
        let names = files.names();
        let name = names[random.usize(0..names.len())].clone();
        change(&mut files, &name, &mut random);
        first.get_or_insert(name);
    }
    for name in files.names() {
        // A few lies stay unrepaired: the paths behind a checksum that fails are paths as well.
        if random.u8(0..40) > 0 {
            files.edit(&name, |bytes| repair(&name, bytes, database));
        }
    }
    (files, first.unwrap_or_default())
}

fn change(files: &mut Files, name: &str, random: &mut Rng) {
    let bytes = files.get(name).unwrap_or_default().to_vec();
    let all = pieces(name, &bytes);
    let Some(piece) = all.get(random.usize(0..all.len().max(1))).cloned() else { return };
    if piece.is_empty() {
        return;
    }
    let at = random.usize(piece.clone());
    match random.u8(0..20) {
        0..8 => {
            // A field of any width set to what hurts.
            let value = nasty(random, bytes.len()).to_le_bytes();
            let width = [1, 1, 2, 4, 8][random.usize(0..5)].min(bytes.len() - at);
            files.edit(name, |bytes| bytes[at..at + width].copy_from_slice(&value[..width]));
        }
        8..11 => files.edit(name, |bytes| bytes[at] ^= 1 << random.u8(0..8)),
        11 => {
            // A varint of nine bytes of ones, wherever it lands.
            let width = 9.min(bytes.len() - at);
            files.edit(name, |bytes| bytes[at..at + width].fill(0xff));
        }
        12 => {
            let other = all[random.usize(0..all.len())].clone();
            let len = other.len().min(piece.len());
            let source = bytes[other.start..other.start + len].to_vec();
            files.edit(name, |bytes| bytes[piece.start..piece.start + len].copy_from_slice(&source));
        }
        13..16 => records(files, name, &bytes, random),
        16..18 => bomb(files, name, &bytes, random),
        18 => {
            let len = random.usize(0..=bytes.len());
            files.edit(name, |bytes| bytes.truncate(len));
        }
        _ => {
            // The file under another number, or another kind of name.
            let number = nasty(random, 200) % (1 << 50);
            let number = esker_base::FileNumber(number);
            let new = match random.u8(0..5) {
                0 => FileName::Table(number),
                4 => FileName::Blob(number),
                1 => FileName::Log(number),
                2 => FileName::Manifest(number),
                _ => FileName::Temporary(number),
            };
            files.put(&new.to_string(), bytes);
        }
    }
}

/// Records of a log or manifest doubled, taken out, or with other tags, kinds and operations.
fn records(files: &mut Files, name: &str, bytes: &[u8], random: &mut Rng) {
    let all = match FileName::parse(name) {
        Some(FileName::Log(_) | FileName::Manifest(_)) => fragments(bytes),
        _ => return,
    };
    let Some(Fragment { offset, payload, end, .. }) = all.get(random.usize(0..all.len().max(1))).copied()
    else {
        return;
    };
    files.edit(name, |bytes| match random.u8(0..7) {
        0 => drop(bytes.drain(offset..end)),
        1 => {
            let copy = bytes[offset..end].to_vec();
            drop(bytes.splice(end..end, copy));
        }
        // The kind, and with it which fields there are.
        2 => bytes[offset + 11] = random.u8(0..40),
        3 => bytes[offset + 12..offset + 16].copy_from_slice(&nasty(random, end).to_le_bytes()[..4]),
        4 => {
            // A durable-up-to, which few have: in the place of the last fields, or of the payload's first bytes.
            let at = payload.min(bytes.len().saturating_sub(8));
            bytes[offset + 11] |= 16;
            bytes[at..at + 8].copy_from_slice(&nasty(random, end).to_le_bytes());
        }
        5 if end > payload => {
            // The payload several times over: operations and edits that repeat.
            let more = bytes[payload..end].repeat(random.usize(1..40));
            let len = end - payload + more.len();
            drop(bytes.splice(end..end, more));
            put_len(bytes, offset, len);
        }
        _ => {
            let noise: Vec<u8> = (0..random.usize(1..60)).map(|_| random.u8(..)).collect();
            let len = end - payload + noise.len();
            drop(bytes.splice(end..end, noise));
            put_len(bytes, offset, len);
        }
    });
}

/// Make `len` the payload's length of the fragment at `offset`.
fn put_len(bytes: &mut [u8], offset: usize, len: usize) {
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
    bytes[offset + 8..offset + 11].copy_from_slice(&len[..3]);
}

/// A block that claims another codec or a length far beyond its own.
fn bomb(files: &mut Files, name: &str, bytes: &[u8], random: &mut Rng) {
    let Some(parts) = table(bytes) else { return };
    let blocks: Vec<_> =
        parts.blocks.into_iter().chain(parts.parts).filter(|p| p.len() > TRAILER + 8).collect();
    let Some(block) = blocks.get(random.usize(0..blocks.len().max(1))).cloned() else { return };
    let trailer = block.end - TRAILER;
    files.edit(name, |bytes| {
        let payload = block.len() - TRAILER;
        if random.bool() {
            // LZ4 that expands as far as it can: a literal, and then one match that goes on and on.
            bytes[block.start..block.start + 4].copy_from_slice(&[0x1f, b'x', 1, 0]);
            bytes[block.start + 4..trailer].fill(0xff);
            bytes[trailer - 1] = random.u8(..);
        }
        bytes[trailer] = random.u8(0..4);
        let raw = match random.u8(0..3) {
            0 => payload * 255 + 64,
            1 => payload * 255,
            _ => usize::try_from(nasty(random, payload) & 0xffff_ffff).unwrap_or(payload),
        };
        let raw = u32::try_from(raw).unwrap_or(u32::MAX).to_le_bytes();
        bytes[trailer + 1..trailer + 5].copy_from_slice(&raw);
    });
    debug_assert!(array::<1>(bytes, block.start).is_some());
}
