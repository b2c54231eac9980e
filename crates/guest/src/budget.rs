//! The budget: how many chunks of the pool's memory each guest should have.
//!
//! ```text
//!   what guests have, want and may have --- MemoryBudget::step ---> a target for each guest
//!        ^                                                        | the guest's own thread
//!        +------- a guest has fewer or more chunks <--------------+ follows, one chunk at a time
//! ```
//!
//! A state machine without clock, threads and memory: the caller passes what is true now.
//!
//! - VB1. A frame leaves only behind its durably zero word, and joins with one. No truth leaves, and no frame that a
//!   thread fills or a program can store to (VP2).
//! - VB2. Only the holder of the guest's lease changes its space (HO2), by one transaction: after a crash the guest has
//!   its old frames or its new ones, and every page its truth (VR1).
//! - VB3. Guests have and are promised at most the chunks of the budget together, unless they had more before it
//!   shrank: then no guest is promised another chunk.
//! - VB4. A guest in use is not asked for a chunk of its minimum. It gets its minimum before any guest gets more than
//!   its own.
//! - VB5. No guest waits for a guest that stands still: what that has is no part of the calculation, and others get
//!   less.
//! - VB6. A guest at rest gives all chunks but one, unless its share is fixed, as soon as a guest in use wants them.
//!   Until then it keeps them, with its copies: the displaced pages return without a read.
//! - VB7. A guest whose target rose is not asked to give within the next [`CALM_STEPS`] steps, and the other way round,
//!   except for a minimum or a smaller budget. So two guests do not swap chunks back and forth.
//! - VB8. A step moves 1/16 of the budget at most, and one chunk at least. A guest that is about to be used is promised
//!   its minimum at once if no guest holds the chunks.
//! - VB9. The budget that was set last is in force. A crash leaves the old one or the new one, and a removed guest
//!   takes none along.
//!
//! Source: "Virtual Persistent Memory" 3.3 (guests share one memory); floors, ceilings and calm after Equilibria.

use std::collections::BTreeMap;

use ferrite_memory::planted;

use crate::GuestShare;

/// Steps after a change of a guest's target during which it does not change in the other direction.
pub(crate) const CALM_STEPS: u64 = 8;
/// Steps without a change after which a guest that should give counts as standing still.
pub(crate) const PATIENCE_STEPS: u64 = 8;

/// A guest as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestUse {
    pub name: String,
    /// The chunks that it has.
    pub chunks: u32,
    pub share: GuestShare,
    /// A client uses it.
    pub is_used: bool,
    /// Its chunks cannot change now.
    pub is_still: bool,
    /// Pages since the last step that returned from the disk a short while after they had lost their frames.
    pub missed: u64,
}

/// The state of a guest between steps.
#[derive(Clone, Copy, Debug, Default)]
struct ShareState {
    target: u32,
    /// The chunks at the last step.
    chunks: u32,
    /// The missed pages, of the last steps more than of the earlier ones.
    demand: u64,
    /// The steps at which the target was raised and lowered last.
    rose: Option<u64>,
    fell: Option<u64>,
    /// Steps since it came closer to a lower target.
    stuck: u64,
}

impl ShareState {
    /// Returns the chunks that no other guest can get now.
    fn held(&self) -> u32 {
        self.target.max(self.chunks)
    }

    /// Returns true if `changed` is so late that the target does not change in the other direction (VB7).
    fn is_recent(changed: Option<u64>, step: u64) -> bool {
        changed.is_some_and(|changed| step - changed < CALM_STEPS)
            && !planted!("guest: the budget swaps chunks back at once")
    }
}

/// A guest in the calculation of a step.
struct ShareRow<'a> {
    guest: &'a GuestUse,
    state: ShareState,
    /// The chunks that it has to have before others get more (VB4, VB6).
    floor: u32,
    /// The chunks that it should have in the end.
    wanted: u32,
}

