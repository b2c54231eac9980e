//! The last-level cache, and its writebacks to a memory that wears (nvm-storage-hierarchy.txt, chapter 2).
//!
//! The numbered definitions that every figure rests on, which the tests cite:
//!
//! 1. The first level is write-back, write-allocate, LRU, one for each core. The last level sees its misses as reads
//!    and its writebacks as writes of whole lines; the last level does not include the first.
//! 2. A write that misses is given a way without a fetch. A hit makes the line most recent. Unfilled ways are filled
//!    first, from the least recent position.
//! 3. Protect-N, the partitioned cache: see [`policy`].
//! 4. At the end the first level is drained into the last, and every line that is then dirty counts as a writeback.
//! 5. Energy is read misses (with `fetch_on_write_miss` all misses) times 78 mW and 28 ns, and writebacks times 773 mW
//!    and 150 ns.
//! 6. Lifetime is how often the program can run until a line of memory has been written as often as it endures; see
//!    [`wear`]. The gain of a policy is its lifetime over LRU's.
//! 7. No policy writes back less than [`WritebackBound`].
//!
//! A cache is simulated in [`BANKS`] banks that share nothing. All cores of the simulating machine can work on it, and
//! the figures are the same for any number of them.

mod bank;
mod cache_event;
mod cache_shape;
mod l1;
mod line_numbers;
pub mod policy;
mod set;
mod study;
#[cfg(test)]
mod tests;
pub mod wear;
mod write_counts;
mod writeback_bound;

pub use bank::{Bank, BankCounts, RegionTraffic};
pub use cache_event::CacheEvent;
pub use cache_shape::{CacheShape, WAYS_MAX};
pub use l1::{L1, signature};
pub use set::{NarrowSet, Rank, Set, WideSet, least_recent, ones};
pub use study::{
    BoundFigures, CacheModel, PolicyChoice, PolicyDefaults, PolicyFigures, Study, StudyEnd, StudyProgress, StudyReport,
};
pub use write_counts::WriteCounts;
pub use writeback_bound::WritebackBound;

/// Banks of a last-level cache that has at least as many sets: set `s` is in bank `s % BANKS`.
pub const BANKS: u32 = 4;

/// The mapping from a line to its set and bank.
#[derive(Clone, Copy, Debug)]
pub struct BankGeometry {
    /// Ways of a set.
    pub ways: u32,
    set_bits: u32,
    bank_bits: u32,
}

impl BankGeometry {
    /// Returns the geometry of a cache.
    ///
    /// # Errors
    /// The errors of [`CacheShape::sets`].
    pub fn of(shape: CacheShape) -> crate::Result<Self> {
        let set_bits = shape.sets()?.ilog2();
        Ok(Self { ways: shape.ways, set_bits, bank_bits: BANKS.ilog2().min(set_bits) })
    }

    /// Returns the number of banks.
    pub fn banks(&self) -> usize {
        1 << self.bank_bits
    }

    /// Returns the sets of a bank.
    pub fn bank_sets(&self) -> u32 {
        1 << (self.set_bits - self.bank_bits)
    }

    /// Returns the bank of a line.
    #[inline]
    pub fn bank(&self, line: u64) -> usize {
        (line & ((1 << self.bank_bits) - 1)) as usize
    }

    #[inline]
    fn set(&self, line: u64) -> u32 {
        (line & ((1 << self.set_bits) - 1)) as u32
    }

    #[inline]
    fn set_in_bank(&self, line: u64) -> usize {
        (self.set(line) >> self.bank_bits) as usize
    }

    #[inline]
    fn tag(&self, line: u64) -> u64 {
        line >> self.set_bits
    }
}
