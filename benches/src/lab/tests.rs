#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests write inputs and read reports"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use esker_layouts::OpCost;
use esker_layouts::kv::{Caps, Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::map::MapStore;
use esker_layouts::tuple::Space;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::fit::{Observed, fit};
use super::model::{Form, Operation, growth};
use super::store::{Setup, TemporaryEngine};
use super::verdict::Outcome;
use super::*;

fn tiny(experiments: &[Experiment]) -> LabOptions {
    LabOptions { store: StoreChoice::Map, ..LabOptions::new(Scale::Tiny, experiments.to_vec()) }
}

#[test]
fn every_counter_of_every_experiment_equals_its_formula() {
    counters_equal(StoreChoice::Map);
}

#[test]
fn so_does_every_counter_of_the_engine() {
    counters_equal(StoreChoice::Engine);
}

fn counters_equal(store: StoreChoice) {
    let report = run(&LabOptions { store, ..tiny(&Experiment::ALL) }, &mut Silent).expect("the lab runs");
    assert_eq!((report.experiments.len(), report.studies.len()), (3, Experiment::ALL.len() - 3));
    assert!(report.counters_equal());
    for experiment in &report.experiments {
        for (panel, series) in experiment.series() {
            let place = format!("{} {} {}", experiment.name, panel.title, series.layout);
            assert!(series.counters_equal, "{place}: {:?}", series.counters.first_mismatch);
            assert!(series.points.iter().all(|point| point.counted == point.formula), "{place}");
            let keys = series.counter_fit.expect("enough points");
            assert_eq!(keys.form, series.predicted, "{place}: {keys:?}");
        }
    }
}

/// The engine; at their end its stores tell what they have counted since they were opened last.
struct Watching(Arc<Mutex<Vec<esker::Counters>>>);

struct Watched {
    /// `None` once it was opened again as another.
    engine: Option<TemporaryEngine>,
    counted: Arc<Mutex<Vec<esker::Counters>>>,
}

impl Watched {
    fn engine(&self) -> &TemporaryEngine {
        self.engine.as_ref().expect("open")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            self.counted.lock().expect("lock").push(engine.database().metrics().counters);
        }
    }
}

impl OrderedKv for Watched {
    type Read<'a> = <TemporaryEngine as OrderedKv>::Read<'a>;
    type Tx<'a> = <TemporaryEngine as OrderedKv>::Tx<'a>;

    fn caps(&self) -> &Caps {
        self.engine().caps()
    }
    fn read(&self) -> esker_layouts::Result<Self::Read<'_>> {
        self.engine().read()
    }
    fn update<T>(
        &self,
        f: impl FnMut(&mut Self::Tx<'_>) -> esker_layouts::Result<T>,
    ) -> esker_layouts::Result<Costed<T>> {
        self.engine().update(f)
    }
}

impl Watching {
    fn watched(&self, engine: TemporaryEngine) -> Watched {
        Watched { engine: Some(engine), counted: Arc::clone(&self.0) }
    }
}

impl Store for Watching {
    type Kv = Watched;

    fn name(&self) -> &'static str {
        EngineFactory.name()
    }
    fn open_as(&self, setup: &Setup) -> esker_layouts::Result<Watched> {
        Ok(self.watched(EngineFactory.open_as(setup)?))
    }
    fn settle(&self, kv: &Watched) -> esker_layouts::Result<()> {
        EngineFactory.settle(kv.engine())
    }
    fn compact(&self, kv: &Watched) -> esker_layouts::Result<()> {
        EngineFactory.compact(kv.engine())
    }
    fn disk_bytes(&self, kv: &Watched) -> Option<u64> {
        EngineFactory.disk_bytes(kv.engine())
    }
    fn reopen_as(&self, mut kv: Watched, setup: &Setup) -> esker_layouts::Result<Watched> {
        Ok(self.watched(EngineFactory.reopen_as(kv.engine.take().expect("open"), setup)?))
    }
}