impl<'a> ShareRow<'a> {
    fn new(guest: &'a GuestUse, state: ShareState) -> Self {
        let mut row = Self { guest, state, floor: 0, wanted: 0 };
        let keeps = guest.is_used || guest.share.is_fixed() || planted!("guest: a guest at rest keeps its memory");
        row.floor = match row.is_apart() {
            true => guest.chunks,
            false if keeps => guest.share.min,
            false => 1,
        };
        row.wanted = row.floor;
        row
    }

    fn is_stuck(&self) -> bool {
        self.state.stuck >= PATIENCE_STEPS
    }

    /// Returns true if the chunks of the guest are no part of the calculation (VB5).
    fn is_apart(&self) -> bool {
        let is_apart = self.guest.is_still || self.is_stuck();
        is_apart && !planted!("guest: the budget counts on a guest that stands still")
    }

    /// Returns how much the guest wants the next chunk; `None` if it wants none.
    fn pull(&self) -> Option<u128> {
        let ShareRow { guest, state, .. } = self;
        let wants = guest.is_used && !self.is_apart() && self.wanted < guest.share.max && state.demand > 0;
        let weight = (u128::from(guest.share.weight) * u128::from(state.demand)) << 20;
        wants.then(|| weight / (u128::from(self.wanted - self.floor) + 1))
    }
}

/// What a guest should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuestTarget {
    /// The chunks that it may have from now on.
    pub chunks: u32,
    /// The chunks that it should have as soon as others have given them.
    pub wanted: u32,
    pub demand: u64,
    /// It does not give what it should.
    pub is_stuck: bool,
}

/// The chunks of the guests of a pool.
#[derive(Debug, Default)]
pub(crate) struct MemoryBudget {
    step: u64,
    states: BTreeMap<String, ShareState>,
    targets: BTreeMap<String, GuestTarget>,
}

impl MemoryBudget {
    /// Returns the target of the guest called `name`, if it was there at the last step.
    pub fn target(&self, name: &str) -> Option<GuestTarget> {
        self.targets.get(name).copied()
    }

