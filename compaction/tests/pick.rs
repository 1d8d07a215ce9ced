//! Data-driven tests of the pickers: `tests/data/*.txt` hold scenes, commands and the expected answers.
//!
//! A file is a list of cases, separated by blank lines. A case is a command line, lines of input, `----`,
//! and the expected answer. `REWRITE=1 cargo test -p esker-compaction --test pick` writes the answers as
//! they are now; look at the difference before you commit it. Lines that begin with `#` are for people.
//!
//! | command | input | answer |
//! |---|---|---|
//! | `settings` | `name=value` words; sizes in KiB | the settings that differ from the defaults |
//! | `tree` | tables: `L5 000012 a-m 320 tombstones=5/100 ranges=1 hidden=7 operands=1 seqnos=3-9` (KiB; `m)` excludes m) | the tree |
//! | `score [flushing\|read]` | | base level, targets, scores, pending bytes |
//! | `sublevels` | | sublevel of each level-0 table, and the stacks |
//! | `flush-cut` | | where a flush would be cut |
//! | `pick [snapshot=N] [flushing\|read]` | | the plan, its cuts and its span |
//! | `start [snapshot=N]` | | picks, and the plan's job runs from now on |
//! | `end` | | the oldest job ends without having changed anything |
//! | `settle [snapshot=N]` | | picks and carries out (tables become one table, hidden versions vanish, tombstones at the bottom) until there is nothing to do |
//! | `range START-END [before=N] [upto=SEQNO]` | | the next step of compacting a range (`-` alone for everything) |
#![expect(clippy::disallowed_methods, reason = "the scenes are files")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_compaction::{
    Below, Busy, JobId, Load, Plan, RangeRequest, RangeStep, Settings, Sublevels, flush_cut, pick,
    plan_range, score,
};
use esker_manifest::{TableHandle, Tree};

const KEYSPACE: KeyspaceId = KeyspaceId(1);

#[derive(Default)]
struct Scene {
    settings: Settings,
    tables: Vec<(u8, Arc<TableHandle>)>,
    busy: Busy,
    jobs: Vec<JobId>,
}

