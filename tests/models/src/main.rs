//! Runs the scenarios of the whole engine under shuttle; see the package's manifest.
#[cfg(shuttle)]
mod run;

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(shuttle))]
fn main() {
    eprintln!("built without --cfg shuttle, there is nothing to run");
    std::process::exit(2);
}
