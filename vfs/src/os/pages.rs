//! Memory from the system for what is large and soon gone again.
//!
//! It does not come from the program's allocator, which may keep what is given back: glibc's serves such
//! memory from a heap for each thread, of which only the end goes back to the system (`mallopt(3)`,
//! `M_TRIM_THRESHOLD`). What a job needs for a moment would then be held for as long as the program runs,
//! one job's worth by each thread.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use memmap2::MmapMut;

/// Bytes that nobody else has, zero until they are written to. They stay where they are when this is moved. Each page is memory
/// only once it is touched, and all go back to the system with this.
#[derive(Debug)]
pub struct Pages(Memory);

#[derive(Debug)]
enum Memory {
    System(MmapMut),
    Program(Vec<u8>),
}

impl Pages {
    /// `bytes` of them (not 0). Where the system has no more mappings to give, and under Miri, as regions do, they come from the
    /// program's allocator.
    ///
    /// ```
    /// use esker_vfs::os::pages::Pages;
    ///
    /// let mut pages = Pages::new(1 << 20);
    /// pages[12] = 7;
    /// assert_eq!((pages.len(), pages[11], pages[12]), (1 << 20, 0, 7));
    /// ```
    pub fn new(bytes: usize) -> Pages {
        if cfg!(miri) {
            return Pages::of_program(bytes);
        }
        let mapped = MmapMut::map_anon(bytes);
        mapped.map_or_else(|_refused| Pages::of_program(bytes), |map| Pages(Memory::System(map)))
    }

    /// The same from the program's allocator, for what comes and goes often: to unmap memory takes a call, and other processors have to
    /// forget its addresses.
    pub fn of_program(bytes: usize) -> Pages {
        Pages(Memory::Program(vec![0; bytes]))
    }

    /// Where they start. For one who hands out parts of them.
    pub fn start(&mut self) -> NonNull<u8> {
        NonNull::from(&mut **self).cast()
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::System(map) => map,
            Memory::Program(bytes) => bytes,
        }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::System(map) => map,
            Memory::Program(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
