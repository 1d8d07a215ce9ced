use super::*;
use crate::testing::Append;

/// Keeps what it is given, and checks the hash.
#[derive(Default)]
struct Kept(Vec<(Vec<u8>, u64, Kind, usize)>);

impl Emit for Kept {
    fn value_of(&mut self, _key: &[u8], _pointer: &[u8]) -> Result<bytes::Bytes> {
        unreachable!("no value here lies in a blob file")
    }
    fn advance(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }
    fn emit(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8], hash: u64) -> Result<()> {
        assert_eq!(hash, entry_hash(key, seqno.0, kind as u8, value));
        self.0.push((key.to_vec(), seqno.0, kind, value.len()));
        Ok(())
    }
}

fn versions(snapshots: &[u64], below: Below) -> Versions {
    let stripes = Stripes::new(snapshots.iter().copied().map(SeqNo).collect());
    let ranges = RangeDeletes::new(&[], &stripes);
    Versions::new(stripes, ranges, below, false, Some(Arc::new(Append)))
}

fn give(versions: &mut Versions, kept: &mut Kept, seqno: u64, kind: Kind, value: &[u8]) {
    let hash = entry_hash(versions.key(), seqno, kind as u8, value);
    versions.entry(SeqNo(seqno), kind, value, hash, kept).expect("nothing to fail");
}

#[test]
fn a_chain_too_long_for_memory_is_handed_on_in_parts() {
    let mut versions = versions(&[1000], Below::nothing());
    let mut kept = Kept::default();
    versions.begin(b"k", &mut kept).expect("nothing to fail");
    let operand = vec![b'~'; OPERAND_BYTES_MAX / 4];
    for seqno in (1..=6).rev() {
        give(&mut versions, &mut kept, seqno, Kind::Merge, &operand);
    }
    assert_eq!(kept.0.len(), 4, "four fill the memory; the fifth pushes them out");
    versions.end(&mut kept).expect("nothing to fail");
    let shown: Vec<(u64, Kind)> = kept.0.iter().map(|(_, seqno, kind, _)| (*seqno, *kind)).collect();
    let operands = [6, 5, 4, 3].map(|seqno| (seqno, Kind::Merge));
    assert_eq!(shown[..4], operands);
    assert_eq!(shown[4..], [(2, Kind::Put)], "the rest meets the certainty that nothing is below");
}

#[test]
fn a_tombstone_is_held_back_until_something_older_survives() {
    for (older, expected) in [(Kind::Put, 2), (Kind::Delete, 0)] {
        let mut versions = versions(&[5, 10], Below::nothing());
        let mut kept = Kept::default();
        versions.begin(b"k", &mut kept).expect("nothing to fail");
        give(&mut versions, &mut kept, 9, Kind::Delete, b"");
        assert!(kept.0.is_empty());
        give(&mut versions, &mut kept, 4, older, b"");
        versions.end(&mut kept).expect("nothing to fail");
        assert_eq!(kept.0.len(), expected, "above a {older:?}");
        assert_eq!(versions.dropped.total(), 2 - expected as u64);
    }
}
