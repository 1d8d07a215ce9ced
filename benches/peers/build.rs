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
const SOURCES: [&str; 12] = [
    "../../Cargo.toml",
    "../../base",
    "../../vfs",
    "../../wal",
    "../../sstable",
    "../../manifest",
    "../../compaction",
    "../../engine",
    "Cargo.lock",
    "Cargo.toml",
    "build.rs",
    "src",
];

fn main() {
    describe();
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    println!("cargo::rerun-if-env-changed=CXX");
    if std::env::var_os("CARGO_FEATURE_ROCKSDB").is_none() {
        return;
    }
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let compiles = Command::new(&compiler).arg("--version").output().is_ok_and(|out| out.status.success());
    assert!(compiles, "there is no C++ compiler {compiler}. {HINT}");
    let given = std::env::var_os("LIBCLANG_PATH").is_some();
    assert!(given || libclang_dirs().iter().any(|dir| has_libclang(dir)), "libclang was not found. {HINT}");
}

/// What a record says of the build: the commit, marked with a checksum of the changes where sources differ from it (so that
/// two that do are told apart), the compiler and its flags.
fn describe() {
    let commit = said(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    let changes = said(Command::new("git").args(["diff", "HEAD", "--"]).args(SOURCES));
    let mark = changes.filter(|changes| !changes.is_empty()).map(|changes| {
        let mut hasher = DefaultHasher::new();
        changes.hash(&mut hasher);
        format!("-dirty-{:08x}", hasher.finish() >> 32)
    });
    let commit = commit.map(|commit| commit + &mark.unwrap_or_default());
    let rustc = std::env::var_os("RUSTC").and_then(|rustc| said(Command::new(rustc).arg("--version")));
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").map(|flags| flags.replace('\u{1f}', " "));
    let unknown = || "unknown".to_owned();
    println!("cargo::rustc-env=PEERS_COMMIT={}", commit.unwrap_or_else(unknown));
    println!("cargo::rustc-env=PEERS_RUSTC={}", rustc.unwrap_or_else(unknown));
    println!("cargo::rustc-env=PEERS_RUSTFLAGS={}", flags.unwrap_or_else(|_| unknown()));
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    // A line for each commit and checkout.
    if let Some(log) = said(Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo::rerun-if-changed={log}");
    }
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
