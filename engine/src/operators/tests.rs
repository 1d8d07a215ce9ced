//! What the built-in operators answer does not depend on which operands meet first.

use super::*;
use crate::{Database, KeyspaceOptions};

const MAX: i64 = i64::MAX;

/// A sum that overflows on the way, and fits: read before and after a flush, which joins neighbours.
#[test]
fn a_sum_is_the_same_before_and_after_a_flush() -> Result<()> {
    for (base, adds, sum) in [
        (None, &[MAX, 1, -1][..], Some(MAX)),
        (None, &[1, MAX, -1], Some(MAX)),
        (None, &[-1, 1, MAX], Some(MAX)),
        (None, &[MAX, MAX, -MAX, -MAX, -3], Some(-3)),
        (Some(5), &[MAX, -6], Some(MAX - 1)),
        (Some(-2), &[i64::MIN, 1, 1], Some(i64::MIN)),
        (None, &[MAX, 1], None),
        (Some(1), &[MAX, 1, -1], None),
    ] {
        let db = Database::in_memory()?;
        let sums = db.keyspace("sums", KeyspaceOptions::default().with_merge_operator("add-i64"))?;
        if let Some(base) = base {
            sums.put("k", i64::to_le_bytes(base))?;
        }
        for add in adds {
            sums.merge("k", add.to_le_bytes())?;
        }
        for when in ["written", "flushed", "compacted"] {
            let found = sums.get("k");
            if let Some(sum) = sum {
                assert_eq!(found?.as_deref(), Some(&sum.to_le_bytes()[..]), "{base:?} {adds:?}, {when}");
            } else {
                assert!(matches!(found, Err(Error::Merge { .. })), "{base:?} {adds:?}, {when}");
            }
            if when == "flushed" {
                sums.compact_range::<&[u8]>(..)?;
            } else {
                db.flush()?;
            }
        }
    }
    Ok(())
}

/// Of all ways to fold some operands onto the base first, and to join neighbours, each gives the answer of all at once;
/// what is refused stays as it is.
#[test]
fn a_sum_does_not_depend_on_what_meets_first() {
    let signed = Add { signed: true };
    let words = [MAX, i64::MIN, 1, -1].map(i64::to_le_bytes);
    check_all(&signed, &words);
    check_all(&Add { signed: false }, &[u64::MAX, 1 << 63, 1, 0].map(u64::to_le_bytes));
}

/// All lists of five of `words`, the first of which is the base or an operand.
fn check_all(operator: &Add, words: &[[u8; 8]; 4]) {
    for list in 0..4usize.pow(5) {
        let list: Vec<&[u8]> = (0..5).map(|place| &words[list / 4usize.pow(place) % 4][..]).collect();
        for (base, operands) in [(None, &list[..]), (Some(list[0]), &list[1..])] {
            let fold = |base: Option<&[u8]>, operands: &[&[u8]]| operator.fold(b"k", base, operands).ok();
            let answer = fold(base, operands);
            for early in 1..operands.len() {
                if let Some(value) = fold(base, &operands[..early]) {
                    assert_eq!(fold(Some(&value), &operands[early..]), answer, "{list:?}, {early} early");
                }
                if let Some(both) = operator.combine(b"k", operands[early - 1], operands[early]) {
                    let joined = [&operands[..early - 1], &[&both[..]], &operands[early + 1..]].concat();
                    assert_eq!(fold(base, &joined), answer, "{list:?}, {early} joined");
                }
            }
        }
    }
}
