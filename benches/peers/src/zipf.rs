//! Ranks with Zipfian frequencies of exponent 0.99, after Gray et al., "Quickly Generating Billion-Record
//! Synthetic Databases" (1994).

use crate::keys::Draw;

/// Draws ranks.
pub(crate) struct Zipf {
    items: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    theta: f64,
    draw: Draw,
}

impl Zipf {
    /// Ranks of `0..items` with this seed.
    pub(crate) fn new(items: u64, seed: u64) -> Zipf {
        let theta = 0.99f64;
        let zeta: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
        let zeta_two = 1.0 + 2f64.powf(-theta);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta_two / zeta);
        Zipf {
            items: items as f64,
            alpha: 1.0 / (1.0 - theta),
            zeta,
            eta,
            theta,
            draw: Draw::new(1 << 53, seed),
        }
    }

    /// A rank: 0 is the most frequent.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to items, both inside u64"
    )]
    pub(crate) fn next(&mut self) -> u64 {
        let uniform = self.draw.next() as f64 / (1u64 << 53) as f64;
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.items * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_frequent_as_zipf_has_them() {
        const ITEMS: u64 = 1000;
        let mut zipf = Zipf::new(ITEMS, 1);
        let mut counts = vec![0u32; usize::try_from(ITEMS).expect("small")];
        (0..200_000).for_each(|_| counts[usize::try_from(zipf.next()).expect("small")] += 1);
        let share = |rank: usize| f64::from(counts[rank]) / 200_000.0;
        assert!((share(0) - 1.0 / zipf.zeta).abs() < 0.01, "{}", share(0));
        assert!((share(1) - 0.5 / zipf.zeta).abs() < 0.01, "{}", share(1));
        assert!(counts[..10].iter().sum::<u32>() > counts[500..].iter().sum());
        assert!(counts[500..].iter().any(|n| *n > 0));
    }
}
