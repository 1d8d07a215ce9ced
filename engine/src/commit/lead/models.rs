//! The lead under loom: nobody who has queued is left behind, and never do two lead.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::Lead;

const WRITERS: usize = 3;

/// What the commit queue does with the lead, and nothing else.
#[derive(Default)]
struct Queue {
    lead: Lead,
    queue: Mutex<Vec<usize>>,
    busy: AtomicBool,
    done: [AtomicBool; WRITERS],
}

impl Queue {
    fn commit(&self, writer: usize) {
        if self.lead.begin() {
            self.work(&[writer]);
            if !self.lead.leave() {
                self.lead_others();
            }
            return;
        }
        let mut queue = self.queue.lock().expect("nobody panics");
        queue.push(writer);
        self.lead.add_waiting();
        drop(queue);
        if self.lead.begin() {
            self.lead_others();
        }
    }

    fn lead_others(&self) {
        loop {
            let mut queue = self.queue.lock().expect("nobody panics");
            let followers = std::mem::take(&mut *queue);
            self.lead.take_waiting(followers.len());
            drop(queue);
            self.work(&followers);
            if self.lead.leave() {
                return;
            }
        }
    }

    fn work(&self, writers: &[usize]) {
        assert!(!self.busy.swap(true, Ordering::Relaxed), "one leads");
        for writer in writers {
            assert!(!self.done[*writer].swap(true, Ordering::Relaxed), "each is done once");
        }
        self.busy.store(false, Ordering::Relaxed);
    }
}

#[test]
fn nobody_is_left_behind() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        let others: Vec<_> = (1..WRITERS)
            .map(|writer| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.commit(writer))
            })
            .collect();
        queue.commit(0);
        others.into_iter().for_each(|other| other.join().expect("it holds"));
        assert!(queue.done.iter().all(|done| done.load(Ordering::Relaxed)));
        assert_eq!(queue.lead.waiting(), 0);
        assert!(queue.lead.begin(), "nobody leads any more");
    });
}
