//! What a study found: the report of an experiment that is not about followers.
//!
//! An experiment fills a [`Study`]; text, JSON and HTML are made from it. It has
//!
//! - [`Claim`]s: what the source document says (in our words, with its row numbers in the inventory of
//!   claims), what theory predicts, what was counted, what was timed, and the [`Verdict`];
//! - [`Formula`]s: counters that the store kept, below the layout, compared with a formula at every
//!   operation ([`Study::compare`]);
//! - [`Exhibit`]s, in the order in which they are shown: tables, line charts, bar charts, heat tables, rasters,
//!   each with its units;
//! - notes.
//!
//! ```
//! use esker_bench::lab::study::{Claim, Column, Exhibit, Study, Table, Unit, Value};
//! use esker_bench::lab::verdict::{Outcome, Verdict};
//!
//! let mut study = Study::new("X0", "One get reads one key", "Z1", "Ten gets.");
//! for _ in 0..10 {
//!     study.compare("get", "1 key, 1 call", &(1, 1), &(1, 1));
//! }
//! assert!(study.counters_equal());
//! study.claims.push(Claim {
//!     rows: "Z1".into(),
//!     claimed: "A get is cheap.".into(),
//!     predicted: "One key a get.".into(),
//!     counted: "One key a get.".into(),
//!     timed: "Nothing.".into(),
//!     verdict: Verdict { outcome: Outcome::Reproduced, reason: "the counters say so".into() },
//! });
//! let mut table = Table::new("Gets", [Column::text("layout"), Column::new("time", Unit::Nanos)]);
//! table.row([Value::from("row"), Value::from(1_500.0)]);
//! study.exhibits.push(Exhibit::Table(table));
//! ```

use std::fmt::Debug;

use serde::Serialize;

use super::model::Tally;
use super::stats::Interval;
use super::verdict::{Outcome, Verdict};

/// Everything one experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// The experiment: "X8".
    pub name: String,
    /// In a few words.
    pub title: String,
    /// The rows of the inventory of claims that it is about: "B5–B18".
    pub rows: String,
    /// What was done: data, operations, states of the caches.
    pub protocol: String,
    /// How often each measurement was repeated, at least; `None` if each was made once, of many operations.
    pub repetitions: Option<u32>,
    /// The claims, each with its verdict.
    pub claims: Vec<Claim>,
    /// Counters against formulas.
    pub formulas: Vec<Formula>,
    /// Tables and charts, in the order in which they are shown.
    pub exhibits: Vec<Exhibit>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// A claim of a source document and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Its rows in the inventory: "B14, B17".
    pub rows: String,
    /// What the document says, in our words.
    pub claimed: String,
    /// What theory predicts for an ordered store.
    pub predicted: String,
    /// What the counters say.
    pub counted: String,
    /// What the clock says.
    pub timed: String,
    /// Whether it holds, and why.
    pub verdict: Verdict,
}

/// One formula and how many operations kept to it.
#[derive(Clone, Debug, Serialize)]
pub struct Formula {
    /// Which operations: "tall: who plays it".
    pub operation: String,
    /// What each of them must cost, in words.
    pub formula: String,
    /// How many did.
    pub tally: Tally,
}

/// What a number counts; decides how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Whole things; grouped by thousands.
    Count,
    /// Nanoseconds; shown as ns, µs, ms or s.
    Nanos,
    /// Bytes; shown as B, KiB, MiB or GiB.
    Bytes,
    /// A share of one; shown in percent.
    Share,
    /// A plain number: a ratio, an exponent.
    Number,
    /// A number of something else, named: "keys a query".
    Of(String),
}

/// A value with its uncertainty, if it has one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Words.
    Text(String),
    /// A number in its column's unit.
    Number(f64),
    /// A number with a 95 % interval.
    Interval(Interval),
    /// Not measured, or there is no such thing; shown as a dash.
    Nothing,
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        if number.is_finite() { Value::Number(number) } else { Value::Nothing }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl From<Interval> for Value {
    fn from(interval: Interval) -> Value {
        Value::Interval(interval)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Nothing, Into::into)
    }
}

/// Something to look at.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Exhibit {
    /// Rows and columns.
    Table(Table),
    /// Lines over an axis.
    Lines(Lines),
    /// Bars in groups.
    Bars(Bars),
    /// A table whose cells are coloured by their value.
    Heat(Heat),
    /// A field of cells over two axes, each the darker the greater its value.
    Raster(Raster),
}

/// A column of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The unit of its numbers.
    pub unit: Unit,
}

impl Column {
    /// A column of numbers.
    pub fn new(name: &str, unit: Unit) -> Column {
        Column { name: name.to_owned(), unit }
    }

    /// A column of words.
    pub fn text(name: &str) -> Column {
        Column::new(name, Unit::Number)
    }
}

/// Rows and columns.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The columns; the first names the row.
    pub columns: Vec<Column>,
    /// One value a column.
    pub rows: Vec<Vec<Value>>,
    /// Whether it is folded away on the page: raw figures are.
    pub folded: bool,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, columns: impl IntoIterator<Item = Column>) -> Table {
        let columns = columns.into_iter().collect();
        Table { title: title.to_owned(), columns, rows: Vec::new(), folded: false }
    }

    /// Add a row. Panics if it does not have one value a column.
    pub fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        let values: Vec<Value> = values.into_iter().collect();
        assert_eq!(values.len(), self.columns.len(), "{}: a row has one value a column", self.title);
        self.rows.push(values);
    }
}

/// An axis of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it shows, without the unit: "facts in the table".
    pub label: String,
    /// The unit of its numbers.
    pub unit: Unit,
    /// Whether it is logarithmic. Values must be positive then; others are left out.
    pub logarithmic: bool,
}

