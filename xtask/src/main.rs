//! One-command checks.
fn main() {}
