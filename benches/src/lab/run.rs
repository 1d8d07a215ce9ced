//! Running operations: one at a time, timed, checked, and compared with the formula.

use std::collections::BTreeMap;

use esker_layouts::OpCost;
use esker_layouts::followers::{FriendStore, HoleFilling, Layout};

use super::model::{Counters, Operation, Step, Tally, expected};
use super::{LabError, Result, stopwatch};

/// What was recorded about the operations of one kind, at one x, in one repetition.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) operations: u64,
    /// Nanoseconds an operation.
    pub(super) times: Times,
    /// The same for checks that were answered yes, and no.
    pub(super) hits: Times,
    pub(super) misses: Times,
    /// Sum of the degrees the operations met.
    pub(super) degrees: u64,
    pub(super) counted: Counters,
    pub(super) formula: Counters,
    pub(super) tally: Tally,
}

/// Nanoseconds of many operations: one by one until closed, then two means.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    open: Vec<u32>,
    /// The plain mean.
    pub(super) mean: Option<f64>,
    /// The mean without the fastest and slowest 2.5 %: what the operation takes when nothing else (another
    /// process, a page fault) comes between.
    pub(super) trimmed: Option<f64>,
}

impl Times {
    fn push(&mut self, nanos: u64) {
        self.open.push(u32::try_from(nanos).unwrap_or(u32::MAX));
    }

    fn close(&mut self) {
        let mut times = std::mem::take(&mut self.open);
        times.sort_unstable();
        let mean = |times: &[u32]| {
            let sum: u64 = times.iter().copied().map(u64::from).sum();
            (!times.is_empty()).then(|| sum as f64 / times.len() as f64)
        };
        let cut = times.len() / 40;
        self.mean = mean(&times);
        self.trimmed = mean(&times[cut..times.len() - cut]);
    }
}

/// One operation that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) step: Step,
    pub(super) cost: OpCost,
    pub(super) nanos: u64,
}

/// Samples by layout, operation and place on the x axis; one a repetition.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    samples: BTreeMap<(Layout, Operation, u64), BTreeMap<u32, Sample>>,
}

impl Recording {
    /// Record `ran` of repetition `repetition` at `place`.
    pub(super) fn record(&mut self, layout: Layout, place: u64, repetition: u32, ran: &Ran) {
        let key = (layout, ran.step.operation(), place);
        let sample = self.samples.entry(key).or_default().entry(repetition).or_default();
        let (counted, formula) = (Counters::of(&ran.cost), expected(layout, &ran.step));
        sample.operations += 1;
        sample.times.push(ran.nanos);
        sample.degrees += ran.step.degree();
        match ran.step {
            Step::Check { present: true, .. } => sample.hits.push(ran.nanos),
            Step::Check { present: false, .. } => sample.misses.push(ran.nanos),
            _ => {}
        }
        sample.counted.add(&counted);
        sample.formula.add(&formula);
        sample.tally.compare(&ran.step, &counted, &formula);
    }

    /// `layout` is done with `repetition`: reduce its times to means, which take less memory.
    pub(super) fn close(&mut self, layout: Layout, repetition: u32) {
        let all = (layout, Operation::Add, 0)..=(layout, Operation::Delete, u64::MAX);
        for (_, samples) in self.samples.range_mut(all) {
            if let Some(sample) =
                samples.get_mut(&repetition).filter(|sample| !sample.times.open.is_empty())
            {
                for times in [&mut sample.times, &mut sample.hits, &mut sample.misses] {
                    times.close();
                }
            }
        }
    }

    /// The samples of one layout and operation, by place, then by repetition.
    pub(super) fn series(
        &self,
        layout: Layout,
        operation: Operation,
    ) -> impl Iterator<Item = (u64, Vec<&Sample>)> {
        self.samples
            .range((layout, operation, 0)..=(layout, operation, u64::MAX))
            .map(|((_, _, place), samples)| (*place, samples.values().collect()))
    }
}

