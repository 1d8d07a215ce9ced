//! The `esker` command.
#![forbid(unsafe_code)]

fn main() {}
