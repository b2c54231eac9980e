//! Entries that stand in the table while the kernel closes or replaces descriptors: one gate for each call. The order
//! of two concurrent calls on one descriptor is unknown, so each checks for another, and a descriptor that two calls
//! have changed is the kernel's.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::description::Description;
use crate::fd_table::{self, TakenEntry};

/// The most concurrent calls with a gate of their own.
pub const MOST: usize = 64;
const NOTHING: u64 = u64::MAX;

/// The first and the last descriptor of each concurrent call, or [`NOTHING`].
static RANGES: [AtomicU64; MOST] = [const { AtomicU64::new(NOTHING) }; MOST];
/// For each place, true while its call has yet to wait for calls that had begun.
static WAITING: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
/// Concurrent calls without a place: they may be at any descriptor.
static CROWD: AtomicUsize = AtomicUsize::new(0);
/// One gate for each place, and one for descriptors that are the kernel's until they are closed.
static GATES: OnceLock<Vec<Arc<Description>>> = OnceLock::new();

/// Creates the gates, before any is used.
pub fn prepare() {
    let _ = GATES.set(Description::gates(MOST + 1));
}

/// Resets the gates in a child, where no other thread's call is running.
pub fn reset_in_child() {
    RANGES.iter().for_each(|range| range.store(NOTHING, Ordering::Relaxed));
    WAITING.iter().for_each(|waits| waits.store(false, Ordering::Relaxed));
    CROWD.store(0, Ordering::Relaxed);
}

/// Leaves all calls by `fd` to the kernel from now on.
pub fn mark_as_kernels(fd: c_int) {
    if let Some(gate) = kernel_entry() {
        fd_table::put(fd, gate);
    }
}

/// Returns the entry of descriptors that are the kernel's.
pub fn kernel_entry() -> Option<Arc<Description>> {
    GATES.get()?.get(MOST).cloned()
}

/// Returns true if a concurrent call closes or replaces `fd`.
pub fn is_any_at(fd: c_int) -> bool {
    is_crowded() || RANGES.iter().any(|range| meet(range.load(Ordering::SeqCst), pack(fd as c_uint, fd as c_uint)))
}

fn is_crowded() -> bool {
    CROWD.load(Ordering::SeqCst) > 0
}

fn pack(first: c_uint, last: c_uint) -> u64 {
    // Descriptors beyond the table are never in it.
    u64::from(first) << 32 | u64::from(last.min(fd_table::FDS as c_uint))
}

fn meet(one: u64, other: u64) -> bool {
    let (first, last) = (|range: u64| range >> 32, |range: u64| range & u64::from(c_uint::MAX));
    one != NOTHING && first(one) <= last(other) && first(other) <= last(one)
}

/// The gate of one call, until the kernel has done it and the table is updated.
pub struct FdGate {
    place: Option<usize>,
    range: u64,
}

impl FdGate {
    /// Opens a gate for descriptors `first` to `last`, which are about to be closed or replaced.
    pub fn over(first: c_uint, last: c_uint) -> Self {
        let range = pack(first, last);
        let free = |place: &AtomicU64| {
            let is_free = place.load(Ordering::Relaxed) == NOTHING;
            is_free && place.compare_exchange(NOTHING, range, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        let place = RANGES.iter().position(free);
        if place.is_none() {
            CROWD.fetch_add(1, Ordering::SeqCst);
        }
        // On machines that have this library, later look-ups in the table are ordered after this: a thread that still
        // finds the previous entry is visible to the thread that replaces it.
        Self { place, range }
    }

    /// Puts the gate in the place of `fd` and returns the previous entry.
    pub fn shut(&self, fd: c_int) -> Option<TakenEntry> {
        fd_table::exchange(fd, Arc::clone(GATES.get()?.get(self.place.unwrap_or(MOST))?))
    }

    /// Returns true if no other call is at any of its descriptors; a later call finds this one.
    pub fn is_alone(&self) -> bool {
        !is_crowded() && self.others().next().is_none()
    }

    /// Returns the places of other calls at its descriptors.
    fn others(&self) -> impl Iterator<Item = usize> {
        let is_other = |place: &usize| Some(*place) != self.place;
        (0..MOST).filter(is_other).filter(|place| meet(RANGES[*place].load(Ordering::SeqCst), self.range))
    }

    /// Announces whether this call has yet to wait for calls that had begun. Announced before the gate is in place, so
    /// that a thread that finds the gate sees it.
    pub fn waits(&self, has_yet_to: bool) {
        if let Some(place) = self.place {
            WAITING[place].store(has_yet_to, Ordering::SeqCst);
        }
    }

    /// Returns true if another call at its descriptors has yet to wait.
    pub fn are_others_waiting(&self) -> bool {
        is_crowded() || self.others().any(|place| WAITING[place].load(Ordering::SeqCst))
    }

    /// Puts `it`, or nothing, in the place of `fd`, if this gate was still there. Returns true if it was.
    pub fn open(&self, fd: c_int, it: Option<Arc<Description>>) -> bool {
        let own = self.place.and_then(|place| GATES.get()?.get(place));
        own.is_some_and(|own| fd_table::replace(fd, own, it))
    }
}

impl Drop for FdGate {
    fn drop(&mut self) {
        // A child that was made during the call has reset it.
        let _ = match self.place {
            Some(place) => {
                RANGES[place].compare_exchange(self.range, NOTHING, Ordering::SeqCst, Ordering::Relaxed).map(drop)
            }
            None => CROWD
                .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |crowd| crowd.checked_sub(1))
                .map(drop)
                .map_err(|crowd| crowd as u64),
        };
    }
}
