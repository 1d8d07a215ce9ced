//! The slides' bounds of partial scans, on text keys as the slides write them: `user-message` and
//! `user-date-message`.

use esker_layouts::Result as LayoutResult;
use esker_layouts::kv::{Costed, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};

use super::mailboxes::Mailboxes;
use super::{BATCH, Sizes};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::{Samples, failed};
use crate::lab::mail::Message;
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// The first user's number: all have six digits, as the slides' have five.
const USER_FIRST: u32 = 100_000;

/// What a bound returned over all scans.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    pub(super) name: &'static str,
    /// The bounds as the slides would write them.
    pub(super) written: &'static str,
    pub(super) returned: u64,
    /// Rows among them that were asked for.
    pub(super) asked_for: u64,
    /// Rows that were asked for and not returned.
    pub(super) missed: u64,
    pub(super) samples: Samples,
}

impl Bound {
    pub(super) fn foreign(&self) -> u64 {
        self.returned - self.asked_for
    }
}

/// A day as the slides write it: 2013.01.01.
fn date(day: u32) -> String {
    format!("{:04}.{:02}.{:02}", day / 10_000, day / 100 % 100, day % 100)
}

fn user(message: &Message) -> u32 {
    USER_FIRST + message.mailbox
}

/// The keys of a message: by user and message, and by user, date and message; "m" and "d" in front keep the two
/// tables apart.
fn keys(message: &Message) -> [String; 2] {
    let (user, id) = (user(message), &message.id);
    [format!("m{user}-{id}"), format!("d{user}-{}-{id}", date(message.day))]
}

fn between(start: String, end: String) -> KeyRange {
    KeyRange { start: start.into_bytes(), end: Some(end.into_bytes()) }
}

/// The keys in `range`.
fn scan<K: OrderedKv>(kv: &K, range: KeyRange) -> LayoutResult<Costed<Vec<String>>> {
    let read = kv.read()?;
    let keys = read.scan(range, ScanOptions::new())?;
    let value = keys.map(|row| row.map(|(key, _)| String::from_utf8_lossy(&key).into_owned()));
    Ok(Costed { value: value.collect::<LayoutResult<_>>()?, cost: read.cost() })
}

/// Scan for the mail of users and of days with the slides' bounds and with exact ones.
pub(super) fn tried<K: OrderedKv>(
    kv: &K,
    mail: &Mailboxes,
    sizes: &Sizes,
    study: &mut Study,
    options: &LabOptions,
) -> Result<[Bound; 3]> {
    for batch in mail.arriving().chunks(BATCH) {
        let done = kv.update(|tx| {
            for message in batch {
                for key in keys(message) {
                    tx.put(key.as_bytes(), message.text.as_bytes());
                }
            }
            Ok(())
        });
        done.map_err(failed("load the text keys"))?;
    }
    let mut bounds = [
        ("a user, the slides' bounds", "12345-000… to 12346-999…"),
        ("a user, exact", "12345- to 12345."),
        ("a user and a day, the slides' bounds", "12345-2013.01.01-000… to 12345-2013.01.02-000"),
    ]
    .map(|(name, written)| Bound { name, written, ..Bound::default() });
    let mut random = random(options, &[10, 5]);
    for _ in 0..sizes.samples {
        let mailbox = mail.some(&mut random);
        let messages = mail.of(mailbox);
        let message = &messages[random.usize(..messages.len())];
        let number = user(message);
        let of_day: Vec<&Message> = messages.iter().filter(|other| other.day == message.day).collect();
        // The day after, as a bound only: no month ends on it.
        let (day, next) = (date(message.day), date(message.day + 1));
        let ranges = [
            between(format!("m{number}-000"), format!("m{}-999", number + 1)),
            between(format!("m{number}-"), format!("m{number}.")),
            between(format!("d{number}-{day}-000"), format!("d{number}-{next}-000")),
        ];
        let wanted: [Vec<&Message>; 3] = [messages.iter().collect(), messages.iter().collect(), of_day];
        // What the next user's mail adds, counted from the ids.
        let next = mail.of(mailbox + 1).iter().filter(|other| other.id.as_str() < "999").count();
        // Ids before "000" would be missed, and a bound without digits behind is what is meant by them.
        let early = |wanted: &[&Message]| wanted.iter().filter(|m| m.id.as_str() < "000").count();
        let expected = [
            wanted[0].len() - early(&wanted[0]) + next,
            wanted[1].len(),
            wanted[2].len() - early(&wanted[2]),
        ];
        for (((bound, range), wanted), expected) in bounds.iter_mut().zip(ranges).zip(&wanted).zip(expected)
        {
            let found = bound.samples.call(bound.name, || scan(kv, range))?;
            let keys: std::collections::BTreeSet<String> = wanted.iter().flat_map(|m| keys(m)).collect();
            let asked_for = found.value.iter().filter(|key| keys.contains(*key)).count();
            bound.returned += found.value.len() as u64;
            bound.asked_for += asked_for as u64;
            bound.missed += (wanted.len() - asked_for) as u64;
            let formula = if bound.written.contains("12346") {
                "a user's messages and the next user's with ids below 999, all in 1 call"
            } else {
                "the messages asked for, all in 1 call"
            };
            let counted = (found.cost.calls, found.cost.keys_read, found.value.len());
            let expected = (1, expected as u64, expected);
            study.compare(&format!("bounds: {}", bound.name), formula, &counted, &expected);
        }
    }
    Ok(bounds)
}
