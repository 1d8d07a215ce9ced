//! Running `esker lab`: the experiments, their tables, and the report's page.

use esker_bench::lab::interest::Interest;
use esker_bench::lab::{self, Experiment, LabError, LabOptions, StoreChoice};

use crate::args::lab::{LabArgs, Scale, Store};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Out, say};
use crate::progress::Bars;

pub(crate) fn run(args: &LabArgs, out: Out<'_>) -> Result<Exit, Failure> {
    let report = lab::run(&options(args), &mut Bars::default())?;
    // The page first: what took minutes to measure must not be lost to a closed pipe.
    let page = report.write_html(&args.report)?;
    if let Some(file) = &args.json {
        report.write_json(file)?;
    }
    say!(out, "{}", report.to_text().trim_end())?;
    say!(out)?;
    say!(out, "report: {}", page.display())?;
    Ok(Exit::Done)
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
