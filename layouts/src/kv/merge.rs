//! Writes that combine with a value nobody has to read first.

use bytes::Bytes;
use esker_base::error::printable;

use crate::{Error, Result};

/// A change to a value. Numbers are `i64`, eight bytes, little-endian; an absent key counts as 0 for
/// `Add`, as the operand for `Min` and `Max`, as empty for `Append`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Add to the number. Overflow is an error.
    Add(i64),
    /// The smaller of the two numbers.
    Min(i64),
    /// The larger of the two numbers.
    Max(i64),
    /// Put bytes behind the value.
    Append(Bytes),
}

impl Merge {
    /// The new value of `key`, whose value is `base`.
    ///
    /// ```
    /// use esker_layouts::kv::Merge;
    /// let three = Merge::Add(1).apply(b"counter", Some(&2i64.to_le_bytes()))?;
    /// assert_eq!(three, 3i64.to_le_bytes());
    /// assert!(Merge::Add(1).apply(b"counter", Some(b"two")).is_err());
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    pub fn apply(&self, key: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>> {
        let refuse = |why| Error::Merge { merge: self.name(), key: printable(key), why };
        let number = || {
            base.map(|bytes| bytes.try_into().map(i64::from_le_bytes))
                .transpose()
                .map_err(|_| refuse("the stored value is not a number of eight bytes"))
        };
        let merged = match self {
            Merge::Add(amount) => number()?
                .unwrap_or(0)
                .checked_add(*amount)
                .ok_or_else(|| refuse("the sum does not fit 64 bits"))?,
            Merge::Min(other) => number()?.map_or(*other, |value| value.min(*other)),
            Merge::Max(other) => number()?.map_or(*other, |value| value.max(*other)),
            Merge::Append(tail) => return Ok([base.unwrap_or_default(), tail].concat()),
        };
        Ok(merged.to_le_bytes().to_vec())
    }

    /// The merge's name.
    pub fn name(&self) -> &'static str {
        match self {
            Merge::Add(_) => "add",
            Merge::Min(_) => "min",
            Merge::Max(_) => "max",
            Merge::Append(_) => "append",
        }
    }

    /// How many bytes the operand has.
    pub fn operand_bytes(&self) -> u64 {
        match self {
            Merge::Add(_) | Merge::Min(_) | Merge::Max(_) => 8,
            Merge::Append(tail) => tail.len() as u64,
        }
    }
}
