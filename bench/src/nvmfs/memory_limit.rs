//! A limit on the page cache of a load: a memory cgroup that its programs run in.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::scratch::of_killed;
use crate::{Error, Result};

/// The folder of the memory controller, and the file of a group's limit, in versions 1 and 2.
const CONTROLLERS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
const PREFIX: &str = "ferrite-bench-";
/// Memory that the programs of a load need for themselves.
const OWN_BYTES: u64 = 8 << 20;
/// A script that moves its shell to a group and becomes the program behind it.
const ENTER: &str = r#"echo $$ > "$0"; exec "$@""#;

/// A memory cgroup.
#[derive(Debug)]
pub struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// A group whose programs cache `bytes`. Returns `None` if this user may not make a group.
    pub fn new(bytes: u64) -> Result<Option<Self>> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        for (root, limit) in CONTROLLERS.map(|(root, limit)| (Path::new(root), limit)) {
            of_killed(root, PREFIX).for_each(|group| drop(fs::remove_dir(group)));
            let group = root.join(format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let made = Self(group);
            let file = made.0.join(limit);
            if file.exists() {
                let written = fs::write(&file, (bytes + OWN_BYTES).to_string());
                return written
                    .map(|()| Some(made))
                    .map_err(Error::io(format!("limiting memory by {}", file.display())));
            }
        }
        Ok(None)
    }

    /// A command that runs `program` in the group; arguments are added behind it.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("sh");
        command.args(["-ec", ENTER]).arg(self.0.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // If this fails, the next experiment tries again.
        let _ = fs::remove_dir(&self.0);
    }
}
