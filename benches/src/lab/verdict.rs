//! Does a claim hold?

use serde::Serialize;

use super::fit::Fit;
use super::model::{Form, Tally};

/// The lab's judgement on one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every counter equals its formula and the time prefers the predicted form.
    Reproduced,
    /// Only the time prefers the predicted form.
    ShapeOnly,
    /// Neither, or only the counters.
    NotReproduced,
    /// The claim is wrong: a counterexample was found, or a count contradicts it.
    Refuted,
}

impl Outcome {
    /// All of them, best first.
    pub const ALL: [Outcome; 4] =
        [Outcome::Reproduced, Outcome::ShapeOnly, Outcome::NotReproduced, Outcome::Refuted];
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Outcome::Reproduced => "reproduced",
            Outcome::ShapeOnly => "shape only",
            Outcome::NotReproduced => "not reproduced",
            Outcome::Refuted => "refuted",
        })
    }
}

/// An outcome with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The judgement.
    pub outcome: Outcome,
    /// Why, for people.
    pub reason: String,
}

impl Verdict {
    /// Judge a claim by the counters' comparison `counters` and by whether the time is as claimed;
    /// `time` says how it is, for people.
    pub fn of(counters: &Tally, shaped: bool, time: &str) -> Verdict {
        let outcome = match (counters.all_equal(), shaped) {
            (true, true) => Outcome::Reproduced,
            (false, true) => Outcome::ShapeOnly,
            (_, false) => Outcome::NotReproduced,
        };
        Verdict { outcome, reason: format!("{}; {time}", counted(counters)) }
    }
}

/// The comparison in words.
fn counted(counters: &Tally) -> String {
    if counters.all_equal() {
        return format!("all {} operations cost what the formula says", counters.operations);
    }
    let wrong = counters.operations - counters.equal;
    let first = counters.first_mismatch.as_deref().unwrap_or("no operation was compared");
    format!("{wrong} of {} operations differ from the formula; first: {first}", counters.operations)
}

/// Judge a claim of growth `predicted` by the counters' comparison and the fit of the time.
pub fn judge(predicted: Form, counters: &Tally, time: Option<&Fit>) -> Verdict {
    let Some(time) = time else {
        let reason = "fewer than three points enter the fit".to_owned();
        return Verdict { outcome: Outcome::NotReproduced, reason };
    };
    let shaped = time.form == predicted;
    let text = if shaped {
        format!("the time is {} ({})", time.form, growth(time))
    } else {
        format!("the time prefers {} instead of {predicted} ({})", time.form, growth(time))
    };
    Verdict::of(counters, shaped, &text)
}

fn growth(fit: &Fit) -> String {
    match fit.form {
        Form::Affine => format!("{:.1} times as long at the end of the range", fit.ratio),
        Form::Constant => {
            let sign = if fit.ratio < 1.0 { "−" } else { "+" };
            let depth = if fit.evidence > 6.0 && fit.rise > 0.0 {
                ", no line: the store's depth and caches"
            } else {
                ""
            };
            format!("{sign}{:.0} % over the range{depth}", (fit.ratio - 1.0).abs() * 100.0)
        }
    }
}
