//! The entries of the table that refer to a description.

use std::ffi::c_int;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Description, KERNELS};
use crate::ferrite_mounts::FerriteMount;
use crate::leased_file::LeasedFile;

impl Description {
    /// Returns `count` descriptions by which no call is direct: the kernel has the offset, and the size is queried
    /// before a write (LD7).
    pub fn gates(count: usize) -> Vec<Arc<Self>> {
        let file = Arc::new(LeasedFile::new(Arc::new(FerriteMount::nowhere()), 0, false));
        let gate = || {
            let nothing = Self::new(Arc::clone(&file), libc::O_APPEND);
            Arc::new(Self { at: AtomicU64::new(KERNELS), reads: false, writes: false, ..nothing })
        };
        iter::repeat_with(gate).take(count).collect()
    }

    pub fn is_gate(&self) -> bool {
        !self.reads && !self.writes
    }

    pub fn is_entered(&self) {
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    pub fn is_taken(&self) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns true if no running call holds the description. The caller holds it too, and the entry taken from the
    /// table.
    pub fn is_idle(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) <= self.entries.load(Ordering::Relaxed) + 2
    }

    /// Makes the kernel have the offset at every moment from now on.
    pub fn surrender_unless_standard(&self, fd: c_int) {
        if !self.is_standard() {
            self.surrender(fd);
        }
    }
}
