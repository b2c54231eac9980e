//! Clients that may append to files directly, and how the owner suspends them.

use std::sync::atomic::Ordering;

use crate::share::client_pins::ClientPins;
use crate::share::layout::brief_wait::wait_briefly;
use crate::share::layout::lease_state::{LeaseMode, LeaseState};
use crate::share::layout::shared_state::SharedState;
use crate::store::clients::{Appender, RevokedAppend};

/// Returns the size of the file before the `revoked` append, if the client may have stored a greater one. Call it
/// after loading the size: the client stores this first.
pub(crate) fn size_before(revoked: &RevokedAppend, shared_state: &SharedState) -> Option<u64> {
    let (turn, size) = shared_state.size_before(revoked.slot);
    (turn == revoked.turn).then_some(size)
}

fn state_of(appender: Appender, shared_state: &SharedState) -> LeaseState {
    LeaseState(shared_state.lease(appender.slot).load(Ordering::Acquire))
}

fn change(appender: Appender, shared_state: &SharedState, from: LeaseState, to: LeaseState) -> bool {
    shared_state.lease(appender.slot).compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Keeps the client from appending, when it has finished what it is at. One that does not finish soon has no right any
/// more, whatever it does later (FG7).
fn suspend_append(appender: Appender, shared_state: &SharedState) -> Result<(), RevokedAppend> {
    loop {
        let state = state_of(appender, shared_state);
        let is_ours = match state.mode(appender.serial) {
            LeaseMode::Append => change(appender, shared_state, state, state.to(LeaseMode::Taken)),
            LeaseMode::AtWork if wait_briefly(|| state_of(appender, shared_state) != state) => false,
            LeaseMode::AtWork if change(appender, shared_state, state, LeaseState::VOID) => {
                return Err(RevokedAppend { ino: appender.ino, slot: appender.slot, turn: state.turn() });
            }
            LeaseMode::AtWork => false,
            _ => true,
        };
        if is_ours {
            return Ok(());
        }
    }
}

/// Takes the files of `appenders`. Those who were stopped in the middle have no right any more, and are in the result.
#[cold]
pub(crate) fn suspend_appends(
    shared_state: &SharedState,
    pins: &ClientPins,
    appenders: &mut Vec<Appender>,
) -> Vec<RevokedAppend> {
    let mut revoked = Vec::new();
    appenders.retain(|appender| suspend_append(*appender, shared_state).map_err(|one| revoked.push(one)).is_ok());
    if !revoked.is_empty() {
        // Only now: each client at work was pinned before it began, and no other begins.
        pins.note_pinned();
    }
    revoked
}

/// Allows the clients to append again.
#[cold]
pub(crate) fn resume_appends(shared_state: &SharedState, appenders: &[Appender]) {
    for appender in appenders {
        let state = state_of(*appender, shared_state);
        if state.mode(appender.serial) == LeaseMode::Taken {
            change(*appender, shared_state, state, state.to(LeaseMode::Append));
        }
    }
}
