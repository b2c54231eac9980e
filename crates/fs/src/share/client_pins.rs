//! The pins of clients, as the owner sees them.
//!
//! The owner waits for them for a bounded time (FG2). A client may be stopped for an hour, and then the pages that it
//! may still store to stay unused for an hour. The owner does not wait again for a client that was stopped until its
//! pin has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferrite_memory::barrier_abroad;
use ferrite_pool::grant::Process;
use parking_lot::Mutex;

use crate::share::layout::brief_wait::wait_briefly;
use crate::share::layout::shared_state::{SharedState, THREAD_SLOTS};

/// See the module.
#[derive(Debug)]
pub(crate) struct ClientPins {
    shared_state: Arc<SharedState>,
    sessions: AtomicUsize,
    /// Whether clients of an owner before this one may still store.
    has_orphaned_clients: AtomicBool,
    known: Mutex<PinTable>,
}

#[derive(Debug, Default)]
struct PinTable {
    /// Whose the sessions are.
    processes: BTreeMap<u64, Process>,
    /// Thread slots whose pins did not end in time, and the values of those pins.
    stuck: BTreeMap<usize, u64>,
}

impl ClientPins {
    /// No client yet, on the words of `shared_state`.
    pub fn new(shared_state: &Arc<SharedState>) -> Self {
        Self {
            shared_state: Arc::clone(shared_state),
            sessions: AtomicUsize::new(0),
            has_orphaned_clients: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Returns true if clients of an owner before this one may still store (FG5).
    #[inline]
    pub fn has_orphaned_clients(&self) -> bool {
        self.has_orphaned_clients.load(Ordering::Acquire)
    }

    pub fn set_orphaned_clients(&self, there: bool) {
        self.has_orphaned_clients.store(there, Ordering::SeqCst);
    }

    /// A session of `process` begins.
    pub fn enter(&self, session: u64, process: &Process) {
        self.known.lock().processes.insert(session, process.clone());
        self.sessions.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns true if the process of `session` has ended.
    pub fn has_ended(&self, session: u64) -> bool {
        self.known.lock().processes.get(&session).is_some_and(|process| !process.is_alive())
    }

    /// Ends `session` if no thread of it is pinned, or its process has ended. Returns true if it did.
    pub fn leave(&self, session: u64) -> bool {
        let mut known = self.known.lock();
        let Some(process) = known.processes.get(&session) else { return true };
        barrier_abroad();
        let thread_slots = || {
            (0..THREAD_SLOTS)
                .filter(|thread_slot| self.shared_state.slot_session(*thread_slot).load(Ordering::Acquire) == session)
        };
        let is_pinned = |thread_slot| !self.shared_state.pin(thread_slot).load(Ordering::Acquire).is_multiple_of(2);
        if thread_slots().any(is_pinned) && process.is_alive() {
            return false;
        }
        for thread_slot in thread_slots() {
            let pin = self.shared_state.pin(thread_slot);
            pin.store(pin.load(Ordering::Relaxed).next_multiple_of(2), Ordering::Relaxed);
            known.stuck.remove(&thread_slot);
            self.shared_state.slot_session(thread_slot).store(0, Ordering::Release);
        }
        known.processes.remove(&session);
        self.sessions.fetch_sub(1, Ordering::SeqCst);
        true
    }

    /// Returns true if there is any session.
    pub fn has_sessions(&self) -> bool {
        // An addition, so that a session that begins later sees all earlier stores of the caller.
        self.sessions.fetch_add(0, Ordering::SeqCst) > 0
    }

    /// Returns true if a pin did not end in time, and has not ended since.
    pub fn is_stuck(&self) -> bool {
        if self.has_orphaned_clients() {
            return true;
        }
        if !self.has_sessions() {
            return false;
        }
        let mut known = self.known.lock();
        known.stuck.retain(|thread_slot, pin| self.shared_state.pin(*thread_slot).load(Ordering::Acquire) == *pin);
        !known.stuck.is_empty()
    }

    /// Notes every pinned client thread as stuck.
    pub fn note_pinned(&self) {
        barrier_abroad();
        let pins = (0..THREAD_SLOTS)
            .map(|thread_slot| (thread_slot, self.shared_state.pin(thread_slot).load(Ordering::Acquire)));
        self.known.lock().stuck.extend(pins.filter(|(_, pin)| !pin.is_multiple_of(2)));
    }

    /// Lets what clients store from now on be seen by none who checks what this thread stored before (FG3).
    pub fn pass(&self) {
        if self.has_sessions() {
            barrier_abroad();
        }
    }

    /// Waits for the pins that exist now, without a bound for pins of this process. Returns true if all have ended.
    pub fn wait_for_pins(&self) -> bool {
        ferrite_memory::wait_for_pins();
        !self.has_sessions() || self.wait_for_clients()
    }

    fn wait_for_clients(&self) -> bool {
        barrier_abroad();
        let mut all = true;
        for thread_slot in 0..THREAD_SLOTS {
            let pin = self.shared_state.pin(thread_slot).load(Ordering::Acquire);
            if pin.is_multiple_of(2)
                || wait_briefly(|| self.shared_state.pin(thread_slot).load(Ordering::Acquire) != pin)
            {
                continue;
            }
            self.known.lock().stuck.insert(thread_slot, pin);
            all = false;
        }
        all
    }
}
