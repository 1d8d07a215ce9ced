//! Names of a given length.

use std::collections::BTreeSet;

/// What ids look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// Numbers behind zeros: neighbours differ in their last characters only.
    Numbered,
    /// Random letters: neighbours differ from their first characters on.
    Random,
    /// Random letters, of any length from 4 bytes on, with the given one as the mean.
    Mixed,
}

impl Shape {
    pub(super) const ALL: [Shape; 3] = [Shape::Numbered, Shape::Random, Shape::Mixed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::Numbered => "numbered",
            Shape::Random => "random",
            Shape::Mixed => "mixed-length",
        }
    }
}

/// The least length of an id.
const LENGTH_MIN: usize = 4;

/// `count` different ids of `length` bytes, at least 4.
pub(super) fn ids(shape: Shape, length: usize, count: usize, random: &mut fastrand::Rng) -> Vec<String> {
    if shape == Shape::Numbered {
        return (0..count).map(|number| numbered(number, length)).collect();
    }
    let mut taken = BTreeSet::new();
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let length = match shape {
            Shape::Mixed => random.usize(LENGTH_MIN..=2 * length - LENGTH_MIN),
            _ => length,
        };
        let id: String = std::iter::repeat_with(|| random.lowercase()).take(length).collect();
        if taken.insert(id.clone()) {
            ids.push(id);
        }
    }
    ids
}

/// `number` in base 36, behind zeros.
fn numbered(mut number: usize, length: usize) -> String {
    let mut digits = vec![b'0'; length];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
        number /= 36;
    }
    digits.into_iter().map(char::from).collect()
}
