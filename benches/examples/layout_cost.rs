//! Runs every pair of `esker_bench::layout_cost` so that callgrind can count the instructions of each side:
//! they are spent between calls of one function, which is marked for the tool. `cargo xtask layout-cost` does
//! it all; by hand:
//!
//! ```text
//! cargo build --release -p esker-bench --example layout_cost
//! valgrind --tool=callgrind --toggle-collect=layout_cost::within_the_marks --dump-after=layout_cost::within_the_marks \
//!     target/release/examples/layout_cost
//! ```
//!
//! Every call of that function makes a file of callgrind's own; the lines printed tell, in the same order, what
//! they are of: `side`, its name, the name of the pair, operations and limit, separated by tabs. A side is counted
//! several times, a line each: what happens once in a while, such as the allocator's tidying up, is in one of them
//! only. Words behind the command choose pairs whose names contain one of them.

use std::fmt::Debug;
use std::hint::black_box;
use std::process::ExitCode;

use esker_bench::layout_cost::{Bench, LIMIT, run};
use esker_layouts::Result;

/// How often a side is counted.
const COUNTS: usize = 5;
/// Operations of a count.
const COUNTED: usize = 64;
/// Operations before, which bring blocks into the cache and buffers to their size.
const WARMING: usize = 64;

/// What is counted.
#[inline(never)]
fn within_the_marks(body: &mut dyn FnMut()) {
    body();
    // Not a tail call, which would leave the function too early.
    black_box(());
}

struct Count {
    wanted: Vec<String>,
}

fn count<T>(side: &str, name: &'static str, mut operation: impl FnMut(usize) -> Result<T>) -> Result<()> {
    (0..WARMING).try_for_each(|n| operation(n).map(|_| ()))?;
    for first in (WARMING..).step_by(COUNTED).take(COUNTS) {
        let mut outcome = Ok(());
        within_the_marks(&mut || {
            outcome = (first..first + COUNTED).try_for_each(|n| {
                operation(n).map(|answer| {
                    black_box(answer);
                })
            });
        });
        println!("side\t{side}\t{name}\t{COUNTED}\t{LIMIT}");
        outcome?;
    }
    Ok(())
}

impl Bench for Count {
    fn pair<T: PartialEq + Debug>(
        &mut self,
        name: &'static str,
        by_hand: impl FnMut(usize) -> Result<T>,
        layout: impl FnMut(usize) -> Result<T>,
    ) -> Result<()> {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|word| name.contains(word.as_str())) {
            // Both sides or none: the stores are compared afterwards.
            return Ok(());
        }
        count("by hand", name, by_hand)?;
        count("layout", name, layout)
    }
}

fn main() -> ExitCode {
    match run(&mut Count { wanted: std::env::args().skip(1).collect() }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
