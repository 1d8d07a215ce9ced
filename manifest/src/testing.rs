//! Makers of edits and tables that this crate's tests share.

use std::sync::Arc;

use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use proptest::prelude::*;

use crate::{Edit, LEVELS, TableHandle};

/// A plausible table of keyspace `keyspace` with inclusive bounds.
pub(crate) fn meta(number: u64, keyspace: u32, smallest: &[u8], largest: &[u8]) -> TableMeta {
    TableMeta {
        number: FileNumber(number),
        keyspace: KeyspaceId(keyspace),
        file_bytes: 1000 + number,
        bounds: KeyBounds {
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            largest_exclusive: false,
        },
        smallest_seqno: SeqNo(number),
        largest_seqno: SeqNo(number + 5),
        entries: 10,
        point_tombstones: 2,
        merge_operands: 1,
        range_tombstones: 0,
        key_bytes: 100,
        value_bytes: 200,
        content_hash: 0x1234_5678_9ABC_DEF0 ^ number,
        created_millis: 1_700_000_000_000,
    }
}

/// A detached handle of such a table.
pub(crate) fn table(number: u64, smallest: &[u8], largest: &[u8]) -> Arc<TableHandle> {
    TableHandle::detached(meta(number, 1, smallest, largest))
}

/// Keys that often share their first eight bytes, are prefixes of each other, or differ in zeros.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4),
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFF)], 0..12),
        (0u32..300).prop_map(|n| format!("common-prefix-{n:04}").into_bytes()),
    ]
}

/// Any table that passes the checks.
pub(crate) fn metas() -> impl Strategy<Value = TableMeta> {
    let small = 0u64..1 << 40;
    (
        (small.clone(), 0u32..1 << 30, small.clone(), keys(), keys(), any::<bool>()),
        (small.clone(), small.clone(), [0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40]),
        (small.clone(), small.clone(), small.clone(), any::<u64>(), small),
    )
        .prop_map(
            |(
                (number, keyspace, file_bytes, a, b, exclusive),
                (s, t, [e, p, m]),
                (r, k, v, hash, created),
            )| {
                TableMeta {
                    number: FileNumber(number),
                    keyspace: KeyspaceId(keyspace),
                    file_bytes,
                    bounds: KeyBounds {
                        largest_exclusive: exclusive && a != b,
                        smallest: a.clone().min(b.clone()),
                        largest: a.max(b),
                    },
                    smallest_seqno: SeqNo(s.min(t)),
                    largest_seqno: SeqNo(s.max(t)),
                    entries: e + p + m,
                    point_tombstones: p,
                    merge_operands: m,
                    range_tombstones: r,
                    key_bytes: k,
                    value_bytes: v,
                    content_hash: hash,
                    created_millis: created,
                }
            },
        )
}

/// Any edit that passes the checks.
pub(crate) fn edits() -> impl Strategy<Value = Edit> {
    let id = || (0u32..1 << 30).prop_map(KeyspaceId);
    let number = || prop_oneof![0u64..300, 0u64..1 << 47].prop_map(FileNumber);
    let level = || 0..u8::try_from(LEVELS).expect("few levels");
    let len = || 0u64..1 << 47;
    prop_oneof![
        id().prop_map(|id| Edit::DropKeyspace { id }),
        (id(), "[a-zé]{1,20}", proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(id, name, options)| Edit::CreateKeyspace { id, name, options }),
        (id(), level(), number()).prop_map(|(keyspace, level, number)| Edit::RemoveTable {
            keyspace,
            level,
            number
        }),
        (level(), metas()).prop_map(|(level, meta)| Edit::AddTable { level, meta }),
        (number(), len()).prop_map(|(number, len)| Edit::ClosedLog { number, len }),
        number().prop_map(|before| Edit::ForgetLogs { before }),
        (0u64..1 << 54).prop_map(|n| Edit::LastSeqNo(SeqNo(n))),
        number().prop_map(Edit::NextFile),
        id().prop_map(Edit::NextKeyspace),
        (number(), len()).prop_map(|(log, len)| Edit::CleanClose { log, len }),
    ]
}
