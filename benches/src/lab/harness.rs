//! Measuring layouts and stores of one's own, as the lab measures its own.
//!
//! A layout: implement [`Subject`] (what is written, which operations there are, what each must cost and
//! answer) and hand it to a [`Harness`]. The harness opens a fresh store for every repetition and size, fills
//! it, draws operations in random order, times each call and nothing else, compares its counters with the
//! formula and its answer with the right one, fits how keys touched and times grow, and gives a [`Report`]
//! in text, JSON and HTML. Counters come from the store, below the layout, so that a layout cannot
//! flatter itself. `examples/own_layout.rs` does all of it in about a hundred lines.
//!
//! A store: implement [`OrderedKv`] for it, have [`esker_layouts::conformance`] pass, and [`Store`], which
//! opens fresh ones; then [`run_on`](super::run_on) runs any experiment of the lab on it, and a [`Harness`] any
//! layout.
//!
//! ```
//! use esker_bench::lab::harness::{Harness, Operation, Subject};
//! use esker_bench::lab::model::{Counters, Form};
//! use esker_bench::lab::store::MapFactory;
//! use esker_bench::lab::{LabOptions, Scale};
//! use esker_layouts::kv::{Costed, KvRead, KvTx, OrderedKv};
//!
//! /// Numbers under their own big-endian bytes.
//! #[derive(Default)]
//! struct Numbers(u64);
//!
//! impl<K: OrderedKv> Subject<K> for Numbers {
//!     type Call = u64;
//!     type Answer = bool;
//!     fn name(&self) -> &'static str { "numbers" }
//!     fn operations(&self) -> Vec<Operation> {
//!         vec![Operation { name: "has", formula: "1 key if it is there, 1 call", growth: Form::Constant }]
//!     }
//!     fn fill(&mut self, kv: &K, size: u64, _: &mut fastrand::Rng) -> esker_layouts::Result<()> {
//!         self.0 = size;
//!         kv.update(|tx| Ok((0..size).for_each(|n| tx.put(&n.to_be_bytes(), b""))))?;
//!         Ok(())
//!     }
//!     fn plan(&mut self, _operation: usize, random: &mut fastrand::Rng) -> u64 {
//!         random.u64(..self.0 * 2)
//!     }
//!     fn run(&self, kv: &K, number: &u64) -> esker_layouts::Result<Costed<bool>> {
//!         let read = kv.read()?;
//!         Ok(Costed { value: read.contains(&number.to_be_bytes())?, cost: read.cost() })
//!     }
//!     fn expected(&mut self, number: &u64) -> (Counters, bool) {
//!         let there = *number < self.0;
//!         (Counters { read: u64::from(there), calls: 1, ..Counters::default() }, there)
//!     }
//! }
//!
//! let mut harness = Harness::new("Numbers", LabOptions::new(Scale::Tiny, Vec::new()));
//! harness.add(Numbers::default);
//! let report = harness.run(&MapFactory)?;
//! assert!(report.counters_equal());
//! # Ok::<(), esker_bench::lab::LabError>(())
//! ```

mod contestant;
mod found;

use std::fmt::Debug;

use esker_layouts::kv::{Costed, OrderedKv};

use super::model::{Counters, Form};
use super::store::Store;
use super::{LabError, LabOptions, Report, Result, Scale, experiments};
use contestant::{Contestant, Measured};
pub(super) use found::OWN;
use found::Recorded;

/// One kind of operation of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name; the same name in several layouts puts their times into one chart.
    pub name: &'static str,
    /// What each must cost, in words: "1 key, 1 call".
    pub formula: &'static str,
    /// How its time grows with the store's size, as its author claims.
    pub growth: Form,
}

/// A layout under test, on stores of the kind `K`. One value serves one store, from fill to last operation, and
/// is asked in this order: [`fill`](Self::fill) once; then for every operation [`plan`](Self::plan),
/// [`expected`](Self::expected), [`run`](Self::run).
pub trait Subject<K: OrderedKv> {
    /// An operation with its arguments: names formatted, ids drawn.
    type Call;
    /// What an operation answers; `()` for a write.
    type Answer: PartialEq + Debug;

    /// The layout's name.
    fn name(&self) -> &'static str;

    /// The kinds of operations, always the same ones.
    fn operations(&self) -> Vec<Operation>;

    /// Bring the empty store `kv` to `size`, whatever the layout takes for its size: rows, users, the degree
    /// of one. Not measured.
    fn fill(&mut self, kv: &K, size: u64, random: &mut fastrand::Rng) -> esker_layouts::Result<()>;

