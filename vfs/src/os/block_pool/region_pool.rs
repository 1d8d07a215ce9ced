//! Where regions come from, and on which pages they lie.
//!
//! An access that misses the processor's caches waits for the translation of its address too, unless one
//! entry covers 2 MiB: regions are to lie on huge pages. Bringing in a huge page takes 0.1 ms, and 5 ms in
//! a virtual machine whose memory is found on first use; small pages instead take 512 page faults. So while
//! the pool grows a job brings regions in ahead, in proportion to those in use. Where it does not keep up,
//! a region is filled page by page, and the job has a huge page put in the place of the small ones once the
//! pool no longer grows: that copies, for which others wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use esker_base::sync::Mutex;

use crate::os::memory::make_huge_page;
use crate::os::region::Region;
use crate::scheduler::{Job, Lane, Progress, Scheduler};

/// The most regions that are ready at once. Filling one takes a quarter of a millisecond at least.
const READY_MAX: usize = 8;

/// For each this many regions in use, one is kept ready; so a small cache stays small.
const IN_USE_FOR_READY: usize = 4;

/// How often the job looks whether the pool has grown.
const LOOK: Duration = Duration::from_millis(2);

/// How long the job rests after it has put a huge page in the place of small ones: twice as long as that takes at worst, since
/// page faults wait for it meanwhile.
const REST: Duration = Duration::from_millis(10);

/// How many more rests it takes while all processors are busy, as they are with readers of a full cache. To
/// lower the priority of its thread instead would not do: the thread could be preempted while page faults
/// wait for it.
const RESTS_WHILE_BUSY: u32 = 9;

/// Ready regions go back to the system when none was taken for this long.
const KEPT: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct RegionPool {
    state: Mutex<State>,
    /// Runs the job, if there is one.
    scheduler: OnceLock<Arc<dyn Scheduler>>,
}

#[derive(Default)]
struct State {
    /// Regions on huge pages that nobody uses yet.
    ready: Vec<Region>,
    /// The addresses of the regions in use that lie on small pages, the newest at the end.
    small: VecDeque<usize>,
    in_use: usize,
    /// How many regions were taken.
    takes: u64,
    /// Whether a job is at work.
    tended: bool,
    /// Whether a job waits to give back what nobody takes.
    waits: bool,
}

impl State {
    fn wants_ready(&self) -> bool {
        self.ready.len() < READY_MAX.min(self.in_use / IN_USE_FOR_READY)
    }

    /// Whether a region is full of small pages. The last one is being filled.
    fn has_small(&self) -> bool {
        self.small.len() > 1
    }

    /// The oldest region that is full of small pages.
    fn next_small(&mut self) -> Option<usize> {
        if self.has_small() { self.small.pop_front() } else { None }
    }
}

impl fmt::Debug for RegionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionPool").finish_non_exhaustive()
    }
}

impl RegionPool {
    /// Have jobs of `scheduler` bring regions in from now on. Only the first call counts.
    pub(super) fn grow_by(&self, scheduler: Arc<dyn Scheduler>) {
        let _first = self.scheduler.set(scheduler);
    }

    /// A region; `None` if the system has no memory to give.
    pub(super) fn take(self: &Arc<Self>) -> Option<Region> {
        let mut state = self.state.lock();
        state.takes += 1;
        let region = if let Some(ready) = state.ready.pop() {
            ready
        } else {
            let mapped = Region::map()?;
            state.small.push_back(mapped.start().addr().get());
            mapped
        };
        state.in_use += 1;
        let wanted = state.wants_ready() || state.has_small();
        if wanted
            && !state.tended
            && let Some(scheduler) = self.scheduler.get()
        {
            state.tended = true;
            drop(state);
            scheduler.spawn(
                Lane::Upkeep,
                Box::new(Tend { pool: Arc::downgrade(self), seen: 0, rests: 0, waits: false }),
            );
        }
        Some(region)
    }

    /// Take `region` back, which nobody uses any more.
    pub(super) fn give(&self, region: Region) {
        let address = region.start().addr().get();
        let mut state = self.state.lock();
        state.small.retain(|small| *small != address);
        state.in_use -= 1;
        drop(state);
        drop(region);
    }

    /// Whether no processor is left for this job.
    fn is_busy(&self) -> bool {
        self.scheduler.get().is_some_and(|scheduler| !scheduler.spared_a_processor())
    }

    fn end_tending(&self) -> Progress {
        self.state.lock().tended = false;
        Progress::Done
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn ready_and_small(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.ready.len(), state.small.len())
    }
}

/// Brings regions in, and puts huge pages under those in use, until that is done; then gives back what nobody takes.
struct Tend {
    pool: Weak<RegionPool>,
    /// How many regions had been taken when it looked.
    seen: u64,
    /// How many rests it has taken because all processors were busy.
    rests: u32,
    /// Whether all is done but for giving back.
    waits: bool,
}

impl Job for Tend {
    fn name(&self) -> &'static str {
        "memory for the cache"
    }

    fn step(&mut self) -> Progress {
        let Some(pool) = self.pool.upgrade() else { return Progress::Done };
        let mut state = pool.state.lock();
        if self.waits {
            if self.sees_growth(state.takes) || state.tended {
                return Progress::After(KEPT);
            }
            state.waits = false;
            let unused = std::mem::take(&mut state.ready);
            drop(state);
            drop(unused);
            return Progress::Done;
        }
        if state.wants_ready() {
            drop(state);
            let Some(region) = Region::brought_in() else { return pool.end_tending() };
            pool.state.lock().ready.push(region);
            return Progress::More;
        }
        if self.sees_growth(state.takes) {
            return Progress::After(LOOK);
        }
        if state.has_small() && self.rests < RESTS_WHILE_BUSY && pool.is_busy() {
            self.rests += 1;
            return Progress::After(REST);
        }
        self.rests = 0;
        let Some(small) = state.next_small() else {
            // Should the pool grow meanwhile, another job comes, and this one waits on.
            state.tended = false;
            self.waits = !std::mem::replace(&mut state.waits, true);
            return if self.waits { Progress::After(KEPT) } else { Progress::Done };
        };
        drop(state);
        // A huge page that is brought in here and given back is at hand for the call below: page faults
        // then wait only for the copy.
        drop(Region::brought_in());
        // Should the region be gone by now, this does no harm: whatever is mapped there keeps its bytes.
        make_huge_page(small);
        Progress::After(REST)
    }

    /// After a panic readers do without the job; a region that is taken later starts another one.
    fn panicked(&mut self, _message: &str) {
        if let Some(pool) = self.pool.upgrade() {
            pool.end_tending();
        }
    }
}

impl Tend {
    /// Whether any region was taken since this was last asked.
    fn sees_growth(&mut self, takes: u64) -> bool {
        std::mem::replace(&mut self.seen, takes) != takes
    }
}
