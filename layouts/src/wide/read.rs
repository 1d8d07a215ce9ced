//! Queries over rows and columns, page by page.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::filter::intersection;
use super::visit::CellRef;
use super::{Family, Filter, LAYOUT, WideTable};
use crate::kv::{Bytes, Go, KeyRange, KvRead, OrderedKv, ScanOptions};
use crate::ordered_merge::OrderedMerge;
use crate::scratch::with_buffer;
use crate::tuple::{Fields, KeyError, Space, pack, unpack};
use crate::{Error, OpCost, Result};

/// How many unwanted cells in a row a scan walks over before it seeks instead.
pub(super) const SKIP_AFTER: u32 = 16;

/// A cell as a query returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The row's key.
    pub row: Vec<u8>,
    /// The family's name.
    pub family: String,
    /// The column's name.
    pub column: Vec<u8>,
    /// The value; empty if the query asked for keys only.
    pub value: Bytes,
}

/// A part of a query's cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Cells by row, then family in the table's order, then column; all of it backwards in reverse.
    pub cells: Vec<Cell>,
    /// Where to go on if a limit ended the page; `None` if there is nothing more. A page that goes on
    /// may still be the last one with cells, and with a limit on what is looked at it may be empty.
    pub next: Option<PageToken>,
}

/// The place of the last cell a page looked at. The next page starts right behind it, whatever was
/// written meanwhile; read in the same view, the pages are those of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    row: Vec<u8>,
    family: u64,
    column: Vec<u8>,
}

impl PageToken {
    /// The token as bytes, to hand it to a client.
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(&(self.row.as_slice(), self.family, self.column.as_slice()))
    }

    /// The token that [`to_bytes`](Self::to_bytes) wrote; [`Error::Key`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<PageToken> {
        let (row, family, column) = unpack(bytes)?;
        Ok(PageToken { row, family, column })
    }
}

/// Which cells to return, in which direction and portions.
///
/// ```
/// use esker_layouts::wide::{Filter, Query};
/// // Rows of user QQ12 that have a game whose name starts with "c"; ten rows or 64 KiB at a time.
/// let query = Query::rows_from_prefix(b"QQ12$")
///     .family("games")
///     .filter(Filter::ColumnPrefix(b"c".to_vec()))
///     .limit_rows(10)
///     .limit_bytes(64 << 10);
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) rows: KeyRange,
    pub(super) families: Vec<String>,
    pub(super) columns: KeyRange,
    pub(super) filter: Option<Filter>,
    pub(super) reverse: bool,
    pub(super) keys_only: bool,
    pub(super) limit_rows: Option<usize>,
    pub(super) limit_cells: Option<usize>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) limit_looked: Option<u64>,
    pub(super) after: Option<PageToken>,
}

impl Query {
    /// The rows whose keys lie in `rows`.
    pub fn rows(rows: KeyRange) -> Query {
        Query {
            rows,
            families: Vec::new(),
            columns: KeyRange::all(),
            filter: None,
            reverse: false,
            keys_only: false,
            limit_rows: None,
            limit_cells: None,
            limit_bytes: None,
            limit_looked: None,
            after: None,
        }
    }

    /// Every row.
    pub fn all() -> Query {
        Query::rows(KeyRange::all())
    }

    /// One row.
    pub fn row(row: &[u8]) -> Query {
        Query::rows(KeyRange::point(row))
    }

    /// The rows whose keys start with `prefix`, byte for byte.
    pub fn rows_from_prefix(prefix: &[u8]) -> Query {
        Query::rows(KeyRange::prefix(prefix))
    }

    /// Only this family, and others added so. Without any: all families of the handle.
    #[must_use]
    pub fn family(mut self, name: &str) -> Self {
        self.families.push(name.to_owned());
        self
    }

    /// Only columns whose names lie in `columns`.
    #[must_use]
    pub fn columns(mut self, columns: KeyRange) -> Self {
        self.columns = columns;
        self
    }

    /// Only cells that pass `filter`.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// From the last row, family and column down.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Leave the values out.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }

    /// End the page before the row after so many rows.
    #[must_use]
    pub fn limit_rows(mut self, rows: usize) -> Self {
        self.limit_rows = Some(rows);
        self
    }

    /// End the page after so many cells.
    #[must_use]
    pub fn limit_cells(mut self, cells: usize) -> Self {
        self.limit_cells = Some(cells);
        self
    }

