//! A walk through memory, beside which an engine's waits are held: what becomes of a schedule on this machine where
//! no engine is in the way, no file and no second thread.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::keys::Draw;

/// More than the processor's caches hold, in words of eight bytes: 64 MiB.
const PLACES: u64 = 8 << 20;
/// Steps that are timed before a walk begins.
const TRIED: u64 = 500_000;

/// Loads of which each says where the next goes.
pub(super) struct Walk {
    places: Vec<u64>,
    at: u64,
    taken: u64,
    /// Steps of an operation.
    steps: u64,
}

impl Walk {
    /// A walk whose operations take about as long as `operation`.
    pub(super) fn like(operation: Duration) -> Walk {
        let mut draw = Draw::new(PLACES, 150);
        let places = (0..PLACES).map(|_| draw.next()).collect();
        let mut walk = Walk { places, at: 0, taken: 0, steps: TRIED };
        let begun = Instant::now();
        walk.operate();
        let step = begun.elapsed().as_secs_f64() / TRIED as f64;
        walk.steps = whole(operation.as_secs_f64() / step).max(1);
        walk
    }

    /// One operation.
    pub(super) fn operate(&mut self) {
        for _ in 0..self.steps {
            // The count keeps it from going round in a circle.
            self.taken += 1;
            let place = (self.at ^ self.taken) % PLACES;
            self.at =
                usize::try_from(place).ok().and_then(|place| self.places.get(place)).copied().unwrap_or(0);
        }
        black_box(self.at);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^63")]
fn whole(steps: f64) -> u64 {
    steps.round() as u64
}
