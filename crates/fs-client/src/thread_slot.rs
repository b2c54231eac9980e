//! The seats of a client's threads: where each pins.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ferrite_memory::end_foreign_pin;

use super::session::Session;
use ferrite_fs::share::layout::shared_state::SEATS;

/// A seat on a board, given back when its thread ends.
struct Seat {
    session: Weak<Session>,
    /// Which session; no other one of this process has the number.
    of: usize,
    seat: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        LAST.set(0);
        // Where the session is gone so is its seat.
        if let Some(session) = self.session.upgrade().filter(|session| session.is_here()) {
            // A signal handler may have ended the thread while it was pinned.
            end_foreign_pin(session.board().pin(self.seat));
            session.board().seated(self.seat).store(0, Ordering::Release);
        }
    }
}

thread_local! {
    static SEATED: RefCell<Vec<Seat>> = const { RefCell::new(Vec::new()) };
    /// The seat of this thread that was asked for last, and of which session: one word, for a signal handler may ask too.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Ends the calling thread's pins where nobody drops them: a handler of a signal is about to jump out of what pinned.
pub fn end_pins_of_thread() {
    let end = |seats: &RefCell<Vec<Seat>>| {
        let seats = seats.try_borrow().ok()?;
        let session = |seat: &Seat| Some((seat.session.upgrade().filter(|session| session.is_here())?, seat.seat));
        seats.iter().filter_map(session).for_each(|(session, seat)| end_foreign_pin(session.board().pin(seat)));
        Some(())
    };
    // Where the thread sits down or ends it is not pinned.
    let _ = SEATED.try_with(end);
}

/// A number for a session of this process.
pub(crate) fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The seat of this thread in `session`; `None` where all are taken, or the thread is ending or was interrupted here.
#[inline(always)]
pub(crate) fn seat(session: &Arc<Session>) -> Option<usize> {
    let last = LAST.get();
    if last / SEATS == session.number() { Some(last % SEATS) } else { find(session) }
}

#[inline(never)]
fn find(session: &Arc<Session>) -> Option<usize> {
    let found = |seats: &RefCell<Vec<Seat>>| {
        let seats = seats.try_borrow().ok()?;
        seats.iter().find(|seat| seat.of == session.number()).map(|seat| seat.seat)
    };
    // Of a thread that sits nowhere yet not even that is asked: the first look takes memory.
    let seated = if LAST.get() == 0 { None } else { SEATED.try_with(found).ok().flatten() };
    let Some(seat) = seated else { return session.quietly(|| SEATED.try_with(|seats| sit(seats, session)).ok()?) };
    LAST.set(session.number() * SEATS + seat);
    Some(seat)
}

#[cold]
fn sit(seats: &RefCell<Vec<Seat>>, session: &Arc<Session>) -> Option<usize> {
    let mut seats = seats.try_borrow_mut().ok()?;
    let board = session.board();
    let is_mine = |seat: &usize| {
        board.seated(*seat).compare_exchange(0, session.id().0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let seat = (0..SEATS).find(is_mine)?;
    seats.retain(|seat| seat.session.strong_count() > 0);
    seats.push(Seat { session: Arc::downgrade(session), of: session.number(), seat });
    LAST.set(session.number() * SEATS + seat);
    Some(seat)
}