    /// End the page after the cell with which rows, columns and values reach so many bytes.
    #[must_use]
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.limit_bytes = Some(bytes);
        self
    }

    /// End the page after looking at so many cells, whether they pass or not: bounds the time of a page
    /// when few cells pass the filter.
    #[must_use]
    pub fn limit_looked(mut self, cells: u64) -> Self {
        self.limit_looked = Some(cells);
        self
    }

    /// Go on where the page with this token ended.
    #[must_use]
    pub fn after(mut self, token: PageToken) -> Self {
        self.after = Some(token);
        self
    }

    pub(super) fn run<S: OrderedKv>(&self, table: &WideTable<S>, read: &impl KvRead) -> Result<Page> {
        if [self.limit_rows, self.limit_cells].contains(&Some(0))
            || [self.limit_bytes, self.limit_looked].contains(&Some(0))
        {
            return Err(Error::bad_input("limit", "0", "a page has at least one cell; give 1 or more"));
        }
        let narrowed = self.filter.as_ref().map(|filter| intersection(&self.columns, &filter.columns()));
        let columns = narrowed.as_ref().unwrap_or(&self.columns);
        let mut page = PageOf::new(self);
        if columns.is_empty() || self.rows.is_empty() {
            return Ok(page.finish(false));
        }
        let wanted = |family: &&Family| self.families.is_empty() || self.families.contains(&family.name);
        for name in &self.families {
            table.family(name)?;
        }
        let mut families = table.families.iter().filter(wanted);
        if self.rows.is_point()
            && !self.reverse
            && !self.keys_only
            && let (Some(family), None) = (families.next(), families.next())
        {
            return self.run_in_row(family, read, columns, page);
        }
        let families = table.families.iter().filter(wanted);
        let sources = families.map(|family| FamilyScan::new(self, read, family, columns)).collect();
        let mut merge = OrderedMerge::new(sources, self.reverse);
        while !page.is_full() {
            let Some(next) = merge.next() else { return Ok(page.finish(false)) };
            let (row, found) = next?;
            if !page.take(row, found) {
                break;
            }
        }
        Ok(page.finish(true))
    }

    /// The columns of one row in one family, forward: they are one range of keys, nothing has to be merged or
    /// passed over, and all keys begin with the row.
    fn run_in_row(
        &self,
        family: &Family,
        read: &impl KvRead,
        columns: &KeyRange,
        mut page: PageOf<'_>,
    ) -> Result<Page> {
        let row = self.rows.start.as_slice();
        let range = self.rest(family, columns);
        let known = with_buffer(|at| {
            family.cells.key_into(&(row,), at);
            at.len()
        });
        let mut scratch = Vec::new();
        let mut more = page.is_full();
        if more || range.is_empty() {
            return Ok(page.finish(more));
        }
        read.visit(range, |key, value| {
            let mut fields = Fields::starting_at(key, known.min(key.len()));
            let column = fields.bytes_in(&mut scratch);
            let column = column.and_then(|column| fields.finish().map(|()| column));
            let column = column.map_err(|error| Error::foreign(LAYOUT, key, error))?;
            page.take_lent(row, family, column, value);
            more = page.is_full();
            Ok(if more { Go::Stop } else { Go::On })
        })?;
        Ok(page.finish(more))
    }

    /// The keys of `family` that the query is about, behind what earlier pages had.
    fn rest(&self, family: &Family, columns: &KeyRange) -> KeyRange {
        let cells: &Space = &family.cells;
        let mut rest = family.rows(&self.rows, columns);
        if let Some(token) = &self.after {
            let row = token.row.as_slice();
            let here = cells.key(&(row, token.column.as_slice()));
            let order = family.number.cmp(&token.family);
            let order = if self.reverse { order.reverse() } else { order };
            match (order, self.reverse) {
                // The row is done in this family.
                (Ordering::Less, false) => {
                    rest.start = rest.start.max(family.behind_row(row).unwrap_or_default());
                }
                (Ordering::Equal, false) => {
                    rest.start = rest.start.max(KeyRange::point(&here).end.unwrap_or_default());
                }
                (Ordering::Greater, false) => {
                    rest.start = rest.start.max(cells.key(&(row,)));
                }
                (Ordering::Less, true) => cut_end(&mut rest, Some(cells.key(&(row,)))),
                (Ordering::Equal, true) => cut_end(&mut rest, Some(here)),
                (Ordering::Greater, true) => cut_end(&mut rest, family.behind_row(row)),
            }
        }
        rest
    }
}

/// A page being filled.
struct PageOf<'q> {
    query: &'q Query,
    cells: Vec<Cell>,
    /// The last cell looked at.
    last: Option<PageToken>,
    rows: usize,
    bytes: u64,
    looked: u64,
}