/// `name=value` among words.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn load(words: &[&str]) -> Load {
    match words {
        _ if words.contains(&"flushing") => Load::Flushing,
        _ if words.contains(&"read") => Load::Read,
        _ => Load::Rested,
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

fn parse_table(line: &str) -> (u8, Arc<TableHandle>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [level, file, bounds, kib, ..] = words[..] else { panic!("not a table: {line:?}") };
    let level = u8::try_from(number(level.trim_start_matches('L'))).expect("a level");
    let (smallest, largest) = bounds.split_once('-').expect("bounds are START-END");
    let (tombstones, entries) = option(&words, "tombstones").map_or((0, 1000), |text| {
        let (tombstones, entries) = text.split_once('/').expect("tombstones=N/ENTRIES");
        (number(tombstones), number(entries))
    });
    let file = number(file);
    let (low, high) = match option(&words, "seqnos") {
        Some(text) => text.split_once('-').map(|(a, b)| (number(a), number(b))).expect("seqnos=A-B"),
        None => (file * 10, file * 10 + 9),
    };
    let count = |name| option(&words, name).map_or(0, number);
    let meta = TableMeta {
        number: FileNumber(file),
        keyspace: KEYSPACE,
        file_bytes: number(kib) * 1024,
        bounds: KeyBounds {
            smallest: smallest.into(),
            largest: largest.trim_end_matches(')').into(),
            largest_exclusive: largest.ends_with(')'),
        },
        smallest_seqno: SeqNo(low),
        largest_seqno: SeqNo(high),
        entries,
        point_tombstones: tombstones,
        merge_operands: count("operands"),
        hidden_versions: count("hidden"),
        range_tombstones: count("ranges"),
        key_bytes: 0,
        value_bytes: 0,
        content_hash: 0,
        created_millis: 0,
        blobs: Vec::new(),
    };
    (level, TableHandle::detached(meta))
}

fn show_bounds(bounds: &KeyBounds) -> String {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let close = if bounds.largest_exclusive { ")" } else { "" };
    format!("{}-{}{close}", text(&bounds.smallest), text(&bounds.largest))
}

fn show_keys(keys: &[Vec<u8>]) -> String {
    keys.iter().map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>().join(" ")
}

impl Scene {
    fn tree(&self) -> Tree {
        Tree::build(self.tables.iter().cloned())
    }

    fn show_tree(&self) -> String {
        let mut text = String::new();
        for (level, tables) in self.tree().levels.iter().enumerate().filter(|(_, level)| !level.is_empty())
        {
            let tables: Vec<String> = tables
                .tables()
                .iter()
                .map(|table| {
                    let tombstones = table.meta.point_tombstones + table.meta.range_tombstones;
                    let dead = if tombstones > 0 { "†" } else { "" };
                    let hiding = if table.meta.hidden_versions > 0 { "‡" } else { "" };
                    format!("{}:{}{dead}{hiding}", table.number().0, show_bounds(&table.meta.bounds))
                })
                .collect();
            writeln!(text, "L{level} {}", tables.join(" ")).expect("a string");
        }
        if text.is_empty() { "empty\n".to_owned() } else { text }
    }

    fn pick(&self, words: &[&str]) -> Option<Plan> {
        let snapshot = option(words, "snapshot").map_or(SeqNo::MAX, |text| SeqNo(number(text)));
        pick(&self.tree(), KEYSPACE, &self.settings, &self.busy, snapshot, load(words))
    }

    fn show_plan(&self, plan: &Plan) -> String {
        let below = Below::plan(plan, &self.tree());
        let place = if below.is_nothing() { ", nothing below" } else { "" };
        let mut text = format!("{plan}\n  spans {}{place}", show_bounds(&plan.bounds));
        if !plan.cut.before.is_empty() && !plan.trivial_move {
            write!(text, ", cut before {}", show_keys(&plan.cut.before)).expect("a string");
        }
        text + "\n"
    }

    fn show_pick(&self, words: &[&str]) -> String {
        self.pick(words).map_or("nothing\n".to_owned(), |plan| self.show_plan(&plan))
    }

    /// What carrying `plan` out makes of the tree, roughly: one table takes the place of the inputs.
    fn apply(&mut self, plan: &Plan) {
        let bottom = Below::plan(plan, &self.tree()).is_nothing();
        let inputs: Vec<Arc<TableHandle>> = plan.tables().map(|(_, table)| Arc::clone(table)).collect();
        let is_input = |table: &TableHandle| inputs.iter().any(|input| input.number() == table.number());
        self.tables.retain(|(_, table)| !is_input(table));
        if plan.trivial_move {
            self.tables.extend(inputs.into_iter().map(|table| (plan.output_level, table)));
            return;
        }
        let sum = |of: fn(&TableMeta) -> u64| inputs.iter().map(|table| of(&table.meta)).sum::<u64>();
        let tombstones = sum(|meta| meta.point_tombstones);
        let entries = sum(|meta| meta.entries - meta.hidden_versions);
        let newest =
            self.tables.iter().map(|(_, t)| t.number().0).chain(inputs.iter().map(|t| t.number().0)).max();
        let meta = TableMeta {
            number: FileNumber(newest.unwrap_or(0) + 1),
            bounds: plan.bounds.clone(),
            file_bytes: sum(|meta| meta.file_bytes),
            entries: if bottom { entries - tombstones } else { entries },
            point_tombstones: if bottom { 0 } else { tombstones },
            hidden_versions: 0,
            range_tombstones: if bottom { 0 } else { sum(|meta| meta.range_tombstones) },
            largest_seqno: inputs.iter().map(|table| table.meta.largest_seqno).max().unwrap_or_default(),
            ..inputs[0].meta.clone()
        };
        if meta.entries + meta.range_tombstones > 0 {
            self.tables.push((plan.output_level, TableHandle::detached(meta)));
        }
    }

    fn settle(&mut self, words: &[&str]) -> String {
        let mut text = String::new();
        for _ in 0..50 {
            let Some(plan) = self.pick(words) else { return text + &self.show_tree() };
            writeln!(text, "{plan}").expect("a string");
            self.apply(&plan);
        }
        panic!("it does not settle:\n{text}");
    }

    fn set(&mut self, words: &[&str]) -> String {
        let kib = |name| option(words, name).map(|text| number(text) * 1024);
        let s = &mut self.settings;
        s.l0_tables_trigger =
            option(words, "trigger").map_or(s.l0_tables_trigger, |t| t.parse().expect("a count"));
        s.l0_tables_trigger_loaded = 4 * s.l0_tables_trigger;
        s.fanout = option(words, "fanout").map_or(s.fanout, number);
        s.memtable_bytes = kib("memtable").unwrap_or(s.memtable_bytes);
        s.base_bytes = kib("base").unwrap_or(s.base_bytes);
        s.table_bytes = kib("table").unwrap_or(s.table_bytes);
        s.job_bytes_max = kib("job").unwrap_or(s.job_bytes_max);
        s.flush_split_bytes = kib("split").unwrap_or(s.flush_split_bytes);
        s.validate().map_or_else(|error| format!("{error}\n"), |()| "ok\n".to_owned())
    }

    fn show_score(&self, words: &[&str]) -> String {
        let score = score(&self.tree(), &self.settings, load(words));
        let mut text = format!("base L{}, pending {} KiB\n", score.base_level, score.pending_bytes / 1024);
        writeln!(text, "L0 {:.2}, {} deep", score.levels[0], score.l0_depth).expect("a string");
        for level in usize::from(score.base_level)..6 {
            let target = score.targets[level] / 1024;
            writeln!(text, "L{level} {:.2} of {target} KiB", score.levels[level]).expect("a string");
        }
        text
    }

    fn show_sublevels(&self) -> String {
        let tree = self.tree();
        let tables = tree.levels[0].tables();
        let sublevels = Sublevels::new(&tree.levels[0]);
        let mut text = format!("{} sublevels, {} deep\n", sublevels.count(), tree.levels[0].depth());
        for sublevel in (0..sublevels.count()).rev() {
            let on_it = (0..tables.len()).filter(|&index| sublevels.sublevel(index) == sublevel);
            let names: Vec<String> = on_it
                .map(|index| {
                    format!("{}:{}", tables[index].number().0, show_bounds(&tables[index].meta.bounds))
                })
                .collect();
            writeln!(text, "{sublevel}: {}", names.join(" ")).expect("a string");
        }
        let stack = |stack: Vec<usize>| {
            stack.iter().map(|&index| tables[index].number().0.to_string()).collect::<Vec<_>>().join("<")
        };
        let stacks: Vec<String> = sublevels.stacks(1, |_| true).map(stack).collect();
        writeln!(text, "stacks {}", stacks.join(" ")).expect("a string");
        text
    }

    fn range(&self, words: &[&str]) -> String {
        let (start, end) = words[0].split_once('-').expect("START-END");
        let request = RangeRequest {
            start: start.into(),
            end: (!end.is_empty()).then(|| end.into()),
            before: FileNumber(option(words, "before").map_or(u64::MAX, number)),
            again: FileNumber(option(words, "again").map_or(0, number)),
            oldest: SeqNo(option(words, "oldest").map_or(0, number)),
            upto: option(words, "upto").map_or(SeqNo::MAX, |text| SeqNo(number(text))),
        };
        match plan_range(&self.tree(), KEYSPACE, &self.settings, &self.busy, &request) {
            RangeStep::Run(plan) => self.show_plan(&plan),
            RangeStep::Wait => "wait\n".to_owned(),
            RangeStep::Done => "done\n".to_owned(),
        }
    }

    fn run(&mut self, command: &str, input: &[&str]) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (name, words) = words.split_first().expect("a command");
        match *name {
            "settings" => self.set(words),
            "tree" => {
                *self = Scene { settings: self.settings.clone(), ..Scene::default() };
                self.tables = input.iter().map(|line| parse_table(line)).collect();
                self.show_tree()
            }
            "score" => self.show_score(words),
            "sublevels" => self.show_sublevels(),
            "flush-cut" => {
                format!("before {}\n", show_keys(&flush_cut(&self.tree(), &self.settings).before))
            }
            "pick" => self.show_pick(words),
            "start" => {
                let text = self.show_pick(words);
                let plan = self.pick(words);
                self.jobs.extend(plan.map(|plan| self.busy.start(&plan)));
                text
            }
            "end" => {
                self.busy.end(self.jobs.remove(0));
                format!("{} running\n", self.busy.jobs())
            }
            "settle" => self.settle(words),
            "range" => self.range(words),
            "apply" => {
                let plan = self.pick(words).expect("something to do");
                self.apply(&plan);
                self.show_tree()
            }
            other => panic!("no command {other:?}"),
        }
    }
}

/// Run a file's cases; its text with the answers of now.
fn replay(text: &str) -> String {
    let mut scene = Scene::default();
    let mut now = String::new();
    for case in text.split("\n\n").map(str::trim).filter(|case| !case.is_empty()) {
        let (asked, _) = case.split_once("\n----").unwrap_or((case, ""));
        let lines: Vec<&str> = asked.lines().collect();
        let told: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with('#')).collect();
        let Some((command, input)) = told.split_first() else {
            write!(now, "{case}\n\n").expect("a string");
            continue;
        };
        let answer = scene.run(command, input);
        write!(now, "{asked}\n----\n{answer}\n").expect("a string");
    }
    now.trim_end().to_owned() + "\n"
}

#[test]
fn scenes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut seen = 0;
    for file in std::fs::read_dir(&dir).expect("the folder of scenes") {
        let path = file.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("a scene");
        let now = replay(&text);
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, &now).expect("the scene can be written");
        } else {
            assert_eq!(now, text, "{} (REWRITE=1 rewrites it)", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 5, "the scenes are gone: {seen} found");
}
