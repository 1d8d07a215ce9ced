//! The texts of the repository, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files by their path from the root, with `/` between names.
#[derive(Default)]
pub(crate) struct Tree {
    /// Contents of the files that rules read.
    texts: BTreeMap<String, String>,
    /// Every file and directory.
    names: BTreeSet<String>,
}

/// What is not the project's: build output, version control, reports.
const IGNORED: &[&str] = &["target", ".git", "esker-report", "book"];
/// Endings of the files that people write; a name without a dot is its own ending (`.ci/run`).
const READ: &[&str] = &["rs", "md", "toml", "sh", "yml", "txt", "run"];

impl Tree {
    /// The tree below `root`.
    pub(crate) fn load(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.visit(root, "").map_err(|error| format!("cannot read {}: {error}", root.display()))?;
        Ok(tree)
    }

    fn visit(&mut self, dir: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if IGNORED.contains(&name.as_str()) {
                continue;
            }
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.visit(&entry.path(), &path)?;
            } else if kind.is_file() && READ.contains(&name.rsplit('.').next().unwrap_or_default()) {
                // Test data may be any bytes: what is not UTF-8 is no text of ours.
                if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                    self.texts.insert(path.clone(), text);
                }
            }
            self.names.insert(path);
        }
        Ok(())
    }

    /// A tree of these texts, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
            let ancestors = Path::new(path).ancestors().filter_map(Path::to_str);
            tree.names.extend(ancestors.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        tree
    }

    /// Whether a file or directory has this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.names.contains(path)
    }

    /// The text of a file, if it is one that rules read.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// All texts, by path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust sources, by path.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| has_extension(path, "rs"))
    }

    /// The Markdown files, by path.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| has_extension(path, "md"))
    }
}

/// Whether `path` ends in `.extension`.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// `path` without its last name; "" for a name at the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// `dir` joined with the relative path `rest`, with `.` and `..` resolved; `None` if that leaves the
/// root.
pub(crate) fn join(dir: &str, rest: &str) -> Option<String> {
    let mut names: Vec<&str> = dir.split('/').filter(|name| !name.is_empty()).collect();
    for name in rest.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Whether a source holds nothing but tests, by its path.
pub(crate) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let in_tests = path.split('/').rev().skip(1).any(|dir| dir == "tests");
    in_tests || name == "tests.rs" || name.ends_with("_tests.rs")
}