impl<'q> PageOf<'q> {
    fn new(query: &'q Query) -> Self {
        PageOf { query, cells: Vec::new(), last: query.after.clone(), rows: 0, bytes: 0, looked: 0 }
    }

    fn is_full(&self) -> bool {
        let query = self.query;
        query.limit_cells.is_some_and(|limit| self.cells.len() >= limit)
            || query.limit_bytes.is_some_and(|limit| self.bytes >= limit)
            || query.limit_looked.is_some_and(|limit| self.looked >= limit)
    }

    /// Look at the next cell; `false` if it belongs on the next page.
    fn take(&mut self, row: Vec<u8>, found: Found<'_>) -> bool {
        if found.wanted && self.passes(&found.column, &found.value) {
            if self.cells.last().is_none_or(|cell| cell.row != row) {
                if self.query.limit_rows == Some(self.rows) {
                    return false;
                }
                self.rows += 1;
            }
            let value = if self.query.keys_only { Bytes::new() } else { found.value };
            self.put(&row, found.family, &found.column, value);
        }
        self.looked += 1;
        self.last = Some(PageToken { row, family: found.family.number, column: found.column });
        true
    }

    /// Look at the next cell of the one row, which lies in the wanted columns.
    fn take_lent(&mut self, row: &[u8], family: &Family, column: &[u8], value: &[u8]) {
        if self.passes(column, value) {
            self.put(row, family, column, Bytes::copy_from_slice(value));
        }
        self.looked += 1;
        if self.is_full() {
            self.last =
                Some(PageToken { row: row.to_vec(), family: family.number, column: column.to_vec() });
        }
    }

    fn passes(&self, column: &[u8], value: &[u8]) -> bool {
        self.query.filter.as_ref().is_none_or(|filter| filter.passes(column, value))
    }

    fn put(&mut self, row: &[u8], family: &Family, column: &[u8], value: Bytes) {
        self.bytes += (row.len() + column.len() + value.len()) as u64;
        let (row, column) = (row.to_vec(), column.to_vec());
        self.cells.push(Cell { row, family: family.name.clone(), column, value });
    }

    fn finish(self, more: bool) -> Page {
        Page { cells: self.cells, next: self.last.filter(|_| more) }
    }
}

/// A cell that a scan met.
struct Found<'a> {
    family: &'a Family,
    column: Vec<u8>,
    value: Bytes,
    /// Whether its column lies in the wanted range.
    wanted: bool,
}

/// The cells of one family in the rows of a query.
struct FamilyScan<'a, R: KvRead> {
    read: &'a R,
    family: &'a Family,
    columns: &'a KeyRange,
    /// What is still to be scanned when the next scan starts.
    rest: KeyRange,
    options: ScanOptions,
    scan: Option<R::Scan<'a>>,
    /// Unwanted cells since the last wanted one or seek.
    misses: u32,
}

impl Family {
    /// The cells of one row whose columns lie in `columns`.
    pub(super) fn columns(&self, row: &[u8], columns: &KeyRange) -> KeyRange {
        let end = match &columns.end {
            Some(end) => Some(self.cells.key(&(row, end.as_slice()))),
            None => self.cells.under(&(row,)).end,
        };
        KeyRange { start: self.cells.key(&(row, columns.start.as_slice())), end }
    }

    /// The cells of the rows in `rows`; of a single one, those whose columns lie in `columns`.
    pub(super) fn rows(&self, rows: &KeyRange, columns: &KeyRange) -> KeyRange {
        if rows.is_point() {
            return self.columns(&rows.start, columns);
        }
        let end = match &rows.end {
            Some(end) => Some(self.cells.key(&(end.as_slice(),))),
            None => self.cells.under(&()).end,
        };
        KeyRange { start: self.cells.key(&(rows.start.as_slice(),)), end }
    }

    /// The first key after all cells of `row`.
    pub(super) fn behind_row(&self, row: &[u8]) -> Option<Vec<u8>> {
        self.cells.under(&(row,)).end
    }
}

impl<'a, R: KvRead> FamilyScan<'a, R> {
    fn new(query: &Query, read: &'a R, family: &'a Family, columns: &'a KeyRange) -> Self {
        let rest = query.rest(family, columns);
        let with_values = !query.keys_only || query.filter.as_ref().is_some_and(Filter::needs_value);
        let options = ScanOptions { reverse: query.reverse, keys_only: !with_values, ..ScanOptions::new() };
        FamilyScan { read, family, columns, rest, options, scan: None, misses: 0 }
    }

