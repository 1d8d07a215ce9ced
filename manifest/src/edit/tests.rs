use esker_base::blob::{BlobMeta, BlobRef};
use esker_base::coding::{DecodeError, put_varint};
use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use proptest::prelude::*;

use super::{Edit, decode, encode};
use crate::testing::{edits, meta};

/// The bytes of the first block of `kind` in FORMAT.md, comments left out.
fn format_example(kind: &str) -> Vec<u8> {
    let format = include_str!("../../FORMAT.md");
    let block = format
        .split(&format!("```{kind}\n"))
        .nth(1)
        .expect("the block")
        .split("```")
        .next()
        .expect("its end");
    block
        .lines()
        .flat_map(|line| line.split('#').next().expect("always one").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("two hexadecimal digits"))
        .collect()
}

fn decode_all(payload: &[u8]) -> Result<Vec<Edit>, DecodeError> {
    decode(payload).collect()
}

#[test]
fn the_format_s_example_means_what_it_says() {
    let moved = TableMeta {
        number: FileNumber(15),
        keyspace: KeyspaceId(3),
        file_bytes: 4096,
        bounds: KeyBounds { smallest: b"ant".to_vec(), largest: b"bee".to_vec(), largest_exclusive: true },
        smallest_seqno: SeqNo(7),
        largest_seqno: SeqNo(42),
        entries: 5,
        point_tombstones: 2,
        merge_operands: 1,
        hidden_versions: 0,
        range_tombstones: 1,
        key_bytes: 25,
        value_bytes: 300,
        content_hash: 0x1122_3344_5566_7788,
        created_millis: 1000,
        blobs: Vec::new(),
    };
    let blob = BlobMeta {
        number: FileNumber(16),
        keyspace: KeyspaceId(3),
        file_bytes: 228,
        values: 2,
        value_bytes: 160,
    };
    let referring = TableMeta {
        number: FileNumber(17),
        bounds: KeyBounds { smallest: b"cat".to_vec(), largest: b"dog".to_vec(), largest_exclusive: false },
        smallest_seqno: SeqNo(43),
        largest_seqno: SeqNo(44),
        entries: 2,
        point_tombstones: 0,
        merge_operands: 0,
        range_tombstones: 0,
        key_bytes: 6,
        value_bytes: 48,
        blobs: vec![BlobRef { number: FileNumber(16), values: 2, value_bytes: 160 }],
        ..moved.clone()
    };
    let hiding = TableMeta {
        number: FileNumber(18),
        bounds: KeyBounds { smallest: b"elk".to_vec(), largest: b"elk".to_vec(), largest_exclusive: false },
        smallest_seqno: SeqNo(45),
        largest_seqno: SeqNo(46),
        hidden_versions: 1,
        value_bytes: 10,
        blobs: Vec::new(),
        ..referring.clone()
    };
    let edits = vec![
        Edit::RemoveTable { keyspace: KeyspaceId(3), level: 1, number: FileNumber(15) },
        Edit::AddTable { level: 2, meta: moved },
        Edit::ClosedLog { number: FileNumber(12), len: 1 << 20 },
        Edit::ForgetLogs { before: FileNumber(12) },
        Edit::LastSeqNo(SeqNo(42)),
        Edit::DurableLog { number: FileNumber(14), len: 300 },
        Edit::AddBlob { meta: blob },
        Edit::AddTable { level: 0, meta: referring },
        Edit::AddTable { level: 0, meta: hiding },
    ];
    let bytes = format_example("hex");
    assert_eq!(decode_all(&bytes), Ok(edits.clone()));
    assert_eq!(encode(&edits), bytes);
}

#[test]
fn edits_are_ordered_by_kind_and_keep_their_order_within_one() {
    let add = |n| Edit::AddTable { level: 0, meta: meta(n, 1, b"a", b"b") };
    let remove = Edit::RemoveTable { keyspace: KeyspaceId(1), level: 0, number: FileNumber(4) };
    let payload = encode(&[Edit::LastSeqNo(SeqNo(1)), add(9), add(8), remove.clone()]);
    assert_eq!(decode_all(&payload), Ok(vec![remove, add(9), add(8), Edit::LastSeqNo(SeqNo(1))]));
}

#[test]
fn kinds_that_descend_or_repeat_are_refused() {
    let seqno = encode(&[Edit::LastSeqNo(SeqNo(3))]);
    let forget = encode(&[Edit::ForgetLogs { before: FileNumber(3) }]);
    assert!(decode_all(&[seqno.clone(), forget.clone()].concat()).is_err());
    assert!(decode_all(&[seqno.clone(), seqno.clone()].concat()).is_err());
    assert_eq!(decode_all(&[forget, seqno].concat()).map(|edits| edits.len()), Ok(2));
}

