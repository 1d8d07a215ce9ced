//! Running `esker lab`: the experiments, their tables, and the report's page.

use std::path::PathBuf;

use esker_bench::lab::interest::Interest;
use esker_bench::lab::{self, Experiment, LabError, LabOptions, Report, StoreChoice};

use crate::args::lab::{LabArgs, Scale, Store};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Out, say};
use crate::progress::Bars;

pub(crate) fn run(args: &LabArgs, out: Out<'_>) -> Result<Exit, Failure> {
    Report::probe(&args.report, args.json.as_deref())?;
    let mut kept = Kept { bars: Bars::default(), args, text: String::new(), page: None };
    let ran = lab::run(&options(args), &mut kept);
    // Also after a failure: what was found before it stands.
    let told = tell(&kept, out);
    match (ran, kept.page) {
        (Ok(_), _) => told.map(|()| Exit::Done),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(page)) => {
            let kept = format!("what was found before it is in {}", page.display());
            Err(Failure::from(error).hint(kept))
        }
    }
}

/// Print what was found, and where the page is.
fn tell(kept: &Kept<'_>, out: Out<'_>) -> Result<(), Failure> {
    if kept.text.is_empty() {
        return Ok(());
    }
    say!(out, "{}", kept.text.trim_end())?;
    match &kept.page {
        Some(page) => say!(out, "\nreport: {}", page.display()),
        None => Ok(()),
    }
}

/// Shows progress, and writes the page and the figures after each experiment: what took minutes to measure must
/// be lost neither to the failure of a later one nor to a closed pipe.
struct Kept<'a> {
    bars: Bars,
    args: &'a LabArgs,
    /// What was found so far, for the terminal; empty before the first experiment is done.
    text: String,
    page: Option<PathBuf>,
}

impl lab::Progress for Kept<'_> {
    fn begin(&mut self, experiment: Experiment, steps: u64) {
        lab::Progress::begin(&mut self.bars, experiment, steps);
    }

    fn step(&mut self, what: &str) {
        self.bars.step(what);
    }

    fn end(&mut self) {
        lab::Progress::end(&mut self.bars);
    }

    fn found(&mut self, so_far: &Report) -> lab::Result<()> {
        self.text = so_far.to_text();
        let page = so_far.write_html(&self.args.report).map(|page| self.page = Some(page));
        let figures = self.args.json.as_ref().map_or(Ok(()), |file| so_far.write_json(file));
        page.and(figures)
    }
}

fn options(args: &LabArgs) -> LabOptions {
    let with_data = [
        (args.graph.is_some(), Experiment::X1),
        (args.interest.is_some(), Experiment::X8),
        (args.mail.is_some(), Experiment::X10),
    ];
    let mut experiments = args.experiments.clone();
    if experiments.is_empty() {
        experiments
            .extend(with_data.into_iter().filter_map(|(given, experiment)| given.then_some(experiment)));
    }
    if experiments.is_empty() {
        experiments.extend(Experiment::DEFAULT);
    }
    let scale = match args.scale {
        Scale::Tiny => lab::Scale::Tiny,
        Scale::Smoke => lab::Scale::Smoke,
        Scale::Desk => lab::Scale::Desk,
        Scale::Large => lab::Scale::Large,
    };
    LabOptions {
        seed: args.seed,
        repeat: args.repeat,
        graph: args.graph.clone(),
        mail: args.mail.clone(),
        layouts: args.layouts.clone(),
        interest: args
            .interest
            .clone()
            .map(|file| Interest { file, columns: args.columns.clone().unwrap_or_default() }),
        store: match args.store {
            Store::Engine => StoreChoice::Engine,
            Store::Map => StoreChoice::Map,
            Store::Redb => StoreChoice::Redb,
            Store::Fjall => StoreChoice::Fjall,
        },
        ..LabOptions::new(scale, experiments)
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let exit = if matches!(error, LabError::BadOption(_)) { Exit::Usage } else { Exit::Failed };
        Failure::new(exit, error.to_string())
    }
}
