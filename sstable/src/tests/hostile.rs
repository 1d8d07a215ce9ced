//! Files made to hurt: any bytes under right checksums. No panic, no endless loop, no large allocation.

use std::sync::Arc;

use esker_base::checksum::{ChecksumSeed, key_hash};
use esker_base::coding::put_varint;
use esker_base::{Cursor, InternalKey, OpCost, SeqNo};
use esker_vfs::fs::Fs;
use proptest::prelude::*;
use proptest::sample::Index as Pick;

use crate::cursor::tests::{entries, options};
use crate::footer::{FOOTER_BYTES, Footer};
use crate::stored::TRAILER_BYTES;
use crate::testing::{IDENTITY, bytes_of, memory, open_unlisted, overwrite, path, write};
use crate::{CursorOptions, inspect};

/// Where the stored blocks and parts of a good table lie.
fn pieces(fs: &Arc<dyn Fs>) -> Vec<std::ops::Range<usize>> {
    let reader = open_unlisted(fs).expect("a good table");
    let index = reader.index();
    let blocks = (0..index.blocks()).map(|b| (index.offset(b) as usize, index.stored_len(b)));
    let parts =
        reader.footer().parts().into_iter().map(|(_, part)| (part.offset as usize, part.len as usize));
    blocks.chain(parts).filter(|(_, len)| *len > 0).map(|(at, len)| at..at + len).collect()
}

/// Make the checksum of the stored block at `piece` right again.
fn repair(bytes: &mut [u8], piece: std::ops::Range<usize>) {
    let seed = ChecksumSeed::new(IDENTITY.database, IDENTITY.number);
    let end = piece.end - 4;
    let crc = seed.checksum(piece.start as u64, &[&bytes[piece.start..end]]);
    bytes[end..piece.end].copy_from_slice(&crc.to_le_bytes());
}

/// The same for the footer.
fn repair_footer(bytes: &mut [u8]) {
    let at = bytes.len() - FOOTER_BYTES;
    let seed = ChecksumSeed::new(IDENTITY.database, IDENTITY.number);
    let crc = seed.checksum(at as u64, &[&bytes[at..at + 92]]);
    bytes[at + 92..at + 96].copy_from_slice(&crc.to_le_bytes());
}

