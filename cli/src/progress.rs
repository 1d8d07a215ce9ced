//! Progress bars on standard error, where somebody is looking at it.

use std::io::IsTerminal as _;
use std::time::Duration;

use esker_bench::{lab, workload};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// A bar for the phase under way; if standard error is no terminal, a line for each of the lab's experiments.
#[derive(Default)]
pub(crate) struct Bars {
    bar: Option<ProgressBar>,
}

impl Bars {
    fn show(&mut self, what: &str, total: u64) {
        let (bar, template) = if total == 0 {
            (ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}")
        } else {
            (
                ProgressBar::new(total),
                "{msg:<10} {bar:40} {percent:>3} %  {human_pos}/{human_len}  {per_sec}  {eta} left",
            )
        };
        let style = ProgressStyle::with_template(template).expect("the templates above are well formed");
        bar.set_style(style.progress_chars("━╸─"));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl workload::Progress for Bars {
    fn begin(&mut self, what: &str, total: u64) {
        self.clear();
        self.show(what, total);
    }

    fn at(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    fn end(&mut self) {
        self.clear();
    }
}

impl lab::Progress for Bars {
    fn begin(&mut self, experiment: lab::Experiment, steps: u64) {
        self.clear();
        if !std::io::stderr().is_terminal() {
            note!("{experiment}: {steps} steps");
        }
        self.show(&experiment.to_string(), steps);
    }

    fn step(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.inc(1);
        }
    }

    fn end(&mut self) {
        self.clear();
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}
