//! What the engine's leaves cost in instructions, beside a committed baseline: `engine_cost`, an example of
//! `benches`, under callgrind.
//!
//! A compiler makes other instructions than the next one: a baseline is of one version, and is not compared with
//! what another has made.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::callgrind;
use crate::cargo::{output, program, root};
use crate::steps::Outcome;

/// By how many percent a figure may differ from its baseline. Copies and checksums choose their instructions by
/// processor.
const TOLERANCE_PERCENT: u64 = 3;

/// An operation and its instructions.
type Cost = (String, u64);

fn baseline_path() -> PathBuf {
    root().join("benches/engine_cost.txt")
}

/// The step: every leaf as the baseline has it.
pub(crate) fn step() -> Outcome {
    let outcome = || -> Result<Outcome, String> {
        let Some(costs) = measured()? else {
            return Ok(Outcome::Skipped("valgrind is not installed".to_owned()));
        };
        let path = baseline_path();
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let (compiler, baseline) = parse(&text)?;
        print!("{}", table(&baseline, &costs));
        let ours = rustc()?;
        if compiler != ours {
            let why = format!("the baseline is of {compiler}, this is {ours}: `--accept` makes a new one");
            return Ok(Outcome::Skipped(why));
        }
        Ok(Outcome::of_problems(&problems(&baseline, &costs), format!("{} leaves", costs.len())))
    };
    outcome().unwrap_or_else(Outcome::Failed)
}

/// The step that makes what is measured the baseline.
pub(crate) fn accept() -> Outcome {
    let outcome = || -> Result<Outcome, String> {
        let costs = measured()?.ok_or("valgrind is not installed")?;
        let mut text = format!("{}\n", rustc()?);
        for (name, cost) in &costs {
            let _ = writeln!(text, "{name}\t{cost}");
        }
        let path = baseline_path();
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Outcome::Held(format!("{} leaves are in {}", costs.len(), path.display())))
    };
    outcome().unwrap_or_else(Outcome::Failed)
}

fn rustc() -> Result<String, String> {
    Ok(output(program("rustc", &["--version"]))?.trim().to_owned())
}

fn measured() -> Result<Option<Vec<Cost>>, String> {
    let Some(counted) = callgrind::counted("engine_cost")? else { return Ok(None) };
    counted.iter().map(|(line, total)| cost(line, *total)).collect::<Result<_, _>>().map(Some)
}

/// What a line of the example's says, with what was counted for it.
fn cost(line: &str, total: u64) -> Result<Cost, String> {
    let words = line.split_once('\t').map(|(name, operations)| (name, operations.parse::<u64>()));
    match words {
        Some((name, Ok(operations))) if operations > 0 => Ok((name.to_owned(), total / operations)),
        _ => Err(format!("engine_cost printed {line:?}")),
    }
}

/// The compiler and the costs of a baseline.
fn parse(text: &str) -> Result<(String, Vec<Cost>), String> {
    let (compiler, lines) = text.split_once('\n').ok_or("the baseline is empty")?;
    let costs = lines.lines().map(|line| {
        let cost = line.split_once('\t').map(|(name, cost)| (name, cost.parse::<u64>()));
        match cost {
            Some((name, Ok(cost))) if cost > 0 => Ok((name.to_owned(), cost)),
            _ => Err(format!("the baseline says {line:?}")),
        }
    });
    Ok((compiler.to_owned(), costs.collect::<Result<_, _>>()?))
}

fn of<'a>(costs: &'a [Cost], name: &str) -> Option<&'a u64> {
    costs.iter().find(|(other, _)| other == name).map(|(_, cost)| cost)
}

/// Less than before is a finding too: a baseline that nobody lowers guards nothing.
fn problems(baseline: &[Cost], costs: &[Cost]) -> Vec<String> {
    let gone = baseline.iter().filter(|(name, _)| of(costs, name).is_none());
    let gone = gone.map(|(name, _)| format!("{name} is in the baseline and was not measured"));
    let changed = costs.iter().filter_map(|(name, cost)| match of(baseline, name) {
        None => {
            Some(format!("{name} is not in the baseline; `cargo xtask engine-cost --accept` puts it there"))
        }
        Some(before) if cost.abs_diff(*before) * 100 > before * TOLERANCE_PERCENT => Some(format!(
            "{name} costs {cost} instructions, {before} before; if that is meant, \
             `cargo xtask engine-cost --accept`, and say why in the commit"
        )),
        Some(_) => None,
    });
    gone.chain(changed).collect()
}

fn table(baseline: &[Cost], costs: &[Cost]) -> String {
    let mut text = "| Leaf | Instructions | Before |\n|---|---|---|\n".to_owned();
    for (name, cost) in costs {
        let before = of(baseline, name).map_or_else(|| "–".to_owned(), u64::to_string);
        let _ = writeln!(text, "| {name} | {cost} | {before} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(get: u64) -> Vec<Cost> {
        vec![("get".to_owned(), get)]
    }

    #[test]
    fn more_and_less_than_the_baseline_is_a_problem() {
        assert!(problems(&costs(1_000), &costs(1_030)).is_empty());
        assert!(problems(&costs(1_000), &costs(970)).is_empty());
        assert_eq!(problems(&costs(1_000), &costs(1_031)).len(), 1);
        assert_eq!(problems(&costs(1_000), &costs(969)).len(), 1);
    }

    #[test]
    fn what_is_measured_and_what_is_expected_are_the_same() {
        assert_eq!(problems(&costs(1_000), &[]).len(), 1);
        assert_eq!(problems(&[], &costs(1_000)).len(), 1);
    }

    #[test]
    fn what_is_strange_is_no_success() {
        assert_eq!(cost("get\t4", 400), Ok(("get".to_owned(), 100)));
        assert!(cost("get\t0", 400).is_err() && cost("get", 400).is_err());
        assert_eq!(parse("rustc 1\nget\t7\n"), Ok(("rustc 1".to_owned(), costs(7))));
        assert!(
            parse("").is_err() && parse("rustc 1\nget\n").is_err() && parse("rustc 1\nget\t0\n").is_err()
        );
    }
}
