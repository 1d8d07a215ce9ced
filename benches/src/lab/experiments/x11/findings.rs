//! What the figures say: claims with their verdicts.

use std::collections::BTreeMap;

use super::cluster::Skew;
use super::events::SOURCES;
use super::orders::Order;
use super::{Found, SERVERS, Sizes, exhibits};
use crate::lab::study::{Claim, Study};
use crate::lab::verdict::{Outcome, Verdict};
use crate::lab::{LabOptions, Scale};

/// What is said of every modelled figure.
const MODEL: &str = "\"Modelled\" means: computed from counted routes and from service times measured one server at \
                     a time on this machine, as if there were sixteen independent machines, with no network and no \
                     replication. Nothing modelled was observed on a cluster, and moving a shard costs nothing there.";

pub(super) fn study(
    mut study: Study,
    found: &BTreeMap<Order, Found>,
    sizes: &Sizes,
    options: &LabOptions,
) -> Study {
    study.repetitions = Some(sizes.repeat);
    study.title =
        "Hot spots: who does the work when keys grow, and what readers pay for spreading it".into();
    study.protocol = format!(
        "{SOURCES} equally busy sources write {} events over 100 days under eight orders of their keys; stamps are of \
         milliseconds, for one order of whole seconds. The first half is history, the second is divided into {} \
         windows. Counted: from the keys that reach the store, which of {SERVERS} servers each put goes to, with \
         shards cut ahead by somebody who knows the layout (growing keys: by the keys of history), and again with \
         shards of up to {} rows that are halved, the upper half moving to the server with the fewest rows. Measured: \
         each server's puts and parts of reads replayed alone on a store of its own (its files in memory, since sixteen \
         stores would wait for one disk's syncs), with buffers of {} KiB so that flushes and compactions take part. Modelled: a window takes as long as its busiest server; of {} replays the median of each part; only at the scales desk and large do these times enter verdicts. {} range reads of \
         a hundredth of all events and {} gets, anywhere in the 100 days; answers are checked.",
        sizes.events,
        sizes.windows,
        sizes.events / SERVERS,
        sizes.memtable_bytes >> 10,
        sizes.repeat,
        sizes.reads,
        sizes.reads * 10,
    );
    let findings = Findings { found, sizes, timed: matches!(options.scale, Scale::Desk | Scale::Large) };
    let claims = [findings.writes(&study), findings.cluster(&study)].concat();
    study.claims = claims;
    study.exhibits = exhibits::all(&findings, options);
    study.notes.push(MODEL.into());
    study.notes.push(
        "Service is measured on one thread, a commit a put, with the default durability, whose log here lies in memory \
         as the tables do: a disk adds its own time. A range read's time on a server includes opening a snapshot."
            .into(),
    );
    study.notes.push(
        "A salted table with the slides' salt has to be read under 31 prefixes, −15 to 15, and that is how it is read \
         here wherever answers are checked."
            .into(),
    );
    study
}

pub(super) struct Findings<'a> {
    pub(super) found: &'a BTreeMap<Order, Found>,
    pub(super) sizes: &'a Sizes,
    /// Whether times decide. In smaller runs a server's part of a window is a few puts, which one interruption
    /// by another process outweighs.
    pub(super) timed: bool,
}

pub(super) fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

fn micros(nanos: f64) -> String {
    format!("{:.1} µs", nanos / 1e3)
}

