//! Examples of `benches` under callgrind. Instructions do not depend on the machine's load, so what they say is a
//! finding and not noise.
//!
//! An example spends what is to be counted within calls of its function `within_the_marks`. Callgrind collects
//! there and writes a file after each call; the example's lines say, in the same order, what each is of.

use std::path::Path;

use crate::cargo::{cargo, output, program, run, succeeds, target_dir};
use crate::steps::Outcome;

/// The examples that are built; one build for all of them.
const EXAMPLES: [&str; 2] = ["layout_cost", "engine_cost"];

/// How glibc is to allocate. What its `free` costs depends on the state of the whole heap as soon as a thread has
/// freed more blocks of one size than its own list takes, seven by default, and so differs by run: a scan of 20
/// rows by up to 15 %. With lists that take them all, by 0.1 %. Elsewhere the variable says nothing.
const ALLOCATOR: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=4096");

/// What a line of an example's is about, and its instructions.
pub(crate) type Counted = (String, u64);

/// Build and run `example`; `None` without valgrind.
pub(crate) fn counted(example: &str) -> Result<Option<Vec<Counted>>, String> {
    assert!(EXAMPLES.contains(&example), "{example} is built");
    if !succeeds(program("valgrind", &["--version"])) {
        return Ok(None);
    }
    // With the command line, whose dependencies' features it shares then: all below would be built anew.
    let mut build = cargo(&["build", "--release", "--locked", "--quiet", "--package", "esker-bench"]);
    build.args(["--package", "esker-cli"]);
    for example in EXAMPLES {
        build.args(["--example", example]);
    }
    if let Outcome::Failed(why) = run(build) {
        return Err(why);
    }
    let dir = target_dir().join(format!("callgrind-{example}"));
    if dir.is_dir() {
        std::fs::remove_dir_all(&dir)
            .map_err(|error| format!("cannot clear {}: {error}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
    let file = dir.join("callgrind");
    let marked = format!("{example}::within_the_marks");
    let mut command = program("valgrind", &["--quiet", "--tool=callgrind"]);
    command.env(ALLOCATOR.0, ALLOCATOR.1);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(format!("--toggle-collect={marked}")).arg(format!("--dump-after={marked}"));
    command.arg(target_dir().join("release/examples").join(example));
    let lines = output(command)?;
    let counted = (1..)
        .zip(lines.lines())
        .map(|(number, line)| Ok((line.to_owned(), total(&file.with_extension(number.to_string()))?)));
    counted.collect::<Result<_, String>>().map(Some)
}

/// The instructions in a file of callgrind's.
fn total(file: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("callgrind wrote no {}: {error}", file.display()))?;
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals:"));
    let total = total.and_then(|total| total.trim().parse().ok()).filter(|total| *total > 0);
    total.ok_or_else(|| format!("{} counts nothing", file.display()))
}
