//! `esker lab`, at its smallest.

use super::{Sandbox, esker, json};

#[test]
fn the_lab_writes_a_page_and_names_it_last() {
    let sandbox = Sandbox::new();
    let (report, figures) = (sandbox.dir.path().join("report"), sandbox.dir.path().join("figures.json"));
    let [report, figures] = [&report, &figures].map(|path| path.to_str().expect("a path in ASCII"));
    let ran =
        esker(&["lab", "x1", "--scale", "tiny", "--store", "map", "--report", report, "--json", figures]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = ran.out.lines().last().and_then(|line| line.strip_prefix("report: ")).expect("it is named");
    assert!(std::fs::read_to_string(page).expect("it is there").contains("<html"));
    json(&std::fs::read_to_string(figures).expect("it is there"));
}

#[test]
fn mistakes_measure_nothing() {
    let sandbox = Sandbox::new();
    let report = sandbox.dir.path().join("report");
    let report = report.to_str().expect("a path in ASCII");
    esker(&["lab", "x77", "--report", report]).failed(2, &["x77"]);
    esker(&["lab", "x1", "--scale", "tiny", "--graph", "no-such-graph", "--report", report])
        .failed(1, &["no-such-graph"]);
    assert_eq!(std::fs::read_dir(sandbox.dir.path()).expect("it is there").count(), 0);
}
