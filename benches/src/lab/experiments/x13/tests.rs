use std::sync::{Arc, Mutex};

use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::map::MapStore;
use esker_layouts::tuple::KeyRange;

use super::records::Records;
use super::*;
use crate::lab::Silent;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::verdict::Outcome;

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X13])
}

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        assert_eq!((study.outcomes(Outcome::Reproduced), study.claims.len()), (3, 3));
    }
    assert_eq!(on_map.compared(), on_engine.compared(), "the same questions");
    // 4 samples: 12 tables and 3 questions, 9 vectors and 2.
    assert_eq!(on_map.compared(), 4 * (12 * 3 + 9 * 2));
}

/// Cells of somebody who reads the whole row before a field, and chunks that are single elements.
struct Wrong;

struct ReadsRows<'k> {
    store: &'k MapStore,
    inner: Box<dyn Records + 'k>,
}

impl Records for ReadsRows<'_> {
    fn put_all(&self, rows: &[(u64, Vec<String>)]) -> esker_layouts::Result<()> {
        self.inner.put_all(rows)
    }
    fn set(&self, id: u64, place: u32, text: &str) -> esker_layouts::Result<Costed<bool>> {
        self.inner.set(id, place, text)
    }
    fn row(&self, id: u64) -> esker_layouts::Result<Costed<Option<Vec<String>>>> {
        self.inner.row(id)
    }
    fn field(&self, id: u64, place: u32) -> esker_layouts::Result<Costed<Option<String>>> {
        let read = self.store.read()?;
        read.scan(KeyRange::prefix(&row_key(id)), ScanOptions::new())?.for_each(drop);
        Ok(Costed { cost: read.cost(), ..self.inner.field(id, place)? })
    }
}

impl OpenModels<MapStore> for Wrong {
    fn records<'k>(
        &self,
        store: &'k MapStore,
        fields: u32,
        mode: RowMode,
    ) -> esker_layouts::Result<Box<dyn Records + 'k>> {
        let inner = RealModels.records(store, fields, mode)?;
        Ok(if mode == RowMode::Cells { Box::new(ReadsRows { store, inner }) } else { inner })
    }
    fn chunk(&self, chunk: Chunk) -> Chunk {
        if chunk == Chunk::Of(CHUNK) { Chunk::Elements } else { chunk }
    }
}

#[test]
fn wrong_models_come_out_as_mismatches() {
    let study = run_with(&MapFactory, &Wrong, &tiny(), &mut Silent).expect("the answers are right");
    for formula in &study.formulas {
        let wrong =
            formula.operation == "cells: read a field" || formula.operation.starts_with("chunks of");
        assert_eq!(formula.tally.all_equal(), !wrong, "{formula:?}");
    }
    let outcomes = study.verdicts();
    assert_eq!(outcomes, [Outcome::Reproduced, Outcome::ShapeOnly, Outcome::ShapeOnly]);
}

/// Notes of each update and read of a row its number, and the field where there is one.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Note>>>);

type Note = (OfRow, u64, Option<u32>);

struct Noted<'k> {
    notes: Notes,
    inner: Box<dyn Records + 'k>,
}

impl Noted<'_> {
    fn note(&self, asked: OfRow, id: u64, place: Option<u32>) {
        self.notes.0.lock().expect("lock").push((asked, id, place));
    }
}

impl Records for Noted<'_> {
    fn put_all(&self, rows: &[(u64, Vec<String>)]) -> esker_layouts::Result<()> {
        self.inner.put_all(rows)
    }
    fn set(&self, id: u64, place: u32, text: &str) -> esker_layouts::Result<Costed<bool>> {
        self.note(OfRow::Update, id, Some(place));
        self.inner.set(id, place, text)
    }
    fn row(&self, id: u64) -> esker_layouts::Result<Costed<Option<Vec<String>>>> {
        self.note(OfRow::Read, id, None);
        self.inner.row(id)
    }
    fn field(&self, id: u64, place: u32) -> esker_layouts::Result<Costed<Option<String>>> {
        self.note(OfRow::ReadField, id, Some(place));
        self.inner.field(id, place)
    }
}

impl OpenModels<MapStore> for Notes {
    fn records<'k>(
        &self,
        store: &'k MapStore,
        fields: u32,
        mode: RowMode,
    ) -> esker_layouts::Result<Box<dyn Records + 'k>> {
        Ok(Box::new(Noted { notes: self.clone(), inner: RealModels.records(store, fields, mode)? }))
    }
}

#[test]
fn what_is_read_is_not_what_was_just_written() {
    let notes = Notes::default();
    run_with(&MapFactory, &notes, &tiny(), &mut Silent).expect("the lab runs");
    let asked = notes.0.lock().expect("lock");
    let turns: Vec<_> = asked.chunks(3).collect();
    assert_eq!(turns.len(), 12 * 4);
    let kinds = |turn: &&[Note]| turn.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>();
    assert!(turns.iter().all(|turn| kinds(turn) == [OfRow::Update, OfRow::Read, OfRow::ReadField]));
    let others = turns.iter().filter(|turn| turn[1].1 != turn[0].1).count();
    let other_fields = turns.iter().filter(|turn| (turn[2].1, turn[2].2) != (turn[0].1, turn[0].2)).count();
    // Of four rows three are others.
    assert!(others > 24 && other_fields > 36, "{others} {other_fields} of {}", turns.len());
}

#[test]
fn the_crossover_lies_where_both_cost_the_same() {
    assert_eq!(findings::share([30.0, 10.0], [5.0, 65.0]), Some(0.75));
    assert_eq!(findings::share([30.0, 10.0], [65.0, 5.0]), None, "cells are always cheaper");
    assert_eq!(findings::share([10.0, 30.0], [5.0, 65.0]), None, "never");
}
