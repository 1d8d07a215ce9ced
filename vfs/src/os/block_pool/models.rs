//! `ThinArc` under loom: the last handle to go ends what it points to, after all that was done with the others.

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;

/// A header that everybody looks at, and that its end writes to: loom finds a look that the end does not come after.
struct Header(UnsafeCell<bool>);

impl Header {
    fn look(&self) {
        // SAFETY: nobody writes while there is a handle; that this holds is what the model checks.
        self.0.with(|ended| assert!(!unsafe { *ended }, "ended while it was used"));
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.with_mut(|ended| assert!(!std::mem::replace(unsafe { &mut *ended }, true), "ended twice"));
    }
}

#[test]
fn the_end_comes_after_every_use() {
    loom::model(|| {
        let pool = Arc::new(BlockPool::default());
        let block = ThinArc::new(&pool, Header(UnsafeCell::new(false)), &[], 8);
        let other = {
            let block = block.clone();
            thread::spawn(move || {
                block.look();
                drop(block);
            })
        };
        block.look();
        drop(block);
        other.join().expect("looks");
    });
}

#[test]
fn who_is_alone_sees_what_was_done_before() {
    loom::model(|| {
        let pool = Arc::new(BlockPool::default());
        let mut block = ThinArc::new(&pool, UnsafeCell::new(0), &[], 8);
        let other = {
            let block = block.clone();
            thread::spawn(move || {
                // SAFETY: a look, while there is a handle.
                block.with(|value| assert_eq!(unsafe { *value }, 0, "written while it was shared"));
            })
        };
        if let Some((header, bytes)) = block.get_mut() {
            // SAFETY: nobody else has a handle; that this holds is what the model checks.
            header.with_mut(|value| unsafe { *value = 1 });
            bytes.fill(1);
        }
        other.join().expect("looks");
    });
}