#[test]
fn writes_that_are_measured_go_to_the_log() {
    let writing = [Experiment::X6, Experiment::X10, Experiment::X12, Experiment::X13, Experiment::X15];
    for experiment in writing {
        let store = Watching(Arc::default());
        run_on(&store, &RealLayouts, &tiny(&[experiment]), &mut Silent).expect("the lab runs");
        let counted = store.0.lock().expect("lock");
        assert!(counted.iter().any(|store| store.commits > 0), "{}", experiment.name());
        let unlogged = |store: &&esker::Counters| store.commits > 0 && store.log_bytes == 0;
        assert_eq!(counted.iter().filter(unlogged).count(), 0, "{}", experiment.name());
    }
}

/// Stores in memory, how many were opened, and how many brought to rest.
#[derive(Default)]
struct Settled {
    opened: AtomicU32,
    settled: AtomicU32,
}

impl Store for Settled {
    type Kv = MapStore;

    fn name(&self) -> &'static str {
        MapFactory.name()
    }
    fn open_as(&self, setup: &Setup) -> esker_layouts::Result<MapStore> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        MapFactory.open_as(setup)
    }
    fn settle(&self, kv: &MapStore) -> esker_layouts::Result<()> {
        self.settled.fetch_add(1, Ordering::Relaxed);
        MapFactory.settle(kv)
    }
    fn compact(&self, kv: &MapStore) -> esker_layouts::Result<()> {
        MapFactory.compact(kv)
    }
    fn disk_bytes(&self, kv: &MapStore) -> Option<u64> {
        MapFactory.disk_bytes(kv)
    }
}

#[test]
fn stores_are_at_rest_before_probes_are_asked() {
    for experiment in [Experiment::X2, Experiment::X3] {
        let store = Settled::default();
        run_on(&store, &RealLayouts, &tiny(&[experiment]), &mut Silent).expect("the lab runs");
        let opened = store.opened.load(Ordering::Relaxed);
        assert!(opened > 0, "{experiment}");
        assert_eq!(store.settled.load(Ordering::Relaxed), opened, "{experiment}");
    }
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let counted = |seed| {
        let options = LabOptions { seed, ..tiny(&Experiment::ALL) };
        let report = run(&options, &mut Silent).expect("the lab runs");
        let all: Vec<_> = report
            .experiments
            .iter()
            .flat_map(|e| {
                e.series().flat_map(|(_, s)| s.points.iter().map(|p| p.counted)).collect::<Vec<_>>()
            })
            .collect();
        all
    };
    assert_eq!(counted(7), counted(7));
    assert_ne!(counted(7), counted(8));
}

/// The column layout as somebody in a hurry would write it: it reads the whole row before it adds.
struct ReadsTooMuch<'k> {
    store: &'k MapStore,
    inner: Box<dyn FriendStore + 'k>,
}

impl FriendStore for ReadsTooMuch<'_> {
    fn add(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        let read = self.store.read()?;
        read.scan(Space::new(&(user,)).under(&()), ScanOptions::new())?.for_each(drop);
        let mut cost = read.cost();
        cost.add(&self.inner.add(user, friend)?);
        Ok(cost)
    }
    fn check(&self, user: &str, friend: &str) -> esker_layouts::Result<Costed<bool>> {
        self.inner.check(user, friend)
    }
    fn remove(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        self.inner.remove(user, friend)
    }
    fn list(&self, user: &str) -> esker_layouts::Result<Costed<Vec<String>>> {
        self.inner.list(user)
    }
    fn load(&self, user: &str, friends: &[&str]) -> esker_layouts::Result<OpCost> {
        self.inner.load(user, friends)
    }
}

struct WrongColumn;

impl OpenLayout<MapStore> for WrongColumn {
    fn open<'k>(
        &self,
        store: &'k MapStore,
        layout: Layout,
    ) -> esker_layouts::Result<Box<dyn FriendStore + 'k>> {
        let inner = open(store, layout)?;
        Ok(if layout == Layout::Column { Box::new(ReadsTooMuch { store, inner }) } else { inner })
    }
}

