//! X10: mailboxes wide and narrow: what it costs to read a user's mail, that of a day, one message; to change
//! a mailbox as a whole; and what the slides' bounds of a scan return.
//!
//! [`mailboxes`] has the mail, generated or from a file, [`forms`] the four ways to lay it out, [`asked`]
//! measures, [`bounds`] tries the slides' text keys, [`findings`] judges and draws.

mod asked;
mod bounds;
mod findings;
mod forms;
mod mailboxes;

use asked::Asked;
use forms::{Form, OpenMail, RealMail};
use mailboxes::Mailboxes;

use super::random;
use super::samples::failed;
use super::weighed::{loaded, without_log};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, Progress, Result, Scale};

/// Messages in one commit while loading.
const BATCH: usize = 500;
/// Messages changed together.
const TOGETHER: usize = 5;

/// How much there is.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Mailboxes, where they are generated.
    mailboxes: u32,
    /// Questions of each kind.
    samples: usize,
}

fn sizes(options: &LabOptions) -> Sizes {
    match options.scale {
        Scale::Tiny => Sizes { mailboxes: 40, samples: 12 },
        Scale::Smoke => Sizes { mailboxes: 2_000, samples: 200 },
        Scale::Desk => Sizes { mailboxes: 100_000, samples: 1_000 },
        Scale::Large => Sizes { mailboxes: 800_000, samples: 2_000 },
    }
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealMail, options, progress)
}

fn run_with<S: Store>(
    store: &S,
    open: &impl OpenMail<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let sizes = sizes(options);
    let mail = Mailboxes::new(&sizes, options)?;
    progress.begin(Experiment::X10, Form::ALL.len() as u64 + 1);
    let mut asked = Asked::new(&sizes, &mail, options);
    let mut order = Form::ALL;
    random(options, &[10, 2]).shuffle(&mut order);
    for form in order {
        let kv = store.open_as(&without_log()).map_err(failed("open a store"))?;
        open.with(&kv, form, &mut |boxes| {
            for batch in mail.arriving().chunks(BATCH) {
                boxes.load(batch).map_err(failed("load the mail"))?;
            }
            Ok(())
        })?;
        let kv = loaded(store, kv)?;
        open.with(&kv, form, &mut |boxes| {
            asked.reads(form, boxes)?;
            asked.changes(form, boxes)
        })?;
        progress.step(form.name());
    }
    let kv = store.open().map_err(failed("open a store"))?;
    let bounds = bounds::tried(&kv, &mail, &sizes, &mut asked.study, options)?;
    progress.step("the slides' bounds");
    Ok(findings::study(&asked, &bounds, options))
}

#[cfg(test)]
mod tests;
