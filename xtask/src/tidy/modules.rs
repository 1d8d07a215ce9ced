//! Every source file belongs to a crate: a file that no `mod` declares is dead.

use std::collections::BTreeSet;

use super::source::{closing, code_of, words};
use super::tree::{Tree, join, parent};
use crate::cargo::{Package, root};

/// The root files of every crate: the targets cargo knows, and by convention those of the workspaces
/// inside, which it does not list.
pub(super) fn roots(tree: &Tree, members: &[Package]) -> Vec<String> {
    let known = members.iter().flat_map(|package| &package.targets);
    let mut roots: Vec<String> = known
        .filter_map(|(_, path)| path.strip_prefix(root()).ok()?.to_str())
        .map(|path| path.replace('\\', "/"))
        .collect();
    let manifests = tree.texts().filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    let member_dirs: Vec<String> = members
        .iter()
        .filter_map(|package| Some(package.dir.strip_prefix(root()).ok()?.to_str()?.replace('\\', "/")))
        .collect();
    for dir in manifests.filter(|dir| !member_dirs.iter().any(|member| member == dir)) {
        roots.extend(
            tree.sources()
                .map(|(path, _)| path)
                .filter(|path| is_conventional_root(dir, path))
                .map(str::to_owned),
        );
    }
    roots
}

/// Whether cargo, or cargo-fuzz, makes a crate of `path` in the package at `dir` without being told.
fn is_conventional_root(dir: &str, path: &str) -> bool {
    let Some(inside) = path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/')) else { return false };
    matches!(inside, "src/lib.rs" | "src/main.rs" | "build.rs")
        || matches!(parent(inside), "src/bin" | "tests" | "benches" | "examples" | "fuzz_targets")
}

/// Files that are not reached from any root, and declarations that lead nowhere.
pub(super) fn check(tree: &Tree, roots: &[String]) -> Vec<String> {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut problems = Vec::new();
    let mut open: Vec<(String, String)> =
        roots.iter().map(|path| (path.clone(), parent(path).to_owned())).collect();
    while let Some((path, dir)) = open.pop() {
        let Some(source) = tree.text(&path) else {
            problems.push(format!("{path}: is declared and not there"));
            continue;
        };
        if !reached.insert(path.clone()) {
            continue;
        }
        let mut declared = Vec::new();
        declarations(source, &code_of(source), &dir, &mut declared);
        for module in declared {
            open.push(resolve(tree, &path, module));
        }
        open.extend(included(source, parent(&path)).map(|path| (path.clone(), parent(&path).to_owned())));
    }
    let dead = tree.sources().filter(|(path, _)| !reached.contains(*path));
    problems.extend(dead.map(|(path, _)| format!("{path}: no `mod` declares it")));
    problems
}

/// A `mod name;`: the directory its file is looked for in, its name, and its `#[path]`.
struct Declaration {
    dir: String,
    name: String,
    path: Option<String>,
}

/// Collect the declarations of `code`, whose modules lie in `dir`; bodies of inline modules lead a
/// directory deeper. `source` is the same text with its literals.
fn declarations(source: &str, code: &str, dir: &str, found: &mut Vec<Declaration>) {
    let mut inside = 0;
    for at in words(code, "mod") {
        if at < inside {
            continue;
        }
        let after = code[at + 3..].trim_start();
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let rest = after[name.len()..].trim_start();
        if name.is_empty() {
            continue;
        }
        if rest.starts_with(';') {
            found.push(Declaration { dir: dir.to_owned(), path: path_attribute(&source[..at]), name });
        } else if rest.starts_with('{') {
            let begin = code.len() - rest.len();
            inside = closing(code, begin);
            let deeper = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            declarations(&source[begin + 1..inside], &code[begin + 1..inside], &deeper, found);
        }
    }
}

/// The value of a `#[path = "…"]` that belongs to the item beginning at the end of `before`.
fn path_attribute(before: &str) -> Option<String> {
    let item = before.rsplit([';', '}', '{']).next()?;
    let (_, value) = item.rsplit_once("#[path = \"")?;
    Some(value.split_once('"')?.0.to_owned())
}

/// The file of a declaration in `from`, and the directory its own modules lie in.
fn resolve(tree: &Tree, from: &str, module: Declaration) -> (String, String) {
    if let Some(path) = module.path {
        let path = join(parent(from), &path).unwrap_or(path);
        let dir = parent(&path).to_owned();
        return (path, dir);
    }
    let dir = join(&module.dir, &module.name).unwrap_or_default();
    let nested = format!("{dir}/mod.rs");
    let path = if tree.contains(&nested) { nested } else { format!("{dir}.rs") };
    (path, dir)
}

/// The files that `include!` pastes into a source of directory `dir`.
fn included(source: &str, dir: &str) -> impl Iterator<Item = String> {
    let names = source.split("include!(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
    names.filter_map(|name| join(dir, name)).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files), &["a/src/lib.rs".to_owned()])
    }

    #[test]
    fn declared_files_are_alive() {
        let files = [
            (
                "a/src/lib.rs",
                "// mod gone;\nmod b;\nmod c { mod d; }\n#[cfg(unix)]\n#[path = \"e_unix.rs\"]\nmod e;",
            ),
            ("a/src/b.rs", "#[cfg(test)]\nmod tests;"),
            ("a/src/b/tests.rs", ""),
            ("a/src/c/d/mod.rs", "mod f;"),
            ("a/src/c/d/f.rs", ""),
            ("a/src/e_unix.rs", ""),
        ];
        assert_eq!(problems(&files), Vec::<String>::new());
    }

    #[test]
    fn undeclared_and_missing_files_are_found() {
        let found = problems(&[("a/src/lib.rs", "mod b;"), ("a/src/c.rs", "")]);
        assert_eq!(found, ["a/src/b.rs: is declared and not there", "a/src/c.rs: no `mod` declares it"]);
    }
}
