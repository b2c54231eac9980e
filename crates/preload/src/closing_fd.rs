//! A descriptor that is about to be closed, or replaced by a copy of another. Other threads may use it until the kernel
//! has done that, and its number may be another file's at once. So from before the kernel's call until after it, all
//! calls by the number go to the kernel, which has the offset (LD2, LD3).

pub mod fd_gate;

use std::ffi::c_int;
use std::sync::Arc;

use ferrite_memory::pin;

use crate::deferred_drop;
use crate::description::Description;
use crate::fd_table::{self, TakenEntry};
use crate::leased_file::wait_briefly;
use fd_gate::FdGate;

/// A descriptor that is being closed or replaced. When this is dropped, the descriptor has no entry any more.
pub struct ClosingFd<'gate> {
    gate: &'gate FdGate,
    fd: c_int,
    is_alone: bool,
    /// The previous entry, which is dropped when the kernel is done.
    before: Option<TakenEntry>,
}

impl<'gate> ClosingFd<'gate> {
    /// Begins to close `fd`; returns `None` if it has no entry.
    pub fn for_close(gate: &'gate FdGate, fd: c_int) -> Option<Self> {
        let appends = fd_table::held(fd).map(|it| {
            it.before_close(fd);
            it.appends() && !it.is_gate()
        })?;
        let closing = Self::begin(gate, fd);
        if appends {
            // An append moves the kernel's offset, by a number that may soon be another file's.
            wait();
        }
        Some(closing)
    }

    /// Begins to replace `fd`. Calls that have begun are waited for, but not for long: they would go to the old file in
    /// part and to the new one in part. A thread that finds another gate in its place waits until the first thread,
    /// which found the entry, has waited.
    pub fn for_replace(gate: &'gate FdGate, fd: c_int) -> Self {
        if let Some(it) = fd_table::held(fd).filter(|it| !it.is_gate()) {
            it.surrender_unless_standard(fd);
        }
        gate.waits(true);
        let closing = Self::begin(gate, fd);
        if let Some(it) = closing.found().filter(|it| !it.is_gate()) {
            wait();
            wait_briefly(|| it.is_idle());
        }
        // Before this thread waits for others: they may wait for this one.
        gate.waits(false);
        wait_briefly(|| !gate.are_others_waiting());
        closing
    }

    /// Returns the previous entry's description.
    fn found(&self) -> Option<Arc<Description>> {
        self.before.as_ref().and_then(TakenEntry::kept)
    }

    fn begin(gate: &'gate FdGate, fd: c_int) -> Self {
        let before = gate.shut(fd);
        Self { gate, fd, is_alone: gate.is_alone(), before }
    }

    /// Restores the entry: the kernel changed nothing.
    pub fn cancel(&self) {
        self.ends(self.found());
    }

    /// Sets the entry of the new file to `it`. Returns false if another thread has changed the descriptor too.
    pub fn complete(&self, it: Option<Arc<Description>>) -> bool {
        self.is_alone && self.gate.open(self.fd, it)
    }

    /// Replaces the gate; an entry that another thread put in its place stays.
    fn ends(&self, it: Option<Arc<Description>>) {
        self.gate.open(self.fd, if self.is_alone { it } else { fd_gate::kernel_entry() });
    }
}

impl Drop for ClosingFd<'_> {
    fn drop(&mut self) {
        self.ends(None);
    }
}

/// Waits for pinned threads, unless a signal handler has interrupted one of them on this thread (LD5).
fn wait() {
    if pin().seat().is_some() {
        deferred_drop::wait();
    }
}