#[test]
fn a_wrong_layout_comes_out_as_a_mismatch() {
    let report =
        run_on(&MapFactory, &WrongColumn, &tiny(&[Experiment::X1]), &mut Silent).expect("the lab runs");
    for (panel, series) in report.experiments[0].series() {
        let wrong = series.layout == "column" && panel.operation == Operation::Add;
        assert_eq!(series.counters_equal, !wrong, "{} {}", series.layout, panel.title);
        if wrong {
            assert_ne!(series.verdict.outcome, Outcome::Reproduced);
            assert!(
                series
                    .verdict
                    .reason
                    .contains("operations differ from the formula; first: add at degree 0")
            );
            assert_eq!(
                series.counter_fit.expect("points").form,
                Form::Affine,
                "the keys show what it does"
            );
            assert!(series.counters.equal == 0, "one call too many in every single add");
        }
    }
    assert!(report.to_text().contains("differ"));
    assert!(report.to_html().contains("<strong class=\"bad\">some differ</strong>"));
}

/// A layout that lies is found at once: every answer is checked.
struct Liar<'k>(Box<dyn FriendStore + 'k>);

impl FriendStore for Liar<'_> {
    fn add(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        self.0.add(user, friend)
    }
    fn check(&self, user: &str, friend: &str) -> esker_layouts::Result<Costed<bool>> {
        Ok(self.0.check(user, friend)?.map(|_| true))
    }
    fn remove(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        self.0.remove(user, friend)
    }
    fn list(&self, user: &str) -> esker_layouts::Result<Costed<Vec<String>>> {
        self.0.list(user)
    }
    fn load(&self, user: &str, friends: &[&str]) -> esker_layouts::Result<OpCost> {
        self.0.load(user, friends)
    }
}

struct Lying;

impl<K: OrderedKv> OpenLayout<K> for Lying {
    fn open<'k>(&self, store: &'k K, layout: Layout) -> esker_layouts::Result<Box<dyn FriendStore + 'k>> {
        Ok(Box::new(Liar(open(store, layout)?)))
    }
}

#[test]
fn a_wrong_answer_stops_the_lab() {
    let error = run_on(&MapFactory, &Lying, &tiny(&[Experiment::X1]), &mut Silent).expect_err("it lies");
    assert!(matches!(error, LabError::WrongAnswer { answer: true, .. }), "{error}");
}

#[test]
fn fits_tell_lines_constants_and_depth_apart() {
    let fitted = |f: &dyn Fn(f64) -> f64| {
        let mut random = fastrand::Rng::with_seed(3);
        let points: Vec<Observed> = (1..=8)
            .map(|i| {
                let x = f64::from(10 + 20 * i);
                let values = (0..10).map(|_| f(x) * (1.0 + 0.02 * (random.f64() - 0.5))).collect();
                Observed { x, values }
            })
            .collect();
        fit(&points, &mut random).expect("eight points")
    };
    assert_eq!(fitted(&|_| 500.0).form, Form::Constant);
    assert_eq!(fitted(&|x| 500.0 + x).form, Form::Constant, "an eighth more over the range is drift");
    assert_eq!(fitted(&|x| 100.0 * x.ln()).form, Form::Constant, "the depth of a tree is no line");
    assert_eq!(fitted(&|x| 500.0 - 2.0 * x).form, Form::Constant, "getting cheaper is no growth");
    let line = fitted(&|x| 1_000.0 + 20.0 * x);
    assert_eq!(line.form, Form::Affine);
    assert!((line.rise - 20.0).abs() < 1.0 && (line.offset - 1_000.0).abs() < 100.0, "{line:?}");
    let slope = fitted(&|x| 3.0 * x * x).slope.expect("positive");
    assert!((slope.median - 2.0).abs() < 0.02 && slope.low <= slope.median && slope.median <= slope.high);
    assert!(fit(&[], &mut fastrand::Rng::with_seed(1)).is_none());
}

#[test]
fn the_article_s_table_of_complexities() {
    use esker_layouts::followers::HoleFilling::{MoveLast, ShiftAll};
    let table = |layout| Operation::ALL.map(|operation| growth(layout, operation));
    let (o1, on) = (Form::Constant, Form::Affine);
    for filling in [MoveLast, ShiftAll] {
        assert_eq!(table(Layout::Default(filling)), [on, on, on]);
        assert_eq!(table(Layout::Count(filling)), [o1, on, on]);
    }
    for layout in [Layout::Column, Layout::Row, Layout::Hash, Layout::Relational] {
        assert_eq!(table(layout), [o1, o1, o1]);
    }
}

