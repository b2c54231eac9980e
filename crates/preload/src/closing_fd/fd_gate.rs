//! What stands in the table for descriptors while the kernel closes or replaces them: one gate for each call that has it do
//! so. Of two calls under way at one descriptor nobody knows which the kernel does first; so each looks whether there is
//! another one, and what two of them have changed is the kernel's.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::description::Description;
use crate::fd_table::{self, TakenEntry};

/// Calls under way that have a gate of their own.
pub const MOST: usize = 64;
const NOTHING: u64 = u64::MAX;

/// The first and the last descriptor of each call under way, or [`NOTHING`].
static RANGES: [AtomicU64; MOST] = [const { AtomicU64::new(NOTHING) }; MOST];
/// Whether the call under way at each place has yet to wait for what was begun by its descriptors.
static WAITING: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
/// Calls under way for which there was no place: they may be at any descriptor.
static CROWD: AtomicUsize = AtomicUsize::new(0);
/// One for each place, and one that stands for what is the kernel's until it is closed.
static GATES: OnceLock<Vec<Arc<Description>>> = OnceLock::new();

/// Before there is any.
pub fn prepare() {
    let _ = GATES.set(Description::gates(MOST + 1));
}

/// In a child, where no other thread's call is under way.
pub fn reset_in_child() {
    RANGES.iter().for_each(|range| range.store(NOTHING, Ordering::Relaxed));
    WAITING.iter().for_each(|waits| waits.store(false, Ordering::Relaxed));
    CROWD.store(0, Ordering::Relaxed);
}

/// From now on all by `fd` is the kernel's.
pub fn mark_as_kernels(fd: c_int) {
    if let Some(gate) = kernel_entry() {
        fd_table::put(fd, gate);
    }
}

/// What stands for what is the kernel's.
pub fn kernel_entry() -> Option<Arc<Description>> {
    GATES.get()?.get(MOST).cloned()
}

/// Whether a call is under way that closes or replaces `fd`.
pub fn is_any_at(fd: c_int) -> bool {
    is_crowded() || RANGES.iter().any(|range| meet(range.load(Ordering::SeqCst), pack(fd as c_uint, fd as c_uint)))
}

fn is_crowded() -> bool {
    CROWD.load(Ordering::SeqCst) > 0
}

fn pack(first: c_uint, last: c_uint) -> u64 {
    // What lies beyond is never ours.
    u64::from(first) << 32 | u64::from(last.min(fd_table::FDS as c_uint))
}

fn meet(one: u64, other: u64) -> bool {
    let (first, last) = (|range: u64| range >> 32, |range: u64| range & u64::from(c_uint::MAX));
    one != NOTHING && first(one) <= last(other) && first(other) <= last(one)
}

/// Of one call, until the kernel has done it and the table says so.
pub struct FdGate {
    place: Option<usize>,
    range: u64,
}

impl FdGate {
    /// `first` to `last` are about to be closed or replaced.
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
        // What is looked up in the table from here on is so behind that, on machines that have this library: who still finds
        // what stood there before is found here by who changes that.
        Self { place, range }
    }

    /// Stands for `fd` from now on; what did so before.
    pub fn shut(&self, fd: c_int) -> Option<TakenEntry> {
        fd_table::exchange(fd, Arc::clone(GATES.get()?.get(self.place.unwrap_or(MOST))?))
    }

    /// Whether no other call is under way at any of its descriptors; one that comes later finds this one.
    pub fn is_alone(&self) -> bool {
        !is_crowded() && self.others().next().is_none()
    }

    /// The places of the others at its descriptors.
    fn others(&self) -> impl Iterator<Item = usize> {
        let is_other = |place: &usize| Some(*place) != self.place;
        (0..MOST).filter(is_other).filter(|place| meet(RANGES[*place].load(Ordering::SeqCst), self.range))
    }

    /// Whether this call has yet to wait for what was begun by its descriptors. Said before it shuts one, so that who then
    /// finds this gate sees it.
    pub fn waits(&self, has_yet_to: bool) {
        if let Some(place) = self.place {
            WAITING[place].store(has_yet_to, Ordering::SeqCst);
        }
    }

    /// Whether another call at its descriptors has.
    pub fn are_others_waiting(&self) -> bool {
        is_crowded() || self.others().any(|place| WAITING[place].load(Ordering::SeqCst))
    }

    /// From now on `it` stands for `fd`, or nothing does, if this still did. Whether it did.
    pub fn open(&self, fd: c_int, it: Option<Arc<Description>>) -> bool {
        let own = self.place.and_then(|place| GATES.get()?.get(place));
        own.is_some_and(|own| fd_table::replace(fd, own, it))
    }
}

impl Drop for FdGate {
    fn drop(&mut self) {
        // A child that was made amid the call has forgotten it.
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
