//! Running `esker inspect`: fields as they come, so that a file of any size can be shown.
//!
//! The exit code speaks of the whole file: where an answer cannot be written any more (`esker inspect … | head`),
//! the rest is checked all the same.

use esker::inspect::{Field, FileKind, Verdict, file};
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
    judge(args, kind, fields, out)
}

/// Show the fields of a file of `kind`, and say what they come to.
fn judge(
    args: &InspectArgs,
    kind: FileKind,
    fields: impl Iterator<Item = esker::Result<Field>>,
    out: Out<'_>,
) -> Result<Exit, Failure> {
    let columns = terminal_columns().map_or(usize::MAX, usize::from);
    let mut answer = Ok(());
    if !args.json {
        answer = say!(out, "{:>12} {:>9}  {:<9}  {:<20}  value", "offset", "bytes", "verdict", "field");
    }
    let (mut shown, mut bytes, mut bad, mut unchecked, mut newer) = (0, 0, 0, 0, 0);
    for field in fields {
        // What could not be read says nothing about the fields before it.
        let found = if bad > 0 { Exit::Damaged } else { Exit::Done };
        let field = field.map_err(|error| Failure::from(error).beside(found))?;
        shown += 1;
        bytes += field.len;
        bad += u64::from(field.verdict == Verdict::Bad);
        unchecked += u64::from(field.verdict == Verdict::Unchecked);
        newer += u64::from(field.verdict == Verdict::Newer);
        if answer.is_ok() && (!args.bad || field.verdict != Verdict::Ok) {
            answer = show(args, &field, columns, out);
        }
    }
    if answer.is_ok() && !args.json {
        let others =
            [(unchecked, "unchecked"), (newer, "newer")].into_iter().filter(|(number, _)| *number > 0);
        let rest = match (shown, bad + unchecked + newer) {
            (0, _) => "it is empty".to_owned(),
            (_, 0) => "every checksum holds".to_owned(),
            _ => others.fold(format!("{} bad", count(bad)), |text, (number, word)| {
                format!("{text}, {} {word}", count(number))
            }),
        };
        answer = say!(out, "{kind}: {}, {}; {rest}", counted(shown, "field"), counted(bytes, "byte"));
    }
    if bad > 0 {
        let what = format!("{} is damaged: {}", args.file.display(), counted(bad, "bad field"));
        return Err(Failure::new(Exit::Damaged, what));
    }
    if newer > 0 {
        let path = args.file.display();
        let what = format!(
            "the format of {path} is newer than any that this build reads; a newer version checks it"
        );
        return Err(Failure::new(Exit::Failed, what));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(fields: Vec<esker::Result<Field>>) -> (String, Result<Exit, Exit>) {
        let args = InspectArgs { file: "000001.log".into(), bad: false, json: false };
        let mut out = Vec::new();
        let exit =
            judge(&args, FileKind::Log, fields.into_iter(), &mut out).map_err(|failure| failure.exit);
        (String::from_utf8(out).expect("text"), exit)
    }

    fn field(verdict: Verdict) -> Field {
        Field { offset: 0, len: 4, name: "length", value: "7".to_owned(), verdict }
    }

    #[test]
    fn what_was_found_before_a_failed_read_stands() {
        let failed = || Err(esker::Error::io("read", "000001.log", std::io::Error::other("the device")));
        for (before, exit) in
            [(Verdict::Ok, Exit::Failed), (Verdict::Unchecked, Exit::Failed), (Verdict::Bad, Exit::Damaged)]
        {
            let (shown, found) = judged(vec![Ok(field(before)), failed()]);
            assert_eq!(found, Err(exit), "{before}");
            assert!(shown.contains("length"), "{shown}");
        }
    }

    #[test]
    fn damage_comes_before_a_newer_format_and_that_before_what_is_unchecked() {
        let (shown, exit) = judged(vec![Ok(field(Verdict::Newer)), Ok(field(Verdict::Unchecked))]);
        assert_eq!(exit, Err(Exit::Failed));
        assert!(shown.ends_with("0 bad, 1 unchecked, 1 newer\n"), "{shown}");
        let (shown, exit) = judged(vec![Ok(field(Verdict::Newer)), Ok(field(Verdict::Bad))]);
        assert_eq!(exit, Err(Exit::Damaged));
        assert!(shown.ends_with("1 bad, 1 newer\n"), "{shown}");
        assert_eq!(
            judged(vec![Ok(field(Verdict::Unchecked))]).1,
            Ok(Exit::Done),
            "a log may end in such bytes"
        );
        let (shown, exit) = judged(Vec::new());
        assert!(exit == Ok(Exit::Done) && shown.ends_with("it is empty\n"), "{shown}");
    }
}
