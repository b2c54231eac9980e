//! The report of a stray access.
//!
//! Every mapping is entered in a table that a signal handler may read: fixed slots of atomics, no lock, no heap.
//! Only the program `ferrite` installs the handler; a library leaves signals alone.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::Guard;
use crate::area::Area;

const SLOTS: usize = 64;
const NAME_BYTES: usize = 120;

/// One mapping as the handler sees it. A slot is free while `len` is 0; `taken` keeps two writers apart.
struct Slot {
    taken: AtomicU8,
    guard: AtomicU8,
    base: AtomicUsize,
    len: AtomicUsize,
    name: [AtomicU8; NAME_BYTES],
}

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicU8::new(0),
            guard: AtomicU8::new(0),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            name: [const { AtomicU8::new(0) }; NAME_BYTES],
        }
    }

    fn fill(&self, area: &Area, name: &str, guard: Guard) {
        for (i, cell) in self.name.iter().enumerate() {
            cell.store(name.as_bytes().get(i).copied().unwrap_or(0), Ordering::Relaxed);
        }
        self.guard.store(guard as u8, Ordering::Relaxed);
        self.base.store(area.base() as usize, Ordering::Relaxed);
        self.len.store(area.len() as usize, Ordering::Release);
    }
}

/// A mapping's place in the table, given back when dropped.
pub(crate) struct Entry(&'static Slot);

impl Entry {
    /// Enters a mapping; `None` when the table is full, which costs nothing but the report.
    pub fn new(area: &Area, name: &str, guard: Guard) -> Option<Self> {
        let slot = TABLE.iter().find(|slot| slot.taken.swap(1, Ordering::AcqRel) == 0)?;
        slot.fill(area, name, guard);
        Some(Self(slot))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.len.store(0, Ordering::Release);
        self.0.taken.store(0, Ordering::Release);
    }
}
