//! Writes that combine with a value nobody has to read first.

use bytes::Bytes;
use esker::printable;

use crate::{Error, Result};

/// A change to a value. Numbers are `i64`, eight bytes, little-endian; an absent key counts as 0 for
/// `Add`, as the operand for `Min` and `Max`, as empty for `Append`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Add to the number. Overflow is an error, of the sum of all adds that follow each other: whatever they come to on the
    /// way, and whichever of them meet first.
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
        let value = Merge::apply_all([self], key, base.map(<[u8]>::to_vec))?;
        Ok(value.unwrap_or_default())
    }

    /// The new value of `key`, whose value is `base`, after `merges`, oldest first; `None` if there are none of either.
    ///
    /// The answer is the same in whatever groups they are applied. So the sum of adds that follow each other need not
    /// fit before the last of them:
    ///
    /// ```
    /// use esker_layouts::kv::Merge;
    /// let adds = [i64::MAX, 1, -1].map(Merge::Add);
    /// let sum = Merge::apply_all(&adds, b"counter", None)?;
    /// assert_eq!(sum, Some(i64::MAX.to_le_bytes().to_vec()));
    /// assert!(Merge::apply_all(&adds[..2], b"counter", None).is_err());
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    pub fn apply_all<'m>(
        merges: impl IntoIterator<Item = &'m Merge>,
        key: &[u8],
        base: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let mut folding = Folding::new(key, base);
        merges.into_iter().try_for_each(|merge| folding.take(merge))?;
        folding.finish()
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

/// A value on its way through merges, each taken where the value lies: of many appends each copies its own bytes only.
///
/// In the engine some merges meet each other before the others, and some the base, as flushes and compactions come. The
/// answer must not depend on that, nor whether there is one. So adds that follow each other count as one, and are
/// refused only if their sum does not fit where they end. That is enough: two that are joined are a part of the same
/// sum, and those that were folded onto the base early came to a sum that fits, on which the rest goes on. (A fold that
/// is refused is none: its operands stay.)
struct Folding<'k> {
    key: &'k [u8],
    value: Option<Vec<u8>>,
    /// What `value` and the adds behind it come to, from the first of them to the last. 128 bits hold more sums of 64
    /// than there can be operands.
    sum: Option<i128>,
}

impl<'k> Folding<'k> {
    fn new(key: &'k [u8], value: Option<Vec<u8>>) -> Self {
        Folding { key, value, sum: None }
    }

    fn refuse(&self, merge: &'static str, why: &'static str) -> Error {
        Error::Merge { merge, key: printable(self.key), why }
    }

    /// The number that the value is.
    fn number(&self, merge: &Merge) -> Result<Option<i64>> {
        let number = self.value.as_deref().map(|bytes| bytes.try_into().map(i64::from_le_bytes));
        let foreign = |_| self.refuse(merge.name(), "the stored value is not a number of eight bytes");
        number.transpose().map_err(foreign)
    }

    /// Adds end here: their sum is the value, if it fits.
    fn settle(&mut self) -> Result<()> {
        if let Some(sum) = self.sum.take() {
            let sum = i64::try_from(sum).map_err(|_| self.refuse("add", "the sum does not fit 64 bits"))?;
            self.value = Some(sum.to_le_bytes().to_vec());
        }
        Ok(())
    }

    /// The number that the value is once the adds before `merge` have ended.
    fn settled(&mut self, merge: &Merge) -> Result<Option<i64>> {
        self.settle()?;
        self.number(merge)
    }

    fn take(&mut self, merge: &Merge) -> Result<()> {
        let chosen = match merge {
            Merge::Add(amount) => {
                let before = match self.sum {
                    Some(sum) => sum,
                    None => self.number(merge)?.unwrap_or(0).into(),
                };
                self.sum = Some(before + i128::from(*amount));
                return Ok(());
            }
            Merge::Append(tail) => {
                self.settle()?;
                self.value.get_or_insert_default().extend_from_slice(tail);
                return Ok(());
            }
            Merge::Min(other) => self.settled(merge)?.map_or(*other, |value| value.min(*other)),
            Merge::Max(other) => self.settled(merge)?.map_or(*other, |value| value.max(*other)),
        };
        self.value = Some(chosen.to_le_bytes().to_vec());
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Vec<u8>>> {
        self.settle()?;
        Ok(self.value)
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
        let mut folding = Folding::new(key, base.map(<[u8]>::to_vec));
        for operand in operands {
            let merge = Merge::decode(operand)?;
            folding.take(&merge).map_err(|error| error.to_string())?;
        }
        let value = folding.finish().map_err(|error| error.to_string())?;
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
        let value = Vec::with_capacity(64);
        let place = value.as_ptr();
        let mut folding = Folding::new(b"k", Some(value));
        for _ in 0..4 {
            folding.take(&Merge::Append("ab".into())).expect("append");
        }
        let value = folding.finish().expect("a value");
        assert_eq!(
            (value.as_deref(), value.as_ref().map(Vec::as_ptr)),
            (Some(&b"abababab"[..]), Some(place))
        );
        assert!(Merge::Add(1).apply(b"k", Some(b"abc")).is_err());
    }
}
