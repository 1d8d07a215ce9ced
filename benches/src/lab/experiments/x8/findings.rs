//! What the figures say: claims with verdicts, tables, charts.

mod claims;
mod exhibits;

use super::layouts::Layout;
use super::measure::{Bench, Measured, Question};
use super::source::{Generator, Source};
use super::truth::Moment;
use crate::lab::LabOptions;
use crate::lab::store::Setup;
use crate::lab::study::{Exhibit, Study};

/// The article's Table 3: facts, seconds wide, seconds tall.
pub(super) const TABLE_3: [(f64, f64, f64); 3] =
    [(5e6, 0.237, 0.079), (10e6, 0.418, 0.112), (20e6, 0.83, 0.283)];
/// The growth exponents of its two columns.
const EXPONENTS: (f64, f64) = (0.90, 0.92);
/// How much more than the game's share of all facts tall may take of wide's time.
const SHARE_FACTOR: f64 = 1.5;
/// Memory beside memtables and block cache.
const MEMORY_BESIDE: u64 = 256 << 20;

/// The growth exponent of (x, y) points: the slope of a straight line through their logarithms.
pub(super) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (points.len() > 1 && spread > 0.0)
        .then(|| points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread)
}

/// Everything together.
pub(super) fn study(bench: Bench<'_>, options: &LabOptions, setup: &Setup) -> Study {
    let mut found = Findings { last: bench.moments.len() - 1, bench, exhibits: Vec::new() };
    let claims = found.claims();
    found.heat();
    found.table_3();
    found.growth();
    found.shares();
    found.crowds();
    found.space();
    found.loads();
    found.raw();
    let notes = found.notes(setup);
    let protocol = found.protocol(options);
    let Findings { bench, exhibits, .. } = found;
    Study {
        name: "X8".into(),
        title: "Wide rows or tall tables: who plays which game?".into(),
        rows: "B5–B19, B22".into(),
        protocol,
        repetitions: u32::try_from(bench.effort.repeat).ok(),
        claims,
        exhibits,
        notes,
        ..bench.study
    }
}

struct Findings<'a> {
    bench: Bench<'a>,
    /// The last moment.
    last: usize,
    exhibits: Vec<Exhibit>,
}

/// The times of Q3 about a game beside its share of all facts.
struct ShareOfTime {
    pick: usize,
    share: f64,
    /// Nanoseconds, medians.
    wide: f64,
    tall: f64,
    /// Tall's time over wide's, over the share: 1 where tall costs exactly its share.
    over: f64,
}

fn percent(share: f64) -> String {
    if share < 0.01 { format!("{:.2} %", share * 100.0) } else { format!("{:.1} %", share * 100.0) }
}

