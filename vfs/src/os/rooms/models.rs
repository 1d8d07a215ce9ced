//! Rooms under loom: whoever lets go last ends the room, after all that the others did with it.

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;

/// A head that everybody looks at, and that its end writes to: loom finds a look that the end does not come after.
struct Head(UnsafeCell<bool>);

impl Head {
    fn look(&self) {
        // SAFETY: nobody writes while there is a handle; that this holds is what the model checks.
        self.0.with(|ended| assert!(!unsafe { *ended }, "ended while it was used"));
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.with_mut(|ended| assert!(!std::mem::replace(unsafe { &mut *ended }, true), "ended twice"));
    }
}

#[test]
fn the_end_comes_after_every_use() {
    loom::model(|| {
        let rooms = Arc::new(Rooms::default());
        let room = Room::new(&rooms, Head(UnsafeCell::new(false)), &[], 8);
        let other = {
            let room = room.clone();
            thread::spawn(move || {
                room.look();
                drop(room);
            })
        };
        room.look();
        drop(room);
        other.join().expect("looks");
    });
}

#[test]
fn who_is_alone_sees_what_was_done_before() {
    loom::model(|| {
        let rooms = Arc::new(Rooms::default());
        let mut room = Room::new(&rooms, UnsafeCell::new(0), &[], 8);
        let other = {
            let room = room.clone();
            thread::spawn(move || {
                // SAFETY: a look, while there is a handle.
                room.with(|value| assert_eq!(unsafe { *value }, 0, "written while it was shared"));
            })
        };
        if let Some((head, bytes)) = room.alone() {
            // SAFETY: nobody else has a handle; that this holds is what the model checks.
            head.with_mut(|value| unsafe { *value = 1 });
            bytes.fill(1);
        }
        other.join().expect("looks");
    });
}
