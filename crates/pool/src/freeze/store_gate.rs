//! The gate of threads that store past transactions in a service that is not registered (F8).

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A gate that is closed during a freeze. A thread passes it before its first store and keeps the pass.
#[derive(Debug, Default)]
pub(crate) struct StoreGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// Passes that are not dropped.
    passes: usize,
    /// Threads that wait to close the gate.
    closing: usize,
}

/// Keeps the pool from being frozen while an unregistered service stores (F8). A thread may get several passes.
#[derive(Debug, Default)]
#[must_use = "a freeze can begin when the pass is dropped"]
pub struct StorePass {
    /// `None` for a store that no freeze waits for, as in a lent tag.
    gate: Option<Arc<StoreGate>>,
}

/// The closed gate, which opens when this is dropped.
pub(super) struct ClosedGate<'pool>(&'pool StoreGate);

impl StoreGate {
    /// Waits while the gate is closed. A thread that closes the gate waits for all passes, so a thread with a pass gets
    /// another one at once.
    pub fn pass(self: &Arc<Self>) -> StorePass {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.is_closed);
        state.passes += 1;
        StorePass { gate: Some(Arc::clone(self)) }
    }

    /// Returns a pass, or `None` while the gate is closed.
    pub fn try_pass(self: &Arc<Self>) -> Option<StorePass> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        state.passes += 1;
        Some(StorePass { gate: Some(Arc::clone(self)) })
    }

    /// Closes the gate. Waits until all passes are dropped, and while another thread has closed the gate.
    pub(super) fn close(&self) -> ClosedGate<'_> {
        let mut state = self.state.lock();
        state.closing += 1;
        self.changed.wait_while(&mut state, |state| state.is_closed || state.passes > 0);
        state.closing -= 1;
        state.is_closed = true;
        ClosedGate(self)
    }

    /// Returns true if a thread has a pass.
    pub fn has_passes(&self) -> bool {
        self.state.lock().passes > 0
    }

    /// Returns true if a thread waits to close the gate.
    #[cfg(test)]
    pub fn is_closing(&self) -> bool {
        self.state.lock().closing > 0
    }
}

impl Drop for StorePass {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.state.lock().passes -= 1;
            gate.changed.notify_all();
        }
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = false;
        self.0.changed.notify_all();
    }
}
