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
    let mut kept = Kept { bars: Bars::default(), args, page: None };
    let report = match (lab::run(&options(args), &mut kept), &kept.page) {
        (Ok(report), _) => report,
        (Err(error), None) => return Err(error.into()),
        (Err(error), Some(page)) => {
            let kept = format!("what the experiments before it found is in {}", page.display());
            return Err(Failure::from(error).hint(kept));
        }
    };
    say!(out, "{}", report.to_text().trim_end())?;
    if let Some(page) = kept.page {
        say!(out)?;
        say!(out, "report: {}", page.display())?;
    }
    Ok(Exit::Done)
}

/// Shows progress, and writes the page and the figures after each experiment: what took minutes to measure must
/// be lost neither to the failure of a later one nor to a closed pipe.
struct Kept<'a> {
    bars: Bars,
    args: &'a LabArgs,
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
        self.page = Some(so_far.write_html(&self.args.report)?);
        self.args.json.as_ref().map_or(Ok(()), |file| so_far.write_json(file))
    }
}

fn options(args: &LabArgs) -> LabOptions {
    let experiments = match (args.experiments.as_slice(), &args.graph, &args.interest, &args.mail) {
        ([], Some(_), None, None) => &[Experiment::X1],
        ([], None, Some(_), None) => &[Experiment::X8],
        ([], None, None, Some(_)) => &[Experiment::X10],
        ([], ..) => Experiment::DEFAULT.as_slice(),
        (named, ..) => named,
    };
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
        ..LabOptions::new(scale, experiments.to_vec())
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let exit = if matches!(error, LabError::BadOption(_)) { Exit::Usage } else { Exit::Failed };
        Failure::new(exit, error.to_string())
    }
}
