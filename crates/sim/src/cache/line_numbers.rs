//! Numbers of lines, where many lines have one.

/// A number for each line, 0 at first. Lines of a page have theirs together, for programs use whole pages sooner or later.
/// Where those of a page are its region tells, and where a region is a table, open addressing, sparsely filled. So what is
/// looked at is little but the numbers themselves, and branches can be foretold.
#[derive(Clone, Debug)]
pub struct LineNumbers<N> {
    slots: Vec<RegionSlot>,
    shift: u32,
    /// For each page of each region where its numbers are; the first ones are those of no page.
    regions: Vec<[u32; PAGES]>,
    numbers: Vec<[N; LINES]>,
    /// Bits of a line that are the same in all of its bank.
    bank_bits: u32,
}

/// Where a region is.
#[derive(Clone, Copy, Debug)]
struct RegionSlot {
    /// Its first line in this bank.
    region: u64,
    place: u32,
}

/// Where a line is.
struct LineSlot {
    region: u64,
    page: usize,
    line: usize,
}

/// Lines of a page that are in a bank, where a page has 64.
const LINES: usize = 16;

/// Pages of a region.
const PAGES: usize = 64;

/// No region has this number.
const FREE: RegionSlot = RegionSlot { region: u64::MAX, place: 0 };

/// The first table has so many slots.
const FIRST_BITS: u32 = 6;

/// Of so many slots at most one is filled.
const SPARSE: usize = 4;

impl<N: Copy + Default + PartialEq> LineNumbers<N> {
    /// None yet, of lines that have so many low bits in common.
    pub fn new(bank_bits: u32) -> Self {
        let numbers = vec![[N::default(); LINES]];
        Self { slots: vec![FREE; 1 << FIRST_BITS], shift: 64 - FIRST_BITS, regions: Vec::new(), numbers, bank_bits }
    }

    /// That of `line`, to be changed.
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

    /// That of `line`.
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

    /// Each line whose number is not 0, and that, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, N)> + '_ {
        self.slots.iter().filter(|slot| slot.region != FREE.region).flat_map(|slot| self.of_region(*slot))
    }

    /// Those of a region.
    fn of_region(&self, slot: RegionSlot) -> impl Iterator<Item = (u64, N)> + '_ {
        let numbers = self.regions[slot.place as usize].iter().flat_map(|place| &self.numbers[*place as usize]);
        let numbered = (0_u64..).zip(numbers).map(move |(at, number)| (slot.region | at << self.bank_bits, *number));
        numbered.filter(|(_, number)| *number != N::default())
    }

    /// The slot of a region, or a free one for it.
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
