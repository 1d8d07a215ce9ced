//! Level 0 into the base level.

use std::sync::Arc;

use esker_manifest::TableHandle;

use super::{MOVED_TABLES_MAX, Picker, Tables, bytes};
use crate::plan::{Plan, Reason, hull};
use crate::settings::Load;
use crate::sublevels::{Sublevels, ends};

#[cfg(test)]
mod tests;

/// How many stacks are tried that running jobs may be in the way of by what comes along.
const STACKS_MAX: usize = 64;

/// What level 0 is made of.
pub(super) struct Parts {
    sublevels: Sublevels,
    /// Of each table, whether running jobs are in the way of it or of one that it lies on: then it cannot go down.
    held: Vec<bool>,
}

impl Picker<'_> {
    fn parts(&self) -> &Parts {
        self.level0.get_or_init(|| {
            let tables = self.level_tables(0);
            let sublevels = Sublevels::new(&self.tree.levels[0]);
            let mut held = vec![false; tables.len()];
            // Tables stand newest first, so this pass sees every table after all older ones.
            for (index, table) in tables.iter().enumerate().rev() {
                let lies_on_held = sublevels.lies_on(index).iter().any(|&older| held[older]);
                held[index] = lies_on_held || !self.is_free(0, table, self.score.base_level);
            }
            Parts { sublevels, held }
        })
    }

    /// Move what lies alone; else merge the highest stack that running jobs leave free.
    pub(crate) fn level0(&self) -> Option<Plan> {
        if let Some(plan) = self.lone_tables() {
            return Some(plan);
        }
        // A low stack is not worth a job while a higher stack is being merged.
        let worth = match self.load {
            Load::Read => 1,
            Load::Rested | Load::Flushing => self.score.l0_depth.min(self.settings.l0_trigger(self.load)),
        };
        let Parts { sublevels, held } = self.parts();
        // A stack's newest table lies on all others.
        let free = sublevels.stacks(worth, |newest| !held[newest]);
        free.take(STACKS_MAX).find_map(|stack| self.stack_down(&stack, self.level0_reason()))
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
        let (base, reason) = (self.score.base_level, self.level0_reason());
        let may_go = |table: &&Arc<TableHandle>| {
            self.overlapping(base, &table.meta.bounds).is_empty() && self.may_move(base, table)
        };
        let tables = self.level_tables(0);
        let Parts { sublevels, held } = self.parts();
        let alone = sublevels.alone().into_iter().filter(|&index| !held[index]).map(|index| &tables[index]);
        let lone: Tables = alone.filter(may_go).take(MOVED_TABLES_MAX).cloned().collect();
        self.move_apart(0, lone, base, reason)
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
    /// however few they are. `None` if running jobs are in the way of any table of the stack.
    pub(crate) fn stack_down(&self, stack: &[usize], reason: Reason) -> Option<Plan> {
        let base = self.score.base_level;
        if stack.iter().any(|&index| self.parts().held[index]) {
            return None;
        }
        let mut take = stack.len();
        loop {
            let chosen = self.with_older(&stack[..take]);
            let upper = self.chosen_tables(&chosen);
            let lower = self.overlapping(base, &hull(&upper)?);
            let beyond = bytes(&upper) + bytes(&lower) > self.settings.job_bytes_max;
            if take > 1 && beyond && bytes(&upper) > bytes(&lower) {
                take = take.div_ceil(2);
                continue;
            }
            let upper = self.more_of_level0(chosen, upper, &lower);
            return self.plan(vec![(0, upper), (base, lower)], base, reason);
        }
    }

    /// Chooses these tables of level 0 and every older one that any of them overlaps, directly or through others.
    fn with_older(&self, seed: &[usize]) -> Vec<bool> {
        let sublevels = &self.parts().sublevels;
        let mut chosen = vec![false; self.level_tables(0).len()];
        for &index in seed {
            chosen[index] = true;
        }
        // Tables stand newest first, so one pass sees every table after all newer ones.
        for newer in 0..chosen.len() {
            if chosen[newer] {
                for &older in sublevels.lies_on(newer) {
                    chosen[older] = true;
                }
            }
        }
        chosen
    }

    fn chosen_tables(&self, chosen: &[bool]) -> Tables {
        let tables = self.level_tables(0).iter().zip(chosen);
        tables.filter(|(_, chosen)| **chosen).map(|(table, _)| Arc::clone(table)).collect()
    }

    /// Add newer tables that lie inside the job's span to those `chosen`, which are `upper`: they cost nothing but their
    /// own bytes.
    fn more_of_level0(&self, mut chosen: Vec<bool>, upper: Tables, lower: &[Arc<TableHandle>]) -> Tables {
        let Some(span) = hull(upper.iter().chain(lower)) else { return upper };
        let [from, to] = ends(&span);
        let sublevels = &self.parts().sublevels;
        let mut total = bytes(&upper) + bytes(lower);
        // Oldest first: a table may come if all that it lies on do.
        for (index, table) in self.level_tables(0).iter().enumerate().rev() {
            let [start, end] = ends(&table.meta.bounds);
            let inside = from <= start && end <= to;
            let fits = total + table.meta.file_bytes <= self.settings.job_bytes_max;
            let carried = || sublevels.lies_on(index).iter().all(|&older| chosen[older]);
            if !chosen[index] && inside && fits && carried() && !self.busy.uses(table.number()) {
                total += table.meta.file_bytes;
                chosen[index] = true;
            }
        }
        self.chosen_tables(&chosen)
    }
}
