//! The file of a log that nobody needs any more, for the next log to be written over.
//!
//! To the system a new file is dear: it looks for pages, clears them, finds them a place on the device, and undoes all of it when
//! the file goes. Of a file that is there it has all that, and a write is a copy: 9 µs for 126 KB where one into reserved
//! space took 20 and the end of the file another 9, here.
//!
//! A file is kept only where memtables fill up one after another, and only one: at rest, when somebody asks for a flush or the
//! disk is full, its space is given back. An open removes what a crash leaves, like any log whose removal it has undone.
//!
//! Order: a log comes here when the manifest has forgotten it, durably. So whatever a power loss leaves of the change of names
//! and of the new header, nothing that counts was in the file ([`LogReader::open_reused`](esker_wal::LogReader::open_reused)).

use esker_base::FileNumber;
use esker_base::sync::Mutex;

/// See the module. Its lock is taken last.
#[derive(Debug, Default)]
pub(crate) struct SpareLog(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// No memtable has filled up lately.
    #[default]
    Unwanted,
    Wanted,
    Kept {
        number: FileNumber,
        /// Whether it was here at the last rest.
        rested: bool,
    },
}

impl SpareLog {
    /// The log to write over, now that a memtable is full; from now on one is kept.
    pub(crate) fn take(&self) -> Option<FileNumber> {
        std::mem::replace(&mut *self.0.lock(), State::Wanted).kept()
    }

    /// None is wanted from now on; the log that was kept, to be removed.
    pub(crate) fn give_up(&self) -> Option<FileNumber> {
        std::mem::take(&mut *self.0.lock()).kept()
    }

    /// Keep log `number`, which the manifest has durably forgotten, if one is wanted; whether it is kept. If not, the caller
    /// removes it.
    pub(crate) fn keep(&self, number: FileNumber) -> bool {
        let mut state = self.0.lock();
        let wanted = matches!(*state, State::Wanted);
        if wanted {
            *state = State::Kept { number, rested: false };
        }
        wanted
    }

    /// The log that was here at the last call already, to be removed.
    pub(crate) fn rest(&self) -> Option<FileNumber> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Kept { rested: rested @ false, .. } => *rested = true,
            State::Kept { number, .. } => {
                let number = *number;
                *state = State::Wanted;
                return Some(number);
            }
            State::Unwanted | State::Wanted => {}
        }
        None
    }
}

impl State {
    fn kept(self) -> Option<FileNumber> {
        match self {
            State::Kept { number, .. } => Some(number),
            State::Unwanted | State::Wanted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: FileNumber = FileNumber(7);

    #[test]
    fn one_is_kept_once_a_memtable_was_full() {
        let spare = SpareLog::default();
        assert!(!spare.keep(LOG), "nothing says that there will be another full one");
        assert_eq!(spare.take(), None);
        assert!(spare.keep(LOG));
        assert!(!spare.keep(FileNumber(8)), "one is enough");
        assert_eq!((spare.take(), spare.take()), (Some(LOG), None));
    }

    #[test]
    fn what_is_given_up_or_rests_is_to_be_removed() {
        let spare = SpareLog::default();
        spare.take();
        assert!(spare.keep(LOG));
        assert_eq!((spare.rest(), spare.rest(), spare.rest()), (None, Some(LOG), None));
        assert!(spare.keep(LOG), "after a rest one is still wanted");
        assert_eq!((spare.give_up(), spare.give_up()), (Some(LOG), None));
        assert!(!spare.keep(LOG));
    }
}
