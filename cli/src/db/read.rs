//! `get` and `scan`.

use std::ops::Bound;

use esker::OpCost;
use serde::Serialize;

use super::{key, keyspace, open_to_read, optional_key, show_cost};
use crate::args::db::{DbAction, DbArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::keys::KeyFormat;
use crate::output::{Out, say};

pub(super) fn get(args: &DbArgs, given: &str, out: Out<'_>) -> Result<Exit, Failure> {
    let key = key(args, given)?;
    let db = open_to_read(&args.dir)?;
    let mut cost = OpCost::default();
    let value = keyspace(&db, args)?.reader()?.get_costed(&key, &mut cost)?;
    show_cost(args, &cost);
    let Some(value) = value else {
        let what =
            format!("there is no key {} in keyspace {:?}", args.key_format.show(&key), args.keyspace);
        return Err(Failure::new(Exit::NotFound, what));
    };
    match args.value_format.escaped() {
        Some(format) => say!(out, "{}", format.show(&value))?,
        None => out.write_all(&value).map_err(|error| Failure::output(&error))?,
    }
    Ok(Exit::Done)
}

/// A row of `scan --json`.
#[derive(Serialize)]
struct Row<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
}

/// What `scan` prints of each row.
struct Printer<'a> {
    key: KeyFormat,
    /// `None`: leave the value out.
    value: Option<KeyFormat>,
    json: bool,
    out: Out<'a>,
}

impl Printer<'_> {
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = self.key.show(key);
        let value = self.value.map(|format| format.show(value));
        if self.json {
            let row = Row { key: &key, value: value.as_deref() };
            let line = serde_json::to_string(&row).expect("text is always JSON");
            return say!(self.out, "{line}");
        }
        match value {
            Some(value) => say!(self.out, "{key}\t{value}"),
            None => say!(self.out, "{key}"),
        }
    }
}

pub(super) fn scan(args: &DbArgs, out: Out<'_>) -> Result<Exit, Failure> {
    let DbAction::Scan { start, end, prefix, reverse, limit, keys_only, json } = &args.action else {
        return Err(Failure::usage("no scan was asked for"));
    };
    let value_format = match args.value_format.escaped() {
        _ if *keys_only => None,
        Some(format) => Some(format),
        None => {
            let what = "raw values would run into each other, a scan prints a row a line; give another --value-format, or --keys-only";
            return Err(Failure::usage(what));
        }
    };
    let (start, end) = match prefix {
        Some(given) => {
            let range = args.key_format.prefix(given)?;
            esker::limits::check_key(&range.start)?;
            (Some(range.start), range.end)
        }
        None => (optional_key(args, start.as_deref())?, optional_key(args, end.as_deref())?),
    };
    let db = open_to_read(&args.dir)?;
    let keyspace = keyspace(&db, args)?;
    let mut scan = keyspace.range::<Vec<u8>>((
        start.map_or(Bound::Unbounded, Bound::Included),
        end.map_or(Bound::Unbounded, Bound::Excluded),
    ));
    if *keys_only {
        scan = scan.keys_only();
    }
    let mut printer = Printer { key: args.key_format, value: value_format, json: *json, out };
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let row = if *reverse { scan.next_back() } else { scan.next() };
        let Some(row) = row else { break };
        let (key, value) = row?;
        printer.row(&key, &value)?;
        left -= 1;
    }
    show_cost(args, &scan.cost());
    Ok(Exit::Done)
}
