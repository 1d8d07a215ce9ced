use std::fmt::Debug;

use super::{Bench, run};
use esker_layouts::Result;

/// Compares the answers of both sides.
#[derive(Default)]
struct Compare {
    names: Vec<&'static str>,
}

impl Bench for Compare {
    fn pair<T: PartialEq + Debug>(
        &mut self,
        name: &'static str,
        mut by_hand: impl FnMut(usize) -> Result<T>,
        mut layout: impl FnMut(usize) -> Result<T>,
    ) -> Result<()> {
        for n in 0..100 {
            assert_eq!(layout(n)?, by_hand(n)?, "{name}, operation {n}");
        }
        self.names.push(name);
        Ok(())
    }
}

/// Neither side of a pair does less than the other: the answers agree, and `run` itself compares the stores.
#[test]
fn both_sides_of_every_pair_answer_and_write_the_same() {
    let mut compare = Compare::default();
    run(&mut compare).expect("every pair runs");
    let mut names = compare.names.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), compare.names.len(), "names are unique");
    assert!(names.len() > 30);
}