impl Findings<'_> {
    /// What was found of `order`; all of them ran.
    pub(super) fn of(&self, order: Order) -> &Found {
        &self.found[&order]
    }

    /// The mean skew of a window's puts, shards cut ahead.
    pub(super) fn window(&self, order: Order) -> Skew {
        Skew::mean(&self.of(order).puts)
    }

    /// Puts of a window.
    pub(super) fn each(&self) -> f64 {
        (self.sizes.events - self.sizes.history()) as f64 / self.sizes.windows as f64
    }

    /// Whether a window's puts are as even as chance leaves them, within a fifth.
    fn even(&self, order: Order, servers: usize) -> bool {
        let most = Skew::by_chance(self.each()) / SERVERS as f64 * servers as f64;
        self.window(order).effective > 0.8 * most
    }

    /// Whether the servers together put several times as fast as one (modelled); growing keys never do. Where
    /// times do not decide, what is claimed is taken to hold.
    fn faster(&self, order: Order) -> bool {
        let [_, kept, _] = self.of(order).modelled.speed_ups();
        if self.timed { kept > SERVERS as f64 / 4.0 } else { order != Order::Growing }
    }

    fn modelled(&self, order: Order) -> String {
        let [puts, kept, reads] = self.of(order).modelled.speed_ups();
        let service = micros(self.of(order).modelled.service());
        let kept = match order {
            Order::Salted(_) => format!(" ({kept:.1} if clients kept the list of epochs)"),
            _ => String::new(),
        };
        format!(
            "measured {service} a put and {} a range read; modelled: {SERVERS} servers put {puts:.1} times as fast as \
             one{kept} and read {reads:.1} times as fast",
            micros(self.of(order).ranges.median())
        )
    }

    /// Calls and keys of a range read in the mean, and the servers it asks.
    fn range(&self, order: Order) -> String {
        let found = self.of(order);
        format!(
            "a range read makes {:.0} calls on {:.1} servers and reads {:.1} keys for each event found",
            found.ranges.mean(|cost| cost.calls),
            self.asked(order),
            self.keys_an_event(order)
        )
    }

    pub(super) fn asked(&self, order: Order) -> f64 {
        let asked = &self.of(order).asked;
        asked.iter().sum::<u64>() as f64 / asked.len().max(1) as f64
    }

    pub(super) fn keys_an_event(&self, order: Order) -> f64 {
        let found = self.of(order);
        found.ranges.cost.keys_read as f64 / found.returned.max(1) as f64
    }

    fn spread(&self, order: Order) -> String {
        let window = self.window(order);
        format!(
            "{:.1} effective servers of {SERVERS} in a window, the busiest with {}",
            window.effective,
            percent(window.top)
        )
    }

    /// A verdict by the counters of `order` and by whether the counts are as claimed.
    fn verdict(study: &Study, order: Order, shaped: bool, reason: &str) -> Verdict {
        Verdict::of(&study.tally(&format!("{}: ", order.name())), shaped, reason)
    }

    /// Claims on where writes go.
    fn writes(&self, study: &Study) -> Vec<Claim> {
        let growing = self.of(Order::Growing);
        let (split, all) = (Skew::mean(&growing.split), Skew::total(&growing.split));
        let one = self.window(Order::Growing).top > 0.999;
        let hidden = all.effective > 2.0 * split.effective;
        let salt = Order::Salted(16);
        vec![
            Claim {
                rows: "C6".into(),
                claimed: "Growing keys bring all writes to one server: the load is uneven, and the point of a cluster \
                          is lost."
                    .into(),
                predicted: "One busy server at a time. If shards are split by size and moved, it is another one from \
                            time to time, so that sums over a long time look even."
                    .into(),
                counted: format!(
                    "cut ahead, the busiest server has {} of a window's puts; split by size into {} shards, {} of a \
                     window's but {} of all",
                    percent(self.window(Order::Growing).top),
                    growing.shards,
                    percent(split.top),
                    percent(all.top)
                ),
                timed: self.modelled(Order::Growing),
                verdict: Self::verdict(
                    study,
                    Order::Growing,
                    one && hidden && !self.faster(Order::Growing),
                    &format!(
                        "{:.1} effective servers in a window and {:.1} over all windows when shards split by size",
                        split.effective, all.effective
                    ),
                ),
            },
            self.slides(),
            Claim {
                rows: "C7".into(),
                claimed: "With a salt before the key writes spread; a range has to be asked from every node and the \
                          answers merged."
                    .into(),
                predicted: "As many servers work as there are buckets, up to all; a range costs a scan a bucket.".into(),
                counted: format!("16 buckets: {}; {}", self.spread(salt), self.range(salt)),
                timed: self.modelled(salt),
                verdict: Self::verdict(
                    study,
                    salt,
                    self.faster(salt)
                        && self.even(salt, SERVERS)
                        && self.even(Order::Salted(4), 4)
                        && (self.asked(salt) - SERVERS as f64).abs() < 1e-9,
                    &format!(
                        "{:.1}, {:.1} and {:.1} effective servers with 4, 16 and 64 buckets",
                        self.window(Order::Salted(4)).effective,
                        self.window(salt).effective,
                        self.window(Order::Salted(64)).effective
                    ),
                ),
            },
            self.epochs(),
            Claim {
                rows: "C8".into(),
                claimed: "An evenly spread field before the growing one spreads writes; ranges over the main field \
                          become awkward."
                    .into(),
                predicted: "All servers work; a range over time costs a seek and a scan for each value of that field."
                    .into(),
                counted: format!("{}; {}", self.spread(Order::Promoted), self.range(Order::Promoted)),
                timed: self.modelled(Order::Promoted),
                verdict: Self::verdict(
                    study,
                    Order::Promoted,
                    self.even(Order::Promoted, SERVERS) && self.faster(Order::Promoted),
                    "the sources here are equally busy, as the claim supposes",
                ),
            },
            Claim {
                rows: "C9".into(),
                claimed: "A digest as the key spreads writes evenly; intervals cannot be scanned.".into(),
                predicted: "All servers work; a range reads every row there is.".into(),
                counted: format!("{}; {}", self.spread(Order::Hashed), self.range(Order::Hashed)),
                timed: self.modelled(Order::Hashed),
                verdict: Self::verdict(
                    study,
                    Order::Hashed,
                    self.even(Order::Hashed, SERVERS)
                        && self.faster(Order::Hashed)
                        && self.keys_an_event(Order::Hashed) > 10.0 * self.keys_an_event(Order::Growing),
                    "every range read is a scan of everything, on every server",
                ),
            },
        ]
    }

    /// The slides' formula.
    fn slides(&self) -> Claim {
        let (seconds, millis) = (self.of(Order::SlidesSeconds), self.of(Order::SlidesMillis));
        let told = millis.as_told.unwrap_or_default();
        let lost = 1.0 - told as f64 / millis.returned.max(1) as f64;
        let (few, worst) = (self.window(Order::SlidesSeconds), self.window(Order::SlidesMillis));
        let unread = seconds.returned - seconds.as_told.unwrap_or_default();
        let refuted = lost > 0.0 && few.effective < SERVERS as f64 / 4.0;
        Claim {
            rows: "C7 (section 1.6)".into(),
            claimed: "The byte (byte)(Long.hashCode(timestamp) % servers) is the salt; readers list its values.".into(),
            predicted: "The remainder is signed, so there are 31 values for 16 servers, and readers of 0 to 15 miss \
                        what lies below 0. Stamps of whole seconds are multiples of 8 ms: few remainders occur."
                .into(),
            counted: format!(
                "whole seconds: {:.1} effective servers in a window; milliseconds: {:.1}, the busiest with {} in the \
                 mean; a reader as told finds {} of {} rows in milliseconds and misses {unread} of {} in seconds",
                few.effective,
                worst.effective,
                percent(worst.top),
                told,
                millis.returned,
                seconds.returned
            ),
            timed: self.modelled(Order::SlidesMillis),
            verdict: Verdict {
                outcome: if refuted { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: format!(
                    "{} of the rows are lost to the reader whom the slides describe",
                    percent(lost)
                ),
            },
        }
    }

    /// The price of being able to change the number of buckets.
    fn epochs(&self) -> Claim {
        let calls = Skew::mean(&self.of(Order::Salted(16)).calls);
        let hot = calls.top > 2.0 / SERVERS as f64;
        let [puts, kept, _] = self.of(Order::Salted(16)).modelled.speed_ups();
        Claim {
            rows: "C7 (section 2.2)".into(),
            claimed: "A salted table has no hot spot, and its number of buckets can change.".into(),
            predicted: "The list of epochs is one key, and every put reads it: its server is busy with that, unless \
                        clients keep the list."
                .into(),
            counted: format!(
                "16 buckets: the server of the list gets {} of all calls of a window, {:.1} times the mean",
                percent(calls.top),
                calls.top_to_mean
            ),
            timed: format!(
                "modelled: {puts:.1} times as fast as one server with the list read by each put, {kept:.1} times with \
                 the list kept by clients"
            ),
            verdict: Verdict {
                outcome: if hot { Outcome::Refuted } else { Outcome::Reproduced },
                reason: "counted on the keys that puts read; within one process, where the list is in memory, it is a \
                         get and no hot spot"
                    .into(),
            },
        }
    }

    /// Claims on the cluster as a whole, and on one disk.
    fn cluster(&self, study: &Study) -> Vec<Claim> {
        let good = |order: &Order| {
            self.window(*order).effective > SERVERS as f64 / 2.0
                && self.of(*order).ranges.mean(|cost| cost.calls) < SERVERS as f64 / 2.0
                && self.keys_an_event(*order) < 2.0
        };
        let both: Vec<&str> =
            Order::ALL.iter().filter(|order| good(order)).map(|order| order.name()).collect();
        let mut tally = study.tally("growing keys: ");
        for order in Order::ALL.iter().skip(1) {
            tally.add(&study.tally(&format!("{}: ", order.name())));
        }
        let mut claims = vec![Claim {
            rows: "C10".into(),
            claimed: "A comparison of the approaches; its figure is lost.".into(),
            predicted: "None is good at both: what spreads writes over servers spreads ranges over scans."
                .into(),
            counted: format!(
                "orders with more than {} effective servers, fewer than {} calls and less than 2 keys an event: {}",
                SERVERS / 2,
                SERVERS / 2,
                if both.is_empty() { "none".to_owned() } else { both.join(", ") }
            ),
            timed: "the charts below have both axes".into(),
            verdict: Verdict::of(&tally, both.is_empty(), "every order is in one corner or the other"),
        }];
        claims.extend(self.one_disk(&tally));
        claims
    }

    /// Growing keys on one store; nothing if it does not tell what it writes.
    fn one_disk(&self, tally: &crate::lab::model::Tally) -> Option<Claim> {
        let amplification = |order: Order| self.of(order).single.amplification;
        let growing = amplification(Order::Growing)?;
        let random = amplification(Order::Hashed)?;
        let least =
            Order::ALL.iter().filter_map(|order| amplification(*order)).fold(f64::INFINITY, f64::min);
        Some(Claim {
            rows: "section 4.1".into(),
            claimed: "On one disk growing keys are the cheapest order.".into(),
            predicted: "Tables of growing keys do not overlap, so a compaction moves them without rewriting; random \
                        keys are rewritten level by level."
                .into(),
            counted: format!(
                "bytes written to tables for a byte put: {growing:.2} growing, {:.2} with 16 buckets, {random:.2} \
                 random",
                amplification(Order::Salted(16)).unwrap_or_default()
            ),
            timed: format!(
                "measured, all on one store: {} a put growing, {} random",
                micros(self.of(Order::Growing).single.nanos),
                micros(self.of(Order::Hashed).single.nanos)
            ),
            verdict: Verdict::of(
                tally,
                growing <= least * 1.05 && growing < random,
                &format!("the least of all orders is {least:.2}"),
            ),
        })
    }
}
