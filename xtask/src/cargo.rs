//! Starting programs, cargo above all, and reading `cargo metadata`.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::steps::Outcome;

/// The workspace's root directory.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    let asked = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(asked)
}

/// A cargo of the toolchain that runs this, to be started in the root without standard input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments);
    prepare(command)
}

/// Any other program, to be started in the root without standard input.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments);
    prepare(command)
}

fn prepare(mut command: Command) -> Command {
    command.current_dir(root()).stdin(Stdio::null());
    command
}

thread_local! {
    /// Where what this thread runs writes, if not to our own output.
    static LOG: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// From now on, what this thread runs writes to `log`.
pub(crate) fn log_to(log: File) {
    LOG.replace(Some(log));
}

/// Say what is started, and where `command` is to write.
fn announce(command: &mut Command) -> std::io::Result<()> {
    let line = format!("   {}", shown(command));
    LOG.with_borrow_mut(|log| {
        let Some(log) = log else {
            println!("{line}");
            return Ok(());
        };
        writeln!(log, "{line}")?;
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        Ok(())
    })
}

/// How a program ends that could not do here what it is for.
const SKIPPED: i32 = 77;

/// Run `command` with its output passed on.
pub(crate) fn run(mut command: Command) -> Outcome {
    match announce(&mut command).and_then(|()| command.status()) {
        Ok(status) if status.success() => Outcome::Held(String::new()),
        Ok(status) if status.code() == Some(SKIPPED) => {
            Outcome::Skipped("this machine does not let it".to_owned())
        }
        Ok(status) => Outcome::Failed(format!("{}: {status}", shown(&command))),
        Err(error) => Outcome::Failed(format!("cannot start {}: {error}", shown(&command))),
    }
}

/// Run `commands` in order until one fails.
pub(crate) fn run_all(commands: impl IntoIterator<Item = Command>) -> Outcome {
    for command in commands {
        match run(command) {
            Outcome::Held(_) => {}
            other => return other,
        }
    }
    Outcome::Held(String::new())
}

/// Whether `command` can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What `command` prints, if it succeeds.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", shown(&command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(&command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{} printed no UTF-8", shown(&command)))
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    let name = Path::new(command.get_program()).file_stem().unwrap_or(command.get_program());
    words.push(name.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// A package, as `cargo metadata` describes it.
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Its licence expression; empty if it states none.
    pub(crate) licence: String,
    /// Where it comes from; `None` for a path.
    pub(crate) source: Option<String>,
    /// Its directory.
    pub(crate) dir: PathBuf,
    /// The names of the packages it names as dependencies, of every kind.
    pub(crate) dependencies: Vec<String>,
    /// The names and root files of its targets.
    pub(crate) targets: Vec<(String, PathBuf)>,
    /// Whether it belongs to this workspace.
    pub(crate) is_member: bool,
}

/// Every package of the dependency graph, on all platforms and with default features.
pub(crate) fn packages(arguments: &[&str]) -> Result<Vec<Package>, String> {
    let mut all = vec!["metadata", "--format-version", "1", "--locked"];
    all.extend(arguments);
    let text = output(cargo(&all))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let members: Vec<&str> = list(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
    list(&metadata["packages"])
        .map(|package| {
            read_package(package, &members).ok_or_else(|| "cargo metadata: unknown shape".to_owned())
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn read_package(package: &Value, members: &[&str]) -> Option<Package> {
    let manifest = PathBuf::from(package["manifest_path"].as_str()?);
    Some(Package {
        name: text(&package["name"])?,
        version: text(&package["version"])?,
        licence: text(&package["license"]).unwrap_or_default(),
        source: text(&package["source"]),
        dir: manifest.parent()?.to_path_buf(),
        dependencies: list(&package["dependencies"]).filter_map(|one| text(&one["name"])).collect(),
        targets: list(&package["targets"])
            .filter_map(|one| Some((text(&one["name"])?, PathBuf::from(one["src_path"].as_str()?))))
            .collect(),
        is_member: members.contains(&package["id"].as_str()?),
    })
}
