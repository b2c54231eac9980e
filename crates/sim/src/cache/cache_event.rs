//! What the last level sees.

use super::l1::{LINE, SIGNATURE_SHIFT, word};

/// An access to a line. A read is a miss of the level above, a write a whole line that the level above wrote back. Its
/// bits are those of [`L1`](super::L1).
///
/// With it comes a signature: a hash of the instruction that read, or that stored to the line last; where nobody knows
/// that, of the region of memory ([`MemoryAccess::new`](crate::trace::Access::new)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CacheEvent(pub u64);

impl CacheEvent {
    /// One.
    #[inline]
    pub fn new(line: u64, is_write: bool, signature: u8) -> Self {
        Self(word(line, is_write, signature))
    }

    /// A read of `line`, with a signature of zero.
    #[inline]
    pub fn read(line: u64) -> Self {
        Self::new(line, false, 0)
    }

    /// A write of `line`, with a signature of zero.
    #[inline]
    pub fn write(line: u64) -> Self {
        Self::new(line, true, 0)
    }

    /// Its line: of the highest addresses without the bits above 54, which tell nothing.
    #[inline]
    pub fn line(self) -> u64 {
        self.0 >> 1 & LINE
    }

    /// Whether it writes.
    #[inline]
    pub fn is_write(self) -> bool {
        self.0 & 1 != 0
    }

    /// The signature.
    #[inline]
    pub fn signature(self) -> u8 {
        (self.0 >> SIGNATURE_SHIFT) as u8
    }
}