#[test]
fn edge_lists_are_read_plain_and_packed_and_refused_by_line() {
    let text = b"# users\n1 2\n1\t3\r\n\n2 2 # self\n1 2\n";
    let directory = tempfile::tempdir().expect("a directory");
    let plain = directory.path().join("plain.txt");
    std::fs::write(&plain, text).expect("write");
    let packed = directory.path().join("packed");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text).expect("pack");
    std::fs::write(&packed, gzip.finish().expect("pack")).expect("write");
    let graph = edges::read(&plain).expect("plain");
    assert_eq!(graph, edges::read(&packed).expect("gzip, told by its bytes"));
    assert_eq!((graph.edges, graph.repeated, graph.self_loops, graph.names.len()), (3, 1, 1, 3));

    let marked =
        edges::parse(&b"\xef\xbb\xbf1 2\n2 1\n"[..], Path::new("g.txt")).expect("with a byte order mark");
    assert_eq!(marked.names, ["1", "2"]);
    let refused = |text: &[u8]| edges::parse(text, Path::new("g.txt")).expect_err("malformed").to_string();
    assert!(refused(b"1 2\n\n3\n").starts_with("g.txt, line 3: one id instead of two"));
    assert!(refused(b"1 2 0.5\n").starts_with("g.txt, line 1: 3 ids instead of two"));
    assert!(refused(b"1 2\n\xff\xfe 3\n").starts_with("g.txt, line 2: not UTF-8"));
    assert!(refused(&[b'1'; 10_000]).starts_with("g.txt, line 1: longer than"));
    let cut = directory.path().join("cut.gz");
    let whole = std::fs::read(&packed).expect("read");
    std::fs::write(&cut, &whole[..whole.len() - 9]).expect("write");
    assert!(
        matches!(edges::read(&cut), Err(LabError::File { op: "read", .. })),
        "a cut archive is an error"
    );
    assert!(matches!(edges::read(Path::new("no such file")), Err(LabError::File { op: "open", .. })));
}

#[test]
fn of_a_network_of_large_rows_a_part_is_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("star.txt");
    // The smaller row alone is beyond the budget of the forms that shift: 60 cubed, and 200,000 cells.
    let row = |user: u32, friends: u32| (0..friends).map(move |friend| format!("{user}\tf{friend}\n"));
    std::fs::write(&file, row(1, 90).chain(row(2, 60)).collect::<String>()).expect("write");
    let options = LabOptions { graph: Some(file), repeat: Some(1), ..tiny(&[Experiment::X1]) };
    let report = run(&options, &mut Silent).expect("the lab runs");
    assert!(report.counters_equal(), "all layouts had operations");
    let used = &report.experiments[0].notes[0];
    assert!(used.contains("ran on 1 users (58 edges)"), "{used}");
}

#[test]
fn a_graph_with_a_delimiter_in_its_ids_is_a_clear_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("dots.txt");
    std::fs::write(&file, "a.b c\n").expect("write");
    let options = LabOptions { graph: Some(file), ..tiny(&[Experiment::X1]) };
    let error = run(&options, &mut Silent).expect_err("the row layout cannot store it").to_string();
    assert!(error.contains("layout row, add a.b c") && error.contains("use the column layout"), "{error}");
}

#[test]
fn bad_options_are_refused() {
    for (repeat, why) in [
        (0, "repeat is 0; at least one repetition is needed"),
        (u32::MAX, "repeat is 4294967295; at most 1000 repetitions are run"),
        (1_001, "repeat is 1001; at most 1000 repetitions are run"),
    ] {
        for experiment in [Experiment::X2, Experiment::X3] {
            let options = LabOptions { repeat: Some(repeat), ..tiny(&[experiment]) };
            let refused = run(&options, &mut Silent);
            assert!(
                matches!(&refused, Err(LabError::BadOption(what)) if what == why),
                "{experiment} {repeat}"
            );
        }
    }
}

/// Counts what was begun.
#[derive(Default)]
struct Begun(u32);

impl Progress for Begun {
    fn begin(&mut self, _experiment: Experiment, _steps: u64) {
        self.0 += 1;
    }
    fn step(&mut self, _what: &str) {}
    fn end(&mut self) {}
}

