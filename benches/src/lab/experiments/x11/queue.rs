//! Waiting in line, modelled: one line a server, requests at a fixed rate whether or not servers keep up.

use crate::lab::stats::quantile;

use super::SERVERS;

/// A stop of a request at a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) server: usize,
    /// Nanoseconds it takes there.
    pub(super) service: f64,
}

/// The 99th percentile of the time from when a request was due to its end, in nanoseconds, when a request is
/// due every `every` nanoseconds. A request makes its stops one after the other.
pub(super) fn p99<'a>(requests: impl Iterator<Item = &'a [Stop]>, every: f64) -> f64 {
    let mut free = [0.0f64; SERVERS];
    let times: Vec<f64> = requests
        .enumerate()
        .map(|(number, stops)| {
            let due = number as f64 * every;
            let mut now = due;
            for stop in stops {
                now = now.max(free[stop.server]) + stop.service;
                free[stop.server] = now;
            }
            now - due
        })
        .collect();
    quantile(&times, 0.99)
}
