//! The gate that every change of a file system passes, so that a backup can copy a still pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::shard::{Padded, SHARDS, own_shard};
use ferrite_memory::spin_until;

use crate::share::layout::shared_state::SharedState;
use crate::store::clients::Clients;

/// Open, or closed for a while.
#[derive(Debug)]
pub(crate) struct ChangeGate {
    shared_state: Arc<SharedState>,
    clients: Arc<dyn Clients>,
    inside: [Padded<AtomicU64>; SHARDS],
    waiting: ferrite_pool::ChangeGate,
}

/// Inside the gate while it lives.
#[derive(Debug)]
pub(crate) struct GatePass<'gate>(&'gate AtomicU64);

impl Drop for GatePass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl ChangeGate {
    /// An open one, whose state is on `shared_state`.
    pub fn new(shared_state: &Arc<SharedState>, clients: &Arc<dyn Clients>) -> Self {
        let (shared_state, clients) = (Arc::clone(shared_state), Arc::clone(clients));
        Self { shared_state, clients, inside: Default::default(), waiting: ferrite_pool::ChangeGate::default() }
    }

    /// Passes the gate; a thread that closes it waits until the pass is dropped. A thread must not pass twice at a
    /// time.
    #[inline]
    pub fn pass(&self) -> GatePass<'_> {
        let inside = &self.inside[own_shard()].0;
        loop {
            inside.fetch_add(1, Ordering::SeqCst);
            if self.shared_state.gate().load(Ordering::SeqCst) == 0 {
                return GatePass(inside);
            }
            inside.fetch_sub(1, Ordering::SeqCst);
            self.waiting.wait();
        }
    }

    /// Passes the gate if it is open.
    pub fn try_pass(&self) -> Option<GatePass<'_>> {
        let inside = &self.inside[own_shard()].0;
        inside.fetch_add(1, Ordering::SeqCst);
        let pass = GatePass(inside);
        (self.shared_state.gate().load(Ordering::SeqCst) == 0).then_some(pass)
    }

    /// Returns true if the gate is open. For a pinned caller: the thread that closes the gate waits for the pin too.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.shared_state.gate().load(Ordering::Acquire) == 0
    }

    /// Closes the gate and waits until no thread is inside. Returns false if stopped clients are still inside.
    pub fn close(&self) -> bool {
        self.waiting.close();
        self.shared_state.gate().store(1, Ordering::SeqCst);
        self.inside.iter().for_each(|inside| spin_until(|| inside.0.load(Ordering::SeqCst) == 0));
        self.clients.wait_for_pins() && !self.clients.is_stuck()
    }

    /// Opens it again.
    pub fn open(&self) {
        self.shared_state.gate().store(0, Ordering::SeqCst);
        self.waiting.open();
    }
}