impl Findings<'_> {
    fn cell(&self, layout: Layout, question: Question, moment: usize) -> Option<&Measured> {
        self.bench.cells.get(&(layout, question, moment))
    }

    fn p50(&self, layout: Layout, question: Question, moment: usize) -> f64 {
        self.cell(layout, question, moment).map_or(0.0, Measured::p50)
    }

    fn now(&self) -> &Moment {
        &self.bench.moments[self.last]
    }

    /// The pick that stands for games: a share of about a hundredth.
    fn middle(&self) -> usize {
        1.min(self.bench.picks.len() - 1)
    }

    /// Picks with a share, that is without the probe.
    fn shared(&self) -> impl Iterator<Item = usize> {
        let picks = self.bench.picks;
        (0..picks.len()).filter(|pick| picks[*pick].share > 0.0)
    }

    fn probe(&self) -> Option<usize> {
        (0..self.bench.picks.len()).find(|pick| self.bench.picks[*pick].share == 0.0)
    }

    /// What tall takes of wide's time for Q3 at the last size, a row a game with a share.
    fn shares_of_time(&self) -> Vec<ShareOfTime> {
        let of = |pick: usize| {
            let question = Question::Players(pick);
            let [wide, tall] = [Layout::Wide, Layout::Tall].map(|l| self.p50(l, question, self.last));
            let share = self.now().picks[pick].facts as f64 / self.now().facts as f64;
            ShareOfTime { pick, share, wide, tall, over: tall / wide.max(1.0) / share }
        };
        self.shared().map(of).collect()
    }

    /// Q3's median time by facts.
    fn times(&self, layout: Layout, pick: usize) -> Vec<(f64, f64)> {
        let moments = self.bench.moments.iter().enumerate();
        moments
            .map(|(at, moment)| (moment.facts as f64, self.p50(layout, Question::Players(pick), at)))
            .collect()
    }

    fn protocol(&self, options: &LabOptions) -> String {
        let Bench { source, moments, picks, effort, .. } = &self.bench;
        let data = match source {
            Source::Generated(Generator { users, games, probes, .. }) => format!(
                "Generated facts in the article's scenario: {users} users, {} games whose popularity follows Zipf's \
                 law, one to three games a user and day, in the order of days; and the game 3CountryBattle with \
                 {probes} players, all from the first day.",
                games.len() - 1
            ),
            Source::Imported(table) => format!(
                "{}: {} lines, {} facts after adding up what has the same user, item and day; {} users, {} items{}.",
                options.interest.as_ref().map_or(String::new(), |interest| {
                    interest.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
                }),
                table.lines,
                table.facts.len(),
                table.users.len(),
                table.items.len(),
                if table.thousandths { "; amounts in thousandths" } else { "" }
            ),
        };
        let sizes: Vec<String> =
            moments.iter().map(|m| format!("{} facts ({} wide rows)", m.facts, m.rows)).collect();
        let games: Vec<String> = picks
            .iter()
            .filter(|pick| pick.share > 0.0)
            .map(|pick| format!("{} ({})", source.games()[pick.game as usize], pick.label))
            .collect();
        format!(
            "{data} Loaded without a log. Layouts one after the other, in random order, each over a fresh store of its own, asked at {}, \
             after the store has merged all its tables (a major compaction). Q1 and Q2 about {} users (present and absent games in turn), Q3 and \
             Q4 about the games whose share of facts lies nearest 10 %, 1 % and 0.1 %: {}. Answers are counts and \
             checksums of names, and checked. Scans that come to more than 10,000 cells run in {} parts side by side, at \
             every size and the same for all layouts; Q3 is asked until it has taken a second, at desk scale. What a client over a network would wait for is not in these times.",
            sizes.join(", "),
            self.now().users.len(),
            games.join(", "),
            effort.parts
        )
    }

    /// Whether `layout` was among those to run.
    fn ran(&self, layout: Layout) -> bool {
        self.bench.loads.contains_key(&(layout, self.last))
    }

    fn notes(&self, setup: &Setup) -> Vec<String> {
        let mut notes = Vec::new();
        let database = &setup.database;
        let memtables = database.memtable_bytes_max * (database.sealed_memtables_max as u64 + 1);
        let limit = memtables + database.cache_bytes + MEMORY_BESIDE;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let within =
            |peak: u64| format!("{} MiB ({})", mib(peak), if peak <= limit { "within" } else { "beyond" });
        let peaks: Vec<String> = self
            .bench
            .peaks
            .iter()
            .filter_map(|(layout, (alone, crowd))| {
                Some(format!("{}: {}, {}", layout.name(), within((*alone)?), within((*crowd)?)))
            })
            .collect();
        if !peaks.is_empty() {
            notes.push(format!(
                "Peak memory of the whole process, while loading and asking, and then with up to eight clients at \
                 once; memtables, block cache and 256 MiB are {} MiB. {}. What a layout before it left with the \
                 allocator counts too.",
                mib(limit),
                peaks.join("; ")
            ));
        }
        if !self.ran(Layout::Wide) {
            return notes;
        }
        let slowest = self.shared().map(|pick| self.p50(Layout::Wide, Question::Players(pick), self.last));
        let slowest = slowest.fold(0.0, f64::max);
        let rate = self.now().facts as f64 * 1e3 / slowest.max(1.0);
        notes.push(format!(
            "The wide table's full scan: {:.3} s for {} facts in {} rows, {rate:.1} million facts a second in {} parts. \
             The article's fastest figure is 24 million rows a second.",
            slowest / 1e9,
            self.now().facts,
            self.now().rows,
            self.bench.effort.parts
        ));
        if let Some(pick) = self.shared().next() {
            notes.push(format!(
                "The largest game asked about has {} of the facts; an imported file may have none near 10 %.",
                percent(self.bench.picks[pick].share)
            ));
        }
        notes.push(
            "Rows of the wide table are tuples (user, day), not texts joined by $: the article's scan from a bare user \
             id has no end, and QQ12 would match QQ121. Both counts are reported, because the article counts rows and a \
             wide row holds several facts."
                .into(),
        );
        notes
    }
}
