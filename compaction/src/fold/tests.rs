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
    let shown: Vec<(u64, &[u8])> =
        combined.iter().map(|(seqno, value)| (seqno.0, value.as_slice())).collect();
    assert_eq!(shown, expected.map(|(seqno, value)| (seqno, value.as_bytes())));
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
