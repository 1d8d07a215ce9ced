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
fn what_was_found_before_a_failure_is_kept() {
    let sandbox = Sandbox::new();
    let report = sandbox.dir.path().join("report");
    let given = ["lab", "x12", "x1", "--scale", "tiny", "--store", "map", "--graph", "no-such-graph"];
    let given = given.into_iter().chain(["--report", report.to_str().expect("a path in ASCII")]);
    let page = report.join("index.html");
    let page = page.to_str().expect("a path in ASCII");
    let ran = esker(&given.collect::<Vec<_>>());
    ran.failed(1, &["X12: ", "no-such-graph", "before it", page]);
    assert!(ran.out.contains("X12"), "{}", ran.out);
    assert!(std::fs::read_to_string(page).expect("it is there").contains("X12"));
}

/// The command line was right, and a report has been written: it failed while running.
#[test]
fn a_file_with_nothing_in_it_is_a_failure_not_a_mistake() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.dir.path().join(name).to_str().expect("a path in ASCII").to_owned();
    let (empty, report) = (path("empty.csv"), path("report"));
    std::fs::write(&empty, "").expect("written");
    let rest = ["--scale", "tiny", "--store", "map", "--report", &report];
    let ran = esker(&[&["lab", "x1", "x8", "--interest", &empty][..], &rest].concat());
    ran.failed(1, &["empty.csv has no facts", "before it", "index.html"]);
    assert!(ran.out.contains("X1  "), "{}", ran.out);
    std::fs::remove_dir_all(&report).expect("removed");
    esker(&[&["lab", "x1", "--graph", &empty][..], &rest].concat()).failed(1, &["empty.csv has no edges"]);
    esker(&[&["lab", "x10", "--mail", &empty][..], &rest].concat()).failed(1, &["empty.csv has no mail"]);
}

#[test]
fn where_nothing_can_be_written_nothing_is_measured() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.dir.path().join(name).to_str().expect("a path in ASCII").to_owned();
    std::fs::write(path("file"), "").expect("written");
    std::fs::create_dir(path("directory")).expect("made");
    for (report, figures) in [
        (path("file"), path("figures")),
        (path("file/report"), path("figures")),
        (path("new/report"), path("file/figures")),
        (path("new/report"), path("directory")),
    ] {
        let given = ["lab", "x1", "--scale", "tiny", "--store", "map"];
        let ran = esker(&[&given[..], &["--report", &report, "--json", &figures]].concat());
        ran.failed(1, &["cannot "]);
        // The directory's name is of any letters.
        let said = ran.err.replace(&path(""), "");
        assert_eq!((ran.out.as_str(), said.contains("X1")), ("", false), "{said}");
    }
    assert_eq!(std::fs::read_dir(sandbox.dir.path()).expect("it is there").count(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_measured_is_printed_where_it_cannot_be_written() {
    let sandbox = Sandbox::new();
    let report = sandbox.dir.path().join("report");
    let page = report.join("index.html");
    let report = report.to_str().expect("a path in ASCII");
    let given = ["lab", "x12", "--scale", "tiny", "--store", "map", "--report", report];
    let ran = esker(&[&given[..], &["--json", "/dev/full"]].concat());
    ran.failed(1, &["cannot write /dev/full", page.to_str().expect("a path in ASCII")]);
    assert!(ran.out.contains("X12") && page.exists(), "{}", ran.out);
}

#[test]
fn mistakes_measure_nothing() {
    let sandbox = Sandbox::new();
    let report = sandbox.dir.path().join("report");
    let report = report.to_str().expect("a path in ASCII");
    esker(&["lab", "x77", "--report", report]).failed(2, &["x77"]);
    esker(&["lab", "x1", "--scale", "tiny", "--graph", "no-such-graph", "--report", report])
        .failed(1, &["no-such-graph"]);
    esker(&["lab", "x3", "--graph", "no-such-graph", "--report", report]).failed(2, &["--graph is for x1"]);
    esker(&["lab", "x1", "x8", "--layouts", "typo", "--report", report]).failed(2, &["\"typo\""]);
    assert_eq!(std::fs::read_dir(sandbox.dir.path()).expect("it is there").count(), 0);
}

#[test]
fn facts_come_from_a_file() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.dir.path().join(name).to_str().expect("a path in ASCII").to_owned();
    let (facts, report) = (path("facts.csv"), path("report"));
    let line = |i: u32| format!("u{},g{},2006-04-{:02}\n", i % 7, i % 5, i % 28 + 1);
    let lines = (0..60).map(line).collect::<Vec<_>>().concat();
    std::fs::write(&facts, format!("player,game,date\n{lines}")).expect("written");
    let given = ["lab", "--interest", &facts, "--columns", "user=player,item=game,day=date"];
    let given = [&given[..], &["--scale", "tiny", "--store", "map", "--report", &report]].concat();
    let ran = esker(&given);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("60 lines, 60 facts") && !ran.out.contains("X1  "), "{}", ran.out);
    assert!(ran.out.trim_end().ends_with("index.html"));
    std::fs::remove_dir_all(&report).expect("removed");
    std::fs::write(&facts, format!("player,game,date\n{lines}u1,g1,soon\n")).expect("written");
    esker(&given).failed(1, &["facts.csv, line 62: the day \"soon\" is neither"]);
    esker(&["lab", "--columns", "user=1,item=2"]).failed(2, &["--interest"]);
    esker(&["lab", "--interest", &facts, "--columns", "user=1"]).failed(2, &["user and item are needed"]);
    assert_eq!(
        std::fs::read_dir(sandbox.dir.path()).expect("it is there").count(),
        1,
        "nothing was written"
    );
}

#[test]
fn mail_comes_from_a_file() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.dir.path().join(name).to_str().expect("a path in ASCII").to_owned();
    let (mail, report) = (path("mail.tsv"), path("report"));
    let line = |i: u32| format!("{i}\tuser{}/inbox/{i}\t{}\tHello\n", i % 5, 1_356_998_400 + i * 20_000);
    let lines = (1..=60).map(line).collect::<String>();
    std::fs::write(&mail, &lines).expect("written");
    let given = ["lab", "--mail", &mail, "--scale", "tiny", "--store", "map", "--report", &report];
    let ran = esker(&given);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("5 mailboxes with 60 messages, from a file") && !ran.out.contains("X1  "));
    std::fs::remove_dir_all(&report).expect("removed");
    std::fs::write(&mail, format!("{lines}61\tuser1/inbox/61\tsoon\n")).expect("written");
    esker(&given).failed(1, &["mail.tsv, line 61: the time \"soon\" is no number"]);
    esker(&["lab", "--mail", "no-such-mail", "--report", &report]).failed(1, &["no-such-mail"]);
    // With two files both experiments run.
    std::fs::write(&mail, &lines).expect("written");
    let edges = path("edges.txt");
    std::fs::write(&edges, "1 2\n1 3\n2 1\n").expect("written");
    let ran = esker(&[&given[..], &["--graph", &edges]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("X1  ") && ran.out.contains("from a file") && !ran.out.contains("X8  "));
    std::fs::remove_dir_all(&report).expect("removed");
    std::fs::remove_file(&edges).expect("removed");
    assert_eq!(
        std::fs::read_dir(sandbox.dir.path()).expect("it is there").count(),
        1,
        "nothing was written"
    );
}
