//! The writers: sources that report at random moments, round after round, for a hundred days.

use super::Sizes;
use crate::lab::LabOptions;
use crate::lab::experiments::random;

/// Sources of events. Each is as busy as any other: the field that is promoted is evenly spread.
pub(super) const SOURCES: u64 = 64;
/// Events in a round, each of another source.
const ROUND: usize = 16;
/// 2013-01-01, where the slides' example of a day lies, in milliseconds since 1970.
const START: u64 = 1_356_998_400_000;
/// A hundred days, in milliseconds: long enough for the halves of a time stamp to mix.
const SPAN: u64 = 100 * 86_400_000;

/// Something happened: its time in milliseconds since 1970, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) source: u64,
}

impl Event {
    /// The same event by a clock of whole seconds.
    pub(super) fn in_seconds(self) -> Event {
        Event { time: self.time / 1_000 * 1_000, ..self }
    }
}

/// The events, in the order in which they happen.
pub(super) fn events(sizes: &Sizes, options: &LabOptions) -> Vec<Event> {
    let mut random = random(options, &[11, 1]);
    let rounds = sizes.events.div_ceil(ROUND) as u64;
    let long = SPAN / rounds;
    let mut events = Vec::with_capacity(sizes.events);
    for round in 0..rounds {
        let begin = START + round * long;
        let mut sources = random.choose_multiple(0..SOURCES, ROUND.min(sizes.events - events.len()));
        random.shuffle(&mut sources);
        events.extend(sources.into_iter().map(|source| Event { time: begin + random.u64(..long), source }));
    }
    events.sort_unstable();
    events
}