/// Every way to read a table, with bounded work.
fn read_everything(fs: &Arc<dyn Fs>, bytes: usize) {
    if let Ok(fields) = inspect(&**fs, &path()) {
        for field in fields {
            let _ = field.expect("memory does not fail");
        }
    }
    let Ok(reader) = open_unlisted(fs) else {
        return;
    };
    let reader = Arc::new(reader);
    let _ = reader.verify(&mut OpCost::default());
    let mut keys = Vec::new();
    reader.salvage(|key, seqno, _, _| keys.push((key.to_vec(), seqno)));
    for forward in [true, false] {
        let mut cursor = reader.cursor(CursorOptions { fill_cache: true, readahead: forward });
        let mut result = if forward { cursor.seek_first() } else { cursor.seek_last() };
        let mut steps = 0;
        while result.is_ok() && cursor.valid() {
            assert!(cursor.key().len() <= 65_535);
            steps += 1;
            assert!(steps <= bytes * 255, "more rows than bytes");
            result = if forward { cursor.next() } else { cursor.prev() };
        }
    }
    let mut cursor = reader.cursor(CursorOptions::default());
    for (key, seqno) in keys.iter().take(200) {
        let _ = reader.get(key, key_hash(key), SeqNo::MAX, &mut OpCost::default());
        let _ = reader.approximate_offset(key);
        let _ = cursor.seek(InternalKey::new(key, *seqno));
        let _ = cursor.seek_before(InternalKey::new(key, *seqno));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn forged_parts_are_refused_or_read_without_panic(
        entries in entries(),
        options in options(),
        piece in any::<Pick>(),
        edits in proptest::collection::vec((any::<Pick>(), prop_oneof![Just(0u8), Just(255), any::<u8>()]), 1..5),
        with_range in any::<bool>(),
    ) {
        let fs = memory();
        let fragment = esker_base::range_tombstone::Fragment {
            start: b"a".to_vec(),
            end: b"b".to_vec(),
            seqnos: vec![SeqNo(3), SeqNo(2)],
        };
        write(&fs, options, &entries, if with_range { std::slice::from_ref(&fragment) } else { &[] })
            .expect("memory");
        let pieces = pieces(&fs);
        let mut bytes = bytes_of(&*fs, &path());
        let piece = pieces[piece.index(pieces.len())].clone();
        for (at, byte) in edits {
            // The checksum itself is repaired; everything before it is forged.
            let at = piece.start + at.index((piece.len() - 4).min(600));
            bytes[at] = byte;
        }
        repair(&mut bytes, piece);
        overwrite(&*fs, &bytes);
        read_everything(&fs, bytes.len());
    }

    #[test]
    fn forged_trailers_are_refused_or_read_without_panic(
        entries in entries(),
        options in options(),
        piece in any::<Pick>(),
        codec in 0u8..4,
        raw in prop_oneof![any::<u32>(), 0u32..100_000],
    ) {
        let fs = memory();
        write(&fs, options, &entries, &[]).expect("memory");
        let pieces = pieces(&fs);
        let mut bytes = bytes_of(&*fs, &path());
        let piece = pieces[piece.index(pieces.len())].clone();
        let trailer = piece.end - TRAILER_BYTES;
        bytes[trailer] = codec;
        bytes[trailer + 1..trailer + 5].copy_from_slice(&raw.to_le_bytes());
        repair(&mut bytes, piece);
        overwrite(&*fs, &bytes);
        read_everything(&fs, bytes.len());
    }

    #[test]
    fn forged_footers_are_refused_or_read_without_panic(
        entries in entries(),
        options in options(),
        edits in proptest::collection::vec((24usize..92, any::<u8>()), 1..5),
    ) {
        let fs = memory();
        write(&fs, options, &entries, &[]).expect("memory");
        let mut bytes = bytes_of(&*fs, &path());
        let at = bytes.len() - FOOTER_BYTES;
        for (offset, byte) in edits {
            bytes[at + offset] = byte;
        }
        repair_footer(&mut bytes);
        overwrite(&*fs, &bytes);
        read_everything(&fs, bytes.len());
    }

    #[test]
    fn any_bytes_are_no_table(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let fs = memory();
        overwrite(&*fs, &bytes);
        read_everything(&fs, bytes.len());
        overwrite(&*fs, &[bytes, b"eskerSST".to_vec()].concat());
        read_everything(&fs, 408);
    }
}

#[test]
fn a_newer_version_is_told_from_damage() {
    let fs = memory();
    write(
        &fs,
        crate::TableOptions::default(),
        &[crate::testing::entry("a", 1, esker_base::Kind::Put, "")],
        &[],
    )
    .expect("memory");
    let mut bytes = bytes_of(&*fs, &path());
    let at = bytes.len() - FOOTER_BYTES;
    bytes[at + 88] = 5;
    let decode = |bytes: &[u8]| {
        Footer::decode(&path(), bytes, bytes.len() as u64, Some((IDENTITY.database, IDENTITY.number)))
            .expect_err("version 5")
    };
    assert!(decode(&bytes).is_corruption(), "a version that no checksum covers is damage");
    repair_footer(&mut bytes);
    assert!(matches!(decode(&bytes), esker_base::Error::FormatTooNew { found: 5, supported: 4, .. }));
    overwrite(&*fs, &bytes);
    let fields: Vec<_> =
        crate::inspect(&*fs, &path()).expect("memory").map(|field| field.expect("memory")).collect();
    let told: Vec<_> = fields.iter().map(|field| (field.name, field.verdict)).collect();
    assert_eq!(told, [("table", crate::inspect::Verdict::Newer)]);
}

/// As many as the bytes could hold, by what they claim: whoever looks at the first knows better.
#[test]
fn tombstones_that_are_none_end_with_the_first() {
    let mut many = Vec::new();
    put_varint(&mut many, 200_000);
    let first = many.len();
    many.resize(1_000_000, 0);
    let error = crate::tombstones::decode(&many).expect_err("a fragment that covers nothing");
    assert!(error.what == "order of the fragments" && error.at < first + 10, "{error:?}");

    let mut numbers = vec![1, 0, 1, b'a'];
    put_varint(&mut numbers, 900_000);
    numbers.push(200);
    let first = numbers.len();
    numbers.resize(1_000_000, 0);
    let error = crate::tombstones::decode(&numbers).expect_err("a number that is no smaller");
    assert!(error.what == "sequence number" && error.at < first + 10, "{error:?}");
}

#[test]
fn a_bomb_is_refused_before_it_is_allocated() {
    let fs = memory();
    let entries = [crate::testing::entry("a", 1, esker_base::Kind::Put, vec![0; 4000])];
    let options = crate::TableOptions { compression: crate::Compression::Lz4, ..Default::default() };
    write(&fs, options, &entries, &[]).expect("memory");
    let piece = pieces(&fs)[0].clone();
    let mut bytes = bytes_of(&*fs, &path());
    let trailer = piece.end - TRAILER_BYTES;
    assert_eq!(bytes[trailer], 1, "the block is compressed");
    bytes[trailer + 1..trailer + 5].copy_from_slice(&(1u32 << 30).to_le_bytes());
    repair(&mut bytes, piece);
    overwrite(&*fs, &bytes);
    let reader = open_unlisted(&fs).expect("the parts are good");
    let error = reader.get(b"a", key_hash(b"a"), SeqNo::MAX, &mut OpCost::default()).expect_err("a bomb");
    assert!(error.to_string().contains("claims to hold 1073741824"), "{error}");
}
