//! The mail: mailboxes whose sizes follow Zipf's law, or those of a file.

use std::ops::Range;

use super::Sizes;
use crate::lab::experiments::random;
use crate::lab::mail::{self, Mail, Message};
use crate::lab::{LabOptions, Result};

/// Days over which generated mail arrives.
const DAYS: i64 = 28;
/// 2013-01-01, the slides' example of a day, in seconds since 1970.
const START: i64 = 1_356_998_400;
/// Bytes of a generated message.
const TEXT: usize = 100;

pub(super) struct Mailboxes {
    mail: Mail,
    /// Where each mailbox's messages lie.
    places: Vec<Range<usize>>,
    pub(super) from_file: bool,
}

impl Mailboxes {
    /// The mail of the file that `options` names, or generated.
    pub(super) fn new(sizes: &Sizes, options: &LabOptions) -> Result<Mailboxes> {
        let mail = match &options.mail {
            Some(file) => mail::read(file)?,
            None => generated(sizes.mailboxes, options),
        };
        let mut places = Vec::with_capacity(mail.mailboxes as usize);
        for mailbox in mail.messages.chunk_by(|a, b| a.mailbox == b.mailbox) {
            let start = places.last().map_or(0, |last: &Range<usize>| last.end);
            places.push(start..start + mailbox.len());
        }
        Ok(Mailboxes { mail, places, from_file: options.mail.is_some() })
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    pub(super) fn messages(&self) -> usize {
        self.mail.messages.len()
    }

    /// Messages of the largest mailbox.
    pub(super) fn largest(&self) -> usize {
        self.places.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
    }

    /// The messages of `mailbox`, by day and id.
    pub(super) fn of(&self, mailbox: u32) -> &[Message] {
        self.places
            .get(mailbox as usize)
            .and_then(|place| self.mail.messages.get(place.clone()))
            .unwrap_or(&[])
    }

    /// All messages in the order in which they arrived.
    pub(super) fn arriving(&self) -> Vec<&Message> {
        let mut all: Vec<&Message> = self.mail.messages.iter().collect();
        all.sort_by_key(|message| message.seconds);
        all
    }

    /// A mailbox: half of the draws are weighed by messages, so that large ones are among them.
    pub(super) fn some(&self, random: &mut fastrand::Rng) -> u32 {
        if random.bool() {
            let message = random.usize(..self.messages());
            return self.mail.messages.get(message).map_or(0, |message| message.mailbox);
        }
        u32::try_from(random.usize(..self.count())).unwrap_or(0)
    }
}

/// The mailbox of rank r has a share of 1/r of half as many messages as there are mailboxes, and at least one.
/// Ranks fall on numbers at random.
fn generated(mailboxes: u32, options: &LabOptions) -> Mail {
    let mut random = random(options, &[10, 1]);
    let mut ranks: Vec<u32> = (1..=mailboxes).collect();
    random.shuffle(&mut ranks);
    let mut messages = Vec::new();
    for (mailbox, rank) in (0..).zip(ranks) {
        for _ in 0..(mailboxes / 2 / rank).max(1) {
            let seconds = START + random.i64(0..DAYS * 86_400);
            // Within January 2013.
            let day = 20_130_101 + u32::try_from((seconds - START) / 86_400).unwrap_or(0);
            let id = format!("{:016x}", random.u64(..));
            messages.push(Message { mailbox, day, id, seconds, text: "m".repeat(TEXT) });
        }
    }
    messages.sort_unstable();
    Mail { mailboxes, messages }
}
