//! Dependencies: licences, sources, duplicates and bans, from `cargo metadata` alone. An advisory
//! database is a download of its own and not consulted here.

use std::collections::{BTreeMap, BTreeSet};

use crate::cargo::{Package, packages};
use crate::steps::Outcome;

/// Licences that ask of a user no more than ours do.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The one registry dependencies may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages with more than one version in the graph, and how many are put up with. A ratchet: when
/// a number falls, so does its entry here.
const DUPLICATES: &[(&str, usize)] = &[
    // The model checkers and proptest draw from different generations of the same random sources.
    ("getrandom", 2),
    ("rand", 2),
    ("rand_core", 2),
    // Macros that moved to syn 3, and those that did not yet: costs build time alone.
    ("syn", 2),
    // Windows only, below the model checkers.
    ("windows-sys", 2),
    // Below fjall, which only the lab's feature `stores` brings in.
    ("hashbrown", 2),
    ("lock_api", 2),
    ("parking_lot_core", 2),
    ("redox_syscall", 2),
];

/// Packages that must not come in, and why.
const BANNED: &[(&str, &str)] = &[
    ("async-std", "the engine runs on its own scheduler"),
    ("heed", "rivals live in benches/peers"),
    ("lmdb", "rivals live in benches/peers"),
    ("native-tls", "nothing here speaks to a network"),
    ("openssl", "nothing here speaks to a network"),
    ("rocksdb", "rivals live in benches/peers"),
    ("rusqlite", "rivals live in benches/peers"),
    ("sled", "rivals live in benches/peers"),
    ("tokio", "the engine runs on its own scheduler"),
];

/// Packages that come in by the lab's feature `stores` and by nothing else: in the default graph they are
/// banned like those above.
const BEHIND_STORES: &[(&str, &str)] = &[
    ("fjall", "rivals live in benches/peers, and behind the lab's feature `stores`"),
    ("lsm-tree", "the tree is what this project is for"),
    ("redb", "rivals live in benches/peers, and behind the lab's feature `stores`"),
];

/// The step.
pub(crate) fn run() -> Outcome {
    match packages(&["--all-features"]) {
        Ok(all) => {
            let foreign = all.iter().filter(|package| !package.is_member).count();
            let mut problems = problems(&all);
            problems.extend(duplicates(&all, DUPLICATES));
            match packages(&[]) {
                Ok(default) => problems.extend(banned(&default, BEHIND_STORES)),
                Err(why) => return Outcome::Failed(why),
            }
            Outcome::of_problems(&problems, format!("{foreign} dependencies"))
        }
        Err(why) => Outcome::Failed(why),
    }
}

/// Licences, sources and bans.
fn problems(all: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in all {
        let Package { name, version, licence, source, is_member, .. } = package;
        if !licence_allowed(licence) {
            found.push(format!(
                "{name} {version}: licence {licence:?} is not on the list in xtask/src/audit.rs"
            ));
        }
        if !is_member && source.as_deref() != Some(REGISTRY) {
            found.push(format!("{name} {version}: comes from {source:?}, not from crates.io"));
        }
    }
    found.extend(banned(all, BANNED));
    found
}

/// The packages of `all` that are on `list`.
fn banned(all: &[Package], list: &[(&str, &str)]) -> Vec<String> {
    let why = |package: &Package| list.iter().find(|(name, _)| *name == package.name).map(|(_, why)| *why);
    let told = |package: &Package| {
        why(package).map(|why| format!("{} {}: is banned, {why}", package.name, package.version))
    };
    all.iter().filter_map(told).collect()
}

/// Packages with more versions than `allowed` says, and entries of `allowed` that ask too much.
fn duplicates(all: &[Package], allowed: &[(&str, usize)]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in all {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let mut found = Vec::new();
    for (name, set) in &versions {
        let limit = allowed.iter().find(|(other, _)| other == name).map_or(1, |(_, limit)| *limit);
        if set.len() > limit {
            let list: Vec<&str> = set.iter().copied().collect();
            found.push(format!("{name}: {} versions ({}), at most {limit}", set.len(), list.join(", ")));
        }
    }
    for (name, limit) in allowed {
        let now = versions.get(name).map_or(0, BTreeSet::len);
        if now < *limit {
            found.push(format!(
                "{name}: {now} versions are left, lower its entry of {limit} in xtask/src/audit.rs"
            ));
        }
    }
    found
}

/// Whether an SPDX expression can be met with [`LICENCES`]. `/` is the old spelling of `OR`; `AND`
/// binds closer than `OR`.
fn licence_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any_of(&mut rest);
    met && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut met = all_of(words);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= all_of(words);
    }
    met
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut met = one(words);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= one(words);
    }
    met
}

fn one(words: &mut &[&str]) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = any_of(words);
            let [")", rest @ ..] = *words else { return false };
            *words = rest;
            met
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            LICENCES.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, rest @ ..] => {
            *words = rest;
            LICENCES.contains(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests;
