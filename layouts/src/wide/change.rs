//! Changes of one row.

use super::WideTable;
use crate::Result;
use crate::kv::{Bytes, KeyRange, KvTx, Merge, OrderedKv};

/// What is changed in a row, in order; applied all or nothing.
///
/// ```
/// use esker_layouts::wide::RowChange;
/// let change = RowChange::new().delete_row().put("profile", b"name", b"ann").add("stats", b"logins", 1);
/// assert!(!change.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct RowChange {
    edits: Vec<Edit>,
}

#[derive(Clone, Debug)]
enum Edit {
    Put { family: String, column: Vec<u8>, value: Bytes },
    Delete { family: String, column: Vec<u8> },
    DeleteColumns { family: String, columns: KeyRange },
    DeleteRow,
    Add { family: String, column: Vec<u8>, by: i64 },
}

impl RowChange {
    /// No change.
    pub fn new() -> Self {
        RowChange::default()
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    fn and(mut self, edit: Edit) -> Self {
        self.edits.push(edit);
        self
    }

    /// Set a cell.
    #[must_use]
    pub fn put(self, family: &str, column: &[u8], value: &[u8]) -> Self {
        self.and(Edit::Put {
            family: family.to_owned(),
            column: column.to_vec(),
            value: Bytes::copy_from_slice(value),
        })
    }

    /// Remove a cell; an absent one is fine.
    #[must_use]
    pub fn delete(self, family: &str, column: &[u8]) -> Self {
        self.and(Edit::Delete { family: family.to_owned(), column: column.to_vec() })
    }

    /// Remove the cells of a family whose columns lie in `columns`, as one range delete.
    #[must_use]
    pub fn delete_columns(self, family: &str, columns: KeyRange) -> Self {
        self.and(Edit::DeleteColumns { family: family.to_owned(), columns })
    }

    /// Remove every cell of the row in the families of the handle it is applied with, as one range
    /// delete per family.
    #[must_use]
    pub fn delete_row(self) -> Self {
        self.and(Edit::DeleteRow)
    }

    /// Add to a counter cell without reading it, so that concurrent adds do not conflict. A cell that is
    /// no number, or a sum that does not fit, may show only when the cell is read.
    #[must_use]
    pub fn add(self, family: &str, column: &[u8], by: i64) -> Self {
        self.and(Edit::Add { family: family.to_owned(), column: column.to_vec(), by })
    }

    pub(super) fn write<S: OrderedKv>(
        &self,
        table: &WideTable<'_, S>,
        tx: &mut impl KvTx,
        row: &[u8],
    ) -> Result<()> {
        for edit in &self.edits {
            match edit {
                Edit::Put { family, column, value } => tx.put(&table.cell_key(row, family, column)?, value),
                Edit::Delete { family, column } => tx.delete(&table.cell_key(row, family, column)?),
                Edit::DeleteColumns { family, columns } => {
                    tx.delete_range(table.family(family)?.columns(row, columns));
                }
                Edit::DeleteRow => {
                    for family in &table.families {
                        tx.delete_range(family.cells.under(&(row,)));
                    }
                }
                Edit::Add { family, column, by } => {
                    tx.merge(&table.cell_key(row, family, column)?, Merge::Add(*by));
                }
            }
        }
        Ok(())
    }
}

/// The state of a cell that a conditional change depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// There is no such cell.
    Absent,
    /// There is one, whatever its value.
    Present,
    /// It has this value.
    Value(Bytes),
}

impl Check {
    /// The cell has this value.
    pub fn value(value: &[u8]) -> Check {
        Check::Value(Bytes::copy_from_slice(value))
    }

    pub(super) fn holds(&self, found: Option<&[u8]>) -> bool {
        match self {
            Check::Absent => found.is_none(),
            Check::Present => found.is_some(),
            Check::Value(value) => found == Some(value),
        }
    }
}
