use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::Append;

fn operands(list: &[(u64, &str)]) -> Operands {
    let mut operands = Operands::default();
    for (seqno, operand) in list {
        operands.push(SeqNo(*seqno), operand.as_bytes());
    }
    operands
}

#[test]
fn operands_are_applied_oldest_first() {
    let list = operands(&[(9, "c"), (8, "b"), (7, "a")]);
    let fold = |base: Option<&[u8]>| list.fold(&Append, b"k", base).expect("no panic");
    assert_eq!(fold(Some(b"base")), Some(b"base,a,b,c".to_vec()));
    assert_eq!(fold(None), Some(b"a,b,c".to_vec()));
    assert_eq!((list.newest(), list.oldest(), list.len(), list.bytes()), (SeqNo(9), SeqNo(7), 3, 3));
}

#[test]
fn a_refusal_folds_nothing() {
    let list = operands(&[(9, "c"), (8, "!")]);
    assert_eq!(list.fold(&Append, b"k", None).expect("no panic"), None);
}

#[test]
fn neighbours_are_combined_where_the_operator_can() {
    let list = operands(&[(9, "d"), (8, "c"), (7, "~"), (6, "b"), (5, "a")]);
    let combined = list.combined(&Append, b"k").expect("no panic");
    let expected = [(9, "c,d"), (7, "~"), (6, "a,b")];
    let shown: Vec<(u64, &[u8])> = combined.iter().map(|(seqno, value)| (seqno.0, &**value)).collect();
    assert_eq!(shown, expected.map(|(seqno, value)| (seqno, value.as_bytes())));
}

/// Concatenates operands, and counts the bytes that it copies.
#[derive(Default)]
struct Copies(AtomicUsize);

impl MergeOperator for Copies {
    fn name(&self) -> &'static str {
        "copies"
    }
    fn fold(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Err("it combines only".into())
    }
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.0.fetch_add(older.len() + newer.len(), Ordering::Relaxed);
        Some([older, newer].concat())
    }
}

#[test]
fn a_long_chain_is_not_copied_anew_for_each_operand() {
    // Newest first: of one length, shorter and shorter, longer and longer, a long one before every hundred short ones.
    let lengths: [fn(usize) -> usize; 4] =
        [|_| 8, |n| 200 - n / 100, |n| n / 100, |n| if n.is_multiple_of(100) { 10_000 } else { 8 }];
    for (case, length) in lengths.into_iter().enumerate() {
        let mut list = Operands::default();
        let mut newest_first = Vec::new();
        for n in 0..20_000 {
            let operand: Vec<u8> = n.to_string().bytes().cycle().take(length(n)).collect();
            list.push(SeqNo(20_000 - n as u64), &operand);
            newest_first.push(operand);
        }
        newest_first.reverse();
        let whole = newest_first.concat();
        let operator = Copies::default();
        let combined = list.combined(&operator, b"k").expect("no panic");
        assert!(combined == [(SeqNo(20_000), whole.as_slice().into())], "case {case}");
        let copied = operator.0.into_inner();
        assert!(copied < 20 * whole.len(), "case {case}: {copied} bytes copied of {}", whole.len());
    }
}

#[test]
fn a_panic_is_an_error_even_if_its_payload_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the payload panics as well");
        }
    }
    let message = |call: fn()| match called(call).expect_err("it panics") {
        Error::CallbackPanicked { callback: "the merge operator", message } => message,
        other => panic!("{other}"),
    };
    assert_eq!(message(|| panic!("plain")), "plain");
    assert_eq!(message(|| panic!("number {}", 7)), "number 7");
    assert_eq!(message(|| std::panic::panic_any(Bomb)), "no message");
}
