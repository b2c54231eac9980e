//! Who may append to files by itself, and how the owner gets hold of such a file.

use std::sync::atomic::Ordering;

use crate::share::client_pins::Abroad;
use crate::share::layout::brief_wait::wait_a_little;
use crate::share::layout::lease_state::{Mode, State};
use crate::share::layout::shared_state::Board;
use crate::store::clients::{Appender, Forced};

/// The size that the file of `forced` had before that append, if it may have stored a greater one. To be asked when the
/// size was looked at: it says this before it stores that.
pub(crate) fn size_before(forced: &Forced, board: &Board) -> Option<u64> {
    let (turn, size) = board.size_before(forced.slot);
    (turn == forced.turn).then_some(size)
}

fn state_of(appender: Appender, board: &Board) -> State {
    State(board.lease(appender.slot).load(Ordering::Acquire))
}

fn change(appender: Appender, board: &Board, from: State, to: State) -> bool {
    board.lease(appender.slot).compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Keeps the client from appending, when it has finished what it is at. One that does not finish soon has no right any
/// more, whatever it does later (FG7).
fn take_one(appender: Appender, board: &Board) -> Result<(), Forced> {
    loop {
        let state = state_of(appender, board);
        let is_ours = match state.mode(appender.serial) {
            Mode::Append => change(appender, board, state, state.to(Mode::Taken)),
            Mode::AtWork if wait_a_little(|| state_of(appender, board) != state) => false,
            Mode::AtWork if change(appender, board, state, State::VOID) => {
                return Err(Forced { ino: appender.ino, slot: appender.slot, turn: state.turn() });
            }
            Mode::AtWork => false,
            _ => true,
        };
        if is_ours {
            return Ok(());
        }
    }
}

/// Takes the files of `appenders`. Those who were stopped in the middle have no right any more, and are in the result.
#[cold]
pub(crate) fn take(board: &Board, abroad: &Abroad, appenders: &mut Vec<Appender>) -> Vec<Forced> {
    let mut forced = Vec::new();
    appenders.retain(|appender| take_one(*appender, board).map_err(|one| forced.push(one)).is_ok());
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
        let state = state_of(*appender, board);
        if state.mode(appender.serial) == Mode::Taken {
            change(*appender, board, state, state.to(Mode::Append));
        }
    }
}
