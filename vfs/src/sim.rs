//! A simulated world: files on a [`MemFs`], work in [`Steps`], time on a [`SimClock`].

use std::sync::Arc;

use crate::Env;
use crate::clock::SimClock;
use crate::fs::Fs;
use crate::mem::MemFs;
use crate::scheduler::steps::Steps;

/// The parts of a simulated world, for the test, lesson or benchmark that drives it.
#[derive(Clone)]
pub struct Simulation {
    /// The disk, with its trace and crash points.
    pub disk: MemFs,
    /// The scheduler, with its trace.
    pub steps: Arc<Steps>,
    /// The clock; the scheduler moves it.
    pub clock: Arc<SimClock>,
}

impl Simulation {
    /// An empty disk, and a scheduler and clock that follow from `seed`.
    ///
    /// ```
    /// use esker_vfs::sim::Simulation;
    /// let world = Simulation::new(7);
    /// let env = world.env();
    /// assert!(env.fs.list("/".as_ref())?.is_empty());
    /// # Ok::<(), esker_base::Error>(())
    /// ```
    pub fn new(seed: u64) -> Simulation {
        Self::on(MemFs::simulated(), seed)
    }

    /// A world on `disk`, which may be what a crash left of another.
    pub fn on(disk: MemFs, seed: u64) -> Simulation {
        let steps = Arc::new(Steps::new(seed));
        let clock = steps.clock();
        Simulation { disk, steps, clock }
    }

    /// The world as a database sees it.
    pub fn env(&self) -> Env {
        self.env_over(Arc::new(self.disk.clone()))
    }

    /// The world as a database sees it, its files through `fs` (which injects faults, say).
    pub fn env_over(&self, fs: Arc<dyn Fs>) -> Env {
        Env { fs, clock: self.clock.clone(), scheduler: self.steps.clone() }
    }
}
