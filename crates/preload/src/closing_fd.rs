//! A descriptor that is about to be closed, or replaced by a copy of another one. Other threads may be using it until the
//! kernel has done that, and its number may be another file's at once. So from before the kernel's call until after it all
//! that is done by the number is the kernel's, which has the offset (LD2, LD3).

pub mod fd_gate;

use std::ffi::c_int;
use std::sync::Arc;

use ferrite_memory::pin;

use crate::deferred_drop;
use crate::description::Description;
use crate::fd_table::{self, TakenEntry};
use crate::leased_file::wait_briefly;
use fd_gate::FdGate;

/// Dropped, nothing stands for the descriptor any more.
pub struct ClosingFd<'gate> {
    gate: &'gate FdGate,
    fd: c_int,
    is_alone: bool,
    /// What stood for it, which goes when the kernel is done.
    before: Option<TakenEntry>,
}

impl<'gate> ClosingFd<'gate> {
    /// `fd` is about to be closed; `None` where it is none of ours.
    pub fn for_close(gate: &'gate FdGate, fd: c_int) -> Option<Self> {
        let appends = fd_table::held(fd).map(|it| {
            it.before_close(fd);
            it.appends() && !it.is_gate()
        })?;
        let closing = Self::begin(gate, fd);
        if appends {
            // Who appends moves the kernel's offset, by a number that may be another file's soon.
            wait();
        }
        Some(closing)
    }

    /// `fd` is about to be another file. What was begun by it is waited for, but not for long: it would be done in part to
    /// one file and in part to the other. Who finds a gate in its place waits until the one before, who found what that stood
    /// for, has waited.
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
        // Before others are waited for: they may wait for this one.
        gate.waits(false);
        wait_briefly(|| !gate.are_others_waiting());
        closing
    }

    /// What stood for it before.
    fn found(&self) -> Option<Arc<Description>> {
        self.before.as_ref().and_then(TakenEntry::kept)
    }

    fn begin(gate: &'gate FdGate, fd: c_int) -> Self {
        let before = gate.shut(fd);
        Self { gate, fd, is_alone: gate.is_alone(), before }
    }

    /// It stays what it was.
    pub fn cancel(&self) {
        self.ends(self.found());
    }

    /// It has become another file, for which `it` stands. Whether that is so: not where others have changed it too.
    pub fn complete(&self, it: Option<Arc<Description>>) -> bool {
        self.is_alone && self.gate.open(self.fd, it)
    }

    /// What has come in its place stays.
    fn ends(&self, it: Option<Arc<Description>>) {
        self.gate.open(self.fd, if self.is_alone { it } else { fd_gate::kernel_entry() });
    }
}

impl Drop for ClosingFd<'_> {
    fn drop(&mut self) {
        self.ends(None);
    }
}

/// Waits for who is pinned, unless that is what a handler of a signal has interrupted (LD5).
fn wait() {
    if pin().seat().is_some() {
        deferred_drop::wait();
    }
}
