//! The keyspaces of a script: what each folds operands with, and which of them are there from the start.

use bytes::Bytes;

/// What a keyspace's operator does, as the reference knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// There is no operator.
    None,
    /// `add-i64`.
    Add,
    /// `min`.
    Min,
    /// `max`.
    Max,
    /// `append`.
    Append,
    /// [`super::operator::Affine`].
    Affine,
}

/// Names and folds. Those from [`FIXED`] on come and go.
pub const SPACES: [(&str, Fold); 8] = [
    ("plain", Fold::None),
    ("add", Fold::Add),
    ("append", Fold::Append),
    ("affine", Fold::Affine),
    ("least", Fold::Min),
    ("passing", Fold::None),
    ("most", Fold::Max),
    ("passing-append", Fold::Append),
];

/// How many are there from the start.
pub const FIXED: usize = 5;

impl Fold {
    /// The operator's name.
    pub fn operator(self) -> Option<&'static str> {
        match self {
            Fold::None => None,
            Fold::Add => Some("add-i64"),
            Fold::Min => Some("min"),
            Fold::Max => Some("max"),
            Fold::Append => Some("append"),
            Fold::Affine => Some("affine"),
        }
    }

    /// The value after `operand` on `base`, or `None` where there is no operator.
    pub fn apply(self, base: Option<&Bytes>, operand: &Bytes) -> Option<Bytes> {
        // What is missing of eight bytes is zero.
        let number = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            i64::from_le_bytes(word)
        };
        Some(match self {
            Fold::None => return None,
            Fold::Add => {
                let sum = number(base.map_or(&[0; 8], |base| base)).wrapping_add(number(operand));
                Bytes::copy_from_slice(&sum.to_le_bytes())
            }
            Fold::Min => base.map_or(operand, |base| base.min(operand)).clone(),
            Fold::Max => base.map_or(operand, |base| base.max(operand)).clone(),
            Fold::Append => [base.map_or(&[][..], |base| base), operand].concat().into(),
            Fold::Affine => {
                let x = base.map_or(0, |base| number(base));
                let (a, b) = (number(operand), number(&operand[8..]));
                Bytes::copy_from_slice(&a.wrapping_mul(x).wrapping_add(b).to_le_bytes())
            }
        })
    }
}
