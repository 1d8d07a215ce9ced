//! The file of a log that nobody needs any more, for the next log to be written over (RocksDB's `recycle_log_file_num`).
//!
//! To the system a new file is dear: it looks for pages, clears them, finds them a place on the device, and undoes all of it when
//! the file goes. Of a file that is there it has all that, and a write is a copy: 9 µs for 126 KB where one into reserved
//! space took 20 and the end of the file another 9, here.
//!
//! That pays where groups go to the log by calls: large ones, and those that are synced one by one. Small ones go to memory that
//! another thread has made ready, and puts that came by a schedule waited no less for it, rather longer.
//!
//! A file is kept only where memtables fill up one after another, and only one. When none has filled up for a while, when somebody
//! waits for the tree to settle or asks for a flush, and when the disk is full, its space is given back, and what the log in use
//! has from an older one ([`Core::give_log_space_back`](crate::core::Core)). An open removes what a crash leaves, like
//! any log whose removal it has undone.
//!
//! Order: a log comes here when the manifest has forgotten it, durably. So whatever a power loss leaves of the change of names
//! and of the new header, nothing that counts was in the file ([`LogReader::open_recycled`](esker_wal::LogReader::open_recycled)).

use esker_base::FileNumber;
use esker_base::sync::Mutex;

/// See the module. Its lock is taken last.
#[derive(Debug, Default)]
pub(crate) struct RecycledLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    kept: Option<FileNumber>,
    /// Whether memtables fill up: one is kept then.
    wanted: bool,
    /// Whether one has filled up since the last rest.
    taken: bool,
}

impl RecycledLog {
    /// The log to write over, now that a memtable is full; from now on one is kept.
    pub(crate) fn take(&self) -> Option<FileNumber> {
        let mut state = self.0.lock();
        (state.wanted, state.taken) = (true, true);
        state.kept.take()
    }

    /// Keep log `number`, which the manifest has durably forgotten, if one is wanted; whether it is kept. If not, the caller
    /// removes it.
    pub(crate) fn keep(&self, number: FileNumber) -> bool {
        let mut state = self.0.lock();
        let keeps = state.wanted && state.kept.is_none();
        if keeps {
            state.kept = Some(number);
        }
        keeps
    }

    /// None is wanted from now on; the log that was kept, to be removed.
    pub(crate) fn give_up(&self) -> Option<FileNumber> {
        let mut state = self.0.lock();
        state.wanted = false;
        state.kept.take()
    }

    /// Whether one is wanted, and none was taken since the last call.
    pub(crate) fn rests(&self) -> bool {
        let mut state = self.0.lock();
        let taken = std::mem::take(&mut state.taken);
        state.wanted && !taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: FileNumber = FileNumber(7);

    #[test]
    fn one_is_kept_while_memtables_fill_up() {
        let recycled = RecycledLog::default();
        assert!(!recycled.keep(LOG), "nothing says that there will be another full one");
        assert_eq!(recycled.take(), None);
        assert!(recycled.keep(LOG));
        assert!(!recycled.keep(FileNumber(8)), "one is enough");
        assert_eq!((recycled.take(), recycled.take()), (Some(LOG), None));
        assert!(recycled.keep(LOG));
        assert_eq!((recycled.give_up(), recycled.give_up()), (Some(LOG), None));
        assert!(!recycled.keep(LOG));
    }

    #[test]
    fn it_rests_when_none_has_filled_up_for_a_while() {
        let recycled = RecycledLog::default();
        assert!(!recycled.rests(), "nobody has anything to give back");
        recycled.take();
        assert_eq!((recycled.rests(), recycled.rests()), (false, true));
        recycled.give_up();
        assert!(!recycled.rests());
    }
}
