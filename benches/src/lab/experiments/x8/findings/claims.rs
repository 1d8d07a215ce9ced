//! The claims, each with what became of it.

use super::super::layouts::Layout;
use super::super::measure::{Question, blocks};
use super::{EXPONENTS, Findings, SHARE_FACTOR, ShareOfTime, exponent};
use crate::lab::model::Tally;
use crate::lab::report::duration;
use crate::lab::study::Claim;
use crate::lab::verdict::{Outcome, Verdict};

impl Findings<'_> {
    /// Those about layouts that ran.
    pub(super) fn claims(&self) -> Vec<Claim> {
        use Layout::{Both, PerField, Tall, WholeKey, Wide};
        type Judge<'f> = fn(&Findings<'f>) -> Claim;
        let judges: [(&[Layout], Judge<'_>); 9] = [
            (&[Wide, Tall], Self::by_key),
            (&[Wide, Tall], Self::alike),
            (&[Wide, Tall], Self::factor),
            (&[Wide, Tall, Both], Self::per_user),
            (&[Wide, Tall, WholeKey, PerField], Self::pair),
            (&[Wide, Tall], Self::any),
            (&[Tall, WholeKey, PerField], Self::whole_key),
            (&[Tall], Self::listing),
            (&[Wide, Tall], Self::bytes),
        ];
        let ran = |needs: &[Layout]| needs.iter().all(|layout| self.ran(*layout));
        let mut claims: Vec<Claim> =
            judges.iter().filter(|(needs, _)| ran(needs)).map(|(_, judge)| judge(self)).collect();
        if ran(&[Wide, Tall]) {
            claims.extend(self.probe().map(|pick| self.held(pick)));
        }
        claims
    }

    /// Counters of Q3 wide and tall.
    fn read(&self, layout: Layout, question: Question) -> String {
        self.cell(layout, question, self.last).map_or("–".into(), |measured| {
            format!(
                "{:.0} keys in {:.0} blocks",
                measured.mean(|cost| cost.keys_read),
                measured.mean(blocks)
            )
        })
    }

    fn both_read(&self, question: Question) -> String {
        format!("wide {}, tall {}", self.read(Layout::Wide, question), self.read(Layout::Tall, question))
    }

    fn took(&self, layouts: &[Layout], question: Question) -> String {
        let each = layouts.iter().map(|layout| {
            let nanos = self.p50(*layout, question, self.last);
            format!("{} {}", layout.name(), duration(nanos))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    fn tally(&self, layouts: &[Layout], question: Question) -> Tally {
        let mut sum = Tally::default();
        for layout in layouts {
            sum.add(&self.bench.study.tally(&format!("{}: {}", layout.name(), question.name())));
        }
        sum
    }

    fn by_key(&self) -> Claim {
        let pick = self.middle();
        let question = Question::Players(pick);
        let faster = self.shared().all(|pick| {
            let question = Question::Players(pick);
            self.p50(Layout::Tall, question, self.last) < self.p50(Layout::Wide, question, self.last)
        });
        Claim {
            rows: "B8, B14".into(),
            claimed: "Who plays a game is a scan of the whole wide table; in the tall table it is answered by key.".into(),
            predicted: "Wide reads every fact, tall the game's own: one scan of a prefix (a get would need the user too)."
                .into(),
            counted: format!("{}: {}.", self.bench.picks[pick].label, self.both_read(question)),
            timed: format!("{}: {}.", self.bench.picks[pick].label, self.took(&[Layout::Wide, Layout::Tall], question)),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], question),
                faster,
                if faster { "tall is faster for every game asked about" } else { "tall is not faster for every game" },
            ),
        }
    }

    fn alike(&self) -> Claim {
        let pick = self.middle();
        let [wide, tall] = [Layout::Wide, Layout::Tall].map(|layout| exponent(&self.times(layout, pick)));
        let linear = |slope: Option<f64>| slope.is_some_and(|slope| (0.6..1.4).contains(&slope));
        let show = |slope: Option<f64>| slope.map_or("–".into(), |slope| format!("{slope:.2}"));
        let shaped = linear(wide) && linear(tall);
        Claim {
            rows: "B17".into(),
            claimed: format!(
                "Table 3 is offered as tall scaling better. Its own figures do not say so: wide grows with exponent \
                 {:.2}, tall with {:.2}.",
                EXPONENTS.0, EXPONENTS.1
            ),
            predicted:
                "A game that keeps its share of the facts has more of them as the table grows: both are \
                        linear, with exponents near 1."
                    .into(),
            counted: format!("Keys read: {}.", self.both_read(Question::Players(pick))),
            timed: format!(
                "Exponents here ({}): wide {}, tall {}.",
                self.bench.picks[pick].label,
                show(wide),
                show(tall)
            ),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], Question::Players(pick)),
                shaped,
                if shaped {
                    "both grow alike, as in the article's figures"
                } else {
                    "an exponent is not near 1"
                },
            ),
        }
    }

    fn factor(&self) -> Claim {
        let shares = self.shares_of_time();
        let ratio = |game: &ShareOfTime| game.wide / game.tall.max(1.0);
        let shown = shares
            .iter()
            .map(|game| format!("{}: {:.1} times", self.bench.picks[game.pick].label, ratio(game)))
            .collect::<Vec<_>>();
        let least = shares.iter().map(ratio).fold(f64::INFINITY, f64::min);
        let over = shares.iter().map(|game| game.over).fold(0.0, f64::max);
        let why = if over <= SHARE_FACTOR {
            format!(
                "tall takes at most {over:.1} times the game's share of wide's time: the factor follows the share"
            )
        } else {
            format!(
                "tall takes up to {over:.1} times the game's share of wide's time: more than the share is in the factor"
            )
        };
        Claim {
            rows: "B17".into(),
            claimed: "Tall answers more than 50 % faster: 2.9 to 3.7 times at every size.".into(),
            predicted: "The factor is no property of the layouts: it is one over the game's share of the facts. One of \
                        3 would need a game with a third of all plays, or a fixed cost that dwarfs the scan."
                .into(),
            counted: self
                .shared()
                .map(|pick| format!("{}: {}", self.bench.picks[pick].label, self.both_read(Question::Players(pick))))
                .collect::<Vec<_>>()
                .join("; "),
            timed: format!("Wide ÷ tall, {}.", shown.join(", ")),
            verdict: Verdict {
                outcome: if least > 1.5 { Outcome::ShapeOnly } else { Outcome::NotReproduced },
                reason: format!(
                    "wide takes at least {least:.1} times as long; {why}; the article names neither the game's share \
                     nor its machine, and 21 to 24 million rows a second is more than a client scan of HBase hands out"
                ),
            },
        }
    }

    fn held(&self, pick: usize) -> Claim {
        let question = Question::Players(pick);
        let [wide, tall] = [Layout::Wide, Layout::Tall].map(|layout| exponent(&self.times(layout, pick)));
        let flat = tall.is_some_and(|slope| slope.abs() < 0.35);
        let show = |slope: Option<f64>| slope.map_or("–".into(), |slope| format!("{slope:.2}"));
        Claim {
            rows: "B14, B17".into(),
            claimed: "(Ours, to tell size from popularity.) The cost of the tall table is that of the answer.".into(),
            predicted: "A game whose players stay the same costs tall the same at every size, and wide more and more.".into(),
            counted: self.both_read(question),
            timed: format!("Exponents: wide {}, tall {}.", show(wide), show(tall)),
            verdict: Verdict::of(
                &self.tally(&[Layout::Wide, Layout::Tall], question),
                flat,
                if flat { "tall is flat" } else { "tall is not flat" },
            ),
        }
    }

    fn per_user(&self) -> Claim {
        let layouts = [Layout::Wide, Layout::Tall, Layout::Both];
        let [wide, tall, both] = layouts.map(|layout| self.p50(layout, Question::Games, self.last));
        let better = wide < tall && both < tall;
        Claim {
            rows: "B6".into(),
            claimed: "The wide table answers which games a user plays by one short scan.".into(),
            predicted: "Wide reads the user's facts. Tall has them nowhere together and reads everything; kept both \
                        ways it reads the user's again, for twice the space."
                .into(),
            counted: format!(
                "{}; both ways {}.",
                self.both_read(Question::Games),
                self.read(Layout::Both, Question::Games)
            ),
            timed: self.took(&layouts, Question::Games),
            verdict: Verdict::of(
                &self.tally(&layouts, Question::Games),
                better,
                if better { "wide and both ways are far ahead" } else { "wide or both ways are not ahead" },
            ),
        }
    }

    fn pair(&self) -> Claim {
        let layouts = [Layout::Wide, Layout::Tall, Layout::WholeKey, Layout::PerField];
        let [wide, keyed @ ..] = layouts.map(|layout| {
            let question = Question::Plays;
            let keys = self.cell(layout, question, self.last).map_or(0.0, |m| m.mean(|c| c.keys_read));
            (keys, self.p50(layout, question, self.last))
        });
        let by_key = keyed.iter().all(|(keys, _)| *keys <= 1.0 && *keys < wide.0);
        let alike = keyed.iter().all(|(_, nanos)| *nanos < 2.0 * wide.1);
        let reason = match (by_key, alike) {
            (true, true) => {
                "each layout but wide answers by key (a scan of the pair's prefix, as days follow it)"
            }
            (true, false) => "by key it takes more than twice as long as by a scan of the user's rows",
            (false, _) => "a layout reads more than the pair's key, or wide no more",
        };
        Claim {
            rows: "B7, B16, B19".into(),
            claimed: "Whether a user plays a game is a scan of the user's rows in the wide table, and a get in the tall \
                      or hashed one."
                .into(),
            predicted: "One key against as many as the user has facts; both lie in a block or two, so the times differ \
                        little."
                .into(),
            counted: layouts.map(|l| format!("{} {}", l.name(), self.read(l, Question::Plays))).join("; "),
            timed: self.took(&layouts, Question::Plays),
            verdict: Verdict::of(
                &self.tally(&layouts, Question::Plays),
                by_key && alike,
                reason,
            ),
        }
    }

    fn any(&self) -> Claim {
        let pick = self.shared().last().unwrap_or(0);
        let question = Question::Played(pick);
        let tally = self.tally(&[Layout::Wide, Layout::Tall], question);
        let of_wide = |question| {
            let measured = self.cell(Layout::Wide, question, self.last);
            measured.map_or((0.0, 0.0), |m| (m.mean(|cost| cost.keys_read), m.p50()))
        };
        // For whom wide stops early: fewer than half of the keys, in less than half of the time.
        let early = self.shared().filter_map(|pick| {
            let (any, all) = (of_wide(Question::Played(pick)), of_wide(Question::Players(pick)));
            let game = &self.bench.picks[pick].label;
            (any.0 < all.0 / 2.0 && any.1 < all.1 / 2.0)
                .then(|| format!("{game}: {:.0} keys instead of {:.0}", any.0, all.0))
        });
        let early: Vec<String> = early.collect();
        let verdict = if tally.all_equal() && !early.is_empty() {
            Verdict {
                outcome: Outcome::Refuted,
                reason: format!("wide stops at the first player ({})", early.join(", ")),
            }
        } else {
            let as_dear = early.is_empty();
            let how =
                if as_dear { "wide reads as much as for who" } else { "wide stops at the first player" };
            Verdict::of(&tally, as_dear, how)
        };
        Claim {
            rows: "B9, B14".into(),
            claimed: "Whether anybody plays a game costs the wide table as much as who does; tall gets it by key.".into(),
            predicted: "Wide may stop at the first player: about one over the share cells for a popular game, \
                        everything for one nobody plays. Tall reads one key."
                .into(),
            counted: format!("{}: {}.", self.bench.picks[pick].label, self.both_read(question)),
            timed: format!("{}: {}.", self.bench.picks[pick].label, self.took(&[Layout::Wide, Layout::Tall], question)),
            verdict,
        }
    }

    fn whole_key(&self) -> Claim {
        let pick = self.middle();
        let question = Question::Players(pick);
        let read =
            self.cell(Layout::WholeKey, question, self.last).map_or(0.0, |m| m.mean(|c| c.keys_read));
        Claim {
            rows: "B19, B22".into(),
            claimed: "With MD5 of user and game as the row key, start and stop rows are easier to give, and a scan from \
                      there finds the newest interest."
                .into(),
            predicted: "A digest of the whole key keeps neither order nor prefix: only the pair test is left. Hashed \
                        field by field, the game's digest is a prefix again."
                .into(),
            counted: format!(
                "Q3, {}: whole key {}, per field {}.",
                self.bench.picks[pick].label,
                self.read(Layout::WholeKey, question),
                self.read(Layout::PerField, question)
            ),
            timed: self.took(&[Layout::WholeKey, Layout::PerField, Layout::Tall], question),
            verdict: Verdict {
                outcome: if read >= self.now().facts as f64 { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: format!(
                    "under whole-key digests Q1 and Q3 read every one of {} facts; there is no range that holds a game's \
                     or a user's rows",
                    self.now().facts
                ),
            },
        }
    }

    fn listing(&self) -> Claim {
        let (asked, found) = self.bench.swapped;
        Claim {
            rows: "B16".into(),
            claimed: "Listing 4 builds the key from user and game, in this order, and gets the pair from the tall table.".into(),
            predicted: "The table's keys begin with the game: such a get matches nothing.".into(),
            counted: format!("{asked} pairs that are there, asked with the fields swapped: {found} found."),
            timed: "Nothing.".into(),
            verdict: Verdict {
                outcome: if asked > 0 && found == 0 { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: "the order of the fields is the layout".into(),
            },
        }
    }

    fn bytes(&self) -> Claim {
        let question = Question::Players(self.middle());
        let bytes =
            |layout| self.cell(layout, question, self.last).map_or(0.0, |m| m.mean(|c| c.bytes_read));
        let (wide, tall) = (bytes(Layout::Wide), bytes(Layout::Tall));
        let per_key = |layout| {
            let keys = self.cell(layout, question, self.last).map_or(1.0, |m| m.mean(|c| c.keys_read));
            bytes(layout) / keys.max(1.0)
        };
        let refuted = wide > 1.5 * tall;
        Claim {
            rows: "B15".into(),
            claimed: "Narrow and wide rows read the same amount of data; it is the index that is used better.".into(),
            predicted: "A cell has the same key and value either way, so a cell costs the same. But a question that the \
                        order does not serve reads all cells."
                .into(),
            counted: format!(
                "Q3, {}: wide {:.0} bytes, tall {:.0}; a cell: {:.1} and {:.1} bytes.",
                self.bench.picks[self.middle()].label,
                wide,
                tall,
                per_key(Layout::Wide),
                per_key(Layout::Tall)
            ),
            timed: "See Q3.".into(),
            verdict: Verdict {
                outcome: if refuted { Outcome::Refuted } else { Outcome::NotReproduced },
                reason: "cell by cell it is so; for the question the article asks, wide reads one over the game's share \
                         times as much"
                    .into(),
            },
        }
    }
}
