use esker_layouts::kv::{KvRead, KvTx, ScanOptions};

use super::*;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::verdict::Outcome;

/// Numbers from 0 up; asks whether one is there. The careless one scans for it, the wrong one lies.
#[derive(Clone, Copy, Default)]
struct Numbers {
    size: u64,
    careless: bool,
    wrong: bool,
}

impl<K: OrderedKv> Subject<K> for Numbers {
    type Call = u64;
    type Answer = bool;

    fn name(&self) -> &'static str {
        if self.careless { "careless" } else { "numbers" }
    }

    fn operations(&self) -> Vec<Operation> {
        vec![Operation { name: "has", formula: "1 key if there, 1 call", growth: Form::Constant }]
    }

    fn fill(&mut self, kv: &K, size: u64, _random: &mut fastrand::Rng) -> esker_layouts::Result<()> {
        self.size = size;
        let done = kv.update(|tx| {
            (0..size).for_each(|n| tx.put(&n.to_be_bytes(), b""));
            Ok(())
        });
        done.map(drop)
    }

    fn plan(&mut self, _operation: usize, random: &mut fastrand::Rng) -> u64 {
        random.u64(..self.size * 2)
    }

    fn expected(&mut self, number: &u64) -> (Counters, bool) {
        let there = *number < self.size;
        (Counters { read: u64::from(there), calls: 1, ..Counters::default() }, there)
    }

    fn run(&self, kv: &K, number: &u64) -> esker_layouts::Result<Costed<bool>> {
        let read = kv.read()?;
        let key = number.to_be_bytes();
        let value = if self.careless {
            let mut rows = read.scan(esker_layouts::kv::KeyRange::all(), ScanOptions::new())?;
            rows.any(|row| row.is_ok_and(|(found, _)| found == key[..]))
        } else {
            read.contains(&key)?
        };
        Ok(Costed { value: value ^ self.wrong, cost: read.cost() })
    }
}

fn harness<K: OrderedKv>() -> Harness<K> {
    let mut harness = Harness::new("Numbers", LabOptions::new(Scale::Tiny, Vec::new()));
    harness.add(Numbers::default);
    harness
}

#[test]
fn counters_that_keep_to_the_formula_are_found_equal() {
    for report in [harness().run(&MapFactory), harness().run(&EngineFactory)] {
        let report = report.expect("it runs");
        assert!(report.counters_equal());
        assert_eq!(report.compared(), 2 * 3 * 10);
        let study = &report.studies[0];
        assert_eq!((study.claims.len(), study.exhibits.len()), (1, 2));
        assert!(study.claims[0].timed.contains("growth"), "{}", study.claims[0].timed);
        for text in [report.to_text(), report.to_json(), report.to_html()] {
            assert!(text.contains("numbers: has"), "{text}");
        }
    }
}

#[test]
fn a_layout_that_reads_too_much_is_found_out() {
    let mut harness = harness();
    harness.add(|| Numbers { careless: true, ..Numbers::default() });
    let report = harness.run(&MapFactory).expect("it runs");
    assert!(!report.counters_equal());
    let [honest, careless] = &report.studies[0].claims[..] else { panic!("two claims") };
    assert!(honest.verdict.reason.contains("all 60 operations cost what the formula says"));
    assert_ne!(careless.verdict.outcome, Outcome::Reproduced);
    assert!(careless.verdict.reason.contains("differ from the formula"), "{}", careless.verdict.reason);
}

#[test]
fn a_wrong_answer_ends_the_run() {
    let mut harness = harness();
    harness.add(|| Numbers { wrong: true, ..Numbers::default() });
    let error = harness.run(&MapFactory).expect_err("it lies");
    assert!(matches!(error, LabError::WrongResult { layout: "numbers", .. }), "{error}");
}

#[test]
fn a_harness_without_work_says_so() {
    let refused = |harness: &Harness<_>| matches!(harness.run(&MapFactory), Err(LabError::BadOption(_)));
    assert!(refused(&Harness::new("empty", LabOptions::new(Scale::Tiny, Vec::new()))));
    assert!(refused(harness().operations(0)));
    assert!(refused(harness().sizes(&[])));
}
