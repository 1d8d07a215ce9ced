//! What layouts cost in instructions beside the same engine calls by hand: `layout_cost`, an example of
//! `benches`, under callgrind.

use std::fmt::Write as _;

use crate::callgrind;
use crate::steps::Outcome;

/// What the example says of one count.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    by_hand: bool,
    pair: String,
    operations: u64,
    limit: f64,
}

/// A pair with what was counted for it.
#[derive(Debug, PartialEq)]
struct Counted {
    pair: String,
    /// Instructions of an operation by hand, and of the layout's.
    by_hand: u64,
    layout: u64,
    ratio: f64,
    limit: f64,
}

/// The step: every pair within its limit.
pub(crate) fn step() -> Outcome {
    match measured() {
        Ok(Some(counted)) => {
            print!("{}", table(&counted));
            Outcome::of_problems(&problems(&counted), format!("{} operations", counted.len()))
        }
        Ok(None) => Outcome::Skipped("valgrind is not installed".to_owned()),
        Err(why) => Outcome::Failed(why),
    }
}

/// `None` without valgrind.
fn measured() -> Result<Option<Vec<Counted>>, String> {
    let Some(counted) = callgrind::counted("layout_cost")? else { return Ok(None) };
    let sides: Vec<Side> = counted.iter().map(|(line, _)| side(line)).collect::<Result<_, _>>()?;
    let totals: Vec<u64> = counted.iter().map(|(_, total)| *total).collect();
    pairs(&sides, &totals).map(Some)
}

fn side(line: &str) -> Result<Side, String> {
    let strange = || format!("layout_cost printed {line:?}");
    let words: Vec<&str> = line.split('\t').collect();
    let ["side", side, pair, operations, limit] = words.as_slice() else { return Err(strange()) };
    Ok(Side {
        by_hand: *side == "by hand",
        pair: (*pair).to_owned(),
        operations: operations.parse().ok().filter(|count| *count > 0).ok_or_else(strange)?,
        limit: limit.parse().map_err(|_| strange())?,
    })
}

/// The counts with their totals, in the order they were made: those of a pair's side by hand, then as many of its
/// layout. Each is held against the other side's of the same operations, and the pair's are those whose ratio lies
/// in the middle: what a count runs into once in a while, on either side, decides nothing.
fn pairs(counts: &[Side], totals: &[u64]) -> Result<Vec<Counted>, String> {
    let counts: Vec<(&Side, u64)> = counts.iter().zip(totals.iter().copied()).collect();
    let sides: Vec<&[(&Side, u64)]> = counts.chunk_by(|(one, _), (other, _)| one == other).collect();
    if sides.is_empty() {
        return Err("layout_cost measured nothing".to_owned());
    }
    let pair = |pair: &[&[(&Side, u64)]]| match pair {
        [hand @ [(of_hand, _), ..], layout @ [(of_layout, _), ..]]
            if of_hand.by_hand
                && !of_layout.by_hand
                && of_hand.pair == of_layout.pair
                && hand.len() == layout.len() =>
        {
            let mut counted: Vec<Counted> = hand.iter().zip(layout.iter()).map(held_against).collect();
            counted.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
            Ok(counted.swap_remove(counted.len() / 2))
        }
        _ => Err("layout_cost printed a side without its other".to_owned()),
    };
    sides.chunks(2).map(pair).collect()
}

fn held_against(((hand, by_hand), (of_layout, layout)): (&(&Side, u64), &(&Side, u64))) -> Counted {
    Counted {
        pair: hand.pair.clone(),
        by_hand: by_hand / hand.operations,
        layout: layout / of_layout.operations,
        ratio: *layout as f64 / *by_hand as f64,
        limit: hand.limit,
    }
}

fn problems(counted: &[Counted]) -> Vec<String> {
    let over = counted.iter().filter(|one| one.ratio > one.limit);
    over.map(|one| format!("{} costs {:.3} times as much, more than {:.2}", one.pair, one.ratio, one.limit))
        .collect()
}

/// The rows as the book has them.
fn table(counted: &[Counted]) -> String {
    let mut text = "| Operation | By hand | Layout | Ratio | Limit |\n|---|---|---|---|---|\n".to_owned();
    for one in counted {
        let Counted { pair, by_hand, layout, ratio, limit, .. } = one;
        let _ = writeln!(text, "| {pair} | {by_hand} | {layout} | {ratio:.3} | {limit:.2} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides() -> Vec<Side> {
        let lines = "side\tby hand\tget\t4\t1.1\nside\tlayout\tget\t4\t1.1";
        lines.lines().map(|line| side(line).expect("a side")).collect()
    }

    #[test]
    fn a_ratio_over_its_limit_is_a_problem() {
        let within = pairs(&sides(), &[400, 440]).expect("a pair");
        assert_eq!((within[0].by_hand, within[0].layout), (100, 110));
        assert!(problems(&within).is_empty());
        let over = pairs(&sides(), &[400, 441]).expect("a pair");
        assert_eq!(problems(&over), ["get costs 1.103 times as much, more than 1.10"]);
    }

    #[test]
    fn of_several_counts_the_one_in_the_middle_decides() {
        let counts: Vec<Side> = sides().into_iter().flat_map(|side| vec![side; 3]).collect();
        let counted = pairs(&counts, &[400, 900, 404, 900, 440, 444]).expect("a pair");
        assert_eq!((counted.len(), counted[0].by_hand, counted[0].layout), (1, 101, 111));
    }

    #[test]
    fn what_cannot_be_paired_is_no_success() {
        assert!(pairs(&[], &[]).is_err());
        assert!(pairs(&sides()[..1], &[400]).is_err());
        let uneven = [sides()[0].clone(), sides()[0].clone(), sides()[1].clone()];
        assert!(pairs(&uneven, &[400, 400, 440]).is_err());
        assert!(pairs(&sides().into_iter().rev().collect::<Vec<_>>(), &[400, 440]).is_err());
        assert!(side("side\tlayout\tget\t0\t1.1").is_err());
    }
}
