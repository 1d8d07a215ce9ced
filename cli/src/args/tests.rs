use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser};
use esker_bench::lab::Experiment;

use super::db::{DbAction, DbArgs};
use super::inspect::InspectArgs;
use super::lab::{LabArgs, Scale};
use super::workload::{Durability, Workload, WorkloadArgs};
use super::{Cli, parse_count};
use crate::keys::KeyFormat;

#[derive(Parser, Debug)]
struct Only<T: Args> {
    #[command(flatten)]
    args: T,
}

fn parse<T: Args>(line: &[&str]) -> Result<T, clap::Error> {
    Only::<T>::try_parse_from([&["esker"], line].concat()).map(|only| only.args)
}

#[test]
fn the_frames_hold() {
    Cli::command().debug_assert();
    Only::<LabArgs>::command().debug_assert();
    Only::<DbArgs>::command().debug_assert();
    Only::<InspectArgs>::command().debug_assert();
    Only::<WorkloadArgs>::command().debug_assert();
}

#[test]
fn lab_defaults_and_options() {
    assert_eq!(parse::<LabArgs>(&[]).expect("no arguments"), LabArgs::default());
    let line =
        ["x1", "X3", "--scale", "tiny", "--seed", "9", "--repeat", "2", "--json", "f", "--graph", "g.gz"];
    let given: LabArgs = parse(&line).expect("a full line");
    assert_eq!(given.experiments, [Experiment::X1, Experiment::X3]);
    assert_eq!((given.scale, given.seed, given.repeat), (Scale::Tiny, 9, Some(2)));
    assert_eq!((given.json, given.graph), (Some("f".into()), Some("g.gz".into())));
    let line = ["x8", "--interest", "f.gz", "--columns", "user=u,item=2", "--layouts", "wide,tall"];
    let given: LabArgs = parse(&line).expect("facts of one's own");
    assert_eq!((given.experiments, given.interest), (vec![Experiment::X8], Some("f.gz".into())));
    assert_eq!(given.layouts, ["wide", "tall"]);
    for refused in [&["--repeat", "0"][..], &["--repeat", "1001"], &["x4"], &["--columns", "user=1,item=2"]]
    {
        assert!(parse::<LabArgs>(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn db_options_may_follow_the_action() {
    let line = ["d", "get", "(\"user\", -1)", "--key-format", "tuple", "--keyspace", "users", "--cost"];
    let given: DbArgs = parse(&line).expect("a get");
    assert_eq!(given.action, DbAction::Get { key: "(\"user\", -1)".to_owned() });
    assert_eq!((given.key_format, given.keyspace.as_str(), given.cost), (KeyFormat::Tuple, "users", true));
    let put: DbArgs = parse(&["d", "put", "-key", "-value"]).expect("keys may begin with a hyphen");
    assert_eq!(
        put.action,
        DbAction::Put { key: "-key".to_owned(), value: "-value".to_owned(), create: false }
    );
    assert!(parse::<DbArgs>(&["d"]).is_err());
    assert!(parse::<DbArgs>(&["d", "scan", "--prefix", "a", "--start", "b"]).is_err());
}

#[test]
fn workloads_are_named() {
    let given: WorkloadArgs =
        parse(&["seek", "--rows", "5M", "--durability", "interval:250", "--threads", "4"]).expect("a seek");
    assert_eq!((given.workload, given.rows, given.threads), (Workload::Seek, 5_000_000, 4));
    assert_eq!(given.durability, Durability::Interval(Duration::from_millis(250)));
    for refused in [&["walk"][..], &["get", "--threads", "0"], &["get", "--durability", "interval:0"]] {
        assert!(parse::<WorkloadArgs>(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn inspect_takes_one_file() {
    let given: InspectArgs = parse(&["000012.log", "--bad"]).expect("a file");
    assert_eq!(given, InspectArgs { file: "000012.log".into(), bad: true, json: false });
    assert!(parse::<InspectArgs>(&[]).is_err());
}

#[test]
fn counts() {
    assert_eq!(parse_count("1_000k"), Ok(1_000_000));
    for refused in ["", "k", "_1", "-1", "1.5", "1K", "99999999999999999999", "18446744073709551615k"] {
        assert!(parse_count(refused).is_err(), "{refused}");
    }
}
