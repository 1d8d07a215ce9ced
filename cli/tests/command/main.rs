//! The built binary, run as a person or a script would: what it prints, how it ends, what it leaves.
#![expect(
    clippy::disallowed_methods,
    reason = "directories are prepared and damaged behind the engine's back"
)]

mod damage;
mod db;
mod lab;
mod pipes;
mod refused;
mod workload;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a run came to.
struct Ran {
    code: i32,
    out: String,
    err: String,
    raw: Vec<u8>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code().expect("it ends by itself"),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            raw: output.stdout,
        }
    }
}

impl Ran {
    /// It ended with `code`, and its message holds each of `parts`.
    #[track_caller]
    fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in {:?}", self.err);
        }
    }

    /// It did what it was asked, without a word on standard error; what it printed.
    #[track_caller]
    fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "stdout: {}", self.out);
        self.out
    }
}

fn esker<S: AsRef<OsStr>>(arguments: &[S]) -> Ran {
    let run = Command::new(env!("CARGO_BIN_EXE_esker")).args(arguments).stdin(Stdio::null()).output();
    run.expect("the binary starts").into()
}

/// A directory with a database in `db`, made through the binary.
struct Sandbox {
    dir: tempfile::TempDir,
}

impl Sandbox {
    /// An empty directory.
    fn new() -> Sandbox {
        Sandbox { dir: tempfile::tempdir().expect("a directory") }
    }

    /// A database with the keyspace `default` and these rows, each in a table of its own.
    fn with(rows: &[(&str, &str)]) -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.db(&["create-keyspace", "default"]).done();
        for (key, value) in rows {
            sandbox.db(&["put", key, value]).done();
        }
        sandbox
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    /// `esker db DIR` with these arguments.
    fn db(&self, arguments: &[&str]) -> Ran {
        let path = self.path();
        let mut all = vec![OsStr::new("db"), path.as_os_str()];
        all.extend(arguments.iter().map(OsStr::new));
        esker(&all)
    }

    /// The same with `input` on standard input.
    fn db_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_esker"))
            .arg("db")
            .arg(self.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
        child.wait_with_output().expect("it ends").into()
    }

    /// Every file with its content.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(self.path())
            .expect("a directory")
            .map(|entry| entry.expect("a name").path())
            .map(|path| (path.clone(), std::fs::read(path).expect("a file")))
            .collect();
        files.sort();
        files
    }

    /// The files whose names end so.
    fn named(&self, extension: &str) -> Vec<PathBuf> {
        let is_wanted = |path: &Path| path.extension().is_some_and(|found| found == extension);
        self.files().into_iter().map(|(path, _)| path).filter(|path| is_wanted(path)).collect()
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("it is JSON")
}
