//! `docs/reliability.md` says of every fault, promise and design rule which tests show it. This rule keeps
//! it complete: all rows are there, the tests and planted bugs that it names exist, and a feature that it
//! says is not there has not come without its row.
//!
//! What a figure claims no rule can check; that a row has one is checked.

use std::collections::BTreeMap;

use super::source::{closing, code_of, line_of, words};
use super::tree::{Tree, is_test_file};

/// The page.
const PAGE: &str = "docs/reliability.md";
/// Where bugs are planted.
const BUGS: &str = "tests/src/planted.rs";
/// Where the public interface is.
const INTERFACE: &str = "engine/src/";
/// How the page says that a feature does not exist.
const ABSENT: &str = "no such feature";

/// Faults of the fault model, promises, design rules.
const FAULTS: usize = 25;
const PROMISES: usize = 7;
const RULES: usize = 10;

/// Features with a row of the fault model waiting for them, by the word that gives them away.
const FEATURES: [&str; 3] = ["ttl", "blob", "backup"];

/// Rows that are missing, and what rows say that is not so.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.text(PAGE) else { return vec![format!("{PAGE}: it is missing")] };
    let rows = rows(page);
    let mut problems = Vec::new();
    for wanted in Wanted::all() {
        let Some(row) = rows.get(wanted.key.as_str()) else {
            problems.push(format!("{PAGE}: there is no row {}", wanted.key));
            continue;
        };
        problems
            .extend(wanted.check(row, tree).into_iter().map(|what| format!("{PAGE}:{}: {what}", row.line)));
    }
    for (line, reference) in references(page) {
        if let Some(problem) = missing(tree, reference) {
            problems.push(format!("{PAGE}:{line}: {problem}"));
        }
    }
    for feature in FEATURES {
        problems.extend(feature_problem(tree, page, &rows, feature));
    }
    problems
}

/// A row that the page must have.
struct Wanted {
    key: String,
    /// The cell with the planted bugs.
    bugs: Option<usize>,
    /// The cell with the figure.
    figure: Option<usize>,
}

/// A row of a table: its cells after the first.
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// The cell with the tests.
const TESTS: usize = 2;

impl Wanted {
    fn all() -> impl Iterator<Item = Wanted> {
        // Cells are counted from the first after the key.
        let faults = (1..=FAULTS).map(|n| Wanted { key: n.to_string(), bugs: None, figure: Some(3) });
        let promises =
            (1..=PROMISES).map(|n| Wanted { key: format!("P{n}"), bugs: Some(2), figure: Some(3) });
        let rules = (1..=RULES).map(|n| Wanted { key: format!("rule {n}"), bugs: Some(2), figure: None });
        faults.chain(promises).chain(rules)
    }

    fn check(&self, row: &Row<'_>, tree: &Tree) -> Vec<String> {
        let cell = |nth: usize| row.cells.get(nth).copied().unwrap_or_default();
        let mut problems = Vec::new();
        let tests = if self.bugs.is_some() { TESTS - 1 } else { TESTS };
        if references(cell(tests)).next().is_none() {
            problems.push(format!("row {} names no test", self.key));
        }
        if self.figure.is_some_and(|figure| cell(figure).trim().is_empty()) {
            problems.push(format!("row {} has no figure", self.key));
        }
        if let Some(bugs) = self.bugs {
            let mut names = code_spans(cell(bugs)).peekable();
            if names.peek().is_none() {
                problems.push(format!("row {} names no planted bug", self.key));
            }
            for name in names {
                if !breaks(tree, name, &self.key) {
                    problems.push(format!("no bug {name:?} in {BUGS} breaks {}", self.key));
                }
            }
        }
        problems
    }
}

/// The rows of all tables by their first cell.
fn rows(page: &str) -> BTreeMap<&str, Row<'_>> {
    let mut rows = BTreeMap::new();
    for (number, line) in page.lines().enumerate() {
        let Some(inner) = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let mut cells = inner.split('|').map(str::trim);
        let key = cells.next().unwrap_or_default();
        rows.insert(key, Row { line: number + 1, cells: cells.collect() });
    }
    rows
}

