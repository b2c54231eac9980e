//! Numbers of lines, if many lines have one.

/// A number for each line, 0 at first. The lines of a page have their numbers together, because programs use whole
/// pages sooner or later. A sparse hash table with open addressing finds a region, and a region finds its pages. So a
/// look-up reads little but the numbers themselves, and its branches are predictable.
#[derive(Clone, Debug)]
pub struct LineNumbers<N> {
    slots: Vec<RegionSlot>,
    shift: u32,
    /// For each region, the place of each page's numbers; place 0 is of no page.
    regions: Vec<[u32; PAGES]>,
    numbers: Vec<[N; LINES]>,
    /// Low bits in which all lines of the bank agree.
    bank_bits: u32,
}

/// A slot of the hash table.
#[derive(Clone, Copy, Debug)]
struct RegionSlot {
    /// The first line of the region in this bank.
    region: u64,
    place: u32,
}

/// The parts of a line's place.
struct LineSlot {
    region: u64,
    page: usize,
    line: usize,
}

/// Lines of a page in one of four banks, if a page has 64 lines.
const LINES: usize = 16;

/// Pages of a region.
const PAGES: usize = 64;

/// The slot of no region.
const FREE: RegionSlot = RegionSlot { region: u64::MAX, place: 0 };

/// Base-two logarithm of the slots of the first table.
const FIRST_BITS: u32 = 6;

/// At most one slot of this many is filled.
const SPARSE: usize = 4;

impl<N: Copy + Default + PartialEq> LineNumbers<N> {
    /// Returns numbers of 0 for lines of which the low `bank_bits` bits agree.
    pub fn new(bank_bits: u32) -> Self {
        let numbers = vec![[N::default(); LINES]];
        Self { slots: vec![FREE; 1 << FIRST_BITS], shift: 64 - FIRST_BITS, regions: Vec::new(), numbers, bank_bits }
    }

    /// Returns the number of `line`, to be changed.
    #[inline(always)]
    pub fn of(&mut self, line: u64) -> &mut N {
        let LineSlot { region, page, line } = self.at(line);
        let mut slot = self.slots[self.find(region)];
        if slot.region != region {
            slot = self.bring(region);
        }
        let mut place = self.regions[slot.place as usize][page];
        if place == 0 {
            place = self.bring_page(slot.place as usize, page);
        }
        &mut self.numbers[place as usize][line]
    }

    /// Returns the number of `line`.
    pub fn get(&self, line: u64) -> N {
        let LineSlot { region, page, line } = self.at(line);
        let slot = self.slots[self.find(region)];
        let place = if slot.region == region { self.regions[slot.place as usize][page] } else { 0 };
        self.numbers[place as usize][line]
    }

    #[inline(always)]
    fn at(&self, line: u64) -> LineSlot {
        let of_bank = (line >> self.bank_bits) as usize;
        let region = line & !(((LINES * PAGES - 1) as u64) << self.bank_bits);
        LineSlot { region, page: of_bank / LINES % PAGES, line: of_bank % LINES }
    }

    /// Returns each line whose number is not 0, with the number, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, N)> + '_ {
        self.slots.iter().filter(|slot| slot.region != FREE.region).flat_map(|slot| self.of_region(*slot))
    }

    /// Returns the numbered lines of a region.
    fn of_region(&self, slot: RegionSlot) -> impl Iterator<Item = (u64, N)> + '_ {
        let numbers = self.regions[slot.place as usize].iter().flat_map(|place| &self.numbers[*place as usize]);
        let numbered = (0_u64..).zip(numbers).map(move |(at, number)| (slot.region | at << self.bank_bits, *number));
        numbered.filter(|(_, number)| *number != N::default())
    }

    /// Returns the slot of a region, or a free slot for it.
    #[inline]
    fn find(&self, region: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while self.slots[at].region != region && self.slots[at].region != FREE.region {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn bring(&mut self, region: u64) -> RegionSlot {
        if self.regions.len() * SPARSE >= self.slots.len() {
            self.grow();
        }
        let slot = RegionSlot { region, place: self.regions.len() as u32 };
        let at = self.find(region);
        self.slots[at] = slot;
        self.regions.push([0; PAGES]);
        slot
    }

    #[cold]
    fn bring_page(&mut self, region: usize, page: usize) -> u32 {
        let place = self.numbers.len() as u32;
        self.regions[region][page] = place;
        self.numbers.push([N::default(); LINES]);
        place
    }

    fn grow(&mut self) {
        let larger = vec![FREE; self.slots.len() * 2];
        let slots = std::mem::replace(&mut self.slots, larger);
        self.shift -= 1;
        for slot in slots.into_iter().filter(|slot| slot.region != FREE.region) {
            let at = self.find(slot.region);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests;
