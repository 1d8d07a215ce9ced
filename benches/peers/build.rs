//! Says what is missing before RocksDB's own build fails on it, minutes later and less clearly.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What to do about it.
const HINT: &str = "RocksDB is compiled from C++ and its bindings are made by libclang. On Debian and Ubuntu:\n\
    \n    apt-get install g++ libclang-dev\n\n\
    If libclang is somewhere unusual, set LIBCLANG_PATH to its directory. Or leave RocksDB out: --no-default-features";

fn main() {
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
