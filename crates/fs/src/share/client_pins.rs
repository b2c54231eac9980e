//! The pins of clients, as the owner sees them.
//!
//! It waits for them with patience (FG2): a client may be stopped for an hour, and then what it may still store to stays
//! unused for an hour. Who was stopped once is not waited for again until its pin is another one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferrite_memory::barrier_abroad;
use ferrite_pool::grant::Process;
use parking_lot::Mutex;

use crate::share::layout::brief_wait::wait_a_little;
use crate::share::layout::shared_state::{Board, SEATS};

/// See the module.
#[derive(Debug)]
pub(crate) struct Abroad {
    board: Arc<Board>,
    sessions: AtomicUsize,
    /// Whether clients of an owner before this one may still store.
    has_forerunners: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Whose the sessions are.
    processes: BTreeMap<u64, Process>,
    /// Seats whose pins were waited for in vain, and those pins.
    stuck: BTreeMap<usize, u64>,
}

impl Abroad {
    /// Nobody yet, on `board`.
    pub fn new(board: &Arc<Board>) -> Self {
        Self {
            board: Arc::clone(board),
            sessions: AtomicUsize::new(0),
            has_forerunners: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Whether clients of an owner before this one may still store (FG5).
    #[inline]
    pub fn has_forerunners(&self) -> bool {
        self.has_forerunners.load(Ordering::Acquire)
    }

    pub fn set_forerunners(&self, there: bool) {
        self.has_forerunners.store(there, Ordering::SeqCst);
    }

    /// A session of `process` begins.
    pub fn enter(&self, session: u64, process: &Process) {
        self.known.lock().processes.insert(session, process.clone());
        self.sessions.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the process of `session` has ended.
    pub fn has_ended(&self, session: u64) -> bool {
        self.known.lock().processes.get(&session).is_some_and(|process| !process.is_alive())
    }

    /// Ends `session` if no thread of it is pinned, or its process has ended; whether it did.
    pub fn leave(&self, session: u64) -> bool {
        let mut known = self.known.lock();
        let Some(process) = known.processes.get(&session) else { return true };
        barrier_abroad();
        let seats = || (0..SEATS).filter(|seat| self.board.seated(*seat).load(Ordering::Acquire) == session);
        let is_pinned = |seat| !self.board.pin(seat).load(Ordering::Acquire).is_multiple_of(2);
        if seats().any(is_pinned) && process.is_alive() {
            return false;
        }
        for seat in seats() {
            let pin = self.board.pin(seat);
            pin.store(pin.load(Ordering::Relaxed).next_multiple_of(2), Ordering::Relaxed);
            known.stuck.remove(&seat);
            self.board.seated(seat).store(0, Ordering::Release);
        }
        known.processes.remove(&session);
        self.sessions.fetch_sub(1, Ordering::SeqCst);
        true
    }

    /// Whether there is any session.
    pub fn is_anybody(&self) -> bool {
        // An addition, so that who enters later sees what the caller stored before.
        self.sessions.fetch_add(0, Ordering::SeqCst) > 0
    }

    /// Whether somebody was waited for in vain, and is pinned still.
    pub fn is_stuck(&self) -> bool {
        if self.has_forerunners() {
            return true;
        }
        if !self.is_anybody() {
            return false;
        }
        let mut known = self.known.lock();
        known.stuck.retain(|seat, pin| self.board.pin(*seat).load(Ordering::Acquire) == *pin);
        !known.stuck.is_empty()
    }

    /// Everybody who is pinned now counts as waited for in vain.
    pub fn note_pinned(&self) {
        barrier_abroad();
        let pins = (0..SEATS).map(|seat| (seat, self.board.pin(seat).load(Ordering::Acquire)));
        self.known.lock().stuck.extend(pins.filter(|(_, pin)| !pin.is_multiple_of(2)));
    }

    /// Lets what clients store from now on be seen by none who checks what this thread stored before (FG3).
    pub fn pass(&self) {
        if self.is_anybody() {
            barrier_abroad();
        }
    }

    /// Waits for the pins of before, those of this process for as long as it takes; whether all are gone.
    pub fn wait_for_pins(&self) -> bool {
        ferrite_memory::wait_for_pins();
        !self.is_anybody() || self.wait_for_clients()
    }

    fn wait_for_clients(&self) -> bool {
        barrier_abroad();
        let mut all = true;
        for seat in 0..SEATS {
            let pin = self.board.pin(seat).load(Ordering::Acquire);
            if pin.is_multiple_of(2) || wait_a_little(|| self.board.pin(seat).load(Ordering::Acquire) != pin) {
                continue;
            }
            self.known.lock().stuck.insert(seat, pin);
            all = false;
        }
        all
    }
}
