//! Who may append to files by itself, and how the owner gets hold of such a file.

use std::sync::atomic::Ordering;

use crate::Ino;
use crate::share::client_pins::{Abroad, wait_a_little};
use crate::share::layout::lease_state::{Mode, State};
use crate::share::layout::shared_state::Board;

/// A client that may append to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appender {
    pub ino: Ino,
    pub slot: usize,
    pub serial: u64,
}

/// A client that lost the end of a file in the middle of an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forced {
    pub ino: Ino,
    slot: usize,
    turn: u64,
}

impl Forced {
    /// The size that its file had before that append, if it may have stored a greater one. To be asked when the size was
    /// looked at: it says this before it stores that.
    pub fn size_before(&self, board: &Board) -> Option<u64> {
        let (turn, size) = board.size_before(self.slot);
        (turn == self.turn).then_some(size)
    }
}

impl Appender {
    fn state(self, board: &Board) -> State {
        State(board.lease(self.slot).load(Ordering::Acquire))
    }

    fn change(self, board: &Board, from: State, to: State) -> bool {
        board.lease(self.slot).compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Keeps the client from appending, when it has finished what it is at. One that does not finish soon has no right any
    /// more, whatever it does later (FG7).
    fn take(self, board: &Board) -> Result<(), Forced> {
        loop {
            let state = self.state(board);
            let is_ours = match state.mode(self.serial) {
                Mode::Append => self.change(board, state, state.to(Mode::Taken)),
                Mode::AtWork if wait_a_little(|| self.state(board) != state) => false,
                Mode::AtWork if self.change(board, state, State::VOID) => {
                    return Err(Forced { ino: self.ino, slot: self.slot, turn: state.turn() });
                }
                Mode::AtWork => false,
                _ => true,
            };
            if is_ours {
                return Ok(());
            }
        }
    }
}

/// Takes the files of `appenders`. Those who were stopped in the middle have no right any more, and are in the result.
#[cold]
pub(crate) fn take(board: &Board, abroad: &Abroad, appenders: &mut Vec<Appender>) -> Vec<Forced> {
    let mut forced = Vec::new();
    appenders.retain(|appender| appender.take(board).map_err(|one| forced.push(one)).is_ok());
    if !forced.is_empty() {
        // Only now: whoever is at work was pinned before it began, and begins no more.
        abroad.note_pinned();
    }
    forced
}

/// Lets them append again.
#[cold]
pub(crate) fn let_go(board: &Board, appenders: &[Appender]) {
    for appender in appenders {
        let state = appender.state(board);
        if state.mode(appender.serial) == Mode::Taken {
            appender.change(board, state, state.to(Mode::Append));
        }
    }
}
