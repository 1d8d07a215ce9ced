//! Changes of one row.

use std::fmt;
use std::ops::Range;

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
    /// The edits, one after the other in one buffer: of each, what it does, the lengths of its two parts as
    /// eight bytes each, and the parts.
    edits: Scratch,
    /// Where in it the family lies that was named last.
    family: Range<usize>,
}

/// One edit, as it lies in a change.
#[derive(Clone, Copy, Debug)]
enum Edit<'c> {
    /// What follows is in this family.
    Family(&'c [u8]),
    Put {
        column: &'c [u8],
        value: &'c [u8],
    },
    Delete {
        column: &'c [u8],
    },
    /// Without `end`: all columns from `start` on.
    DeleteColumns {
        start: &'c [u8],
        end: Option<&'c [u8]>,
    },
    DeleteRow,
    Add {
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
const FAMILY: u8 = 6;
const HEAD: usize = 1 + 2 * size_of::<u64>();

/// The edits of a change.
struct Edits<'c>(&'c [u8]);

impl<'c> Edits<'c> {
    /// The next edit with its parts. Inlined with what follows: handing an edit on costs as much as reading it. The bytes were written by [`RowChange::and`] and nobody else.
    #[inline(always)]
    fn parts(&mut self) -> Option<(u8, [&'c [u8]; 2])> {
        let (head, mut rest) = self.0.split_first_chunk::<HEAD>()?;
        let mut parts: [&[u8]; 2] = [&[]; 2];
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
        let (what, [a, b]) = self.parts()?;
        Some(match what {
            FAMILY => Edit::Family(a),
            PUT => Edit::Put { column: a, value: b },
            DELETE => Edit::Delete { column: a },
            DELETE_COLUMNS => Edit::DeleteColumns { start: a, end: Some(b) },
            DELETE_COLUMNS_TO_END => Edit::DeleteColumns { start: a, end: None },
            ADD => Edit::Add { column: a, by: i64::from_le_bytes(b.try_into().ok()?) },
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

    fn and(&mut self, what: u8, parts: [&[u8]; 2]) {
        let [a, b] = parts;
        let edits = &mut *self.edits;
        edits.reserve(HEAD + a.len() + b.len());
        let mut head = [what; HEAD];
        for (to, part) in head[1..].as_chunks_mut::<8>().0.iter_mut().zip(parts) {
            *to = (part.len() as u64).to_le_bytes();
        }
        edits.extend_from_slice(&head);
        edits.extend_from_slice(a);
        edits.extend_from_slice(b);
    }

    /// An edit in `family`, which is named where it is another than the edit's before.
    fn in_family(mut self, family: &str, what: u8, parts: [&[u8]; 2]) -> Self {
        let family = family.as_bytes();
        if family.is_empty() || self.edits.get(self.family.clone()) != Some(family) {
            self.and(FAMILY, [family, &[]]);
            self.family = self.edits.len() - family.len()..self.edits.len();
        }
        self.and(what, parts);
        self
    }

    /// Set a cell.
    #[must_use]
    pub fn put(self, family: &str, column: &[u8], value: &[u8]) -> Self {
        self.in_family(family, PUT, [column, value])
    }

    /// Remove a cell; an absent one is fine.
    #[must_use]
    pub fn delete(self, family: &str, column: &[u8]) -> Self {
        self.in_family(family, DELETE, [column, &[]])
    }

    /// Remove the cells of a family whose columns lie in `columns`, as one range delete.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "ranges are made for the call")]
    pub fn delete_columns(self, family: &str, columns: KeyRange) -> Self {
        let what = if columns.end.is_some() { DELETE_COLUMNS } else { DELETE_COLUMNS_TO_END };
        let end = columns.end.as_deref().unwrap_or_default();
        self.in_family(family, what, [&columns.start, end])
    }

    /// Remove every cell of the row in the families of the handle it is applied with, as one range
    /// delete per family.
    #[must_use]
    pub fn delete_row(mut self) -> Self {
        self.and(DELETE_ROW, [&[]; 2]);
        self
    }

    /// Add to a counter cell without reading it, so that concurrent adds do not conflict. A cell that is
    /// no number, or a sum that does not fit, may show only when the cell is read.
    #[must_use]
    pub fn add(self, family: &str, column: &[u8], by: i64) -> Self {
        self.in_family(family, ADD, [column, &by.to_le_bytes()])
    }

    /// Hand the writes of the change of `row` to `write`, in order.
    pub(super) fn each<S: OrderedKv>(
        &self,
        table: &WideTable<S>,
        row: &[u8],
        write: &mut (impl FnMut(Write<'_>) + ?Sized),
    ) -> Result<()> {
        with_buffer(|at| {
            // The cells of a row begin alike as long as the family is the same.
            let (mut family, mut begun) = (None, 0);
            let cell = |at: &mut Vec<u8>, begun, column: &[u8]| -> Result<()> {
                at.truncate(begun);
                column.pack_field(at, 0);
                table.check_cell(at.len(), column)
            };
            for edit in Edits(&self.edits) {
                match edit {
                    Edit::Family(name) => {
                        let named = table.family_named(name)?;
                        at.clear();
                        named.cells.key_into(&(row,), at);
                        (family, begun) = (Some(named), at.len());
                    }
                    Edit::Put { column, value } => {
                        cell(at, begun, column)?;
                        write(Write::Put(at, value));
                    }
                    Edit::Delete { column } => {
                        cell(at, begun, column)?;
                        write(Write::Delete(at));
                    }
                    Edit::DeleteColumns { start, end } => {
                        let columns = KeyRange { start: start.to_vec(), end: end.map(<[u8]>::to_vec) };
                        if let Some(family) = family {
                            write(Write::DeleteRange(&family.columns(row, &columns)));
                        }
                    }
                    Edit::DeleteRow => {
                        for family in &table.families {
                            write(Write::DeleteRange(&family.cells.under(&(row,))));
                        }
                    }
                    Edit::Add { column, by } => {
                        cell(at, begun, column)?;
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