    /// Draw an operation of the kind `operation`, an index into [`operations`](Self::operations). Not timed.
    fn plan(&mut self, operation: usize, random: &mut fastrand::Rng) -> Self::Call;

    /// What `call` must cost and answer, given all that ran before it. It runs next. Not timed.
    fn expected(&mut self, call: &Self::Call) -> (Counters, Self::Answer);

    /// Do it: this call alone is timed. The cost is the store's: [`KvRead::cost`](esker_layouts::kv::KvRead::cost)
    /// and [`OrderedKv::update`]'s.
    fn run(&self, kv: &K, call: &Self::Call) -> esker_layouts::Result<Costed<Self::Answer>>;
}

/// Measures layouts against each other, on any store.
pub struct Harness<K> {
    title: String,
    options: LabOptions,
    sizes: Vec<u64>,
    operations: u64,
    contestants: Vec<Box<dyn Contestant<K>>>,
}

impl<K: OrderedKv> Harness<K> {
    /// A harness without layouts. Of `options` it takes seed, repetitions and scale; sizes and number of
    /// operations are the scale's unless [`sizes`](Self::sizes) and [`operations`](Self::operations) say
    /// otherwise.
    pub fn new(title: &str, options: LabOptions) -> Harness<K> {
        let (sizes, operations): (&[u64], u64) = match options.scale {
            Scale::Tiny => (&[4, 16, 64], 10),
            Scale::Smoke => (&[100, 1_000, 10_000], 1_000),
            Scale::Desk => (&[1_000, 10_000, 100_000, 1_000_000], 10_000),
            Scale::Large => (&[10_000, 100_000, 1_000_000, 10_000_000], 100_000),
        };
        Harness {
            title: title.to_owned(),
            options,
            sizes: sizes.to_vec(),
            operations,
            contestants: Vec::new(),
        }
    }

    /// Fill stores to these sizes; at least three for a fit of the growth.
    pub fn sizes(&mut self, sizes: &[u64]) -> &mut Self {
        self.sizes = sizes.to_vec();
        self
    }

    /// Run so many operations of each kind at each size, in each repetition.
    pub fn operations(&mut self, operations: u64) -> &mut Self {
        self.operations = operations;
        self
    }

    /// Measure the layout of which `fresh` makes one for every store.
    pub fn add<L: Subject<K> + 'static>(&mut self, fresh: impl Fn() -> L + 'static) -> &mut Self {
        self.contestants.push(contestant::boxed(fresh));
        self
    }

    /// Measure all layouts on stores from `store`.
    ///
    /// [`LabError::WrongResult`] at the first wrong answer: what it costs to be wrong is of no interest.
    /// Counters that differ from the formula are findings, not errors: [`Report::counters_equal`].
    pub fn run<S: Store<Kv = K>>(&self, store: &S) -> Result<Report> {
        let repetitions = self.options.repetitions();
        if self.contestants.is_empty() || self.sizes.is_empty() || self.operations == 0 || repetitions == 0
        {
            let what = "a harness needs at least one layout, size, operation and repetition";
            return Err(LabError::BadOption(what.to_owned()));
        }
        let mut recorded = Recorded::new(&self.contestants);
        for repetition in 0..repetitions {
            for (place, size) in self.sizes.iter().enumerate() {
                let mut random = experiments::random(&self.options, &[u64::from(repetition), *size]);
                let mut order: Vec<usize> = (0..self.contestants.len()).collect();
                random.shuffle(&mut order);
                for layout in order {
                    let kv = store.open().map_err(failed("open a store"))?;
                    let mut record =
                        |measured: Measured| recorded.note(layout, place, repetition, measured);
                    // Every layout meets the same draws.
                    let mut random = experiments::random(&self.options, &[u64::from(repetition), *size, 1]);
                    let contestant = &self.contestants[layout];
                    contestant.fill_and_run(
                        &kv,
                        *size,
                        self.operations,
                        &|| store.settle(&kv),
                        &mut random,
                        &mut record,
                    )?;
                }
            }
        }
        let study = recorded.study(&self.title, &self.sizes, self.operations, &self.options);
        Ok(Report { studies: vec![study], ..Report::new(store.name(), &self.options) })
    }
}

fn failed(doing: impl Into<String>) -> impl FnOnce(esker_layouts::Error) -> LabError {
    let doing = doing.into();
    move |source| LabError::Layout { doing, source }
}

#[cfg(test)]
mod tests;
