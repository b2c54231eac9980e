//! A descriptor that the kernel is about to copy. Another thread may replace it at the same time, even twice: the
//! copy's description is known only if no thread has touched it (LD3).

use std::ffi::c_int;
use std::sync::Arc;

use crate::closing_fd::fd_gate;
use crate::description::Description;
use crate::fd_table;

pub struct CopiedFd {
    fd: c_int,
    /// The changes of its entry before.
    changes: u32,
    it: Option<Arc<Description>>,
}

impl CopiedFd {
    pub fn of(fd: c_int) -> Self {
        let changes = fd_table::changes(fd);
        Self { fd, changes, it: fd_table::held(fd) }
    }

    /// Returns its description, if it has one.
    pub fn it(&self) -> Option<&Arc<Description>> {
        self.it.as_ref()
    }

    /// Returns true if `fd`, which no thread changes, has the same description.
    pub fn is_also(&self, fd: c_int) -> bool {
        match (&self.it, fd_table::held(fd)) {
            (Some(it), Some(other)) => Arc::ptr_eq(it, &other) && !it.is_gate(),
            (None, None) => true,
            _ => false,
        }
    }

    /// Gives the offset to the kernel: the copy's description is unknown, and the copy's offset is the kernel's, so
    /// the offset here must be too. A thread that has replaced `fd` has done that for its file (LD2).
    pub fn surrender_unless_standard(&self) {
        if let Some(it) = self.it().filter(|_| self.is_also(self.fd)) {
            it.surrender_unless_standard(self.fd);
        }
    }

    /// Returns true if the kernel has copied the known description.
    pub fn is_sure(&self) -> bool {
        self.is_also(self.fd) && fd_table::changes(self.fd) == self.changes && !fd_gate::is_any_at(self.fd)
    }
}
