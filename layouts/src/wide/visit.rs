//! Queries whose cells are lent instead of collected: filters are applied to keys where they lie.

use std::ops::ControlFlow;

use super::filter::intersection;
use super::read::SKIP_AFTER;
use super::{Family, Filter, LAYOUT, Query, WideTable};
use crate::kv::{Go, KeyRange, KvRead, OrderedKv};
use crate::tuple::pack;
use crate::{Error, Result};

/// A cell, lent for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    /// The row's key.
    pub row: &'a [u8],
    /// The column's name.
    pub column: &'a [u8],
    /// The value; empty if the query asked for keys only.
    pub value: &'a [u8],
}

/// The one family of a query that can be visited.
fn family_of<'t, S: OrderedKv>(table: &'t WideTable<S>, query: &Query) -> Result<&'t Family> {
    let refuse = |why| Err(Error::bad_input("query", "visit", why));
    let limits = [query.limit_rows, query.limit_cells].iter().any(Option::is_some)
        || [query.limit_bytes, query.limit_looked].iter().any(Option::is_some);
    if query.reverse || limits || query.after.is_some() {
        return refuse("it is reversed, limited or goes on from a page; read it page by page");
    }
    match (query.families.as_slice(), table.families.as_slice()) {
        ([one], _) => table.family(one),
        ([], [only]) => Ok(only),
        _ => {
            refuse("it is about several families, whose rows would have to be merged; read it page by page")
        }
    }
}

/// What is known of the row that unwanted cells are passed over in.
#[derive(Default)]
struct Passing {
    /// Unwanted cells since the last wanted one or seek.
    misses: u32,
    /// The row that the last count of misses ended in.
    row: Vec<u8>,
}

pub(super) fn run<S: OrderedKv>(
    table: &WideTable<S>,
    read: &impl KvRead,
    query: &Query,
    mut visit: impl FnMut(CellRef<'_>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let family = family_of(table, query)?;
    let filter = query.filter.as_ref();
    let columns = intersection(&query.columns, &filter.map_or_else(KeyRange::all, Filter::columns));
    if columns.is_empty() || query.rows.is_empty() {
        return Ok(());
    }
    // Where one column is wanted, the key of a wanted cell ends with it: told without decoding the key.
    // (Not every key that ends so is wanted: the end of a longer name may look like a whole one.)
    let ending = (columns == KeyRange::point(&columns.start)).then(|| pack(&(columns.start.as_slice(),)));
    let (mut row_scratch, mut column_scratch) = (Vec::new(), Vec::new());
    let mut passing = Passing::default();
    read.visit(family.rows(&query.rows, &columns), |key, value| {
        let foreign = |error| Error::foreign(LAYOUT, key, error);
        if ending.as_ref().is_some_and(|ending| !key.ends_with(ending)) {
            passing.misses += 1;
            if passing.misses < SKIP_AFTER {
                return Ok(Go::On);
            }
        }
        let mut fields = family.cells.fields(key).map_err(foreign)?;
        let row = fields.bytes_in(&mut row_scratch).map_err(foreign)?;
        let column = fields.bytes_in(&mut column_scratch).map_err(foreign)?;
        fields.finish().map_err(foreign)?;
        if !columns.contains(column) {
            passing.misses += 1;
            return Ok(passing.pass(family, &columns, row, column));
        }
        passing.misses = 0;
        if filter.is_some_and(|filter| !filter.passes(column, value)) {
            return Ok(Go::On);
        }
        let go = visit(CellRef { row, column, value: if query.keys_only { &[] } else { value } })?;
        Ok(if go.is_break() { Go::Stop } else { Go::On })
    })
}

impl Passing {
    /// Where to go from an unwanted cell: on, or, once as many unwanted cells as a seek is worth have been
    /// met in one and the same row, to the wanted columns or behind the row.
    fn pass(&mut self, family: &Family, columns: &KeyRange, row: &[u8], column: &[u8]) -> Go {
        if self.misses < SKIP_AFTER {
            return Go::On;
        }
        self.misses = 0;
        if self.row != row {
            self.row.clear();
            self.row.extend_from_slice(row);
            return Go::On;
        }
        if column < columns.start.as_slice() {
            return Go::To(family.columns(row, columns).start);
        }
        family.behind_row(row).map_or(Go::Stop, Go::To)
    }
}