impl Axis {
    /// A linear axis from 0.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), unit, logarithmic: false }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), unit, logarithmic: true }
    }
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    /// Where on the x axis.
    pub x: f64,
    /// The value with its band; the band may be empty.
    pub y: Interval,
}

impl Place {
    /// A point without a band.
    pub fn new(x: f64, y: f64) -> Place {
        Place { x, y: Interval { low: y, median: y, high: y } }
    }
}

/// A line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// x ascending.
    pub points: Vec<Place>,
}

/// A line chart. At most eight lines can be told apart.
#[derive(Clone, Debug, Serialize)]
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// The axis below.
    pub x: Axis,
    /// The axis on the left.
    pub y: Axis,
    /// The lines; the same name has the same colour in every chart of a study.
    pub lines: Vec<Line>,
}

/// A group of bars.
#[derive(Clone, Debug, Serialize)]
pub struct BarGroup {
    /// Its name beside the bars.
    pub name: String,
    /// One value a bar, in the order of [`Bars::bars`]; `None` is shown as a dash.
    pub values: Vec<Option<f64>>,
}

/// A bar chart; bars lie, from left to right.
#[derive(Clone, Debug, Serialize)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// The axis below the bars. Bars of a logarithmic one start a decade below the least value.
    pub value: Axis,
    /// The bars of every group, as named in the legend.
    pub bars: Vec<String>,
    /// The groups, top down.
    pub groups: Vec<BarGroup>,
}

/// A table coloured by value: the larger, the darker, on a logarithmic scale.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// What it shows.
    pub title: String,
    /// What the columns are.
    pub columns: Vec<String>,
    /// The unit of the values.
    pub unit: Unit,
    /// The rows: a name, and one value a column, with a remark shown small below it.
    pub rows: Vec<(String, Vec<HeatCell>)>,
}

/// A cell of a heat table.
#[derive(Clone, Debug, Serialize)]
pub struct HeatCell {
    /// The value; `None` for a dash.
    pub value: Option<f64>,
    /// Small print: what the cell had to read.
    pub remark: String,
}

/// A field of cells over two axes: what happens where and when, each cell the darker the greater its value,
/// nothing where it is 0.
#[derive(Clone, Debug, Serialize)]
pub struct Raster {
    /// What it shows.
    pub title: String,
    /// The axis below, with what its two ends are.
    pub x: RasterAxis,
    /// The axis on the left, from below.
    pub y: RasterAxis,
    /// What the cells count: "puts".
    pub counts: String,
    /// Rows from above, each with one value, of 0 or more, for each column.
    pub cells: Vec<Vec<f64>>,
}

/// An axis of a raster, by its ends.
#[derive(Clone, Debug, Serialize)]
pub struct RasterAxis {
    /// What it shows: "time".
    pub label: String,
    /// Its beginning.
    pub from: String,
    /// Its end.
    pub to: String,
}

impl RasterAxis {
    /// An axis for `label` between two ends.
    pub fn new(label: &str, from: &str, to: &str) -> RasterAxis {
        RasterAxis { label: label.to_owned(), from: from.to_owned(), to: to.to_owned() }
    }
}

impl Raster {
    /// The greatest value.
    pub fn greatest(&self) -> f64 {
        self.cells.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// How dark `value` is, in `shades` steps: 0 for nothing, else 1 to `shades`.
    pub fn shade(&self, value: f64, shades: usize) -> usize {
        if value <= 0.0 {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the shades"
        )]
        let step = (value / self.greatest() * shades as f64).ceil() as usize;
        step.clamp(1, shades)
    }
}

impl Study {
    /// A study without findings: experiment `name` about the rows `rows`, done as `protocol` says.
    pub fn new(name: &str, title: &str, rows: &str, protocol: &str) -> Study {
        Study {
            name: name.to_owned(),
            title: title.to_owned(),
            rows: rows.to_owned(),
            protocol: protocol.to_owned(),
            repetitions: None,
            claims: Vec::new(),
            formulas: Vec::new(),
            exhibits: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Compare what one operation of the kind `operation` has `counted` with what its formula
    /// `expected`; `formula` says it in words.
    pub fn compare<T: PartialEq + Debug>(
        &mut self,
        operation: &str,
        formula: &str,
        counted: &T,
        expected: &T,
    ) {
        let known = self.formulas.iter().position(|f| f.operation == operation && f.formula == formula);
        let place = known.unwrap_or(self.formulas.len());
        if known.is_none() {
            self.formulas.push(Formula {
                operation: operation.to_owned(),
                formula: formula.to_owned(),
                tally: Tally::default(),
            });
        }
        self.formulas[place]
            .tally
            .note(counted == expected, || format!("counted {counted:?}, the formula says {expected:?}"));
    }

    /// Whether something was compared, and every operation kept to its formula.
    pub fn counters_equal(&self) -> bool {
        !self.formulas.is_empty() && self.formulas.iter().all(|formula| formula.tally.all_equal())
    }

    /// How many operations were compared with a formula.
    pub fn compared(&self) -> u64 {
        self.formulas.iter().map(|formula| formula.tally.operations).sum()
    }

    /// The comparison over all formulas whose operation starts with `operation`: what a claim's verdict
    /// is judged by.
    pub fn tally(&self, operation: &str) -> Tally {
        let mut sum = Tally::default();
        for formula in self.formulas.iter().filter(|formula| formula.operation.starts_with(operation)) {
            sum.add(&formula.tally);
        }
        sum
    }

    /// How many claims came out as `outcome`.
    pub fn outcomes(&self, outcome: Outcome) -> usize {
        self.claims.iter().filter(|claim| claim.verdict.outcome == outcome).count()
    }
}

#[cfg(test)]
mod tests;
