//! A memory control group: a cap on what processes use, the page cache of the files that they read and
//! write included. Both forms are known: a hierarchy of the memory controller's own (version 1) and the
//! unified one (version 2).

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::Result;

/// Where the system mounts the hierarchies.
const MOUNT: &str = "/sys/fs/cgroup";
/// What to do without one.
const HINT: &str = "a workload under a memory cap needs the right to make one (run it as root) \
     and the memory controller: \
     mounted at /sys/fs/cgroup/memory, or named in /sys/fs/cgroup/cgroup.subtree_control";

/// Names of the files of one version.
struct Files {
    limit: &'static str,
    /// Memory and swap, as the system counts them: the cap is to hold without swap.
    swap: &'static str,
    peak: &'static str,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
};
const VERSION_2: Files = Files { limit: "memory.max", swap: "memory.swap.max", peak: "memory.peak" };

/// A group, which goes when its maker drops it.
pub(crate) struct ControlGroup {
    dir: PathBuf,
    files: &'static Files,
    made_here: bool,
}

impl ControlGroup {
    /// Make the group `name` with a cap of `bytes`.
    ///
    /// # Errors
    /// What could not be done, where, and what would help.
    pub(crate) fn make(name: &str, bytes: u64) -> Result<ControlGroup> {
        let mut group = ControlGroup::named(name)?;
        fs::create_dir(&group.dir).map_err(|error| failed("make the group", &group.dir, &error))?;
        group.made_here = true;
        group.write(group.files.limit, bytes)?;
        // A system without swap has no such file, and needs none.
        let swap = if group.files.limit == VERSION_1.limit { bytes } else { 0 };
        let _ = fs::write(group.dir.join(group.files.swap), swap.to_string());
        // The system rounds to pages.
        let limit = group.read(group.files.limit)?;
        if limit.abs_diff(bytes) >= 1 << 16 {
            return Err(format!("the cap of {} is {limit} bytes, not {bytes}", group.dir.display()).into());
        }
        Ok(group)
    }

    /// The group `name`, which another process made.
    pub(crate) fn named(name: &str) -> Result<ControlGroup> {
        let mount = Path::new(MOUNT);
        let own = mount.join("memory");
        let unified = fs::read_to_string(mount.join("cgroup.subtree_control")).unwrap_or_default();
        let (parent, files) = if own.join(VERSION_1.limit).exists() {
            (own, &VERSION_1)
        } else if unified.split_whitespace().any(|controller| controller == "memory") {
            (mount.to_path_buf(), &VERSION_2)
        } else {
            return Err(format!("there is no memory controller under {MOUNT}: {HINT}").into());
        };
        Ok(ControlGroup { dir: parent.join(name), files, made_here: false })
    }

    /// Move this process into the group. What it has in memory already stays charged to the group it was
    /// in: join before anything is opened.
    pub(crate) fn join(&self) -> Result<()> {
        self.write("cgroup.procs", u64::from(std::process::id()))
    }

    /// The most memory that was ever charged to the group, in bytes. A group whose processes read more
    /// than it may hold fills up with page cache: then this is the cap.
    pub(crate) fn peak(&self) -> Result<u64> {
        self.read(self.files.peak)
    }

    fn write(&self, file: &str, number: u64) -> Result<()> {
        let path = self.dir.join(file);
        Ok(fs::write(&path, number.to_string()).map_err(|error| failed("write", &path, &error))?)
    }

    fn read(&self, file: &str) -> Result<u64> {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
        Ok(text.trim().parse()?)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if self.made_here
            && let Err(error) = fs::remove_dir(&self.dir)
        {
            eprintln!("peers: {}", failed("remove the group", &self.dir, &error));
        }
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}; {HINT}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_and_goes_or_the_message_helps() {
        match ControlGroup::make(&format!("esker-peers-test-{}", std::process::id()), 64 << 20) {
            Ok(group) => {
                let dir = group.dir.clone();
                assert!(dir.exists());
                drop(group);
                assert!(!dir.exists());
            }
            Err(error) => assert!(error.to_string().contains("/sys/fs/cgroup"), "{error}"),
        }
    }
}
