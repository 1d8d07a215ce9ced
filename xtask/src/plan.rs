//! The commands as lists of steps, and the steps that start other programs.

use std::process::Command;

use crate::cargo::{Package, cargo, output, packages, program, root, run, run_all, succeeds, target_dir};
use crate::steps::{Outcome, Step};
use crate::{audit, engine_cost, layout_cost, tidy};

/// Workspaces of their own inside this one, which `--workspace` does not reach.
const INSIDE: [&str; 4] = [
    "tests/downstream/Cargo.toml",
    "tests/models/Cargo.toml",
    "tests/fuzz/Cargo.toml",
    "benches/peers/Cargo.toml",
];

/// Steps that build where the others do not at that time, so that neither waits for the other's build: soaks in the
/// directory of release builds, the others in their own.
pub(crate) const BESIDE: [&str; 4] = ["soaks", "loom", "shuttle", "miri"];

/// The steps of a command, in order: the quick ones first.
pub(crate) fn named(command: &str) -> Option<Vec<Step>> {
    let check: [Step; 7] = [
        ("format", format),
        ("tidy", tidy::run),
        ("audit", audit::run),
        ("clippy", clippy),
        ("tests", tests),
        ("doctests", doctests),
        ("docs", docs),
    ];
    let slower: [Step; 11] = [
        ("features", features),
        ("inside", inside),
        ("downstream", downstream),
        ("package", package),
        ("layout-cost", layout_cost::step),
        ("engine-cost", engine_cost::step),
        ("lab", lab),
        ("soaks", soaks),
        ("loom", loom),
        ("shuttle", shuttle),
        ("miri", miri),
    ];
    match command {
        "check" => Some(check.to_vec()),
        "ci" => Some([&check[..], &slower[..]].concat()),
        "audit" => Some(vec![("audit", audit::run)]),
        "layout-cost" => Some(vec![("layout-cost", layout_cost::step)]),
        "engine-cost" => Some(vec![("engine-cost", engine_cost::step)]),
        "tidy" => Some(vec![("tidy", tidy::run)]),
        _ => None,
    }
}

fn format() -> Outcome {
    if !succeeds(cargo(&["fmt", "--version"])) {
        return Outcome::Skipped("rustfmt is not installed (rustup component add rustfmt)".to_owned());
    }
    let inside = INSIDE.iter().filter(|manifest| root().join(manifest).is_file());
    let inside = inside.map(|manifest| cargo(&["fmt", "--check", "--manifest-path", manifest]));
    run_all(std::iter::once(cargo(&["fmt", "--all", "--check"])).chain(inside))
}

