//! Files and functions stay small enough to read at a sitting.

use super::source::{closing, code_of, line_of, words};
use super::tree::{Tree, is_test_file};

/// A source file's most lines.
const FILE_LINES: usize = 800;
/// A function's most lines, its signature counted; tests tell longer stories.
const FUNCTION_LINES: usize = 100;

/// Files and functions (`path` or `path::function`) that were longer when the rule came, with the
/// lines they may have. A ratchet: numbers here only fall, and an entry goes when it is not needed.
pub(super) const RATCHET: &[(&str, usize)] = &[];

/// What is too long, and entries of `ratchet` that allow more than there is.
pub(super) fn check(tree: &Tree, ratchet: &[(&str, usize)]) -> Vec<String> {
    let mut long: Vec<(String, usize)> = Vec::new();
    for (path, text) in tree.sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            long.push((path.to_owned(), lines));
        }
        if !is_test_file(path) {
            let functions = functions(text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES);
            long.extend(functions.map(|(name, lines)| (format!("{path}::{name}"), lines)));
        }
    }
    let mut problems = Vec::new();
    for (name, lines) in &long {
        let limit = if name.contains("::") { FUNCTION_LINES } else { FILE_LINES };
        let allowed = ratchet.iter().find(|(other, _)| other == name).map_or(limit, |(_, lines)| *lines);
        if *lines > allowed {
            problems.push(format!("{name}: {lines} lines, at most {allowed}: split it by concept"));
        }
    }
    for (name, allowed) in ratchet {
        match long.iter().find(|(other, _)| other == name) {
            Some((_, lines)) if lines >= allowed => {}
            Some((_, lines)) => {
                problems.push(format!("{name}: {lines} lines, lower its ratchet of {allowed}"));
            }
            None => problems.push(format!("{name}: no longer too long, remove its ratchet")),
        }
    }
    problems
}

/// The functions of a source with bodies, and their length in lines.
fn functions(source: &str) -> Vec<(String, usize)> {
    let code = code_of(source);
    let mut found = Vec::new();
    for at in words(&code, "fn") {
        let after = code[at + 2..].trim_start();
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // A function pointer's type has no name.
        if name.is_empty() {
            continue;
        }
        if let Some(open) = body(&code, at) {
            let lines = line_of(&code, closing(&code, open) - 1) - line_of(&code, at) + 1;
            found.push((name, lines));
        }
    }
    found
}

/// Where the body of the function at `at` opens: the first brace outside parentheses and brackets,
/// unless a semicolon comes first.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured() {
        let source = "trait T { fn a(&self) -> [u8; 3]; }\nfn b(f: fn(u8)) {\n    // {\n}\n";
        assert_eq!(functions(source), [("b".to_owned(), 3)]);
    }

    #[test]
    fn the_ratchet_only_falls() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(120));
        let tree = Tree::of(&[("a/src/lib.rs", &long), ("a/src/tests.rs", &long)]);
        assert_eq!(check(&tree, &[]).len(), 1);
        assert!(check(&tree, &[("a/src/lib.rs::f", 122)]).is_empty());
        assert_eq!(check(&tree, &[("a/src/lib.rs::f", 130)]).len(), 1, "it could fall");
        assert_eq!(check(&tree, &[("a/src/lib.rs::f", 122), ("b/src/lib.rs", 900)]).len(), 1, "b is gone");
    }
}
