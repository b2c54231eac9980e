//! The report of a stray access.
//!
//! Every mapping is entered in a table that a signal handler may read: fixed slots of atomics, no lock, no heap.
//! Only the program `ferrite` installs the handler ([`install`]); a library leaves signals alone.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::area::Area;

#[cfg(target_arch = "x86_64")]
mod report;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use report::install;

/// Does nothing here: where the fault's kind and instruction lie is known for x86-64 only.
///
/// # Errors
/// None.
#[cfg(not(target_arch = "x86_64"))]
pub fn install() -> crate::Result<()> {
    Ok(())
}

const SLOTS: usize = 64;
const NAME_BYTES: usize = 240;

/// One mapping as the handler sees it. A slot is free while `len` is 0; `taken` keeps two writers apart.
struct FaultSlot {
    taken: AtomicU8,
    base: AtomicUsize,
    len: AtomicUsize,
    name: [AtomicU8; NAME_BYTES],
}

static TABLE: [FaultSlot; SLOTS] = [const { FaultSlot::new() }; SLOTS];

impl FaultSlot {
    const fn new() -> Self {
        Self {
            taken: AtomicU8::new(0),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            name: [const { AtomicU8::new(0) }; NAME_BYTES],
        }
    }

    fn fill(&self, area: &Area, name: &str) {
        for (i, cell) in self.name.iter().enumerate() {
            cell.store(name.as_bytes().get(i).copied().unwrap_or(0), Ordering::Relaxed);
        }
        self.base.store(area.base() as usize, Ordering::Relaxed);
        self.len.store(area.len() as usize, Ordering::Release);
    }
}

/// A mapping's place in the table, given back when dropped.
pub(crate) struct FaultEntry(&'static FaultSlot);

impl FaultEntry {
    /// Enters a mapping; `None` when the table is full, which costs nothing but the report.
    pub fn new(area: &Area, name: &str) -> Option<Self> {
        let slot = TABLE.iter().find(|slot| slot.taken.swap(1, Ordering::AcqRel) == 0)?;
        slot.fill(area, name);
        Some(Self(slot))
    }
}

impl Drop for FaultEntry {
    fn drop(&mut self) {
        self.0.len.store(0, Ordering::Release);
        self.0.taken.store(0, Ordering::Release);
    }
}

/// The mapping that holds an address.
struct FaultHit {
    slot: &'static FaultSlot,
    /// The byte of the mapping.
    at: usize,
}

/// Which mapping holds `address`. Safe to call in a signal handler.
fn find(address: usize) -> Option<FaultHit> {
    TABLE.iter().find_map(|slot| {
        let len = slot.len.load(Ordering::Acquire);
        let at = address.checked_sub(slot.base.load(Ordering::Relaxed))?;
        (at < len).then_some(FaultHit { slot, at })
    })
}
