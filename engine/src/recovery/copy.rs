//! A copy of a log, made by a thread of its own while the log is read.
//!
//! It follows the reader: what that has found whole is copied, a piece at a time. Whoever wants the copy finishes it
//! himself, whatever the other thread has come to, and so no more than the rest is left to do when all logs have been
//! read. A copy that nobody wants is removed.
//!
//! Lock: a copy's own, held while a piece is copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use esker_base::filename::FileName;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{FileNumber, Result};
use esker_vfs::Env;
use esker_vfs::fs::{File, Fs, read_exact_at};
use esker_vfs::scheduler::{Job, Lane, Progress};

/// Bytes that are copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// For so long the thread waits where it has come up with the reader.
const PAUSE: Duration = Duration::from_micros(500);

/// A copy under way, under a temporary name.
pub(super) struct LogCopy {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    temporary: PathBuf,
    pieces: Arc<Pieces>,
}

struct Pieces {
    from: Arc<dyn File>,
    to: Arc<dyn File>,
    /// Up to where the reader has found the log whole, in bytes.
    whole: AtomicU64,
    done: Mutex<Done>,
}

struct Done {
    /// Bytes copied.
    at: u64,
    /// Whether the thread has nothing more to do.
    ended: bool,
}

impl LogCopy {
    /// Begin to copy log `number` in `dir`.
    pub(super) fn begin(env: &Env, dir: &Path, number: FileNumber) -> Result<LogCopy> {
        let path = dir.join(FileName::Log(number).to_string());
        let temporary = dir.join(FileName::Temporary(number).to_string());
        match env.fs.remove(&temporary) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let (from, to) = (env.fs.open(&path)?, env.fs.create(&temporary)?);
        let done = Mutex::new(Done { at: 0, ended: false });
        let pieces = Arc::new(Pieces { from, to, whole: AtomicU64::new(0), done });
        env.scheduler.spawn(Lane::Flush, Box::new(Follow { pieces: Arc::clone(&pieces) }));
        Ok(LogCopy { fs: Arc::clone(&env.fs), path, temporary, pieces })
    }

    /// The log is whole up to `end`.
    #[inline]
    pub(super) fn follow(&self, end: u64) {
        self.pieces.whole.store(end, Ordering::Relaxed);
    }

    /// Copy what is left of the first `len` bytes, and have the copy take the log's place, durably once the directory is synced.
    pub(super) fn finish(self, len: u64) -> Result<()> {
        let mut done = self.pieces.done.lock();
        done.ended = true;
        while self.pieces.copy(&mut done, len)? {}
        drop(done);
        self.pieces.to.sync()?;
        self.fs.rename(&self.temporary, &self.path)
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        self.pieces.done.lock().ended = true;
        // Best effort, and in vain if it was renamed: the next open removes it.
        let _ = self.fs.remove(&self.temporary);
    }
}

impl Pieces {
    /// Copy the next piece of what lies before `end`; whether there was any.
    fn copy(&self, done: &mut Done, end: u64) -> Result<bool> {
        let len = end.saturating_sub(done.at).min(PIECE_BYTES);
        if len == 0 {
            return Ok(false);
        }
        copy_piece(&*self.from, &*self.to, done.at, len)?;
        done.at += len;
        Ok(true)
    }
}

/// Copy `len` bytes at `offset` of `from` to the same place in `to`.
fn copy_piece(from: &dyn File, to: &dyn File, offset: u64, len: u64) -> Result<()> {
    to.write_at(&read_exact_at(from, offset, usize::try_from(len).unwrap_or(usize::MAX))?, offset)?;
    to.start_writeback(offset, len);
    Ok(())
}

/// Write `range` of `file` once more in its place.
pub(super) fn rewrite(file: &dyn File, range: std::ops::Range<u64>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(PIECE_BYTES);
        copy_piece(file, file, at, len)?;
        at += len;
    }
    Ok(())
}

/// The thread that follows the reader.
struct Follow {
    pieces: Arc<Pieces>,
}

impl Job for Follow {
    fn name(&self) -> &'static str {
        "copy of a log"
    }

    fn step(&mut self) -> Progress {
        let mut done = self.pieces.done.lock();
        if done.ended {
            return Progress::Done;
        }
        let whole = self.pieces.whole.load(Ordering::Relaxed);
        // Whole pieces: what is left is for `finish`, which also hears of what fails here when it tries again.
        match self.pieces.copy(&mut done, whole - whole % PIECE_BYTES) {
            Ok(true) => Progress::More,
            Ok(false) => Progress::After(PAUSE),
            Err(_) => Progress::Done,
        }
    }

    /// `finish` does what is left.
    fn panicked(&mut self, _message: &str) {}
}
