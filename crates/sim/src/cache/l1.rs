//! The level above: what it lets through to the last level. Write-back, write-allocate, least recently used.
//!
//! Also a part of the recording plugin, which is compiled by itself: this file uses nothing but the language.
//!
//! A line and what is known of it are one word, in a slot as in what is let through:
//!
//! ```text
//!  63..56   the signature of the instruction that read the line or, of one that is written, stored to it last
//!  55       in a slot whether there is none
//!  54..1    the line
//!  0        whether it is dirty, or is written
//! ```
//!
//! Processors have addresses of 57 bits, and those above repeat the last: so 54 are enough for lines of 8 bytes or more.

/// Where the signature stands.
pub const SIGNATURE_SHIFT: u32 = 56;

/// Bits of a line.
pub const LINE: u64 = (1 << 54) - 1;

/// No line.
const NONE: u64 = 1 << 55;

/// What two slots of the same line have in common.
const SAME: u64 = NONE | LINE << 1;

/// The signature of an instruction: a hash of where in its page it is, the same wherever its file is mapped.
#[inline]
pub fn signature(address: u64) -> u8 {
    ((address % 4096).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The word of an access to a line.
#[inline]
pub fn word(line: u64, is_write: bool, signature: u8) -> u64 {
    u64::from(signature) << SIGNATURE_SHIFT | (line & LINE) << 1 | u64::from(is_write)
}

/// The first-level cache of one core.
///
/// A set is its slots from most to least recent.
pub struct L1 {
    slots: Vec<u64>,
    ways: usize,
    mask: u64,
}

impl L1 {
    /// An empty one of so many sets, a power of two, of so many ways.
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "the shape was checked");
        Self { slots: vec![NONE; sets * ways], ways, mask: sets as u64 - 1 }
    }

    /// An access to `line`; `signature` tells that of the instruction, if it is needed. What the last level sees of it is
    /// pushed: the write of a dirty line that had to leave first, then the read. A part of each loop that calls it: most
    /// accesses are to the line that its set saw last, and done in less time than a call takes.
    #[inline(always)]
    pub fn access(&mut self, line: u64, is_write: bool, signature: impl Fn() -> u8, push: impl FnMut(u64)) {
        if self.again(line, is_write, &signature) {
            return;
        }
        let slot = word(line, is_write, signature());
        match self.set(line) {
            [first, second] => Self::of_two(first, second, slot, push),
            set => Self::further(set, slot, push),
        }
    }

    /// The same if it is to the line that its set saw last, of which the last level sees nothing; whether it was.
    #[inline(always)]
    pub fn again(&mut self, line: u64, is_write: bool, signature: impl Fn() -> u8) -> bool {
        let last = &mut self.set(line)[0];
        let is_there = (*last ^ word(line, is_write, 0)) & SAME == 0;
        if is_there && is_write {
            *last = word(line, is_write, signature());
        }
        is_there
    }

    #[inline(always)]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let from = (line & self.mask) as usize * self.ways;
        &mut self.slots[from..from + self.ways]
    }

    /// As [`L1::further`], without a loop: most first levels that are simulated have two ways.
    #[inline(always)]
    fn of_two(first: &mut u64, second: &mut u64, slot: u64, mut push: impl FnMut(u64)) {
        let other = std::mem::replace(second, *first);
        if (other ^ slot) & SAME == 0 {
            *first = if slot & 1 != 0 { slot } else { other };
            return;
        }
        *first = slot;
        if other & 1 != 0 {
            push(other);
        }
        push(slot & !1);
    }

    #[inline]
    fn further(set: &mut [u64], slot: u64, mut push: impl FnMut(u64)) {
        let mut moved = slot;
        for at in 0..set.len() {
            let here = std::mem::replace(&mut set[at], moved);
            if (here ^ slot) & SAME == 0 {
                set[0] = if slot & 1 != 0 { slot } else { here };
                return;
            }
            moved = here;
        }
        if moved & 1 != 0 {
            push(moved);
        }
        push(slot & !1);
    }

    /// Writes back every dirty line, set by set, the least recent first. They stay, clean.
    pub fn drain(&mut self, mut push: impl FnMut(u64)) {
        for set in self.slots.chunks_exact_mut(self.ways) {
            for slot in set.iter_mut().rev().filter(|slot| **slot & 1 != 0) {
                push(*slot);
                *slot &= !1;
            }
        }
    }
}
