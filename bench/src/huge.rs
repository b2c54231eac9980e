//! A folder in memory whose files have pages of 2 MiB.
//!
//! With pages of 4 KiB a copy at a random place mostly waits for the tables of its page, each mapping's own: what is
//! measured is whose tables the cache still holds. Memory that is made to be persistent is mapped in 2 MiB.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

/// A tmpfs of huge pages that is mounted nowhere: its files are reached through a descriptor, and it is gone with it,
/// however this process ends.
#[derive(Debug)]
pub struct HugeFolder(OwnedFd);

impl HugeFolder {
    /// One of its own; `None` where the kernel or this process's rights do not give it.
    pub fn new() -> Option<Self> {
        let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
            fsconfig_set_string(&context, "huge", "always")?;
            fsconfig_create(&context)?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        });
        made.ok().map(Self)
    }

    /// Its path in this process.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use ferrite_medium::{MapOptions, Mapped, Memory, Span};

    use super::*;
    use crate::scratch::Scratch;

    /// A report that says 2 MiB of pages that are not is worse than none.
    #[test]
    fn its_files_are_mapped_in_huge_pages() {
        let Some(folder) = HugeFolder::new() else {
            return println!("skipped: no tmpfs of huge pages can be made (root only, and where the kernel has them)");
        };
        let scratch = Scratch::new(&folder.path()).expect("a folder");
        let file = scratch.file("pool", 8 << 20).expect("a file");
        let memory = Mapped::map(file, &MapOptions::default()).expect("mapped");
        memory.populate(Span::new(0, memory.size())).expect("there is memory");
        assert_eq!(memory.page_bytes(), 2 << 20);
    }
}
