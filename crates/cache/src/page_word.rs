//! The words that describe cached blocks, and the references to them in DRAM.
//!
//! ```text
//! word    a checked word: block 36 | disk 6 | live 1 | dirty 1 | lost 1 | hits 2 | zeros 5
//! places  a checked word: two of (ssd 4, leb 22), all ones for none
//! ```

use ferrite_pool::{seal, unseal};

const BLOCK_BITS: u32 = 36;
const KEY_BITS: u32 = 42;
const LIVE: u64 = 1 << KEY_BITS;
const DIRTY: u64 = 1 << (KEY_BITS + 1);
const LOST: u64 = 1 << (KEY_BITS + 2);
const HITS_AT: u32 = KEY_BITS + 3;
/// The largest count of hits of a page.
pub(crate) const HITS_MAX: u8 = 3;

/// A block of one of the disks of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey(u64);

impl BlockKey {
    /// Returns the key of block `block` of disk `disk`.
    pub fn new(disk: u8, block: u64) -> Self {
        debug_assert!(block < 1 << BLOCK_BITS && disk < 64, "the disk is too large");
        Self(u64::from(disk) << BLOCK_BITS | block)
    }

    /// Returns the key as a number.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the key that [`Self::bits`] gave as `bits`.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the key in the word of a page, which is not verified.
    pub fn of_word(word: u64) -> Self {
        Self(word & ((1 << KEY_BITS) - 1))
    }

    /// Returns the number of the disk.
    pub fn disk(self) -> u8 {
        (self.0 >> BLOCK_BITS) as u8
    }

    /// Returns the number of the block in its disk.
    pub fn block(self) -> u64 {
        self.0 & ((1 << BLOCK_BITS) - 1)
    }

    /// Returns a hash of the key, equally distributed in all its bits.
    pub fn hash(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

/// The state of one cached page, as its word on the medium has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageWord {
    pub key: BlockKey,
    /// True until a newer version replaces the page or the page is evicted.
    pub live: bool,
    /// True if the disk has an older version of the block.
    pub dirty: bool,
    /// True if no copy of a dirty page can be read.
    pub lost: bool,
    /// How often the page was read, at most [`HITS_MAX`].
    pub hits: u8,
}

impl PageWord {
    /// Returns the word as the medium has it.
    pub fn encode(self, salt: u32) -> u64 {
        let flags = [(self.live, LIVE), (self.dirty, DIRTY), (self.lost, LOST)];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum::<u64>();
        seal(salt, self.key.0 | flags | u64::from(self.hits.min(HITS_MAX)) << HITS_AT)
    }

    /// Returns the state in `word`, or `None` if its checksum is wrong.
    pub fn decode(salt: u32, word: u64) -> Option<Self> {
        let number = unseal(salt, word)?;
        let is_set = |bit| number & bit != 0;
        Some(Self {
            key: BlockKey(number & ((1 << KEY_BITS) - 1)),
            live: is_set(LIVE),
            dirty: is_set(DIRTY),
            lost: is_set(LOST),
            hits: (number >> HITS_AT) as u8 & HITS_MAX,
        })
    }
}

/// A LEB of an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LebPlace {
    pub ssd: u8,
    pub leb: u32,
}

/// The copies of a LEB's pages: on different SSDs (CA5).
pub(crate) type LebPlaces = [Option<LebPlace>; 2];

const NO_PLACE: u64 = (1 << 26) - 1;

/// Returns the word of `places`.
pub(crate) fn encode_places(salt: u32, places: LebPlaces) -> u64 {
    let number = |place: Option<LebPlace>| place.map_or(NO_PLACE, |at| u64::from(at.ssd) << 22 | u64::from(at.leb));
    seal(salt, number(places[0]) << 26 | number(places[1]))
}

/// Returns the places in `word`, or `None` if its checksum is wrong.
pub(crate) fn decode_places(salt: u32, word: u64) -> Option<LebPlaces> {
    let number = unseal(salt, word)?;
    let place =
        |bits: u64| (bits != NO_PLACE).then_some(LebPlace { ssd: (bits >> 22) as u8, leb: bits as u32 & 0x3f_ffff });
    Some([place(number >> 26), place(number & NO_PLACE)])
}

/// Where a cached block is: a slot of a buffer, or a page of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PageRef(u32);

const SLOT_BIT: u32 = 1 << 31;

impl PageRef {
    /// Returns the reference to the slot with this number, counted over all buffers.
    pub fn slot(number: u32) -> Self {
        Self(number | SLOT_BIT)
    }

    /// Returns the reference to the page with this number, counted over all tables.
    pub fn page(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of the slot or of the page.
    pub fn number(self) -> u32 {
        self.0 & !SLOT_BIT
    }

    /// Returns true for a slot.
    pub fn is_slot(self) -> bool {
        self.0 & SLOT_BIT != 0
    }
}

#[cfg(test)]
mod tests;
