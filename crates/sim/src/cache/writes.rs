//! How often each line of memory was written.

/// A count for each line: open addressing, at most half full.
#[derive(Clone, Debug)]
pub struct Writes {
    slots: Vec<(u64, u64)>,
    used: usize,
    shift: u32,
}

/// No line has this number.
const FREE: u64 = u64::MAX;

/// The first table has so many slots.
const FIRST_BITS: u32 = 10;

impl Default for Writes {
    fn default() -> Self {
        Self { slots: vec![(FREE, 0); 1 << FIRST_BITS], used: 0, shift: 64 - FIRST_BITS }
    }
}

impl Writes {
    /// Counts one write of `line`.
    #[inline]
    pub fn add(&mut self, line: u64) {
        *self.value(line) += 1;
    }

    /// The number kept for `line`, 0 at first.
    #[inline]
    pub fn value(&mut self, line: u64) -> &mut u64 {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let at = self.find(line);
        let slot = &mut self.slots[at];
        if slot.0 == FREE {
            slot.0 = line;
            self.used += 1;
        }
        &mut slot.1
    }

    /// How many lines it knows.
    pub fn lines(&self) -> u64 {
        self.used as u64
    }

    /// Each line and its number, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.slots.iter().copied().filter(|slot| slot.0 != FREE)
    }

    #[inline]
    fn find(&self, line: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while self.slots[at].0 != line && self.slots[at].0 != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![(FREE, 0); self.slots.len() * 2];
        let slots = std::mem::replace(&mut self.slots, larger);
        self.shift -= 1;
        for slot in slots.into_iter().filter(|slot| slot.0 != FREE) {
            let at = self.find(slot.0);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn counts_are_those_of_a_map() {
        let (mut writes, mut map) = (Writes::default(), HashMap::new());
        for n in 0..50_000_u64 {
            let line = (n * n) % 7919 * 4096;
            writes.add(line);
            *map.entry(line).or_insert(0_u64) += 1;
        }
        assert_eq!(writes.lines(), map.len() as u64);
        assert_eq!(writes.iter().collect::<HashMap<_, _>>(), map);
    }
}
