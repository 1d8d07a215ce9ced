//! Writes that combine with a value nobody has to read first.

use bytes::Bytes;
use esker::printable;

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
        let mut value = base.map(<[u8]>::to_vec);
        self.apply_to(key, &mut value)?;
        Ok(value.unwrap_or_default())
    }

    /// [`apply`](Self::apply) where the value lies: of many appends each copies its own bytes only.
    pub(crate) fn apply_to(&self, key: &[u8], value: &mut Option<Vec<u8>>) -> Result<()> {
        let refuse = |why| Error::Merge { merge: self.name(), key: printable(key), why };
        let number = || {
            let bytes = value.as_deref();
            bytes
                .map(|bytes| bytes.try_into().map(i64::from_le_bytes))
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
            Merge::Append(tail) => {
                value.get_or_insert_default().extend_from_slice(tail);
                return Ok(());
            }
        };
        *value = Some(merged.to_le_bytes().to_vec());
        Ok(())
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

/// The merges as the engine's merge operator: an operand is a byte that tells which, then the number or
/// the bytes. Register it with [`esker::DatabaseBuilder::merge_operator`] to open the keyspaces of
/// [`EngineStore`](crate::engine::EngineStore).
#[derive(Clone, Copy, Debug, Default)]
pub struct MergeOps;

impl Merge {
    /// The merge as an operand.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let number = |tag, value: &i64| [&[tag], &value.to_le_bytes()[..]].concat();
        match self {
            Merge::Add(amount) => number(0, amount),
            Merge::Min(other) => number(1, other),
            Merge::Max(other) => number(2, other),
            Merge::Append(tail) => [&[3], &tail[..]].concat(),
        }
    }

    fn decode(operand: &[u8]) -> Result<Merge, String> {
        let (tag, rest) = operand.split_first().ok_or("the operand is empty")?;
        if *tag == 3 {
            return Ok(Merge::Append(Bytes::copy_from_slice(rest)));
        }
        let number = i64::from_le_bytes(rest.try_into().map_err(|_| "the operand is not a number")?);
        match tag {
            0 => Ok(Merge::Add(number)),
            1 => Ok(Merge::Min(number)),
            2 => Ok(Merge::Max(number)),
            _ => Err(format!("there is no merge {tag}")),
        }
    }

    /// One merge that does what `self` and then `newer` do, if there is one.
    fn then(&self, newer: &Merge) -> Option<Merge> {
        match (self, newer) {
            (Merge::Add(a), Merge::Add(b)) => a.checked_add(*b).map(Merge::Add),
            (Merge::Min(a), Merge::Min(b)) => Some(Merge::Min(*a.min(b))),
            (Merge::Max(a), Merge::Max(b)) => Some(Merge::Max(*a.max(b))),
            (Merge::Append(a), Merge::Append(b)) => Some(Merge::Append([&a[..], b].concat().into())),
            _ => None,
        }
    }
}

impl esker::MergeOperator for MergeOps {
    fn name(&self) -> &'static str {
        "esker-layouts"
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut value = base.map(<[u8]>::to_vec);
        for operand in operands {
            let merge = Merge::decode(operand)?;
            merge.apply_to(key, &mut value).map_err(|error| error.to_string())?;
        }
        value.ok_or_else(|| "there is no operand".to_owned())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let (older, newer) = (Merge::decode(older).ok()?, Merge::decode(newer).ok()?);
        older.then(&newer).map(|merge| merge.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that has room is extended, not copied: folding n appends costs their bytes, not n values.
    #[test]
    fn appends_extend_the_value_where_it_lies() {
        let mut value = Some(Vec::with_capacity(64));
        let place = value.as_ref().map(Vec::as_ptr);
        for _ in 0..4 {
            Merge::Append("ab".into()).apply_to(b"k", &mut value).expect("append");
        }
        assert_eq!((value.as_deref(), value.as_ref().map(Vec::as_ptr)), (Some(&b"abababab"[..]), place));
        assert!(Merge::Add(1).apply_to(b"k", &mut Some(b"abc".to_vec())).is_err());
    }
}