/// One layout over one store, with a mirror of which columns hold which friends: the formulas speak of
/// degrees and positions, and answers are checked against it.
pub(super) struct Driver<'a> {
    layout: Layout,
    friends: &'a dyn FriendStore,
    names: &'a [String],
    rows: Vec<Columns>,
    table_known: bool,
}

#[derive(Clone, Debug, Default)]
struct Columns {
    order: Vec<u32>,
    /// Whether the user ever had a friend.
    known: bool,
}

impl<'a> Driver<'a> {
    /// A driver on an empty store. Ids index `names`.
    pub(super) fn new(layout: Layout, friends: &'a dyn FriendStore, names: &'a [String]) -> Self {
        Driver { layout, friends, names, rows: vec![Columns::default(); names.len()], table_known: false }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The friends of `user`, in the layout's columns.
    pub(super) fn columns(&self, user: u32) -> &[u32] {
        &self.rows[user as usize].order
    }

    fn name(&self, id: u32) -> &'a str {
        &self.names[id as usize]
    }

    fn failed(&self, what: &str, user: u32, friend: u32) -> impl FnOnce(esker_layouts::Error) -> LabError {
        let doing = format!("layout {}, {what} {} {}", self.layout, self.name(user), self.name(friend));
        move |source| LabError::Layout { doing, source }
    }

    /// Give a new user its friends without measuring.
    pub(super) fn load(&mut self, user: u32, friends: &[u32]) -> Result<()> {
        let names: Vec<&str> = friends.iter().map(|friend| self.name(*friend)).collect();
        self.friends.load(self.name(user), &names).map_err(self.failed("load", user, user))?;
        self.rows[user as usize] = Columns { order: friends.to_vec(), known: true };
        self.table_known = true;
        Ok(())
    }

    pub(super) fn add(&mut self, user: u32, friend: u32) -> Result<Ran> {
        let row = &self.rows[user as usize];
        let degree = row.order.len() as u64;
        let step = Step::Add { degree, user_known: row.known, table_known: self.table_known };
        let (user_name, friend_name) = (self.name(user), self.name(friend));
        let (done, nanos) = stopwatch::timed(|| self.friends.add(user_name, friend_name));
        let cost = done.map_err(self.failed("add", user, friend))?;
        let row = &mut self.rows[user as usize];
        row.order.push(friend);
        row.known = true;
        self.table_known = true;
        Ok(Ran { step, cost, nanos })
    }

    pub(super) fn check(&mut self, user: u32, friend: u32, present: bool) -> Result<Ran> {
        let row = &self.rows[user as usize];
        let step = Step::Check { degree: row.order.len() as u64, user_known: row.known, present };
        let (user_name, friend_name) = (self.name(user), self.name(friend));
        let (done, nanos) = stopwatch::timed(|| self.friends.check(user_name, friend_name));
        let answer = done.map_err(self.failed("check", user, friend))?;
        if answer.value != present {
            return Err(LabError::WrongAnswer {
                layout: self.layout,
                user: user_name.to_owned(),
                friend: friend_name.to_owned(),
                answer: answer.value,
            });
        }
        Ok(Ran { step, cost: answer.cost, nanos })
    }

    pub(super) fn delete(&mut self, user: u32, friend: u32) -> Result<Ran> {
        let order = &self.rows[user as usize].order;
        let degree = order.len() as u64;
        let place = order.iter().position(|id| *id == friend).expect("plans delete only friends");
        let step = Step::Delete { degree, later: degree - 1 - place as u64 };
        let (user_name, friend_name) = (self.name(user), self.name(friend));
        let (done, nanos) = stopwatch::timed(|| self.friends.remove(user_name, friend_name));
        let cost = done.map_err(self.failed("delete", user, friend))?;
        let order = &mut self.rows[user as usize].order;
        match self.layout {
            Layout::Default(HoleFilling::ShiftAll) | Layout::Count(HoleFilling::ShiftAll) => {
                order.remove(place);
            }
            _ => {
                order.swap_remove(place);
            }
        }
        Ok(Ran { step, cost, nanos })
    }
}
