//! `esker db DIR salvage --into NEW`: what is readable, and a list of what is not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker::salvage::{Loss, Salvage, Salvaged};
use esker_layouts::kv::MergeOps;
use serde::Serialize;

use crate::args::db::DbArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Out, say};

/// What `--json` says.
#[derive(Serialize)]
struct Report {
    ok: bool,
    rows: BTreeMap<String, u64>,
    tables: u64,
    log_records: u64,
    losses: Vec<Lost>,
}

#[derive(Serialize)]
struct Lost {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_key: Option<String>,
    what: String,
}

pub(super) fn salvage(args: &DbArgs, into: &Path, json: bool, out: Out<'_>) -> Result<Exit, Failure> {
    let salvaged = Salvage::of(&args.dir).merge_operator(Arc::new(MergeOps)).run(into)?;
    let exit = if salvaged.losses.is_empty() { Exit::Done } else { Exit::Damaged };
    let shown = if json { output::json(out, &report(args, salvaged)) } else { show(args, &salvaged, out) };
    shown.map(|()| exit).map_err(|failure| failure.beside(exit))
}

fn show(args: &DbArgs, salvaged: &Salvaged, out: Out<'_>) -> Result<(), Failure> {
    for loss in &salvaged.losses {
        let keys = loss.keys.as_ref().map_or(String::new(), |(first, last)| {
            let show = |key: &[u8]| args.key_format.show(key);
            format!(", keys from {} to {} may be missing or older", show(first), show(last))
        });
        let keyspace = loss.keyspace.as_ref().map_or(String::new(), |name| format!(", keyspace {name:?}"));
        say!(out, "lost: {}{keyspace}{keys}: {}", loss.file.display(), loss.what)?;
    }
    for (name, rows) in &salvaged.rows {
        say!(out, "keyspace {name:?}: {}", output::counted(*rows, "row"))?;
    }
    let losses = output::counted(salvaged.losses.len() as u64, "gap");
    let tables = output::counted(salvaged.tables, "table");
    let records = output::counted(salvaged.log_records, "log record");
    say!(out, "read {tables} and {records}; {losses}")
}

fn report(args: &DbArgs, salvaged: Salvaged) -> Report {
    let lost = |loss: Loss| {
        let (first, last) = loss.keys.unzip();
        Lost {
            file: loss.file.display().to_string(),
            keyspace: loss.keyspace,
            first_key: first.map(|key| args.key_format.show(&key)),
            last_key: last.map(|key| args.key_format.show(&key)),
            what: loss.what,
        }
    };
    Report {
        ok: salvaged.losses.is_empty(),
        rows: salvaged.rows,
        tables: salvaged.tables,
        log_records: salvaged.log_records,
        losses: salvaged.losses.into_iter().map(lost).collect(),
    }
}
