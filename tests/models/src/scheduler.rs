//! The scheduler as the memtable's spare memory sees it. No model has jobs run.

/// As the engine's.
pub enum Lane {
    /// Merging tables.
    Compaction,
}

/// As the engine's.
pub enum Progress {
    /// There is more to do.
    More,
    /// The job is finished.
    Done,
}

/// As the engine's.
pub trait Job: Send {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Do a bounded piece of it.
    fn step(&mut self) -> Progress;
    /// `step` panicked.
    fn panicked(&mut self, message: &str);
}

/// As the engine's.
pub trait Scheduler: Send + Sync {
    /// Take over `job`.
    fn spawn(&self, lane: Lane, job: Box<dyn Job>);
}
