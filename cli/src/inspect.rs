//! Running `esker inspect`: fields as they come, so that a file of any size can be shown.
//!
//! The exit code speaks of the whole file: where an answer cannot be written any more (`esker inspect … | head`),
//! the rest is checked all the same.

use esker::inspect::{Field, Verdict, file};
use serde::Serialize;

use crate::args::inspect::InspectArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Out, count, counted, cut, note, say, terminal_columns};

/// A field of `inspect --json`.
#[derive(Serialize)]
struct JsonField<'a> {
    offset: u64,
    len: u64,
    name: &'a str,
    value: &'a str,
    verdict: String,
}

pub(crate) fn run(args: &InspectArgs, out: Out<'_>) -> Result<Exit, Failure> {
    let fields = file(&args.file)?;
    let kind = fields.kind();
    let misnamed = fields.is_misnamed();
    if misnamed {
        note!(
            "note: by its content {} is a {kind}, which its name does not say; no database will read it so",
            args.file.display()
        );
    }
    let columns = terminal_columns().map_or(usize::MAX, usize::from);
    let mut answer = Ok(());
    if !args.json {
        answer = say!(out, "{:>12} {:>9}  {:<9}  {:<20}  value", "offset", "bytes", "verdict", "field");
    }
    let (mut shown, mut bytes, mut bad, mut unchecked) = (0, 0, 0, 0);
    for field in fields {
        // What could not be read says nothing about the fields before it.
        let found = if bad > 0 { Exit::Damaged } else { Exit::Done };
        let field = field.map_err(|error| Failure::from(error).beside(found))?;
        shown += 1;
        bytes += field.len;
        bad += u64::from(field.verdict == Verdict::Bad);
        unchecked += u64::from(field.verdict == Verdict::Unchecked);
        if answer.is_ok() && (!args.bad || field.verdict != Verdict::Ok) {
            answer = show(args, &field, columns, out);
        }
    }
    if answer.is_ok() && !args.json {
        let rest = match (bad, unchecked) {
            (0, 0) => "every checksum holds".to_owned(),
            (bad, 0) => format!("{} bad", count(bad)),
            (bad, unchecked) => format!("{} bad, {} unchecked", count(bad), count(unchecked)),
        };
        answer = say!(out, "{kind}: {}, {}; {rest}", counted(shown, "field"), counted(bytes, "byte"));
    }
    if bad > 0 {
        let what = format!("{} is damaged: {}", args.file.display(), counted(bad, "bad field"));
        return Err(Failure::new(Exit::Damaged, what));
    }
    answer.map(|()| Exit::Done)
}

fn show(args: &InspectArgs, field: &Field, columns: usize, out: Out<'_>) -> Result<(), Failure> {
    let Field { offset, len, name, value, verdict } = field;
    if args.json {
        let field = JsonField { offset: *offset, len: *len, name, value, verdict: verdict.to_string() };
        let line = serde_json::to_string(&field).expect("text and numbers are always JSON");
        return say!(out, "{line}");
    }
    let line = format!("{offset:>12} {len:>9}  {verdict:<9}  {name:<20}  {value}");
    say!(out, "{}", cut(&line, columns))
}
