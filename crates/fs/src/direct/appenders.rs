//! Who may append to files by itself, and how the owner gets hold of such a file.

use std::sync::atomic::{AtomicU64, Ordering};

use super::abroad::{Abroad, wait_a_little};
use super::board::Board;
use super::state::State;
use crate::Ino;

/// A client that may append to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appender {
    pub ino: Ino,
    pub slot: usize,
    pub serial: u64,
}

impl Appender {
    fn change(self, board: &Board, from: State, to: State) -> bool {
        board.lease(self.slot).compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Keeps the client from appending, when it has finished what it is at; whether it did in time (FG7).
    fn take(self, board: &Board) -> bool {
        let (held, at_work) = (State::appending(self.serial), State::at_work(self.serial));
        let is_free = || board.lease(self.slot).load(Ordering::Acquire) != at_work.0;
        while !self.change(board, held, State::taken(self.serial)) {
            let state = board.lease(self.slot).load(Ordering::Acquire);
            if state != held.0 && state != at_work.0 {
                return true;
            }
            if !wait_a_little(is_free) {
                return false;
            }
        }
        true
    }

    /// Ends its right, whatever it is at: it may have finished since it was waited for, and begun again.
    fn force(self, board: &Board) {
        let word: &AtomicU64 = board.lease(self.slot);
        let rights = [State::appending(self.serial).0, State::at_work(self.serial).0];
        let ended = |state| rights.contains(&state).then_some(State::VOID.0);
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, ended);
    }
}

/// Takes the files of `appenders`. Who was stopped in the middle has no right any more: `forced` hears of its file.
#[cold]
pub(crate) fn take(board: &Board, abroad: &Abroad, appenders: &mut Vec<Appender>, mut forced: impl FnMut(Ino)) {
    appenders.retain(|appender| {
        let is_ours = appender.take(board);
        if !is_ours {
            appender.force(board);
            // Only now: whoever is at work was pinned before it began, and begins no more.
            abroad.note_pinned();
            forced(appender.ino);
        }
        is_ours
    });
}

/// Lets them append again.
#[cold]
pub(crate) fn let_go(board: &Board, appenders: &[Appender]) {
    for appender in appenders {
        appender.change(board, State::taken(appender.serial), State::appending(appender.serial));
    }
}
