//! Times that clients note, and how they reach the inode.

use crate::format::inode::Inode;

/// Times of a file that clients noted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotedTimes {
    /// When it was written to last, in nanoseconds since the start of 1970; 0: not noted.
    pub written: u64,
    /// When it was read first since, likewise.
    pub accessed: u64,
}

impl NotedTimes {
    pub(crate) fn is_nothing(self) -> bool {
        (self.written, self.accessed) == (0, 0)
    }

    /// Sets the times of `inode` to the noted ones, at `now`. A time of change in the future, which a program set,
    /// counts as older.
    pub(crate) fn apply(self, inode: &mut Inode, now: i64) {
        let (written, accessed) = (self.written as i64, self.accessed as i64);
        let was_set = written > 0 && inode.head.mtime > now;
        if written > inode.head.mtime || was_set {
            inode.touch(written);
        }
        if accessed > 0 && inode.head.atime <= inode.head.mtime {
            inode.head.atime = accessed.max(inode.head.mtime.saturating_add(1));
        }
    }
}
