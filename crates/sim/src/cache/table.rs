//! A number for each line of memory.
//!
//! Programs write neighbours. So what is looked up is a block of eight lines, by open addressing in a table of 4 bytes a
//! slot that is at most half full; numbers of 4 bytes take 6 to 7 bytes for each line where all of a block are written,
//! and about 50 where one is.

use super::Geometry;

/// Lines of a block.
const BLOCK: usize = 8;

/// In a slot: no block. So many blocks no memory holds.
const FREE: u32 = u32::MAX;

/// The first table has so many slots.
const FIRST_BITS: u32 = 10;

/// A number for each line of a bank, 0 at first.
#[derive(Clone, Debug)]
pub struct Table<N> {
    /// Which block.
    slots: Vec<u32>,
    blocks: Vec<Block<N>>,
    shift: u32,
    /// The bits of a line's number below those that tell it from others of its block: all lines of a bank have the same.
    bank_bits: u32,
}

#[derive(Clone, Debug)]
struct Block<N> {
    /// Its first line.
    line: u64,
    numbers: [N; BLOCK],
}

impl<N: Copy + Default> Table<N> {
    /// For the lines of a bank of such a cache.
    pub fn of(geometry: Geometry) -> Self {
        let shift = u64::BITS - FIRST_BITS;
        Self { slots: vec![FREE; 1 << FIRST_BITS], blocks: Vec::new(), shift, bank_bits: geometry.bank_bits }
    }

    /// The number kept for `line`.
    #[inline]
    pub fn number(&mut self, line: u64) -> &mut N {
        let within = (line >> self.bank_bits) as usize % BLOCK;
        let first = line & !((BLOCK as u64 - 1) << self.bank_bits);
        let slot = self.find(first);
        let mut at = self.slots[slot];
        if at == FREE {
            at = self.add(slot, first);
        }
        &mut self.blocks[at as usize].numbers[within]
    }

    /// Every line of every block, and its number, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, N)> + '_ {
        let of_block = move |block: &Block<N>| {
            let line = block.line;
            let numbers = block.numbers.into_iter().enumerate();
            numbers.map(move |(within, number)| (line + ((within as u64) << self.bank_bits), number))
        };
        self.blocks.iter().flat_map(of_block)
    }

    /// The slot of the block that begins with `line`, or the free one for it.
    #[inline]
    fn find(&self, line: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while self.slots[slot] != FREE && self.blocks[self.slots[slot] as usize].line != line {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[cold]
    fn add(&mut self, slot: usize, line: u64) -> u32 {
        let at = self.blocks.len() as u32;
        self.blocks.push(Block { line, numbers: [N::default(); BLOCK] });
        self.slots[slot] = at;
        if self.blocks.len() * 2 > self.slots.len() {
            self.grow();
        }
        at
    }

    fn grow(&mut self) {
        self.shift -= 1;
        let larger = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(larger, FREE);
        for at in 0..self.blocks.len() {
            let slot = self.find(self.blocks[at].line);
            self.slots[slot] = at as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Shape;

    /// Bytes for each of so many lines of a bank, one in `step`.
    fn bytes(step: u64) -> usize {
        const LINES: usize = 200_000;
        let geometry = Geometry::of(Shape { bytes: 1 << 20, ways: 16, line_bytes: 64 }).expect("a cache");
        let mut table = Table::<u32>::of(geometry);
        (0..LINES as u64).for_each(|n| *table.number(n * step * 4) += 1);
        assert_eq!(table.iter().map(|(_, number)| number as usize).sum::<usize>(), LINES);
        (table.slots.len() * size_of::<u32>() + table.blocks.len() * size_of::<Block<u32>>()) / LINES
    }

    /// What `sim llc --help` says of memory rests on it.
    #[test]
    fn neighbours_take_little_and_others_not_much() {
        assert!(bytes(1) <= 7, "{} bytes", bytes(1));
        assert!(bytes(BLOCK as u64) <= 56, "{} bytes", bytes(BLOCK as u64));
    }
}
