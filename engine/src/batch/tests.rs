use esker_base::KeyspaceId;
use esker_base::coding::Decoder;

use super::*;

/// The hex bytes of the example in FORMAT.md whose first line starts with `first`.
fn example(first: &str) -> Vec<u8> {
    let text = include_str!("../../FORMAT.md");
    let lines = text.lines().skip_while(|line| !line.starts_with(first)).take_while(|line| *line != "```");
    lines
        .flat_map(|line| line.split("  ").next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_batch_in_the_format_is_what_we_write_and_read() {
    let bytes = example("01 03");
    let ops = [
        Op { keyspace: KeyspaceId(3), kind: Kind::Put, key: b"k", value: b"v1" },
        Op { keyspace: KeyspaceId(3), kind: Kind::Delete, key: b"old", value: b"" },
    ];
    let mut written = Ops::default();
    for op in ops {
        written.push(op).unwrap();
    }
    assert_eq!(written.bytes(), bytes);
    let mut decoder = Decoder::new(&bytes);
    let read: Vec<Op<'_>> = std::iter::from_fn(|| decode_op(&mut decoder).unwrap()).collect();
    assert_eq!(read, ops);
}

#[test]
fn the_options_in_the_format_are_what_we_write_and_read() {
    use crate::options::KeyspaceOptions;
    let options = KeyspaceOptions::default().with_merge_operator("max");
    assert_eq!(options.encode(), example("80 20"));
    assert_eq!(KeyspaceOptions::decode(&options.encode()), Ok(options.clone()));
    // As they were stored before there were blob files.
    let stored = options.encode();
    assert_eq!(KeyspaceOptions::decode(&stored[..stored.len() - 2]), Ok(options.clone()));
    let inline = options.with_blob_bytes_min(0);
    assert_eq!(KeyspaceOptions::decode(&inline.encode()), Ok(inline));
}

proptest::proptest! {
    /// Any bytes decode to operations or an error, never a panic; what decodes encodes to the same.
    #[test]
    fn any_bytes_are_operations_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut decoder = Decoder::new(&bytes);
        while let Ok(Some(op)) = decode_op(&mut decoder) {
            let mut again = Ops::default();
            again.push(op).unwrap();
            proptest::prop_assert_eq!(again.iter().next(), Some(op));
        }
        let _ = crate::options::KeyspaceOptions::decode(&bytes);
    }
}

/// A batch of very many range deletes, within each other and within those before it, takes its share of memory:
/// it comes into a memtable without others, where readers tell none of its deletes from the rest.
#[test]
fn many_range_deletes_of_one_batch_have_one_number_a_fragment() {
    const DEPTH: u32 = 20_000;
    let db = Database::in_memory().expect("opened");
    let map = db.keyspace("map", crate::KeyspaceOptions::default()).expect("created");
    map.put([5, 0, 0, 0], "deleted").expect("put");
    for n in 0..500u32 {
        map.delete_range(n.to_be_bytes()..[0xff; 4]).expect("deleted");
    }
    let mut batch = db.batch();
    for n in 0..DEPTH {
        let (start, end) = ((1_000 + n).to_be_bytes(), (1_000 + 3 * DEPTH - n).to_be_bytes());
        batch.delete_range(&map, start..end).expect("added");
    }
    batch.commit().expect("committed");
    let current = db.core().current.load_full();
    let fragments =
        current.active.memtable.tombstones(map.id(), esker_base::SeqNo::MAX).expect("those of the batch");
    assert_eq!(fragments.list().len(), 2 * DEPTH as usize - 1);
    assert!(fragments.list().iter().all(|fragment| fragment.seqnos.len() == 1));
    assert_eq!(map.get([5, 0, 0, 0]).expect("read"), None);
    assert_eq!(map.iter().count(), 0);
}
