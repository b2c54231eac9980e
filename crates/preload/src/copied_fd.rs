//! A descriptor that the kernel is about to copy. Another thread may replace it meanwhile, and by something else again: so
//! what the copy stands for is known only where nobody has touched it (LD3).

use std::ffi::c_int;
use std::sync::Arc;

use crate::closing_fd::fd_gate;
use crate::description::Description;
use crate::fd_table;

pub struct CopiedFd {
    fd: c_int,
    /// How often its entry had changed before.
    changes: u32,
    it: Option<Arc<Description>>,
}

impl CopiedFd {
    pub fn of(fd: c_int) -> Self {
        let changes = fd_table::changes(fd);
        Self { fd, changes, it: fd_table::held(fd) }
    }

    /// What stands for it, if anything does.
    pub fn it(&self) -> Option<&Arc<Description>> {
        self.it.as_ref()
    }

    /// Whether the same stands for `fd`, which nobody changes.
    pub fn is_also(&self, fd: c_int) -> bool {
        match (&self.it, fd_table::held(fd)) {
            (Some(it), Some(other)) => Arc::ptr_eq(it, &other) && !it.is_gate(),
            (None, None) => true,
            _ => false,
        }
    }

    /// Nobody knows what the copy stands for, and the kernel has its offset: so it has this one's, which may be the same. Who
    /// has replaced `fd` has seen to that (LD2).
    pub fn surrender_unless_standard(&self) {
        if let Some(it) = self.it().filter(|_| self.is_also(self.fd)) {
            it.surrender_unless_standard(self.fd);
        }
    }

    /// Whether the kernel has copied what stood for it.
    pub fn is_sure(&self) -> bool {
        self.is_also(self.fd) && fd_table::changes(self.fd) == self.changes && !fd_gate::is_any_at(self.fd)
    }
}
