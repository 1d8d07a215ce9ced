#![expect(clippy::disallowed_methods, reason = "tests write inputs")]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn table(text: &str, columns: &str) -> Result<Table> {
    parse(text.as_bytes(), "facts.txt".as_ref(), &columns.parse().expect("columns"))
}

/// The error's message.
fn error(text: &str, columns: &str) -> String {
    table(text, columns).expect_err("it is malformed").to_string()
}

fn fact(day: u32, user: u32, item: u32, amount: u64) -> Fact {
    Fact { day, user, item, amount }
}

#[test]
fn columns_by_name_or_number_in_any_separation() {
    let expected = Table {
        users: vec!["ann".into(), "bob".into()],
        items: vec!["chess".into(), "go".into()],
        facts: vec![fact(20_060_407, 1, 0, 3), fact(20_060_408, 0, 1, 1)],
        lines: 2,
        thousandths: false,
    };
    let by_name = "item,who,often,when\ngo,ann,1,2006-04-08\nchess,bob,3,2006-04-07 17:08\n";
    assert_eq!(table(by_name, "user=who,item=item,day=when,count=often").expect("a table"), expected);
    let tabs = "ann\tgo\t20060408\t1\nbob\tchess\t20060407\t3.000\n\n";
    assert_eq!(table(tabs, "user=1,item=2,day=3,count=4").expect("a table"), expected);
    // Seconds since 1970, as in MovieLens; the last line does not end.
    let colons = "ann::go::1::1144454400\r\nbob::chess::3::1144454399";
    assert_eq!(table(colons, "user=1,item=2,count=3,day=4").expect("a table"), expected);
    let quoted = "\"who, exactly\",what\n\"ann \"\"the\"\" one\",\"go, chess\"\n";
    let found = table(quoted, "user=1,item=what").expect("a table");
    assert_eq!((found.users[0].as_str(), found.items[0].as_str()), ("ann \"the\" one", "go, chess"));
}

#[test]
fn a_first_line_of_names_is_told_by_what_it_cannot_be() {
    assert_eq!(table("u\ti\thours\n1\t2\t14.9\n", "user=1,item=2,count=3").expect("a table").lines, 1);
    assert_eq!(table("u\ti\n1\t2\n", "user=1,item=2,header").expect("a table").lines, 1);
    assert_eq!(table("5\t6\n1\t2\n", "user=1,item=2").expect("a table").lines, 2);
    assert_eq!(table(",i,hours\n1,2,14.9\n", "user=1,item=2,count=3").expect("a table").lines, 1);
}

#[test]
fn a_malformed_first_line_is_not_one_of_names() {
    for (first, columns, why) in [
        (",b", "user=1,item=2", "the user is empty"),
        ("a,", "user=1,item=2", "the item is empty"),
        (",b,3", "user=1,item=2,count=3", "the user is empty"),
        ("a,b", "user=1,item=3", "it has 2 columns and the item should be in column 3"),
    ] {
        let told = error(&format!("{first}\na,b,c\n"), columns);
        assert!(told.starts_with(&format!("facts.txt, line 1: {why}")), "{told}");
    }
    let long = format!("{},b\na,b\n", "x".repeat(1_025));
    assert!(
        error(&long, "user=1,item=2").contains("line 1: the user has 1025 bytes; at most 1024 are taken")
    );
}

#[test]
fn repeated_facts_add_up_and_hours_have_decimals() {
    let found = table("1\t7\t0.5\n1\t7\t2.25\n2\t7\t3\n", "user=1,item=2,count=3").expect("a table");
    assert!(found.thousandths);
    assert_eq!(found.facts, [fact(0, 0, 0, 2_750), fact(0, 1, 0, 3_000)]);
    assert_eq!(found.lines, 3);
}

#[test]
fn a_malformed_line_is_named() {
    let columns = "user=1,item=2,day=3,count=4";
    let good = "a,b,2006-01-31,1\n";
    for (line, why) in [
        ("a,b,2006-01-31", "it has 3 columns and the count should be in column 4"),
        (",b,2006-01-31,1", "the user is empty"),
        ("a,b,2006-13-01,1", "the day \"2006-13-01\" is neither"),
        ("a,b,yesterday,1", "the day \"yesterday\" is neither"),
        ("a,b,2006-01-31,-1", "the count \"-1\" is not a number"),
        ("a,b,2006-01-31,1.2345", "the count \"1.2345\" is not a number"),
        ("a,b,2006-01-31,99999999999999999999", "the count \"99999999999999999999\" is not"),
        ("a,b,2006-01-31,18446744073709551", "the counts' sum is beyond 64 bits"),
        ("a,\"b,2006-01-31,1", "a double quote is not closed"),
    ] {
        let text = format!("{good}{good}{line}\n{good}").replacen("1\n", "500\n", 1);
        let told = error(&text, columns);
        assert!(told.starts_with(&format!("facts.txt, line 3: {why}")), "{told}");
    }
    let long = format!("{good}{}\n", "x".repeat(70_000));
    assert!(error(&long, columns).starts_with("facts.txt, line 2: it is longer than 65536 bytes"));
    assert!(error("a b\n", "user=1,item=2").contains("line 1: it has no tab, no :: and no comma"));
    assert!(
        error("a,b\n1,2\n", "user=a,item=game").contains("there is no column \"game\", there are a, b")
    );
    assert!(error("user,item\n", "user=user,item=item").contains("facts.txt has no facts"));
    let bytes = parse(&b"a,\xff\n"[..], "facts.txt".as_ref(), &Columns::default());
    assert!(bytes.expect_err("no text").to_string().contains("line 1: it is not UTF-8"));
}

#[test]
fn mistakes_in_columns_are_named() {
    for (columns, why) in [
        ("user=1", "user and item are needed"),
        ("user=1,item=0", "numbered from 1"),
        ("user=1,item=2,who=3", "\"who\" is none of user, item, day, count"),
        ("user=1,item=2,item=3", "item is given twice"),
        ("user=1,item=", "item names no column"),
        ("user=1,item", "\"item\" is neither `header` nor like user=1"),
    ] {
        let told = columns.parse::<Columns>().expect_err(columns);
        assert!(told.contains(why), "{columns}: {told}");
    }
}

#[test]
fn gzip_is_told_by_its_first_bytes() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("facts.csv");
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(b"1,2\n").expect("in memory");
    std::fs::write(&file, packed.finish().expect("in memory")).expect("written");
    let interest = Interest { file, columns: Columns::default() };
    assert_eq!(interest.read().expect("a table").facts, [fact(0, 0, 0, 1)]);
    let absent = Interest { file: directory.path().join("absent"), columns: Columns::default() };
    assert!(matches!(absent.read(), Err(LabError::File { op: "open", .. })));
}

#[test]
fn days_of_all_years_are_found() {
    for (seconds, date) in [(0u64, 19_700_101), (951_782_400, 20_000_229), (4_107_542_400, 21_000_301)] {
        let text = format!("1,2,{seconds:09}\n");
        assert_eq!(table(&text, "user=1,item=2,day=3").expect("a table").facts[0].day, date);
    }
}
