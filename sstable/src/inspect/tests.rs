//! Inspection shows every byte once, and goes on behind damage.

use super::*;
use crate::TableOptions;
use crate::testing::{bytes_of, entry, memory, overwrite, path, write};

fn fields(fs: &dyn Fs) -> Vec<Field> {
    inspect(fs, &path()).expect("memory").collect::<Result<_>>().expect("memory")
}

fn covers(fields: &[Field], len: u64) {
    let mut at = 0;
    for field in fields {
        assert_eq!(field.offset, at, "{field:?}");
        at += field.len;
    }
    assert_eq!(at, len);
}

#[test]
fn fields_cover_each_byte_once_whatever_is_damaged() {
    let fs = memory();
    let entries: Vec<_> =
        (0..60u32).map(|i| entry(format!("k{i:02}"), 1, esker_base::Kind::Put, [b'v'; 50])).collect();
    let options = TableOptions { block_bytes: 500, ..TableOptions::default() };
    let fragment = esker_base::range_tombstone::Fragment {
        start: b"x".to_vec(),
        end: b"y".to_vec(),
        seqnos: vec![esker_base::SeqNo(3)],
    };
    write(&fs, options, &entries, &[fragment]).expect("memory");
    let good = bytes_of(&*fs, &path());
    let shown = fields(&*fs);
    covers(&shown, good.len() as u64);
    assert!(shown.iter().all(|field| field.verdict == Verdict::Ok), "{shown:?}");
    assert!(shown.last().expect("a footer").value.ends_with("version 4"));
    assert!(shown[0].value.starts_with("7 rows from k00 @1 Put to k06 @1 Put"), "{}", shown[0].value);
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        overwrite(&*fs, &bad);
        let shown = fields(&*fs);
        covers(&shown, good.len() as u64);
        let hit =
            shown.iter().find(|f| (f.offset..f.offset + f.len).contains(&(at as u64))).expect("covered");
        assert_ne!(hit.verdict, Verdict::Ok, "byte {at}: {hit:?}");
    }
    for len in [0, 1, 19, 103, 104, 200] {
        overwrite(&*fs, &good[..len]);
        covers(&fields(&*fs), len as u64);
    }
}
