//! Real filesystems of a test's own, mounted where the system lets it (that takes root).

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::driver::Violation;

/// Say that `suite` does not run here, on the standard error itself: a test's output is shown only if it fails.
pub fn say_skipped(suite: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "{suite}: SKIPPED, this machine does not let it: {why}");
}

/// A filesystem that is mounted; dropping it takes it away.
pub struct Mount {
    dir: PathBuf,
}

/// Run a program to its end; what it says if it fails.
fn run(program: &str, arguments: &[&str]) -> Result<(), Violation> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Mount {
    /// A filesystem in memory of `bytes` bytes, at `dir`, which is there.
    pub fn memory(dir: &Path, bytes: u64) -> Result<Mount, Violation> {
        run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs", &text(dir)])?;
        Ok(Mount { dir: dir.to_owned() })
    }

    /// The ext4 filesystem in the file `image`, at `dir`.
    pub fn image(dir: &Path, image: &Path) -> Result<Mount, Violation> {
        run("mount", &["-o", "loop", &text(image), &text(dir)])?;
        Ok(Mount { dir: dir.to_owned() })
    }

    /// What is at `dir`, at `dir` once more, for reading only.
    pub fn read_only(dir: &Path) -> Result<Mount, Violation> {
        run("mount", &["--bind", &text(dir), &text(dir)])?;
        let mount = Mount { dir: dir.to_owned() };
        run("mount", &["-o", "remount,bind,ro", &text(dir)])?;
        Ok(mount)
    }

    /// Let a filesystem in memory have `bytes` bytes from now on.
    pub fn resize(&self, bytes: u64) -> Result<(), Violation> {
        run("mount", &["-o", &format!("remount,size={bytes}"), &text(&self.dir)])
    }

    /// Take it away, and say whether that went well. A process that another thread has just begun has copies of open files
    /// until it becomes its program, and the system may have those of a loop device: they are given twenty seconds.
    #[expect(clippy::disallowed_methods, reason = "a real system takes real time")]
    pub fn unmount(self) -> Result<(), Violation> {
        let mut gone = run("umount", &[&text(&self.dir)]);
        for _again in 0..400 {
            if gone.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            gone = run("umount", &[&text(&self.dir)]);
        }
        std::mem::forget(self);
        gone
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Whoever wants to know calls `unmount`. Files that are still open keep it, unseen, for a while.
        let _ = run("umount", &["-l", &text(&self.dir)]);
    }
}

/// Make the file `image`, `bytes` long and empty but for an ext4 filesystem.
#[expect(clippy::disallowed_types, reason = "a file of the test's own, under no engine")]
pub fn make_ext4(image: &Path, bytes: u64) -> Result<(), Violation> {
    let file = std::fs::File::create(image).map_err(|e| e.to_string())?;
    file.set_len(bytes).map_err(|e| e.to_string())?;
    run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=1,nodiscard", &text(image)])
}

/// Cut the power of the filesystem at `dir`: what was not synced is lost, and every call fails from now on.
/// `before` is called right before.
///
/// A sync under way at that moment may still say Ok and be lost: whoever has lost power hears no more.
pub fn cut_power(dir: &Path, before: impl FnOnce()) -> Result<(), Violation> {
    // EXT4_IOC_SHUTDOWN, without a flush of the journal.
    const SHUTDOWN: &str = "import fcntl,os,struct,sys; fd=os.open(sys.argv[1], os.O_RDONLY); \
                            print('ready', flush=True); sys.stdin.readline(); \
                            fcntl.ioctl(fd, 0x8004587D, struct.pack('I', 2))";
    let mut command = Command::new("python3");
    command.args(["-c", SHUTDOWN, &text(dir)]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut helper = command.spawn().map_err(|e| format!("python3: {e}"))?;
    let (Some(mut go), Some(out)) = (helper.stdin.take(), helper.stdout.take()) else {
        return Err("the helper has no input or output".to_owned());
    };
    BufReader::new(out).read_line(&mut String::new()).map_err(|e| e.to_string())?;
    before();
    go.write_all(b"go\n").map_err(|e| format!("python3: {e}"))?;
    drop(go);
    let status = helper.wait().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err("the shutdown call failed".to_owned()) }
}

/// Why this machine cannot run what needs mounts, loop devices or the shutdown call, if it cannot.
pub fn unavailable() -> Option<String> {
    let try_it = || -> Result<(), Violation> {
        let work = tempfile::tempdir().map_err(|e| e.to_string())?;
        let (memory, inner) = (work.path().join("memory"), work.path().join("inner"));
        for dir in [&memory, &inner] {
            make_dir(dir)?;
        }
        let _mounted = Mount::memory(&memory, 64 << 20)?;
        let image = memory.join("image");
        make_ext4(&image, 16 << 20)?;
        let mounted = Mount::image(&inner, &image)?;
        cut_power(&inner, || {})?;
        mounted.unmount()
    };
    try_it().err()
}

/// Why this machine cannot mount filesystems in memory, if it cannot.
pub fn no_memory_mounts() -> Option<String> {
    let try_it = || -> Result<(), Violation> {
        let work = tempfile::tempdir().map_err(|e| e.to_string())?;
        let dir = work.path().join("memory");
        make_dir(&dir)?;
        Mount::memory(&dir, 1 << 20)?.unmount()
    };
    try_it().err()
}

/// Make the directory `dir`.
#[expect(clippy::disallowed_methods, reason = "a directory of the test's own, under no engine")]
pub fn make_dir(dir: &Path) -> Result<(), Violation> {
    std::fs::create_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))
}
