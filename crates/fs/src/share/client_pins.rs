//! The pins of clients, as the owner sees them.
//!
//! The owner waits for them for a bounded time (FG2). A client may be stopped for an hour, and then the pages that it
//! may still store to stay unused for an hour. The owner does not wait again for a client that was stopped until its
//! pin has changed.
//!
//! TI21 (`tier.rs`) is kept here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferrite_memory::{barrier_abroad, planted};
use ferrite_pool::grant::Process;
use parking_lot::Mutex;

use crate::share::layout::brief_wait::wait_briefly;
use crate::share::layout::shared_state::{STRIPES, SharedState, THREAD_SLOTS};

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
    /// The locks of the files that each session ever had a lease on.
    leased: BTreeMap<u64, StripeSet>,
}

/// A set of locks of inodes.
#[derive(Debug)]
struct StripeSet([u64; STRIPES as usize / 64]);

impl Default for StripeSet {
    fn default() -> Self {
        Self([0; STRIPES as usize / 64])
    }
}

impl StripeSet {
    fn add(&mut self, stripe: u64) {
        self.0[(stripe / 64) as usize] |= 1 << (stripe % 64);
    }

    fn has(&self, stripe: u64) -> bool {
        self.0[(stripe / 64) as usize] >> (stripe % 64) & 1 == 1
    }
}

impl PinTable {
    /// Returns true if a thread of `session` may use pages of a file with the lock `stripe`. An unknown session may.
    fn may_use(&self, session: u64, stripe: u64) -> bool {
        planted!("fs: forgotten lease" => return false);
        let is_leased = self.leased.get(&session).is_some_and(|leased| leased.has(stripe));
        is_leased || !self.processes.contains_key(&session)
    }
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
        known.leased.remove(&session);
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

    /// Notes that `session` is about to have a lease on a file with the lock `stripe`.
    pub fn note_leased(&self, session: u64, stripe: u64) {
        self.known.lock().leased.entry(session).or_default().add(stripe);
    }

    /// See [`crate::store::clients::Clients::holds_back`].
    pub fn holds_back(&self, stripe: Option<u64>) -> bool {
        if !self.is_stuck() {
            return false;
        }
        let Some(stripe) = stripe.filter(|_| !self.has_orphaned_clients()) else { return true };
        let known = self.known.lock();
        known.stuck.keys().any(|thread_slot| known.may_use(self.session_of(*thread_slot), stripe))
    }

    fn session_of(&self, thread_slot: usize) -> u64 {
        self.shared_state.slot_session(thread_slot).load(Ordering::Acquire)
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
        !self.has_sessions() || self.wait_for_clients(None)
    }

    /// See [`crate::store::clients::Clients::wait_for_pins_on`].
    pub fn wait_for_pins_on(&self, stripe: u64) -> bool {
        ferrite_memory::wait_for_pins();
        !self.has_sessions() || self.wait_for_clients(Some(stripe))
    }

    /// Waits for clients that may use pages of a file with the lock `stripe`, or for all if it is `None`.
    fn wait_for_clients(&self, stripe: Option<u64>) -> bool {
        barrier_abroad();
        let mut all = true;
        for thread_slot in 0..THREAD_SLOTS {
            let pin = self.shared_state.pin(thread_slot).load(Ordering::Acquire);
            if pin.is_multiple_of(2) {
                continue;
            }
            // The pin is loaded first: the lease of its thread on the file was noted before.
            let (is_known, may_use) = {
                let known = self.known.lock();
                let may_use = |stripe| known.may_use(self.session_of(thread_slot), stripe);
                (known.stuck.get(&thread_slot) == Some(&pin), stripe.is_none_or(may_use))
            };
            if !may_use {
                continue;
            }
            if !is_known && wait_briefly(|| self.shared_state.pin(thread_slot).load(Ordering::Acquire) != pin) {
                continue;
            }
            self.known.lock().stuck.insert(thread_slot, pin);
            all = false;
        }
        all
    }
}