#[test]
#[should_panic(expected = "stands alone")]
fn encoding_a_kind_twice_that_stands_alone_is_a_mistake() {
    encode(&[Edit::LastSeqNo(SeqNo(3)), Edit::LastSeqNo(SeqNo(4))]);
}

#[test]
fn values_beyond_every_database_are_refused_both_ways() {
    let good = meta(5, 1, b"a", b"b");
    let wrong = |change: fn(&mut TableMeta)| {
        let mut meta = good.clone();
        change(&mut meta);
        Edit::AddTable { level: 1, meta }
    };
    let refused = [
        Edit::AddTable { level: 7, meta: good.clone() },
        wrong(|m| m.number = FileNumber(1 << 48)),
        wrong(|m| m.keyspace = KeyspaceId(1 << 31)),
        wrong(|m| m.file_bytes = 1 << 48),
        wrong(|m| m.bounds.smallest = b"c".to_vec()),
        wrong(|m| m.bounds.largest = vec![b'z'; 65_536]),
        wrong(|m| m.smallest_seqno = SeqNo(100)),
        wrong(|m| m.largest_seqno = SeqNo(1 << 55)),
        wrong(|m| m.point_tombstones = 10),
        wrong(|m| m.range_tombstones = u64::MAX),
        wrong(|m| m.hidden_versions = 11),
        wrong(|m| {
            m.bounds.largest = m.bounds.smallest.clone();
            m.bounds.largest_exclusive = true;
        }),
        Edit::LastSeqNo(SeqNo(1 << 55)),
        Edit::NextFile(FileNumber(u64::MAX)),
        Edit::ClosedLog { number: FileNumber(1), len: u64::MAX },
        Edit::CreateKeyspace { id: KeyspaceId(1), name: String::new(), options: Vec::new() },
        Edit::CreateKeyspace { id: KeyspaceId(1), name: "x".repeat(256), options: Vec::new() },
        Edit::CreateKeyspace { id: KeyspaceId(u32::MAX), name: "x".into(), options: Vec::new() },
    ];
    for edit in refused {
        assert!(edit.check().is_err(), "{edit:?}");
        let mut bytes = Vec::new();
        super::coding::put(&mut bytes, &edit);
        assert!(decode_all(&bytes).is_err(), "{edit:?}");
    }
    assert_eq!(Edit::AddTable { level: 1, meta: good }.check(), Ok(()));
}

#[test]
fn a_length_that_claims_more_than_there_is_allocates_nothing() {
    let mut bytes = vec![2, 1];
    put_varint(&mut bytes, u64::MAX);
    bytes.extend_from_slice(b"name");
    assert_eq!(decode_all(&bytes), Err(DecodeError { what: "keyspace name", at: 2 }));
}

/// A table is added by the kind that its content asks for, and by no other.
#[test]
fn a_kind_without_what_it_is_for_is_refused() {
    let plain = encode(&[Edit::AddTable { level: 1, meta: meta(5, 1, b"a", b"b") }]);
    let refused = |kind: u8, end: &[u8]| {
        let bytes = [&[kind], &plain[1..], end].concat();
        decode_all(&bytes).expect_err("there is nothing of it").what
    };
    assert_eq!(refused(13, &[0]), "count of blob files");
    assert_eq!(refused(14, &[0, 0]), "hidden version count");
}

#[test]
fn after_its_first_error_decoding_ends() {
    let mut edits = decode(&[99, 7, 1]);
    assert!(matches!(edits.next(), Some(Err(_))));
    assert!(edits.next().is_none());
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(mut list in proptest::collection::vec(edits(), 0..12)) {
        list.sort_by_key(Edit::kind);
        list.dedup_by(|a, b| a.kind() == b.kind() && a.stands_alone());
        let payload = encode(&list);
        prop_assert_eq!(decode_all(&payload), Ok(list.clone()));
        // A cut payload is an error or a shorter list, never another edit.
        for len in 0..payload.len() {
            if let Ok(fewer) = decode_all(&payload[..len]) {
                prop_assert!(list.starts_with(&fewer));
                prop_assert_eq!(encode(&fewer), &payload[..len]);
            }
        }
    }

    #[test]
    fn any_bytes_decode_or_err(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for edit in decode(&bytes).flatten() {
            prop_assert_eq!(edit.check(), Ok(()));
        }
    }

    #[test]
    fn damaged_payloads_decode_or_err(
        list in proptest::collection::vec(edits(), 1..4), bit in any::<proptest::sample::Index>(),
    ) {
        let mut list = list;
        list.sort_by_key(Edit::kind);
        list.dedup_by(|a, b| a.kind() == b.kind() && a.stands_alone());
        let mut payload = encode(&list);
        let bit = bit.index(payload.len() * 8);
        payload[bit / 8] ^= 1 << (bit % 8);
        for edit in decode(&payload).flatten() {
            prop_assert_eq!(edit.check(), Ok(()));
        }
    }
}
