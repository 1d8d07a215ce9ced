//! Mailboxes from a file: which message lies in whose mailbox, since when.
//!
//! Text, plain or gzip, one message a line, columns separated by tabs: the message's id; its path, of which
//! the part before the first `/` is the mailbox; the seconds since 1970; and, if there is more, the subject
//! in the next column. What follows is not read. There is no line of names.
//!
//! ```
//! let text = "7\tann/inbox/1\t1356998400\tHello\n8\tbob/sent/2\t1357084800\n";
//! let mail = esker_bench::lab::mail::parse(text.as_bytes(), "mail.tsv".as_ref())?;
//! assert_eq!((mail.mailboxes, mail.messages.len()), (2, 2));
//! assert_eq!(mail.messages[1].day, 20_130_102);
//! # Ok::<(), esker_bench::lab::LabError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use super::interest::civil;
use super::{LabError, Result, files};

/// The longest id of a message, in bytes.
const ID_BYTES_MAX: usize = 256;

/// A message in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// The mailbox, numbered from 0.
    pub mailbox: u32,
    /// The day, as year, month and day in one number: 20130101.
    pub day: u32,
    /// Names it within its mailbox.
    pub id: String,
    /// Seconds since 1970.
    pub seconds: i64,
    /// What it says; of mail from a file, its subject.
    pub text: String,
}

/// What a file holds, or a generator made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mail {
    /// How many mailboxes there are; from a file they are numbered in the order of their names.
    pub mailboxes: u32,
    /// The messages, ordered by mailbox, day and id.
    pub messages: Vec<Message>,
}

/// Read the mail in `file`.
///
/// [`LabError::BadFact`] with the line if one is not as above; [`LabError::Empty`] if there is none.
pub fn read(file: &Path) -> Result<Mail> {
    parse(files::open_text(file)?, file)
}

/// Read mail from `text`; `file` names it in errors, which are those of [`read`].
pub fn parse(text: impl BufRead, file: &Path) -> Result<Mail> {
    let mut mailboxes: BTreeMap<String, u32> = BTreeMap::new();
    let mut seen: BTreeSet<(u32, String)> = BTreeSet::new();
    let mut messages = Vec::new();
    files::each_line(text, file, |line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [id, path, time, ..] = columns.as_slice() else {
            let found = columns.len();
            return Err(format!("it has {found} columns; id, path and time are needed, separated by tabs"));
        };
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return Err(format!("the id has {} bytes; 1 to {ID_BYTES_MAX} are taken", id.len()));
        }
        let name = path.split('/').next().unwrap_or_default();
        if name.is_empty() || name.len() > ID_BYTES_MAX {
            let len = name.len();
            return Err(format!(
                "the mailbox, before the path's first /, has {len} bytes; 1 to {ID_BYTES_MAX} are taken"
            ));
        }
        let (day, seconds) =
            moment(time).ok_or_else(|| format!("the time {time:?} is no number of seconds since 1970"))?;
        let next = u32::try_from(mailboxes.len()).map_err(|_| "there are too many mailboxes".to_owned())?;
        let mailbox = *mailboxes.entry(name.to_owned()).or_insert(next);
        if !seen.insert((mailbox, (*id).to_owned())) {
            return Err(format!("the message {id} is in this mailbox already"));
        }
        let text = columns.get(3).copied().unwrap_or_default().to_owned();
        messages.push(Message { mailbox, day, id: (*id).to_owned(), seconds, text });
        Ok(())
    })?;
    if messages.is_empty() {
        return Err(LabError::Empty { file: file.to_owned(), what: "mail" });
    }
    // Numbers in the order of names.
    let ranks: BTreeMap<u32, u32> = mailboxes.into_values().zip(0..).collect();
    for message in &mut messages {
        message.mailbox = ranks[&message.mailbox];
    }
    messages.sort_unstable();
    let mailboxes = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    Ok(Mail { mailboxes, messages })
}

/// The day and the seconds that `text` says, up to the year 9999.
fn moment(text: &str) -> Option<(u32, i64)> {
    let seconds: u64 = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()?;
    let (year, month, day) = civil(seconds / 86_400);
    let day = u32::try_from(year * 10_000 + month * 100 + day).ok().filter(|day| *day <= 99_991_231)?;
    Some((day, i64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests;