fn clippy() -> Outcome {
    if !succeeds(cargo(&["clippy", "--version"])) {
        return Outcome::Skipped("clippy is not installed (rustup component add clippy)".to_owned());
    }
    run(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

/// Everything but the doctests, which nextest does not run.
fn tests() -> Outcome {
    if succeeds(cargo(&["nextest", "--version"])) {
        // A workspace without a test is not an error of nextest's to find.
        return run(cargo(&["nextest", "run", "--workspace", "--locked", "--no-tests", "pass"]));
    }
    run(cargo(&["test", "--workspace", "--locked", "--lib", "--bins", "--tests"]))
}

fn doctests() -> Outcome {
    run(cargo(&["test", "--workspace", "--locked", "--doc"]))
}

fn docs() -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--locked", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

/// What lies behind features, in one build of them all: the planted bugs inside the engine, which its ordinary
/// build does not hold; the codec whose library is C; and the lab on other engines, which cost much to build.
fn features() -> Outcome {
    const FEATURES: &str = "esker-tests/planted,esker-bench/stores";
    let codec = succeeds(program("cc", &["--version"]));
    let features = if codec { format!("{FEATURES},esker/zstd") } else { FEATURES.to_owned() };
    // Of the whole workspace, so that what it shares with the other tests is not built anew.
    let mut command = cargo(&["test", "--workspace", "--locked", "--features", &features]);
    command.args(["--test", "planted", "--test", "stores", "--test", "smoke", "--test", "fuzz"]);
    // What tables do under the codec; in one command with the others it would take the unit tests of all crates.
    let mut tables = cargo(&["test", "--package", "esker-sstable", "--locked", "--features", "zstd"]);
    tables.arg("--lib");
    match run_all(std::iter::once(command).chain(codec.then_some(tables))) {
        Outcome::Held(_) if !codec => Outcome::Skipped("held but for zstd: no C compiler (cc)".to_owned()),
        outcome => outcome,
    }
}

/// The workspaces that no other step builds: the other engines, without the one that compiles for many minutes, with the
/// tests of what measures them; and the fuzz targets, which only a nightly compiler links.
fn inside() -> Outcome {
    let mut peers =
        cargo(&["clippy", "--manifest-path", "benches/peers/Cargo.toml", "--no-default-features"]);
    peers.args(["--all-targets", "--locked", "--", "-D", "warnings"]);
    let mut measuring = cargo(&[
        "test",
        "--manifest-path",
        "benches/peers/Cargo.toml",
        "--no-default-features",
        "--locked",
    ]);
    let mut fuzz = cargo(&["check", "--manifest-path", "tests/fuzz/Cargo.toml", "--locked"]);
    for command in [&mut peers, &mut measuring, &mut fuzz] {
        command.env("CARGO_TARGET_DIR", target_dir().join("inside"));
    }
    let clippy = ("clippy", succeeds(cargo(&["clippy", "--version"])));
    let [c, cpp] = ["cc", "c++"].map(|compiler| (compiler, succeeds(program(compiler, &["--version"]))));
    // LMDB and zstd are C, libFuzzer is C++.
    possible([
        ("the other engines", &[clippy, c][..], peers),
        ("what measures them", &[c], measuring),
        ("the fuzz targets", &[c, cpp], fuzz),
    ])
}

/// Run those commands whose tools are all there until one fails; the others are named, each with what it lacks.
fn possible<'a>(
    parts: impl IntoIterator<Item = (&'static str, &'a [(&'static str, bool)], Command)>,
) -> Outcome {
    let mut left_out = Vec::new();
    for (name, tools, command) in parts {
        let missing: Vec<&str> =
            tools.iter().filter(|(_, is_there)| !is_there).map(|(tool, _)| *tool).collect();
        if !missing.is_empty() {
            left_out.push(format!("{name} (no {})", missing.join(", no ")));
            continue;
        }
        match run(command) {
            Outcome::Held(_) => {}
            other => return other,
        }
    }
    if left_out.is_empty() {
        return Outcome::Held(String::new());
    }
    Outcome::Skipped(format!("left out: {}", left_out.join(", ")))
}

/// The suites of `tests/` in a release build, larger than `cargo test` runs them: about five minutes on two cores,
/// with the build. In the tests' own build they took twice as long.
const SOAKS: [(&str, u32); 17] = [
    ("crash", 43_000),
    ("nested", 40_000),
    ("fault", 6_000),
    ("badsync", 3_000),
    ("enospc", 150),
    ("descriptors", 150),
    ("enospc-real", 64),
    ("damage", 32_000),
    ("hostile", 4_000),
    ("model", 2_000_000),
    ("metamorphic", 640),
    ("transactions", 50_000),
    ("callbacks", 11_000),
    ("clock", 300),
    ("powercut", 200),
    ("kill", 150),
    ("exhaustion", 4),
];

/// Every suite of [`SOAKS`], one after the other, until one fails.
fn soaks() -> Outcome {
    all_of(SOAKS.iter().map(|(suite, count)| {
        let mut command = cargo(&["run", "--release", "--quiet", "--locked", "--package", "esker-tests"]);
        command.args(["--bin", "soak", "--", suite, "--count"]).arg(count.to_string());
        (*suite, command)
    }))
}

/// Run suites until one fails; those that were skipped are named.
fn all_of<'a>(suites: impl Iterator<Item = (&'a str, Command)>) -> Outcome {
    let mut skipped = Vec::new();
    for (suite, command) in suites {
        match run(command) {
            Outcome::Held(_) => {}
            Outcome::Skipped(_) => skipped.push(suite),
            failed @ Outcome::Failed(_) => return failed,
        }
    }
    if skipped.is_empty() {
        return Outcome::Held(String::new());
    }
    Outcome::Skipped(format!("held but for what this machine does not let: {}", skipped.join(", ")))
}

/// A suite of `tests/` at length; whether it held, or could not run here, which it has said.
pub(crate) fn soak(arguments: &[String]) -> bool {
    if let Some(("shuttle", rest)) = arguments.split_first().map(|(suite, rest)| (suite.as_str(), rest)) {
        return matches!(run(schedules(rest)), Outcome::Held(_));
    }
    let mut command = cargo(&["run", "--release", "--quiet", "--locked", "--package", "esker-tests"]);
    if arguments.first().is_some_and(|suite| suite == "planted") {
        command.args(["--features", "planted"]);
    }
    command.args(["--bin", "soak", "--"]).args(arguments);
    !matches!(run(command), Outcome::Failed(_))
}

/// A crate outside the workspace, as a user would write it.
fn downstream() -> Outcome {
    // Resolve to the versions the workspace was tested with; cargo leaves out what is not needed.
    let lock = root().join("tests/downstream/Cargo.lock");
    if let Err(error) = std::fs::copy(root().join("Cargo.lock"), &lock) {
        return Outcome::Failed(format!("cannot write {}: {error}", lock.display()));
    }
    let mut command = cargo(&["run", "--manifest-path", "tests/downstream/Cargo.toml"]);
    command.env("CARGO_TARGET_DIR", target_dir());
    run(command)
}

/// What decides how much the development build tells a debugger.
const DEV_DEBUG: &str = "CARGO_PROFILE_DEV_DEBUG";

/// What a registry would get builds by itself. Cargo refuses a tree with uncommitted changes.
fn package() -> Outcome {
    let ours = match packages(&["--no-deps"]) {
        Ok(ours) => ours,
        Err(why) => return Outcome::Failed(why),
    };
    if let Err(why) = forget_unpacked(&ours).and_then(|()| forget_built(&ours)) {
        return Outcome::Failed(why);
    }
    let mut command = cargo(&["package", "--workspace", "--locked", "--quiet"]);
    command.args(["--exclude", "esker-tests", "--exclude", "xtask"]);
    // A package leaves the workspace's profiles behind. Dependencies are built as the workspace has built them,
    // so that they need not be built anew; ours need only build.
    let ours = ours.iter().map(|package| format!("package.{}.opt-level=0", package.name));
    let theirs = ["opt-level=1", r#"lto="off""#].map(str::to_owned);
    if std::env::var_os(DEV_DEBUG).is_none() {
        command.env(DEV_DEBUG, "line-tables-only");
    }
    for setting in theirs.into_iter().chain(ours) {
        command.args(["--config", &format!("profile.dev.{setting}")]);
    }
    run(command)
}

/// Remove what cargo has unpacked of our packages when it packaged them before, under this path: it tells
/// them apart by version alone and would build the old sources. It is a cache, made anew each time.
fn forget_unpacked(ours: &[Package]) -> Result<(), String> {
    let home = std::env::var_os("CARGO_HOME").map(std::path::PathBuf::from);
    let home = home.or_else(|| Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(sources) = home.map(|home| home.join("registry/src")) else { return Ok(()) };
    // A registry on disk has no host name: its directory begins with the dash.
    let local = std::fs::read_dir(sources).into_iter().flatten().flatten();
    let local = local.filter(|entry| entry.file_name().to_string_lossy().starts_with('-'));
    for registry in local {
        for package in ours {
            let unpacked = registry.path().join(format!("{}-{}", package.name, package.version));
            if unpacked.is_dir() {
                std::fs::remove_dir_all(&unpacked)
                    .map_err(|error| format!("cannot clear {}: {error}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// Remove what cargo knows of having built our packages from what it unpacked, which it holds for as old as the last time: files
/// in a package have no time of their own. It knows by a name and a number what it built, so the workspace's own go with them.
fn forget_built(ours: &[Package]) -> Result<(), String> {
    let built = std::fs::read_dir(target_dir().join("debug/.fingerprint")).into_iter().flatten().flatten();
    for entry in built {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let package = name.rsplit_once('-').map(|(package, _number)| package);
        if ours.iter().any(|one| Some(one.name.as_str()) == package) {
            let path = entry.path();
            std::fs::remove_dir_all(&path)
                .map_err(|error| format!("cannot clear {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// The modules with `unsafe` that Miri can run: the memtable's, the pool of cached blocks, and rows that are lent. The rest of `vfs::os` maps
/// files, which it cannot.
fn miri() -> Outcome {
    if !succeeds(program("rustup", &["run", "nightly", "cargo", "miri", "--version"])) {
        let how = "rustup component add miri rust-src --toolchain nightly";
        return Outcome::Skipped(format!("the nightly component Miri is not installed ({how})"));
    }
    if !succeeds(program("rustup", &["run", "nightly", "cargo", "miri", "setup"])) {
        return Outcome::Skipped("Miri cannot build its library (rust-src is missing?)".to_owned());
    }
    // Properties are checked natively at full size; here a few cases reach every line. What measures
    // time has nothing to measure here.
    let tests_of = |package, module| {
        let mut command = program("rustup", &["run", "nightly", "cargo", "miri", "test", "--locked"]);
        command.args(["--package", package, "--lib", "--", module, "--skip", "measure"]);
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
        command.env("CARGO_TARGET_DIR", target_dir().join("miri"));
        run(command)
    };
    for (package, module) in [("esker-vfs", "block_pool"), ("esker", "memtable")] {
        let outcome = tests_of(package, module);
        if !matches!(outcome, Outcome::Held(_)) {
            return outcome;
        }
    }
    tests_of("esker", "rows::lent")
}

/// Lock-free modules in every interleaving, and with every stale value that the memory model allows.
fn loom() -> Outcome {
    let mut command = cargo(&["test", "--release", "--manifest-path", "tests/models/Cargo.toml", "--lib"]);
    // A directory of its own: the flag changes every crate, and the others need theirs unchanged.
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_dir().join("loom"));
    run(command)
}

/// The whole engine under schedules drawn at random, and the planted bugs that these must find.
fn shuttle() -> Outcome {
    run(schedules(&["--count".to_owned(), "50000".to_owned()]))
}

/// The models' command, which knows `--count`, `--seed` and `--scenario`.
fn schedules(arguments: &[String]) -> Command {
    let mut command = cargo(&["run", "--release", "--quiet", "--manifest-path", "tests/models/Cargo.toml"]);
    command.arg("--").args(arguments);
    command.env("RUSTFLAGS", "--cfg shuttle").env("CARGO_TARGET_DIR", target_dir().join("shuttle"));
    command
}

/// The lab on a real graph, if the data set lies beside the repository.
fn lab() -> Outcome {
    const GRAPH: &str = "../shared/data/wiki-vote/wiki-Vote.txt.gz";
    if !root().join(GRAPH).is_file() {
        return Outcome::Skipped(format!("{GRAPH} is not there"));
    }
    match output(cargo(&["run", "--release", "--locked", "--quiet", "--", "--help"])) {
        Ok(help) if help.lines().any(|line| line.trim_start().starts_with("lab ")) => {}
        Ok(_) => return Outcome::Skipped("the command line has no lab".to_owned()),
        Err(why) => return Outcome::Failed(why),
    }
    let report = target_dir().join("lab-smoke");
    if report.is_dir()
        && let Err(error) = std::fs::remove_dir_all(&report)
    {
        return Outcome::Failed(format!("cannot clear {}: {error}", report.display()));
    }
    let mut command = cargo(&["run", "--release", "--locked", "--quiet", "--", "lab", "--scale", "smoke"]);
    command.args(["--graph", GRAPH, "--report"]).arg(&report);
    match run(command) {
        Outcome::Held(_) if !std::fs::read_dir(&report).is_ok_and(|mut files| files.next().is_some()) => {
            Outcome::Failed(format!("the lab wrote no report into {}", report.display()))
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace that is only formatted rots unseen.
    #[test]
    fn every_workspace_inside_is_compiled() {
        for manifest in INSIDE {
            let argument = format!("\"--manifest-path\", \"{manifest}\"");
            assert!(include_str!("plan.rs").contains(&argument), "no step compiles {manifest}");
        }
    }

    fn ends_with(code: u8) -> Command {
        program("sh", &["-c", &format!("exit {code}")])
    }

    #[test]
    fn a_part_whose_tools_are_missing_is_named_and_hides_no_failure() {
        let parts = |there: [bool; 2], code| {
            let tools = [("cc", there[0]), ("c++", there[1])];
            possible([("one", &tools[..], ends_with(9)), ("other", &[("cc", true)], ends_with(code))])
        };
        let Outcome::Skipped(what) = parts([true, false], 0) else { panic!("a part was left out") };
        assert_eq!(what, "left out: one (no c++)");
        let Outcome::Skipped(what) = parts([false, false], 0) else { panic!("a part was left out") };
        assert_eq!(what, "left out: one (no cc, no c++)");
        assert!(matches!(parts([true, false], 1), Outcome::Failed(_)));
        assert!(matches!(parts([true, true], 0), Outcome::Failed(_)));
    }

    #[test]
    fn a_suite_that_was_skipped_is_named_and_hides_no_failure() {
        let suites =
            |codes: [u8; 3]| all_of(["kill", "powercut", "crash"].into_iter().zip(codes.map(ends_with)));
        assert!(matches!(suites([0, 0, 0]), Outcome::Held(_)));
        let Outcome::Skipped(what) = suites([0, 77, 0]) else { panic!("a skip is no success") };
        assert!(what.ends_with(": powercut"), "{what}");
        assert!(matches!(suites([0, 77, 1]), Outcome::Failed(_)));
    }
}
