//! Level 0 into the base level.

use std::sync::Arc;

use esker_manifest::TableHandle;

use super::{MOVED_TABLES_MAX, Picker, Tables, bytes};
use crate::plan::{Plan, Reason, hull};
use crate::settings::Load;
use crate::sublevels::Sublevels;

impl Picker<'_> {
    /// Move what lies alone; else merge the highest stack that running jobs leave free.
    pub(crate) fn level0(&self) -> Option<Plan> {
        if let Some(plan) = self.lone_tables() {
            return Some(plan);
        }
        let sublevels = Sublevels::new(&self.tree.levels[0]);
        // A low stack is not worth a job while a higher stack is being merged.
        let worth = match self.load {
            Load::Read => 1,
            Load::Rested | Load::Flushing => self.score.l0_depth.min(self.settings.l0_trigger(self.load)),
        };
        sublevels.stacks(worth).find_map(|stack| self.stack_down(&stack, self.level0_reason()))
    }

    fn level0_reason(&self) -> Reason {
        let (depth, tables) = (self.score.l0_depth, self.score.l0_tables);
        match self.load {
            // If level 0 is due for its depth, the merge is needed, and has to be tried again.
            Load::Read if depth < self.settings.l0_trigger(Load::Rested) => Reason::Read { depth, tables },
            Load::Read | Load::Rested | Load::Flushing => {
                Reason::Level0 { depth, tables, trigger: self.settings.l0_trigger(self.load) }
            }
        }
    }

    /// Tables that overlap nothing in level 0 and nothing in the base level: moved, all at once.
    fn lone_tables(&self) -> Option<Plan> {
        let base = self.score.base_level;
        let tables = self.level_tables(0);
        let mut in_order: Vec<&Arc<TableHandle>> = tables.iter().collect();
        in_order.sort_by(|a, b| a.meta.bounds.smallest.cmp(&b.meta.bounds.smallest));
        let mut lone: Tables = Vec::new();
        // In order of their smallest keys, a table overlaps an earlier one exactly if it overlaps the
        // furthest-reaching of them.
        let mut reach: Option<&Arc<TableHandle>> = None;
        for (at, table) in in_order.iter().enumerate() {
            let overlaps = |other: &Arc<TableHandle>| other.meta.bounds.overlaps(&table.meta.bounds);
            let next = in_order.get(at + 1);
            let alone = !reach.is_some_and(overlaps) && !next.is_some_and(|next| overlaps(next));
            if reach.is_none_or(|far| far.meta.bounds.union(&table.meta.bounds) != far.meta.bounds) {
                reach = Some(table);
            }
            let free = alone
                && self.overlapping(base, &table.meta.bounds).is_empty()
                && self.may_move(base, table)
                && self.plan(vec![(0, vec![Arc::clone(table)])], base, self.level0_reason()).is_some();
            if free && lone.len() < MOVED_TABLES_MAX {
                lone.push(Arc::clone(table));
            }
        }
        self.move_apart(0, lone, base, self.level0_reason())
    }

    /// A trivial move of tables that each may move. Together they may span what no single one spans: what
    /// lies between them in the output level is left alone by a move, so only running jobs matter.
    pub(super) fn move_apart(&self, from: u8, mut tables: Tables, to: u8, reason: Reason) -> Option<Plan> {
        while !tables.is_empty() {
            if let Some(plan) = self.plan(vec![(from, tables.clone())], to, reason) {
                return Some(plan.into_move());
            }
            // A running job works in between: fewer tables span less.
            tables.truncate(tables.len() / 2);
        }
        None
    }

    /// Merge `stack` (indices into level 0, oldest first) into the base level, or as many of its oldest
    /// tables as fit a job. But no fewer than it takes to be worth it: what they lie on is written anew
    /// however few they are.
    pub(crate) fn stack_down(&self, stack: &[usize], reason: Reason) -> Option<Plan> {
        let mut take = stack.len();
        loop {
            let upper = self.with_older(&stack[..take])?;
            let bounds = hull(&upper)?;
            let lower = self.overlapping(self.score.base_level, &bounds);
            let beyond = bytes(&upper) + bytes(&lower) > self.settings.job_bytes_max;
            if take > 1 && beyond && bytes(&upper) > bytes(&lower) {
                take = take.div_ceil(2);
                continue;
            }
            let upper = self.more_of_level0(upper, &lower);
            let inputs = vec![(0, upper), (self.score.base_level, lower)];
            return self.plan(inputs, self.score.base_level, reason);
        }
    }

    /// These tables and every older one that any of them overlaps, directly or through others; `None` if
    /// a running job uses one.
    fn with_older(&self, seed: &[usize]) -> Option<Tables> {
        let tables = self.level_tables(0);
        let mut chosen = vec![false; tables.len()];
        for &index in seed {
            chosen[index] = true;
        }
        // Tables stand newest first, so one pass sees every table after all newer ones.
        for newer in 0..tables.len() {
            if chosen[newer] {
                for older in newer + 1..tables.len() {
                    chosen[older] |= tables[older].meta.bounds.overlaps(&tables[newer].meta.bounds);
                }
            }
        }
        let upper: Tables =
            tables.iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(t, _)| Arc::clone(t)).collect();
        (!upper.iter().any(|table| self.busy.uses(table.number()))).then_some(upper)
    }

    /// Add newer tables that lie inside the job's span: they cost nothing but their own bytes.
    fn more_of_level0(&self, upper: Tables, lower: &[Arc<TableHandle>]) -> Tables {
        let Some(span) = hull(upper.iter().chain(lower)) else { return upper };
        let mut total = bytes(&upper) + bytes(lower);
        let mut left_out: Vec<&Arc<TableHandle>> = Vec::new();
        let mut chosen: Tables = Vec::new();
        // Oldest first: a table may come if no older one that it overlaps is left out.
        for table in self.level_tables(0).iter().rev() {
            let bounds = &table.meta.bounds;
            if upper.iter().any(|other| other.number() == table.number()) {
                chosen.push(Arc::clone(table));
                continue;
            }
            let inside = span.union(bounds) == span;
            let fits = total + table.meta.file_bytes <= self.settings.job_bytes_max;
            let blocked = left_out.iter().any(|older| older.meta.bounds.overlaps(bounds));
            if inside && fits && !blocked && !self.busy.uses(table.number()) {
                total += table.meta.file_bytes;
                chosen.push(Arc::clone(table));
            } else {
                left_out.push(table);
            }
        }
        chosen.reverse();
        chosen
    }
}