    /// Leave the unwanted cells around (row, column) by a seek.
    fn skip(&mut self, row: &[u8], column: &[u8]) {
        let wanted = self.family.columns(row, self.columns);
        let before = column < self.columns.start.as_slice();
        match (before, self.options.reverse) {
            (true, false) => self.rest.start = wanted.start,
            (false, false) => self.rest.start = self.family.behind_row(row).unwrap_or_default(),
            (true, true) => cut_end(&mut self.rest, Some(self.family.cells.key(&(row,)))),
            (false, true) => cut_end(&mut self.rest, wanted.end),
        }
        self.scan = None;
        self.misses = 0;
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Found<'a>)>> {
        let scan = match &mut self.scan {
            Some(scan) => scan,
            None => self.scan.insert(self.read.scan(self.rest.clone(), self.options)?),
        };
        let Some(next) = scan.next() else { return Ok(None) };
        let (key, value) = next?;
        let foreign = |error: KeyError| Error::foreign(LAYOUT, &key, error);
        let (row, column): (Vec<u8>, Vec<u8>) = self.family.cells.unpack(&key).map_err(foreign)?;
        let wanted = self.columns.contains(&column);
        self.misses = if wanted { 0 } else { self.misses + 1 };
        if self.misses >= SKIP_AFTER {
            self.skip(&row, &column);
        }
        Ok(Some((row, Found { family: self.family, column, value, wanted })))
    }
}

fn cut_end(range: &mut KeyRange, end: Option<Vec<u8>>) {
    let cut = KeyRange { start: Vec::new(), end };
    *range = intersection(range, &cut);
}

impl<'a, R: KvRead> Iterator for FamilyScan<'a, R> {
    type Item = Result<(Vec<u8>, Found<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// A table at one moment, or as a transaction sees it.
pub struct WideView<'t, S: OrderedKv + 't, R = <S as OrderedKv>::Read<'t>> {
    pub(super) table: &'t WideTable<S>,
    pub(super) read: R,
}

impl<S: OrderedKv, R> std::fmt::Debug for WideView<'_, S, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WideView").field("space", &self.table.space).finish_non_exhaustive()
    }
}

impl<'t, S: OrderedKv, R: KvRead> WideView<'t, S, R> {
    pub(super) fn new(table: &'t WideTable<S>, read: R) -> Self {
        WideView { table, read }
    }

    /// The value of a cell: one get.
    pub fn get(&self, row: &[u8], family: &str, column: &[u8]) -> Result<Option<Bytes>> {
        let family = self.table.family(family)?;
        self.table.with_cell(row, family, column, |at| self.read.get(at))
    }

    /// Whether there is such a cell: one get without the value.
    pub fn exists(&self, row: &[u8], family: &str, column: &[u8]) -> Result<bool> {
        let family = self.table.family(family)?;
        self.table.with_cell(row, family, column, |at| self.read.contains(at))
    }

    /// The cells that `query` asks for, up to its limits. [`Error::BadInput`] for a family that the
    /// table was not opened with, and for a limit of 0.
    pub fn page(&self, query: &Query) -> Result<Page> {
        query.run(self.table, &self.read)
    }

    /// Lend the cells that `query` asks for to `visit`, forward, row by row and column by column; nothing
    /// is kept or copied, and what the query's columns and filter leave out is passed over where it lies.
    /// [`Error::BadInput`] for a query that is reversed or limited, and for one of several families:
    /// their rows would have to be merged; [`page`](Self::page) does that.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use esker_layouts::map::MapStore;
    /// use esker_layouts::tuple::Space;
    /// use esker_layouts::wide::{Filter, Query, RowChange, WideTable};
    ///
    /// let store = MapStore::new();
    /// let table = WideTable::open(&store, &Space::root(), &["games"])?;
    /// for user in ["ann", "bob"] {
    ///     table.apply(user.as_bytes(), &RowChange::new().put("games", b"chess", b"3").put("games", b"go", b"1"))?;
    /// }
    /// let mut players = Vec::new();
    /// let who = Query::all().filter(Filter::Column(b"go".to_vec()));
    /// table.view()?.visit(&who, |cell| {
    ///     players.push(cell.row.to_vec());
    ///     Ok(ControlFlow::Continue(()))
    /// })?;
    /// assert_eq!(players, [b"ann", b"bob"]);
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    pub fn visit(
        &self,
        query: &Query,
        visit: impl FnMut(CellRef<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        super::visit::run(self.table, &self.read, query, visit)
    }

    /// What the reads of this view have cost so far.
    pub fn cost(&self) -> OpCost {
        self.read.cost()
    }
}
