//! The built-in merge operators, and the registry that finds one by name.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use esker_base::error::printable;
use esker_base::limits::VALUE_BYTES_MAX;
use esker_base::planted::{self, Planted};
use esker_base::{Error, MergeOperator, Result};

/// `add-i64` and `add-u64`: eight little-endian bytes each; a missing base counts as zero. A sum that overflows
/// is an error of the read that folds it; a commit or compaction then leaves the operands as they are.
///
/// Which operands meet each other or the base before the others is up to commits, flushes and compactions, and the answer
/// must not depend on it, nor whether there is one. So only the sum of all has to fit: a pair that is joined is a part of it,
/// and a fold onto the base that succeeded came to a number from which the rest goes on; one that is refused is none.
struct Add {
    signed: bool,
}

/// `min` and `max`: the bytewise smaller or larger of base and operands. Order-preserving encodings
/// (the tuple codec, big-endian integers) make that the smaller or larger value.
struct Extreme {
    largest: bool,
}

/// `append`: the operands behind the base, in commit order.
struct Append;

fn word(bytes: &[u8]) -> Result<[u8; 8], String> {
    bytes.try_into().map_err(|_| format!("it takes 8 bytes, not {}", bytes.len()))
}

impl Add {
    /// The sum of `words`, which has to fit; what it comes to on the way need not.
    fn sum<'a>(&self, words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, String> {
        // 128 bits hold more sums of 64 than there can be words.
        let mut sum = 0i128;
        for bytes in words {
            let bytes = word(bytes)?;
            sum += if self.signed {
                i128::from(i64::from_le_bytes(bytes))
            } else {
                i128::from(u64::from_le_bytes(bytes))
            };
        }
        let fitting = if self.signed {
            i64::try_from(sum).map(i64::to_le_bytes)
        } else {
            u64::try_from(sum).map(u64::to_le_bytes)
        };
        fitting
            .map(Vec::from)
            .map_err(|_| format!("the sum {sum} overflows {}", if self.signed { "i64" } else { "u64" }))
    }
}

impl MergeOperator for Add {
    fn name(&self) -> &str {
        if self.signed { "add-i64" } else { "add-u64" }
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        self.sum(base.into_iter().chain(operands.iter().copied()))
    }
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        // A pair that overflows stays apart: with the base and the others it may yet fit.
        self.sum([older, newer].into_iter()).ok()
    }
}

impl MergeOperator for Extreme {
    fn name(&self) -> &str {
        if self.largest { "max" } else { "min" }
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let all = base.into_iter().chain(operands.iter().copied());
        let chosen = if self.largest { all.max() } else { all.min() };
        Ok(chosen.unwrap_or_default().to_vec())
    }
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(if self.largest { older.max(newer) } else { older.min(newer) }.to_vec())
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &'static str {
        "append"
    }
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut value = base.unwrap_or_default().to_vec();
        for operand in operands {
            value.extend_from_slice(operand);
        }
        Ok(value)
    }
    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// Operators by name.
#[derive(Clone)]
pub(crate) struct Operators(BTreeMap<String, Arc<dyn MergeOperator>>);

impl Operators {
    /// The built-in ones and `own`; a name may be taken once.
    pub(crate) fn new(own: Vec<Arc<dyn MergeOperator>>) -> Result<Self> {
        let built_in: [Arc<dyn MergeOperator>; 5] = [
            Arc::new(Add { signed: true }),
            Arc::new(Add { signed: false }),
            Arc::new(Extreme { largest: false }),
            Arc::new(Extreme { largest: true }),
            Arc::new(Append),
        ];
        let mut by_name = BTreeMap::new();
        for operator in built_in.into_iter().chain(own) {
            let name = contained(|| operator.name().to_string())
                .map_err(|message| Error::CallbackPanicked { callback: "the merge operator", message })?;
            if name.is_empty() {
                return Err(Error::invalid("a merge operator's name is empty; have its `name` return one"));
            }
            if by_name.insert(name.clone(), operator).is_some() {
                return Err(Error::invalid(format!(
                    "merge operator {name:?} is built in, or registered twice; register it once, under another name"
                )));
            }
        }
        Ok(Operators(by_name))
    }

    /// The operator called `name`.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<dyn MergeOperator>> {
        self.0.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            Error::invalid(format!(
                "merge operator {name:?} is not registered (known: {}); register it with the builder",
                known.join(", ")
            ))
        })
    }
}

/// Fold `operands` (oldest first) onto `base`, containing a panic of the user's code.
pub(crate) fn fold(
    operator: Option<&Arc<dyn MergeOperator>>,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let failed = |operator: &str, why: String| Error::Merge {
        key: printable(key),
        operator: operator.to_string(),
        why,
    };
    let Some(operator) = operator else {
        return Err(failed("(none)", "the keyspace was created without a merge operator".to_string()));
    };
    // Its name is the user's code as well.
    let call = || {
        let why = match operator.fold(key, base, operands) {
            Ok(value) if value.len() <= VALUE_BYTES_MAX => return Ok(value),
            // A value that could not be written is refused like any other (compactions do the same).
            Ok(value) => {
                format!("it made a value of {} bytes, {VALUE_BYTES_MAX} are the most", value.len())
            }
            Err(why) => why,
        };
        Err(failed(operator.name(), why))
    };
    contained(call)
        .unwrap_or_else(|message| Err(Error::CallbackPanicked { callback: "the merge operator", message }))
}

/// Call the user's code; a panic's text becomes the error.
pub(crate) fn contained<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    if planted::is(Planted::PanicEscapes) {
        return Ok(call());
    }
    if planted::is(Planted::UnguardedDrop) {
        return catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
            drop(payload);
            "dropped".to_owned()
        });
    }
    esker_base::catch_panic(call)
}

#[cfg(test)]
mod tests;
