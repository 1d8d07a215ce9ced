use super::*;

/// A page with every row, and the files it speaks of.
fn whole() -> Vec<(&'static str, String)> {
    let mut page = String::new();
    let test = "`tests/tests/a.rs::it_holds`";
    let mut bugs = String::new();
    for n in 1..=FAULTS {
        page.extend([format!("| {n} | a fault | an error | {test} | 0 of 5 |\n")]);
    }
    for n in 1..=PROMISES {
        page.extend([format!("| P{n} | a promise | {test} | `bug-p{n}` | 0 of 5 |\n")]);
        bugs.extend([format!("    lie(\"bug-p{n}\", \"P{n}\", x),\n")]);
    }
    for n in 1..=RULES {
        page.extend([format!("| rule {n} | a rule | {test} | `bug-{n}` |\n")]);
        bugs.extend([format!("    engine(\"bug-{n}\", \"P1, rule {n}\", x),\n")]);
    }
    for feature in FEATURES {
        page.extend([format!("| {feature} it is | `{feature}` | no such feature |\n")]);
    }
    vec![
        (PAGE, page),
        (BUGS, bugs),
        ("tests/tests/a.rs", "fn helps() {}\n#[test]\n#[ignore = \"}\"]\nfn it_holds() {}\n".to_owned()),
        (
            "engine/src/lib.rs",
            "pub use a::{Batch,\n Key};\nfn ttl() {}\npub(crate) fn blob() {}\n".to_owned(),
        ),
    ]
}

/// The problems once `from` has become `to` in the file `path`.
fn after(path: &str, from: &str, to: &str) -> Vec<String> {
    let mut files = whole();
    for (name, text) in &mut files {
        if *name == path {
            assert!(text.contains(from), "{from:?}");
            *text = text.replacen(from, to, 1);
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    check(&Tree::of(&files))
}

fn one(problems: &[String], told: &str) {
    assert!(problems.len() == 1 && problems[0].contains(told), "{problems:?}");
}

#[test]
fn a_whole_page_passes() {
    assert_eq!(after(PAGE, "", ""), Vec::<String>::new());
}

#[test]
fn each_missing_row_is_named() {
    for wanted in Wanted::all() {
        let row = format!("| {} | ", wanted.key);
        one(&after(PAGE, &row, "| something else | "), &format!("no row {}", wanted.key));
    }
    assert_eq!(check(&Tree::of(&[])).len(), 1, "nor may the page be missing");
}

#[test]
fn a_row_names_a_test_that_is_there() {
    one(&after(PAGE, "`tests/tests/a.rs::it_holds`", "none"), "row 1 names no test");
    one(&after(PAGE, "::it_holds", "::it_held"), "no such function");
    one(&after(PAGE, "::it_holds", "::helps"), "is a function and no test");
    one(&after(PAGE, "tests/a.rs", "tests/b.rs"), "no such file");
    let renamed = after("tests/tests/a.rs", "it_holds", "it_holds_now");
    assert_eq!(renamed.len(), FAULTS + PROMISES + RULES, "{renamed:?}");
}

#[test]
fn a_row_has_its_figure_and_its_bug() {
    one(&after(PAGE, "| 0 of 5 |", "|  |"), "row 1 has no figure");
    one(&after(PAGE, "`bug-p3`", ""), "row P3 names no planted bug");
    one(&after(PAGE, "`bug-p3`", "`bug-4`"), "breaks P3");
    one(&after(BUGS, "bug-10", "bug-eleven"), "\"bug-10\"");
    one(&after(BUGS, "P1, rule 10", "P1, rule 1"), "breaks rule 10");
}

#[test]
fn a_feature_does_not_come_without_its_test() {
    for (from, to) in [
        ("pub use a::{Batch,\n Key}", "pub use a::{Batch,\n Ttl}"),
        ("fn ttl() {}", "pub fn put_with_ttl(key: u8) {}"),
        ("fn ttl() {}", "pub enum Expiry {\n    TtlSeconds(u64),\n}"),
        ("fn ttl() {}", "pub struct A {\n    pub ttl: u64,\n}"),
    ] {
        one(&after("engine/src/lib.rs", from, to), "has it");
    }
    one(&after("engine/src/lib.rs", "fn ttl() {}", "pub fn backups() {}"), "no backup");
    one(&after(PAGE, "`ttl` | no such feature", "`ttl` | there"), "ttl is nowhere");
    one(&after(PAGE, "`ttl` | no such feature", "`expiry` | no such feature"), "whether there is ttl");
}

#[test]
fn a_feature_that_is_there_has_a_test_of_its_name() {
    let mut files = whole();
    files[0].1 = files[0].1.replace("`ttl` | no such feature", "`ttl` | there");
    files[3].1.push_str("pub struct Ttl;\n");
    let of = |files: &[(&'static str, String)]| {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        check(&Tree::of(&files))
    };
    one(&of(&files), "no test with ttl");
    files[0].1.push_str("`tests/tests/a.rs::ttl_never_un_expires`\n");
    files[2].1.push_str("#[test]\nfn ttl_never_un_expires() {}\n");
    assert_eq!(of(&files), Vec::<String>::new());
}
