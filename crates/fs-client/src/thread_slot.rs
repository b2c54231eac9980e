//! The slots of a client's threads, with their pins.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ferrite_memory::end_foreign_pin;

use super::session::FsSession;
use ferrite_fs::share::layout::shared_state::THREAD_SLOTS;

/// The first slots, which threads may claim to count reads. All slots are for writes, which need one.
const READER_SLOTS: usize = THREAD_SLOTS / 2;

/// A claimed slot, released when its thread ends.
struct ThreadSlot {
    session: Weak<FsSession>,
    /// Which session; no other one of this process has the number.
    of: usize,
    thread_slot: usize,
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        LAST.set(0);
        // Without the session the slot is gone too.
        if let Some(session) = self.session.upgrade().filter(|session| session.is_here()) {
            // A signal handler may have ended the thread while it was pinned.
            end_foreign_pin(session.shared_state().pin(self.thread_slot));
            session.shared_state().slot_session(self.thread_slot).store(0, Ordering::Release);
        }
    }
}

thread_local! {
    static CLAIMED: RefCell<Vec<ThreadSlot>> = const { RefCell::new(Vec::new()) };
    /// The slot that this thread used last, with its session: one word, because a signal handler may use it too.
    static LAST: Cell<usize> = const { Cell::new(0) };
    /// The session in which this thread found no slot to count its reads, or 0.
    static UNCOUNTED: Cell<usize> = const { Cell::new(0) };
}

/// Ends the calling thread's pins, which no destructor will end: a signal handler is about to jump out of the code
/// that pinned.
pub fn end_pins_of_thread() {
    let end = |thread_slots: &RefCell<Vec<ThreadSlot>>| {
        let thread_slots = thread_slots.try_borrow().ok()?;
        let session = |thread_slot: &ThreadSlot| {
            Some((thread_slot.session.upgrade().filter(|session| session.is_here())?, thread_slot.thread_slot))
        };
        thread_slots
            .iter()
            .filter_map(session)
            .for_each(|(session, thread_slot)| end_foreign_pin(session.shared_state().pin(thread_slot)));
        Some(())
    };
    // A thread that is claiming a slot or ending is not pinned.
    let _ = CLAIMED.try_with(end);
}

/// A number for a session of this process.
pub(crate) fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the slot of this thread in `session`; `None` if all are claimed, or the thread is ending or was interrupted
/// here.
#[inline(always)]
pub(crate) fn claimed(session: &Arc<FsSession>) -> Option<usize> {
    let last = LAST.get();
    if last / THREAD_SLOTS == session.number() { Some(last % THREAD_SLOTS) } else { find(session, THREAD_SLOTS) }
}

/// Returns the slot in which this thread counts its reads of `session`. A thread that finds none does not try again in
/// the session: reads work without a slot, and the search is slow when many are claimed.
#[inline(always)]
pub(crate) fn claimed_for_reads(session: &Arc<FsSession>) -> Option<usize> {
    let last = LAST.get();
    if last / THREAD_SLOTS == session.number() {
        Some(last % THREAD_SLOTS)
    } else if UNCOUNTED.get() == session.number() {
        None
    } else {
        find_for_reads(session)
    }
}

#[inline(never)]
fn find_for_reads(session: &Arc<FsSession>) -> Option<usize> {
    let found = find(session, READER_SLOTS);
    if found.is_none() {
        UNCOUNTED.set(session.number());
    }
    found
}

/// Returns the slot of this thread in `session`, or claims one of the first `limit` slots.
#[inline(never)]
fn find(session: &Arc<FsSession>, limit: usize) -> Option<usize> {
    let found = |thread_slots: &RefCell<Vec<ThreadSlot>>| {
        let thread_slots = thread_slots.try_borrow().ok()?;
        thread_slots
            .iter()
            .find(|thread_slot| thread_slot.of == session.number())
            .map(|thread_slot| thread_slot.thread_slot)
    };
    // A thread without a slot skips even that, because the first access allocates memory.
    let slot_session = if LAST.get() == 0 { None } else { CLAIMED.try_with(found).ok().flatten() };
    let Some(thread_slot) = slot_session else {
        return session.quietly(|| CLAIMED.try_with(|thread_slots| claim(thread_slots, session, limit)).ok()?);
    };
    LAST.set(session.number() * THREAD_SLOTS + thread_slot);
    Some(thread_slot)
}

#[cold]
fn claim(thread_slots: &RefCell<Vec<ThreadSlot>>, session: &Arc<FsSession>, limit: usize) -> Option<usize> {
    let mut thread_slots = thread_slots.try_borrow_mut().ok()?;
    let shared_state = session.shared_state();
    let is_mine = |thread_slot: &usize| {
        shared_state
            .slot_session(*thread_slot)
            .compare_exchange(0, session.id().0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let thread_slot = (0..limit).find(is_mine)?;
    thread_slots.retain(|thread_slot| thread_slot.session.strong_count() > 0);
    thread_slots.push(ThreadSlot { session: Arc::downgrade(session), of: session.number(), thread_slot });
    UNCOUNTED.set(0);
    LAST.set(session.number() * THREAD_SLOTS + thread_slot);
    Some(thread_slot)
}