    /// Calculates the targets of `guests`, which have `total` chunks together at most.
    pub fn step(&mut self, total: u32, guests: &[GuestUse]) {
        self.step += 1;
        let mut rows: Vec<ShareRow<'_>> = guests.iter().map(|guest| ShareRow::new(guest, self.noted(guest))).collect();
        divide(total, &mut rows);
        let most = if planted!("guest: a step of the budget moves all of it") { total } else { (total / 16).max(1) };
        self.ask(total, &mut rows, most);
        self.promise(total, &mut rows, most);
        self.states = rows.iter().map(|row| (row.guest.name.clone(), row.state)).collect();
        let target = |row: &ShareRow<'_>| GuestTarget {
            chunks: row.state.target,
            wanted: row.wanted,
            demand: row.state.demand,
            is_stuck: row.is_stuck(),
        };
        self.targets = rows.iter().map(|row| (row.guest.name.clone(), target(row))).collect();
    }

    /// Promises the guest called `name` its `minimum` at once, if no guest holds the chunks (VB3).
    pub fn promise_minimum(&mut self, name: &str, minimum: u32, total: u32) {
        let held = sum(self.states.values().map(ShareState::held));
        let (Some(state), Some(target)) = (self.states.get_mut(name), self.targets.get_mut(name)) else { return };
        if held.saturating_add(minimum.saturating_sub(state.held())) <= total {
            state.target = state.target.max(minimum);
            target.chunks = state.target;
        }
    }

    /// Returns the state of `guest` with what happened since the last step.
    fn noted(&self, guest: &GuestUse) -> ShareState {
        let new = ShareState { target: guest.chunks, chunks: guest.chunks, ..ShareState::default() };
        let mut state = self.states.get(&guest.name).copied().unwrap_or(new);
        state.demand = state.demand * 3 / 4 + guest.missed;
        let stands = guest.chunks > state.target && guest.chunks >= state.chunks;
        state.stuck = if stands { state.stuck + 1 } else { 0 };
        state.chunks = guest.chunks;
        state
    }

    /// Lowers targets: others want the chunks, or the budget has shrunk.
    fn ask(&self, total: u32, rows: &mut [ShareRow<'_>], most: u32) {
        let has = sum(rows.iter().map(|row| row.guest.chunks));
        let is_owed = has > total || rows.iter().any(|row| row.guest.chunks < row.floor);
        let mut left = most;
        for row in rows {
            let (chunks, is_apart) = (row.guest.chunks, row.is_apart());
            let wanted = if planted!("guest: the budget asks for a minimum") { row.wanted.min(1) } else { row.wanted };
            let is_forced = is_owed || chunks > row.guest.share.max;
            // A small difference is not worth the reads of the pages.
            let is_worth = is_forced || chunks.saturating_sub(wanted) > chunks / 16;
            let is_calm = is_forced || !ShareState::is_recent(row.state.rose, self.step);
            if is_apart {
                // It may give still, and not more than it was asked for.
                row.state.target = if row.guest.is_still { chunks } else { row.state.target.min(chunks) };
            } else if wanted < chunks && is_calm && is_worth {
                let by = (chunks - wanted).min(left);
                left -= by;
                row.state.fell = if by > 0 { Some(self.step) } else { row.state.fell };
                row.state.target = chunks - by;
            } else {
                row.state.target = row.state.target.min(row.wanted).max(chunks);
            }
        }
    }

    /// Raises targets by what no guest holds (VB3): first to the floors, then further.
    fn promise(&self, total: u32, rows: &mut [ShareRow<'_>], most: u32) {
        let is_early = planted!("guest: the budget promises what others have not given yet");
        let held = |row: &ShareRow<'_>| if is_early { row.state.target } else { row.state.held() };
        if sum(rows.iter().map(held)) > total {
            // The budget has shrunk below what was promised.
            rows.iter_mut().for_each(|row| row.state.target = row.state.target.min(row.state.chunks));
        }
        let mut free = total.saturating_sub(sum(rows.iter().map(held)));
        let mut left = most;
        for is_floor in [true, false] {
            for row in &mut *rows {
                let goal = if is_floor { row.floor } else { row.wanted };
                let is_calm = is_floor || !ShareState::is_recent(row.state.fell, self.step);
                let by = goal.saturating_sub(row.state.held()).min(free).min(left);
                if by > 0 && is_calm && !row.is_apart() {
                    (free, left) = (free - by, left - by);
                    row.state.target = row.state.held() + by;
                    row.state.rose = Some(self.step);
                }
            }
        }
    }
}

/// Returns the sum of `chunks`, or the greatest number if that is less.
pub(crate) fn sum(chunks: impl Iterator<Item = u32>) -> u32 {
    chunks.fold(0, u32::saturating_add)
}

/// Divides `total` chunks: each guest gets its floor, then a part by weight and demand, and keeps what no other guest
/// wants.
fn divide(total: u32, rows: &mut [ShareRow<'_>]) {
    let is_late = planted!("guest: the budget serves demand before minima");
    let mut rest = total.saturating_sub(if is_late { 0 } else { sum(rows.iter().map(|row| row.floor)) });
    let part = (rest / 1024).max(1);
    while rest > 0 {
        let pulling = rows.iter_mut().filter(|row| row.pull().is_some());
        let Some(row) = pulling.max_by_key(|row| row.pull()) else { break };
        let by = part.min(rest).min(row.guest.share.max - row.wanted);
        (row.wanted, rest) = (row.wanted + by, rest - by);
    }
    for row in rows {
        let kept = row.guest.chunks.min(row.guest.share.max).saturating_sub(row.wanted).min(rest);
        (row.wanted, rest) = (row.wanted + kept, rest - kept);
    }
}

#[cfg(test)]
mod tests;