#[test]
fn options_of_what_does_not_run_are_refused_before_anything_does() {
    let file = || PathBuf::from("no-such-file");
    let interest = Interest { file: file(), columns: interest::Columns::default() };
    let of = |experiments: &[Experiment]| tiny(experiments);
    let wide = || vec!["wide".to_owned()];
    for (options, word) in [
        (LabOptions { graph: Some(file()), ..of(&[Experiment::X3]) }, "--graph is for x1"),
        (LabOptions { mail: Some(file()), ..of(&[Experiment::X1]) }, "--mail is for x10"),
        (LabOptions { interest: Some(interest), ..of(&[Experiment::X1]) }, "--interest is for x8"),
        (LabOptions { layouts: wide(), ..of(&[Experiment::X1]) }, "--layouts is for x8"),
        (
            LabOptions { layouts: vec!["typo".into()], ..of(&[Experiment::X1, Experiment::X8]) },
            "x8 has no layout \"typo\"",
        ),
    ] {
        let mut begun = Begun::default();
        let error = run(&options, &mut begun).expect_err(word);
        assert!(matches!(&error, LabError::BadOption(what) if what.contains(word)), "{error}");
        assert_eq!(begun.0, 0, "{word}");
    }
}

#[test]
fn a_page_tells_the_repetitions_and_the_method_of_each_experiment() {
    let page = |experiments: &[Experiment]| {
        let options = LabOptions { repeat: Some(2), ..tiny(experiments) };
        run(&options, &mut Silent).expect("the lab runs").to_html()
    };
    let (followers, studies) = (page(&[Experiment::X3]), page(&[Experiment::X12, Experiment::X13]));
    let [repeated, once] = ["Repetitions: 2.", "Each measurement was made once"];
    assert_eq!((followers.matches(repeated).count(), followers.matches(once).count()), (1, 0));
    assert_eq!((studies.matches(repeated).count(), studies.matches(once).count()), (1, 1), "X12, X13");
    for of_followers in ["fastest and slowest 2.5 %", "Bayesian", "Hollow points"] {
        assert!(followers.contains(of_followers) && !studies.contains(of_followers), "{of_followers}");
    }
}

#[test]
fn a_report_that_is_there_is_replaced_as_a_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, link) = (directory.path().join("figures.json"), directory.path().join("link"));
    std::fs::write(&file, "those of yesterday").expect("write");
    #[cfg(unix)]
    std::os::unix::fs::symlink("figures.json", &link).expect("a link");
    let old = std::fs::File::open(&file).expect("open");
    let link = if cfg!(unix) { &link } else { &file };
    files::write(link, "those of today").expect("write");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "those of today");
    let mut read = String::new();
    std::io::Read::read_to_string(&mut &old, &mut read).expect("read");
    assert_eq!(read, "those of yesterday", "whoever reads it reads on");
    let left = std::fs::read_dir(directory.path()).expect("list").count();
    assert_eq!(left, 1 + usize::from(cfg!(unix)));
}

/// What is tried beforehand is the very name, and what a link or the old file's rights say holds for the new one.
#[test]
#[cfg(unix)]
fn a_place_is_tried_by_its_name() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    for refused in ["absent/", &"x".repeat(300)] {
        files::probe(&place(refused)).expect_err(refused);
    }
    symlink("led to", place("link")).expect("a link");
    files::probe(&place("link")).expect("free");
    files::write(&place("link"), "figures").expect("write");
    assert_eq!(std::fs::read_to_string(place("led to")).expect("there"), "figures");
    assert!(place("link").is_symlink());
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place("led to"), own.clone()).expect("set");
    files::write(&place("link"), "others").expect("write");
    let found = std::fs::metadata(place("led to")).expect("there").permissions();
    assert_eq!(found.mode() & 0o777, own.mode());
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 2);
}

