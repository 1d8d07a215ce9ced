//! Verification finds what checksums cannot: a table that was written wrongly.

use esker_base::checksum::ChecksumSeed;
use esker_base::{Kind, OpCost};
use esker_vfs::fs::Fs;

use crate::TableOptions;
use crate::reader::TableReader;
use crate::testing::{IDENTITY, bytes_of, entry, memory, open_unlisted, overwrite, path, write};

/// Change a byte of the part that starts at `piece` and make its checksum right again; what
/// verification says then.
fn verdict_after(forge: impl Fn(&TableReader, &mut Vec<u8>) -> std::ops::Range<usize>) -> String {
    let fs = memory();
    let entries: Vec<_> =
        (0..100u32).map(|i| entry(format!("key{i:03}"), 9, Kind::Put, format!("value {i}"))).collect();
    write(&fs, TableOptions { block_bytes: 500, ..TableOptions::default() }, &entries, &[])
        .expect("memory");
    let reader = open_unlisted(&fs).expect("good");
    reader.verify(&mut OpCost::default()).expect("good");
    let mut bytes = bytes_of(&*fs, &path());
    let piece = forge(&reader, &mut bytes);
    let end = piece.end - 4;
    let seed = ChecksumSeed::new(IDENTITY.database, IDENTITY.number);
    let crc = seed.checksum(piece.start as u64, &[&bytes[piece.start..end]]);
    bytes[end..piece.end].copy_from_slice(&crc.to_le_bytes());
    overwrite(&*fs as &dyn Fs, &bytes);
    let forged = open_unlisted(&fs).expect("it opens");
    forged.verify(&mut OpCost::default()).expect_err("it is wrong").to_string()
}

fn second_block(reader: &TableReader) -> std::ops::Range<usize> {
    let start = reader.index().offset(1) as usize;
    start..start + reader.index().stored_len(1)
}

#[test]
fn a_wrong_tag_is_found() {
    let error = verdict_after(|reader, bytes| {
        let piece = second_block(reader);
        bytes[piece.start + 24] ^= 1;
        piece
    });
    assert!(error.contains("row 0 of the block") && error.contains("its tag is wrong"), "{error}");
}

#[test]
fn a_changed_value_is_found() {
    let error = verdict_after(|reader, bytes| {
        let piece = second_block(reader);
        bytes[piece.end - 10] ^= 1;
        piece
    });
    assert!(error.contains("content hash"), "{error}");
}

#[test]
fn a_wrong_head_is_found() {
    let error = verdict_after(|reader, bytes| {
        let piece = second_block(reader);
        let rows =
            u32::from_le_bytes(bytes[piece.start..piece.start + 4].try_into().expect("four")) as usize;
        // Behind the tags and the records of a block with one number and one kind.
        let head = piece.start + 24 + rows + (rows + 1) * 5;
        bytes[head + 7] = 0xFF;
        piece
    });
    assert!(error.contains("searching the block does not lead to it"), "{error}");
}

#[test]
fn a_filter_that_denies_a_key_is_found() {
    let error = verdict_after(|reader, bytes| {
        let part = reader.footer().filter;
        let piece = part.offset as usize..part.offset as usize + part.len as usize;
        bytes[piece.start + 1..piece.end - 9].fill(0);
        piece
    });
    assert!(error.contains("the filter denies it"), "{error}");
}

#[test]
fn rows_out_of_order_are_found() {
    let error = verdict_after(|reader, bytes| {
        let piece = second_block(reader);
        // The last key's last byte: the key area ends where the first value starts.
        let at = bytes[piece.clone()].windows(5).position(|w| w == b"value").expect("values") + piece.start;
        bytes[at - 1] = b'!';
        piece
    });
    // The last row, or one that is searched for by way of it.
    let found = ["it is not behind the row before it", "searching the block does not lead to it"];
    assert!(found.iter().any(|what| error.contains(what)), "{error}");
}
