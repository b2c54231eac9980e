//! The level above: what it lets through to the last level. Write-back, write-allocate, least recently used.
//!
//! Also a part of the recording plugin, which is compiled by itself: this file uses nothing but the language.

/// The first-level cache of one core.
///
/// A set is its lines from most to least recent, each `line << 1 | dirty`.
pub struct L1 {
    slots: Vec<u64>,
    ways: usize,
    mask: u64,
}

/// No slot of a line: its line would be beyond all memory.
const NONE: u64 = u64::MAX;

impl L1 {
    /// An empty one of so many sets, a power of two, of so many ways.
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "the shape was checked");
        Self { slots: vec![NONE; sets * ways], ways, mask: sets as u64 - 1 }
    }

    /// An access to `line`. What the last level sees of it is pushed: the write of a dirty line that had to leave
    /// first, then the read.
    #[inline]
    pub fn access(&mut self, line: u64, is_write: bool, mut push: impl FnMut(u64)) {
        let from = (line & self.mask) as usize * self.ways;
        let set = &mut self.slots[from..from + self.ways];
        let first = set[0];
        if first >> 1 == line {
            set[0] = first | u64::from(is_write);
            return;
        }
        Self::further(set, line << 1 | u64::from(is_write), &mut push);
    }

    #[inline]
    fn further(set: &mut [u64], slot: u64, push: &mut impl FnMut(u64)) {
        let mut moved = slot;
        for at in 0..set.len() {
            let here = std::mem::replace(&mut set[at], moved);
            if here >> 1 == slot >> 1 {
                set[0] |= here & 1;
                return;
            }
            moved = here;
        }
        if moved != NONE && moved & 1 != 0 {
            push(moved);
        }
        push(slot & !1);
    }

    /// Writes back every dirty line, set by set, the least recent first. They stay, clean.
    pub fn drain(&mut self, mut push: impl FnMut(u64)) {
        for set in self.slots.chunks_exact_mut(self.ways) {
            for slot in set.iter_mut().rev().filter(|slot| **slot & 1 != 0 && **slot != NONE) {
                push(*slot);
                *slot &= !1;
            }
        }
    }
}
