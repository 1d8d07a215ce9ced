use esker_base::cursor::VecCursor;
use esker_base::{Kind, Result};
use proptest::prelude::*;

use super::*;
use crate::testing::entry;

proptest! {
    #[test]
    fn equals_one_cursor_over_everything(
        lens in prop::collection::vec(0usize..5, 0..5),
        moves in prop::collection::vec((0u8..6, 0u64..25), 1..40),
    ) {
        let all: Vec<_> = (0..lens.iter().sum::<usize>())
            .map(|n| entry(&format!("{n:02}"), 7, Kind::Put, "v"))
            .collect();
        let mut rest = all.as_slice();
        let mut sources = Vec::new();
        for len in lens {
            let (source, following) = rest.split_at(len);
            sources.push(VecCursor::new(source.to_vec()));
            rest = following;
        }
        let mut expected = VecCursor::new(all);
        let mut cursor = LevelCursor::new(sources);
        for (step, at) in moves {
            let key = format!("{at:02}");
            let target = InternalKey::new(key.as_bytes(), SeqNo(at % 3 * 5));
            let apply = |cursor: &mut dyn Cursor| -> Result<()> {
                match step {
                    0 => cursor.seek_first(),
                    1 => cursor.seek_last(),
                    2 => cursor.seek(target),
                    3 => cursor.seek_before(target),
                    4 if cursor.valid() => cursor.next(),
                    5 if cursor.valid() => cursor.prev(),
                    _ => Ok(()),
                }
            };
            apply(&mut cursor).expect("memory");
            apply(&mut expected).expect("memory");
            prop_assert_eq!(cursor.valid(), expected.valid());
            if cursor.valid() {
                prop_assert_eq!(cursor.internal_key(), expected.internal_key());
                prop_assert_eq!((cursor.kind(), cursor.value()), (expected.kind(), expected.value()));
            }
        }
    }
}

/// Breaks at its second entry.
struct Broken(VecCursor);

impl Cursor for Broken {
    fn seek_first(&mut self) -> Result<()> {
        self.0.seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        self.0.seek_last()
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.0.seek(target)
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.0.seek_before(target)
    }
    fn next(&mut self) -> Result<()> {
        Err(Error::corruption("t", 1, "planted"))
    }
    fn prev(&mut self) -> Result<()> {
        Err(Error::corruption("t", 2, "planted"))
    }
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn key(&self) -> &[u8] {
        self.0.key()
    }
    fn seqno(&self) -> SeqNo {
        self.0.seqno()
    }
    fn kind(&self) -> Kind {
        self.0.kind()
    }
    fn value(&self) -> &[u8] {
        self.0.value()
    }
    fn drain_cost(&mut self, cost: &mut OpCost) {
        cost.seeks += 1;
    }
}

#[test]
fn an_error_is_final() {
    let source = |key: &str| Broken(VecCursor::new(vec![entry(key, 1, Kind::Put, "")]));
    let mut cursor = LevelCursor::new(vec![source("a"), source("b")]);
    cursor.seek_first().expect("the first entry is good");
    let first = cursor.next().expect_err("the second is not").to_string();
    assert!(!cursor.valid());
    for again in [cursor.next(), cursor.prev(), cursor.seek_first(), cursor.seek_last()] {
        assert_eq!(again.expect_err("for ever").to_string(), first);
    }
    let mut cost = OpCost::default();
    cursor.drain_cost(&mut cost);
    assert_eq!(cost.seeks, 2);
}
