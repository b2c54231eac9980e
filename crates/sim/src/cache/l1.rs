//! The first-level cache, and the events that it passes to the last level. Write-back, write-allocate, least recently
//! used.
//!
//! The recording plugin, which is compiled separately, includes this file. So it uses nothing but the language.
//!
//! A line and its state are one word, both in a slot and in an event:
//!
//! ```text
//!   63..56   the signature of the instruction that read the line or, for a written line, stored to it last
//!   55       in a slot: set if the slot is empty
//!   54..1    the line
//!   0        in a slot: dirty; in an event: a write
//! ```
//!
//! Processors have addresses of 57 bits, and the bits above repeat the last: 54 bits suffice for lines of 8 bytes or
//! more.

/// The lowest bit of the signature.
pub const SIGNATURE_SHIFT: u32 = 56;

/// The bits of a line.
pub const LINE: u64 = (1 << 54) - 1;

/// The bit of an empty slot.
const NONE: u64 = 1 << 55;

/// The bits in which two slots of the same line agree.
const SAME: u64 = NONE | LINE << 1;

/// Returns the signature of an instruction: a hash of its place in its page, the same wherever its file is mapped.
#[inline]
pub fn signature(address: u64) -> u8 {
    ((address % 4096).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Returns the word of an access to a line.
#[inline]
pub fn word(line: u64, is_write: bool, signature: u8) -> u64 {
    u64::from(signature) << SIGNATURE_SHIFT | (line & LINE) << 1 | u64::from(is_write)
}

/// The first-level cache of one core.
///
/// A set is its slots from the most to the least recent.
pub struct L1 {
    slots: Vec<u64>,
    ways: usize,
    mask: u64,
}

impl L1 {
    /// Returns an empty cache of `sets` sets, a power of two, of `ways` ways.
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "the shape was checked");
        Self { slots: vec![NONE; sets * ways], ways, mask: sets as u64 - 1 }
    }

    /// Applies an access to `line`; `signature` computes the signature of the instruction if it is needed. The events
    /// for the last level are pushed: the write of a dirty victim, then the read. The function is inlined into each
    /// loop: most accesses hit the most recent line of their set and take less time than a call.
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

    /// Applies an access if it is to the most recent line of its set, which the last level never sees. Returns true if
    /// it was.
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

    /// Does the work of [`L1::further`] without a loop: most simulated first levels have two ways.
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

    /// Writes back every dirty line, set by set, the least recent first. The lines stay, clean.
    pub fn drain(&mut self, mut push: impl FnMut(u64)) {
        for set in self.slots.chunks_exact_mut(self.ways) {
            for slot in set.iter_mut().rev().filter(|slot| **slot & 1 != 0) {
                push(*slot);
                *slot &= !1;
            }
        }
    }
}
