//! Panics that were caught before a suite could see them: one in a job ends with the job, and nobody may miss that.
//!
//! A hook hears of each. It does not hear of those that `resume_unwind` begins, as the suites' own in callbacks do.

use std::sync::Once;
use std::thread::{self, Thread, ThreadId};

use parking_lot::Mutex;

/// All there were in this process, in order: the thread, if it was none of the engine's own, and what was said.
static HEARD: Mutex<Vec<(Option<ThreadId>, String)>> = Mutex::new(Vec::new());

/// Hear of panics from now on. How many there were so far.
pub fn heard() -> usize {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = thread::current();
            let whose = (!is_the_engines(&thread)).then_some(thread.id());
            HEARD.lock().push((whose, panic.to_string()));
            before(panic);
        }));
    });
    HEARD.lock().len()
}

/// What the first panic behind the first `earlier` ones said that was this thread's, on which step mode runs its jobs, or
/// was a thread's of the engine's own.
pub fn heard_since(earlier: usize) -> Option<String> {
    let here = thread::current().id();
    let heard = HEARD.lock();
    let mut later = heard.iter().skip(earlier);
    later.find(|(thread, _)| thread.is_none_or(|thread| thread == here)).map(|(_, what)| what.clone())
}

fn is_the_engines(thread: &Thread) -> bool {
    thread.name().is_some_and(|name| name.starts_with("esker-"))
}
