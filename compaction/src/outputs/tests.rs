use esker_base::checksum::entry_hash;
use esker_base::range_tombstone::Fragments;

use super::*;
use crate::testing::{Lab, cover};

fn cut(table_bytes: u64, before: &[&str], boundary_bytes: u64, crossings_max: usize) -> Cut {
    let before = before.iter().map(|key| key.as_bytes().to_vec()).collect();
    Cut { table_bytes, before, boundary_bytes, crossings_max }
}

/// Outputs with these fragments.
fn begun(cut: Cut, tombstones: &[(&str, &str)]) -> Outputs {
    let tombstones: Vec<_> = tombstones.iter().map(|(start, end)| cover(start, end, 9)).collect();
    Outputs::new(Lab::new().maker(), cut, Fragments::build(&tombstones).list().to_vec(), no_blobs())
}

/// Write these keys, each with two versions of 20 bytes, and these fragments; the bounds of the outputs.
fn outputs(cut: Cut, keys: &[&str], tombstones: &[(&str, &str)]) -> Vec<String> {
    written(begun(cut, tombstones), keys)
}

/// Write these keys, as said above; the bounds of the outputs.
fn written(mut outputs: Outputs, keys: &[&str]) -> Vec<String> {
    for key in keys {
        outputs.advance(key.as_bytes()).expect("memory");
        for seqno in [2, 1] {
            let (key, value) = (key.as_bytes(), &[b'v'; 20]);
            let hash = entry_hash(key, seqno, Kind::Put as u8, value);
            outputs.emit(key, SeqNo(seqno), Kind::Put, value, hash).expect("memory");
        }
    }
    outputs.end().expect("memory");
    let show = |meta: &TableMeta| {
        let close = if meta.bounds.largest_exclusive { ")" } else { "" };
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let (smallest, largest) = (text(&meta.bounds.smallest), text(&meta.bounds.largest));
        format!("{smallest}-{largest}{close} {}+{}", meta.entries, meta.range_tombstones)
    };
    outputs.finished().iter().map(show).collect()
}

const LARGE: u64 = 1 << 20;

#[test]
fn nothing_in_nothing_out() {
    assert!(outputs(Cut::by_size(LARGE), &[], &[]).is_empty());
}

#[test]
fn a_full_table_ends_between_keys() {
    assert_eq!(outputs(Cut::by_size(1), &["a", "b", "c"], &[]), ["a-a 2+0", "b-b 2+0", "c-c 2+0"]);
}

#[test]
fn a_table_ends_before_its_metadata_is_too_much_for_one() {
    let with_at_most = |metadata_bytes_max, keys: &[&str], tombstones: &[(&str, &str)]| {
        written(Outputs { metadata_bytes_max, ..begun(Cut::by_size(LARGE), tombstones) }, keys)
    };
    // A key takes ten bits of the filter, and each of its two rows some nine bytes of the index.
    let keys = ["a", "b", "c", "d", "e"];
    assert_eq!(with_at_most(LARGE, &keys, &[]), ["a-e 10+0"]);
    assert_eq!(with_at_most(40, &keys, &[]), ["a-c 6+0", "d-e 4+0"]);
    let ranges = [("a", "b"), ("c", "d"), ("e", "f")];
    assert_eq!(with_at_most(LARGE, &[], &ranges), ["a-f) 0+3"]);
    assert_eq!(with_at_most(20, &[], &ranges), ["a-d) 0+2", "e-f) 0+1"]);
}

#[test]
fn boundaries_cut_what_is_large_enough() {
    let keys = ["a", "b", "c", "d", "e"];
    assert_eq!(outputs(cut(LARGE, &["a", "c", "e"], 1, 99), &keys, &[]), ["a-b 4+0", "c-d 4+0", "e-e 2+0"]);
    assert_eq!(outputs(cut(LARGE, &["a", "c", "e"], LARGE, 99), &keys, &[]), ["a-e 10+0"]);
    // However small, a table passes no more boundaries than it may.
    assert_eq!(
        outputs(cut(LARGE, &["aa", "b", "c", "e"], LARGE, 2), &keys, &[]),
        ["a-a 2+0", "b-d 6+0", "e-e 2+0"]
    );
}

#[test]
fn range_tombstones_are_clipped_to_their_table() {
    let keys = ["b", "d", "f"];
    assert_eq!(
        outputs(Cut::by_size(1), &keys, &[("a", "e"), ("x", "z")]),
        ["a-b) 0+1", "b-d) 2+1", "d-e) 2+1", "f-f 2+0", "x-z) 0+1"]
    );
    assert_eq!(outputs(cut(LARGE, &["c"], 1, 99), &keys, &[("a", "e")]), ["a-c) 2+1", "c-f 4+1"]);
}

#[test]
fn a_wide_tombstone_does_not_make_a_wide_table() {
    let boundaries = ["b", "c", "d", "e", "f", "g"];
    assert_eq!(
        outputs(cut(LARGE, &boundaries, LARGE, 2), &[], &[("a", "ee"), ("x", "z")]),
        ["a-c) 0+1", "c-e) 0+1", "e-g) 0+1", "x-z) 0+1"].map(|s| s.replace("e-g)", "e-ee)"))
    );
}

#[test]
fn every_file_of_what_is_given_up_is_named() {
    let lab = Lab::new();
    let mut outputs = Outputs::new(lab.maker(), Cut::by_size(LARGE), Vec::new(), no_blobs());
    outputs.advance(b"a").expect("memory");
    let hash = entry_hash(b"a", 1, Kind::Put as u8, b"");
    outputs.emit(b"a", SeqNo(1), Kind::Put, b"", hash).expect("memory");
    let begun: Vec<String> = outputs.give_up().iter().map(ToString::to_string).collect();
    assert_eq!((begun.len(), &begun), (1, &lab.files()));
    assert!(outputs.take_finished().0.is_empty());
}

fn no_blobs() -> Blobs {
    Blobs::new(crate::blobs::BlobRules::none())
}
