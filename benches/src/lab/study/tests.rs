use super::*;
use crate::lab::{LabOptions, Report, Scale};

/// What the experiments' own tests ask of a study.
impl Study {
    /// Every count equals its formula; names the first that does not.
    pub(crate) fn expect_counted(&self) {
        for formula in &self.formulas {
            assert!(formula.tally.all_equal(), "{formula:?}");
        }
        assert!(self.counters_equal(), "nothing was compared");
    }

    pub(crate) fn verdicts(&self) -> Vec<Outcome> {
        self.claims.iter().map(|claim| claim.verdict.outcome).collect()
    }
}

/// One of everything.
fn study() -> Study {
    let mut study = Study::new("X99", "One of everything", "Z1–Z3", "Nothing <at all> was done.");
    study.compare("a: get", "1 key", &1, &1);
    study.compare("a: get", "1 key", &2, &1);
    study.compare("b: get", "1 key", &1, &1);
    study.claims.push(Claim {
        rows: "Z1".into(),
        claimed: "Everything is fast & free.".into(),
        predicted: "Nothing is.".into(),
        counted: "One key.".into(),
        timed: "A while.".into(),
        verdict: Verdict::of(&study.tally("a"), true, "it took a while"),
    });
    let mut table = Table::new("Figures", [Column::text("layout"), Column::new("time", Unit::Nanos)]);
    table.row(["wide".into(), 1.5e9.into()]);
    table.row(["tall".into(), Value::from(None::<f64>)]);
    study.exhibits.push(Exhibit::Table(table));
    let axis = |label: &str, unit| Axis::logarithmic(label, unit);
    let line = |name: &str, at: f64| Line {
        name: name.into(),
        points: vec![Place::new(1e6, at), Place::new(2e6, 2.0 * at), Place::new(3e6, 0.0)],
    };
    study.exhibits.push(Exhibit::Lines(Lines {
        title: "Growth".into(),
        x: axis("facts", Unit::Count),
        y: axis("time", Unit::Nanos),
        lines: vec![line("wide", 5e8), line("tall", 5e6)],
    }));
    study.exhibits.push(Exhibit::Bars(Bars {
        title: "Size".into(),
        value: Axis::linear("bytes on disk", Unit::Bytes),
        bars: vec!["tall".into(), "wide".into()],
        groups: vec![BarGroup { name: "now".into(), values: vec![Some(2048.0), None] }],
    }));
    let cell = |value| HeatCell { value, remark: "3 keys".into() };
    study.exhibits.push(Exhibit::Heat(Heat {
        title: "All at a glance".into(),
        columns: vec!["Q1".into(), "Q2".into()],
        unit: Unit::Nanos,
        rows: vec![("wide".into(), vec![cell(Some(1_000.0)), cell(None)])],
    }));
    study.notes.push("That was all.".into());
    study
}

fn report() -> Report {
    let nothing = Report::new("no store", &LabOptions::new(Scale::Tiny, Vec::new()));
    Report { studies: vec![study()], ..nothing }
}

#[test]
fn a_mismatch_is_told_everywhere() {
    let study = study();
    assert!(!study.counters_equal());
    assert!(!study.tally("a").all_equal() && study.tally("b").all_equal());
    let verdict = &study.claims[0].verdict;
    assert_eq!(verdict.outcome, Outcome::ShapeOnly);
    assert!(
        verdict
            .reason
            .starts_with("1 of 2 operations differ from the formula; first: counted 2, the formula says 1"),
        "{}",
        verdict.reason
    );
    let report = report();
    assert!(!report.counters_equal());
    assert!(report.to_html().contains("<strong class=\"bad\">some differ</strong>"));
    let text = report.to_text();
    assert!(
        text.contains("differs: a: get, which must cost 1 key: counted 2, the formula says 1"),
        "{text}"
    );
}

#[test]
fn nothing_compared_is_not_equal() {
    let study = Study::new("X99", "Nothing", "Z", "Nothing.");
    assert!(!study.counters_equal());
}

#[test]
fn the_page_is_whole_and_escaped() {
    let html = report().to_html();
    assert!(html.contains("Nothing &lt;at all&gt; was done.") && html.contains("fast &amp; free"));
    assert!(html.contains("<a href=\"#X99\">") && html.contains("<section id=\"X99\">"));
    for (open, close) in [("<svg", "</svg>"), ("<div", "</div>"), ("<table", "</table>"), ("<g ", "</g>")] {
        assert_eq!(html.matches(open).count(), html.matches(close).count(), "{open}");
    }
    assert_eq!(html.matches("<figure>").count(), 2, "the lines and the bars");
    // "wide" has the same colour in both charts, though it is not in the same place.
    assert_eq!(html.matches("<g class=\"s c0\"><polygon").count(), 1);
    assert!(html.contains("wide: –"), "a missing bar says so");
    for odd in ["NaN", "\"inf", ",inf", "http://", "https://", "<script", "<link", "url("] {
        assert!(!html.contains(odd), "{odd}");
    }
}

#[test]
fn figures_are_raw_in_json_and_have_units_elsewhere() {
    let report = report();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    let study = &json["studies"][0];
    assert_eq!(study["exhibits"][0]["kind"], "table");
    assert_eq!(study["exhibits"][0]["rows"][0][1], 1.5e9);
    assert_eq!(study["exhibits"][0]["columns"][1]["unit"], "nanos");
    assert_eq!(study["claims"][0]["verdict"]["outcome"], "shape-only");
    assert_eq!(study["formulas"][0]["tally"]["equal"], 1);
    let text = report.to_text();
    for shown in ["1.50 s", "2.0 KiB", "500 ms", "Z1: shape only", "That was all."] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}
