//! A part of a file of the operating system, mapped to be written.
//!
//! What comes into a shared map reaches the page that `write(2)` would reach, so a kill of the process
//! loses nothing of it, and `fdatasync` finds it. Either the system copies it there ([`Copier`]), and a
//! refusal is an error; or this program stores it, and a refusal is a signal. For this reason, and because
//! a wait for pages is what makes a call long, a range is handed out only where, once its pages are there,
//! nothing more is needed that could be refused:
//! 1. Its space is allocated: the pages are brought in for writing beforehand, and where that fails
//!    (a full disk under a file that could not be reserved) there is no range.
//! 2. Written back and written again, a page stays where it is: not so on filesystems that copy on write,
//!    and nobody knows on those of a network, so only those known to be of the first kind count (`sys`).
//!
//! What is left: a device that dies, another program that cuts the file, and a file that shares its blocks
//! with a copy somebody made of it (XFS) when the disk is full. Where the system copies, `write(2)` is
//! tried then: it succeeds or says why not.

use std::ops::Range;

use esker_base::Result;
use memmap2::{MmapOptions, MmapRaw};

use super::copier::Copier;
use super::{OsFile, sys};
use crate::fs::{File, MappedRange, RangeWrites};

/// See the module.
pub(super) struct OsRange {
    map: MmapRaw,
    range: Range<u64>,
    /// Where the system copies: what does it, and the file.
    called: Option<(Copier, OsFile)>,
}

impl OsRange {
    /// The `len` bytes from `offset` on of `file`, if it has them and they can be had this way.
    pub(super) fn map(file: &OsFile, offset: u64, len: usize, writes: RangeWrites) -> Option<OsRange> {
        let end = offset.checked_add(len as u64)?;
        let fits = file.len().is_ok_and(|file_len| end <= file_len);
        if len == 0 || !fits || !sys::writes_in_place(&file.file) {
            return None;
        }
        let called = match writes {
            RangeWrites::Called => Some((Copier::new()?, file.clone())),
            RangeWrites::Stored => None,
        };
        let map = MmapOptions::new().offset(offset).len(len).map_raw(&*file.file).ok()?;
        // Here instead of at the first store to each page: that would be its writer's time, and the journal
        // may let one wait for tens of milliseconds.
        #[cfg(target_os = "linux")]
        map.advise(memmap2::Advice::PopulateWrite).ok()?;
        Some(OsRange { map, range: offset..end, called })
    }

    #[expect(unsafe_code, reason = "a file's memory is never borrowed: others may change it")]
    fn store(&mut self, bytes: &[u8], at: usize) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.map.len()), "within the range");
        // SAFETY:
        // 1. `at + bytes.len()` is at most the length of the map, which was made for writing.
        // 2. `bytes` is borrowed memory of this process and the map is handed out to nobody, so the two do
        //    not overlap; `&mut self` keeps other stores through this map away.
        // 3. Other maps of the file, and calls that read it, meet these bytes in the system's cache, not as
        //    memory that this program has borrowed.
        // 4. The pages exist (the file was as long when they were brought in); a program that cuts the file
        //    all the same ends this process by a signal, which is not undefined: see the module.
        unsafe { self.map.as_mut_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl MappedRange for OsRange {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let at = offset.checked_sub(self.range.start).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| at.checked_add(bytes.len()).is_some_and(|end| end <= self.map.len()));
        let Some(at) = at else { panic!("a write at {offset} outside of the mapped {:?}", self.range) };
        match &mut self.called {
            None => self.store(bytes, at),
            Some((copier, file)) => {
                if copier.copy(bytes, &self.map, at).is_err() {
                    return file.write_at(bytes, offset);
                }
            }
        }
        Ok(())
    }
}