#[test]
fn reports_are_written_whole() {
    let mut report = run(&tiny(&Experiment::ALL), &mut Silent).expect("the lab runs");
    report.store = "abc<1>".into();
    let directory = tempfile::tempdir().expect("a directory");
    let page = report.write_html(&directory.path().join("new/place")).expect("html");
    let html = std::fs::read_to_string(page).expect("read");
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    let charts = |study: &study::Study| {
        let drawn = |exhibit: &&study::Exhibit| {
            use study::Exhibit::{Bars, Lines, Raster};
            matches!(exhibit, Lines(_) | Bars(_) | Raster(_))
        };
        study.exhibits.iter().filter(drawn).count()
    };
    let studies: usize = report.studies.iter().map(charts).sum();
    assert_eq!(studies, 6 + 3 + 6 + 3 + (8 + 5) + 4 + 6 + 2, "X6, X8, X9, X10, X11, X12, X13, X15");
    let figures = 3 + 3 + 3 + 6 + studies;
    assert_eq!(
        html.matches("<figure>").count(),
        figures,
        "X1 measured and modelled, X2, X3 twice, studies"
    );
    assert!(html.contains("abc&lt;1&gt;") && html.contains("seed 1, generated data"));
    for fetched in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!html.contains(fetched), "the page fetches nothing: {fetched}");
    }
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    for odd in ["NaN", "\"inf", ",inf", " inf,"] {
        assert!(!html.contains(odd), "every coordinate is a number: {odd}");
    }
    let file = directory.path().join("report.json");
    report.write_json(&file).expect("json");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("it is JSON");
    let series = &json["experiments"][0]["panels"][0]["series"][0];
    assert_eq!(series["counters_equal"], true);
    assert_eq!(series["counters"]["operations"], series["counters"]["equal"]);
    assert_eq!(json["experiments"][2]["name"], "X3");
    assert!(report.to_text().contains("X2  The same in larger networks"));
}

#[test]
fn progress_adds_up() {
    #[derive(Default)]
    struct Count {
        promised: u64,
        done: u64,
        ended: u32,
        found: Vec<usize>,
    }
    impl Progress for Count {
        fn begin(&mut self, _experiment: Experiment, steps: u64) {
            self.promised += steps;
        }
        fn step(&mut self, what: &str) {
            assert!(!what.is_empty());
            self.done += 1;
        }
        fn end(&mut self) {
            self.ended += 1;
        }
        fn found(&mut self, so_far: &Report) -> Result<()> {
            self.found.push(so_far.experiments.len() + so_far.studies.len());
            Ok(())
        }
    }
    let mut count = Count::default();
    run(&tiny(&Experiment::ALL), &mut count).expect("the lab runs");
    assert_eq!(
        (count.done, count.ended),
        (count.promised, u32::try_from(Experiment::ALL.len()).expect("a few"))
    );
    assert_eq!(count.found, (1..=Experiment::ALL.len()).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_kept_ends_the_run() {
    struct Full(u32);
    impl Progress for Full {
        fn begin(&mut self, _experiment: Experiment, _steps: u64) {
            self.0 += 1;
        }
        fn step(&mut self, _what: &str) {}
        fn end(&mut self) {}
        fn found(&mut self, _so_far: &Report) -> Result<()> {
            Err(LabError::BadOption("there is no room".into()))
        }
    }
    let mut full = Full(0);
    let error = run(&tiny(&[Experiment::X1, Experiment::X3]), &mut full).expect_err("nothing can be kept");
    assert!(error.to_string().contains("no room"), "{error}");
    assert_eq!(full.0, 1, "nothing runs after it");
}

/// A real data set beside the workspace, if it is there.
pub(super) fn data(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(file);
    if path.exists() {
        return Some(path);
    }
    println!("SKIPPED: {} is not there", path.display());
    None
}

#[test]
fn a_real_network_costs_what_the_formulas_say() {
    let Some(file) = data("wiki-vote/wiki-Vote.txt.gz") else { return };
    let graph = edges::read(&file).expect("the published edge list");
    assert_eq!((graph.edges, graph.names.len(), graph.repeated), (103_689, 7_115, 0));
    let longest = graph.rows.iter().map(|(_, friends)| friends.len()).max();
    assert_eq!(longest, Some(893), "the published largest out-degree");
    let options = LabOptions { graph: Some(file), repeat: Some(1), ..tiny(&[Experiment::X1]) };
    let report = run(&options, &mut Silent).expect("the lab runs");
    for (panel, series) in report.experiments[0].series() {
        let place = format!("{} {}", panel.title, series.layout);
        assert!(series.counters_equal, "{place}: {:?}", series.counters.first_mismatch);
        assert_eq!(series.counter_fit.expect("groups").form, series.predicted, "{place}");
    }
}
