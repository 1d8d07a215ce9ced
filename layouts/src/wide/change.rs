//! Changes of one row.

use std::fmt;

use super::WideTable;
use crate::Result;
use crate::kv::{Bytes, KeyRange, Merge, OrderedKv, Write};
use crate::scratch::{Scratch, with_buffer};
use crate::tuple::PackField;

/// What is changed in a row, in order; applied all or nothing.
///
/// ```
/// use esker_layouts::wide::RowChange;
/// let change = RowChange::new().delete_row().put("profile", b"name", b"ann").add("stats", b"logins", 1);
/// assert!(!change.is_empty());
/// ```
#[derive(Clone, Default)]
pub struct RowChange {
    /// The edits, one after the other in one buffer: of each, what it does, the lengths of its three parts as
    /// eight bytes each, and the parts.
    edits: Scratch,
}

/// One edit, as it lies in a change.
#[derive(Clone, Copy, Debug)]
enum Edit<'c> {
    Put {
        family: &'c [u8],
        column: &'c [u8],
        value: &'c [u8],
    },
    Delete {
        family: &'c [u8],
        column: &'c [u8],
    },
    /// Without `end`: all columns from `start` on.
    DeleteColumns {
        family: &'c [u8],
        start: &'c [u8],
        end: Option<&'c [u8]>,
    },
    DeleteRow,
    Add {
        family: &'c [u8],
        column: &'c [u8],
        by: i64,
    },
}

const PUT: u8 = 0;
const DELETE: u8 = 1;
const DELETE_COLUMNS: u8 = 2;
const DELETE_COLUMNS_TO_END: u8 = 3;
const DELETE_ROW: u8 = 4;
const ADD: u8 = 5;
const HEAD: usize = 1 + 3 * size_of::<u64>();

/// The edits of a change.
struct Edits<'c>(&'c [u8]);

impl<'c> Edits<'c> {
    /// The next edit with its parts. Inlined with what follows: handing an edit on costs as much as reading it. The bytes were written by [`RowChange::and`] and nobody else.
    #[inline(always)]
    fn parts(&mut self) -> Option<(u8, [&'c [u8]; 3])> {
        let (head, mut rest) = self.0.split_first_chunk::<HEAD>()?;
        let mut parts: [&[u8]; 3] = [&[]; 3];
        for (part, len) in parts.iter_mut().zip(head[1..].as_chunks::<8>().0) {
            let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
            (*part, rest) = rest.split_at_checked(len)?;
        }
        self.0 = rest;
        Some((head[0], parts))
    }
}

impl<'c> Iterator for Edits<'c> {
    type Item = Edit<'c>;

    #[inline(always)]
    fn next(&mut self) -> Option<Edit<'c>> {
        let (what, [family, a, b]) = self.parts()?;
        Some(match what {
            PUT => Edit::Put { family, column: a, value: b },
            DELETE => Edit::Delete { family, column: a },
            DELETE_COLUMNS => Edit::DeleteColumns { family, start: a, end: Some(b) },
            DELETE_COLUMNS_TO_END => Edit::DeleteColumns { family, start: a, end: None },
            ADD => Edit::Add { family, column: a, by: i64::from_le_bytes(b.try_into().ok()?) },
            _ => Edit::DeleteRow,
        })
    }
}

impl fmt::Debug for RowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Edits(&self.edits)).finish()
    }
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

    fn and(mut self, what: u8, parts: [&[u8]; 3]) -> Self {
        let [a, b, c] = parts;
        let edits = &mut *self.edits;
        edits.reserve(HEAD + a.len() + b.len() + c.len());
        let mut head = [what; HEAD];
        for (to, part) in head[1..].as_chunks_mut::<8>().0.iter_mut().zip(parts) {
            *to = (part.len() as u64).to_le_bytes();
        }
        edits.extend_from_slice(&head);
        edits.extend_from_slice(a);
        edits.extend_from_slice(b);
        edits.extend_from_slice(c);
        self
    }

    /// Set a cell.
    #[must_use]
    pub fn put(self, family: &str, column: &[u8], value: &[u8]) -> Self {
        self.and(PUT, [family.as_bytes(), column, value])
    }

    /// Remove a cell; an absent one is fine.
    #[must_use]
    pub fn delete(self, family: &str, column: &[u8]) -> Self {
        self.and(DELETE, [family.as_bytes(), column, &[]])
    }

    /// Remove the cells of a family whose columns lie in `columns`, as one range delete.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "ranges are made for the call")]
    pub fn delete_columns(self, family: &str, columns: KeyRange) -> Self {
        let what = if columns.end.is_some() { DELETE_COLUMNS } else { DELETE_COLUMNS_TO_END };
        let end = columns.end.as_deref().unwrap_or_default();
        self.and(what, [family.as_bytes(), &columns.start, end])
    }

    /// Remove every cell of the row in the families of the handle it is applied with, as one range
    /// delete per family.
    #[must_use]
    pub fn delete_row(self) -> Self {
        self.and(DELETE_ROW, [&[]; 3])
    }

    /// Add to a counter cell without reading it, so that concurrent adds do not conflict. A cell that is
    /// no number, or a sum that does not fit, may show only when the cell is read.
    #[must_use]
    pub fn add(self, family: &str, column: &[u8], by: i64) -> Self {
        self.and(ADD, [family.as_bytes(), column, &by.to_le_bytes()])
    }

    /// Hand the writes of the change of `row` to `write`, in order.
    pub(super) fn each<S: OrderedKv>(
        &self,
        table: &WideTable<'_, S>,
        row: &[u8],
        write: &mut (impl FnMut(Write<'_>) + ?Sized),
    ) -> Result<()> {
        with_buffer(|at| {
            // The cells of a row begin alike as long as the family is the same.
            let mut begun: Option<(&[u8], usize)> = None;
            let mut cell = |at: &mut Vec<u8>, family, column: &[u8]| -> Result<()> {
                match begun {
                    Some((of, len)) if of == family => at.truncate(len),
                    _ => {
                        at.clear();
                        table.family_named(family)?.cells.key_into(&(row,), at);
                        begun = Some((family, at.len()));
                    }
                }
                column.pack_field(at, 0);
                table.check_cell(at.len(), column)
            };
            for edit in Edits(&self.edits) {
                match edit {
                    Edit::Put { family, column, value } => {
                        cell(at, family, column)?;
                        write(Write::Put(at, value));
                    }
                    Edit::Delete { family, column } => {
                        cell(at, family, column)?;
                        write(Write::Delete(at));
                    }
                    Edit::DeleteColumns { family, start, end } => {
                        let columns = KeyRange { start: start.to_vec(), end: end.map(<[u8]>::to_vec) };
                        write(Write::DeleteRange(&table.family_named(family)?.columns(row, &columns)));
                    }
                    Edit::DeleteRow => {
                        for family in &table.families {
                            write(Write::DeleteRange(&family.cells.under(&(row,))));
                        }
                    }
                    Edit::Add { family, column, by } => {
                        cell(at, family, column)?;
                        write(Write::Merge(at, &Merge::Add(by)));
                    }
                }
            }
            Ok(())
        })
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
