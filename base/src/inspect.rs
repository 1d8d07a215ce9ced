//! What a person sees of a file's bytes: fields, each with its place, its value and whether it checks.
//!
//! Every kind of file (log, manifest, table) hands out the same [`Field`]s, so that one program shows
//! them all. The fields of a file, in order, cover each byte once.

/// Whether a field's bytes are what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A checksum covers it and agrees.
    Ok,
    /// A checksum does not agree, or the format has no such bytes.
    Bad,
    /// It may be right or wrong: the checksum that covers it does not agree, or what says where it
    /// ends is bad.
    Unchecked,
    /// It says, under a checksum that agrees where the format has one, that its format is newer than any that this build reads:
    /// it may be right or wrong.
    Newer,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `pad`, so that a width is honoured in a column.
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Bad => "bad",
            Verdict::Unchecked => "unchecked",
            Verdict::Newer => "newer",
        })
    }
}

/// One field of a file.
///
/// ```
/// use esker_base::inspect::{Field, Verdict};
/// let field =
///     Field { offset: 8, len: 4, name: "version", value: "1".to_owned(), verdict: Verdict::Ok };
/// assert_eq!(format!("{:>6} {} {:<9}|", field.offset, field.name, field.verdict), "     8 version ok       |");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Where it stands, in bytes from the start of the file.
    pub offset: u64,
    /// How many bytes it takes.
    pub len: u64,
    /// Its name in the FORMAT.md of its kind of file.
    pub name: &'static str,
    /// Its value, for reading: keys escaped, long payloads cut.
    pub value: String,
    /// Whether it checks.
    pub verdict: Verdict,
}

impl Field {
    /// What is shown of a file that holds nothing, and is of a kind that always holds something.
    pub fn of_an_empty_file(name: &'static str) -> Field {
        Field { offset: 0, len: 0, name, value: "the file is empty".to_owned(), verdict: Verdict::Bad }
    }
}
