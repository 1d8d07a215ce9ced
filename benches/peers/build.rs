//! Tells the program what it is built from, and says what is missing before RocksDB's own build fails on it, minutes
//! later and less clearly.
#![forbid(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to do about it.
const HINT: &str = "RocksDB is compiled from C++ and its bindings are made by libclang. On Debian and Ubuntu:\n\
    \n    apt-get install g++ libclang-dev\n\n\
    If libclang is somewhere unusual, set LIBCLANG_PATH to its directory. Or leave RocksDB out: --no-default-features";

/// What the program is compiled from, but for crates of a registry.
const SOURCES: [&str; 13] = [
    "../../Cargo.toml",
    "../../base",
    "../../vfs",
    "../../wal",
    "../../sstable",
    "../../manifest",
    "../../compaction",
    "../../engine",
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "build.rs",
    "src",
];

/// What tells the builds of the engines in C and C++ which compiler to take, and what to tell it.
const C_SETTINGS: [&str; 4] = ["CC", "CFLAGS", "CXX", "CXXFLAGS"];

fn main() {
    describe();
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    if std::env::var_os("CARGO_FEATURE_ROCKSDB").is_none() {
        return;
    }
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let compiles = Command::new(&compiler).arg("--version").output().is_ok_and(|out| out.status.success());
    assert!(compiles, "there is no C++ compiler {compiler}. {HINT}");
    let given = std::env::var_os("LIBCLANG_PATH").is_some();
    assert!(given || libclang_dirs().iter().any(|dir| has_libclang(dir)), "libclang was not found. {HINT}");
}

/// What a record says of the build: the last commit that changed a source, marked with a checksum of what differs from it (so
/// that two that do are told apart), the compiler and its flags, and those for C.
fn describe() {
    let git = |arguments: &[&str]| said(Command::new("git").args(arguments).arg("--").args(SOURCES));
    let commit = git(&["log", "-1", "--format=%h", "--abbrev=12"]).filter(|commit| !commit.is_empty());
    let commit = commit.map(|commit| {
        let changes = git(&["diff", "HEAD"]).unwrap_or_default();
        let new = git(&["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
        if changes.is_empty() && new.is_empty() {
            return commit;
        }
        let mut hasher = DefaultHasher::new();
        changes.hash(&mut hasher);
        for path in new.lines() {
            (path, std::fs::read(path).ok()).hash(&mut hasher);
        }
        format!("{commit}-dirty-{:08x}", hasher.finish() >> 32)
    });
    let rustc = std::env::var_os("RUSTC").and_then(|rustc| said(Command::new(rustc).arg("--version")));
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").map(|flags| flags.replace('\u{1f}', " "));
    let unknown = || "unknown".to_owned();
    println!("cargo::rustc-env=PEERS_COMMIT={}", commit.unwrap_or_else(unknown));
    println!("cargo::rustc-env=PEERS_RUSTC={}", rustc.unwrap_or_else(unknown));
    println!("cargo::rustc-env=PEERS_RUSTFLAGS={}", flags.unwrap_or_else(|_| unknown()));
    println!("cargo::rustc-env=PEERS_C_SETTINGS={}", c_settings());
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    // A line for each commit and checkout.
    if let Some(log) = said(Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Those of [`C_SETTINGS`] that are there, also those for this target alone, as `NAME=value`.
fn c_settings() -> String {
    let target = std::env::var("TARGET").unwrap_or_default();
    let forms = |name: &str| {
        let underscored = target.replace('-', "_");
        [
            name.to_owned(),
            format!("{name}_{target}"),
            format!("{name}_{underscored}"),
            format!("TARGET_{name}"),
        ]
    };
    let mut settings = Vec::new();
    for name in C_SETTINGS.iter().flat_map(|name| forms(name)) {
        println!("cargo::rerun-if-env-changed={name}");
        if let Ok(value) = std::env::var(&name) {
            settings.push(format!("{name}={value}"));
        }
    }
    if settings.is_empty() { "none".to_owned() } else { settings.join(" ") }
}

/// What `command` prints, if it succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Where distributions put it.
fn libclang_dirs() -> Vec<PathBuf> {
    let inside = |dir: &str, below: &str| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().join(below)).collect::<Vec<_>>()
    };
    let mut dirs: Vec<PathBuf> = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from).into();
    dirs.extend(inside("/usr/lib", ""));
    dirs.extend(inside("/usr/lib", "lib"));
    dirs.extend(inside("/opt/homebrew/opt/llvm", ""));
    dirs
}

fn has_libclang(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("libclang"))
}