/// What stands between backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Every `path.rs::name` between backticks, with its line.
fn references(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let spans = lines.flat_map(|(number, line)| code_spans(line).map(move |span| (number + 1, span)));
    spans.filter(|(_, span)| span.contains(".rs::"))
}

/// Why `reference` names no test, if it does not.
fn missing(tree: &Tree, reference: &str) -> Option<String> {
    let (path, name) = reference.split_once("::")?;
    let Some(text) = tree.text(path) else { return Some(format!("{reference}: there is no such file")) };
    let code = code_of(text);
    let function = format!("fn {name}");
    let Some(at) = words(&code, &function).next() else {
        return Some(format!("{reference}: the file has no such function"));
    };
    // Its attributes stand between the end of the item before and its name.
    let before = code[..at].rfind(['}', ';']).map_or(0, |end| end + 1);
    (!code[before..at].contains("#[test]"))
        .then(|| format!("{reference}: line {} is a function and no test", line_of(&code, at)))
}

/// Whether the planted bug `name` breaks the rule or promise `key`.
fn breaks(tree: &Tree, name: &str, key: &str) -> bool {
    let table = tree.text(BUGS).unwrap_or_default();
    let quoted = format!("(\"{name}\", \"");
    table.lines().any(|line| {
        let broken = line.split_once(&quoted).and_then(|(_, rest)| rest.split_once('"'));
        broken.is_some_and(|(broken, _)| broken.split(", ").any(|one| one == key))
    })
}

/// What the page says of `feature` against what the interface has.
fn feature_problem(
    tree: &Tree,
    page: &str,
    rows: &BTreeMap<&str, Row<'_>>,
    feature: &str,
) -> Option<String> {
    let named = format!("`{feature}`");
    let row = rows.values().find(|row| row.cells.iter().any(|cell| *cell == named));
    let Some(row) = row else { return Some(format!("{PAGE}: does not say whether there is {feature}")) };
    let absent = row.cells.iter().any(|cell| cell.contains(ABSENT));
    match (in_interface(tree, feature), absent) {
        (Some(place), true) => {
            Some(format!("{PAGE}:{}: says that there is no {feature}, and {place} has it", row.line))
        }
        (None, false) => Some(format!("{PAGE}:{}: {feature} is nowhere in {INTERFACE}", row.line)),
        (Some(_), false)
            if !references(page).any(|(_, test)| words_of(test).any(|word| word == feature)) =>
        {
            Some(format!("{PAGE}:{}: no test with {feature} in its name is named", row.line))
        }
        _ => None,
    }
}

/// Where a public declaration of the engine has `feature` among the words of its names.
fn in_interface(tree: &Tree, feature: &str) -> Option<String> {
    for (path, text) in
        tree.sources().filter(|(path, _)| path.starts_with(INTERFACE) && !is_test_file(path))
    {
        let code = code_of(text);
        for at in words(&code, "pub").filter(|at| !code[at + 3..].starts_with('(')) {
            let declared = &code[at..declaration_end(&code, at)];
            if words_of(declared).any(|word| word == feature || word.strip_suffix('s') == Some(feature)) {
                return Some(format!("{path}:{}", line_of(&code, at)));
            }
        }
    }
    None
}

/// The end of what is declared at `at`: an enum with its variants, a signature, a field, a list of names.
fn declaration_end(code: &str, at: usize) -> usize {
    let rest = &code[at..];
    let until = |ends: &[char]| rest.find(ends).map_or(code.len(), |end| at + end);
    if rest.starts_with("pub enum ") || rest.starts_with("pub trait ") {
        return closing(code, until(&['{']));
    }
    if rest.starts_with("pub use ") { until(&[';']) } else { until(&['{', ';', '\n']) }
}

/// The words of all names in `text`, in small letters: `BlobOptions` and `blob_options` are two each.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let mut apart = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for letter in text.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            apart.push(' ');
        }
        apart.push(if letter.is_alphanumeric() { letter } else { ' ' });
        before = letter;
    }
    let words: Vec<String> = apart.split_whitespace().map(str::to_lowercase).collect();
    words.into_iter()
}

#[cfg(test)]
mod tests;
