//! The events that the last level sees.

use super::l1::{LINE, SIGNATURE_SHIFT, word};

/// An access to a line. A read is a miss of the level above, a write a whole line that the level above wrote back. The
/// bits have the layout of a slot of [`L1`](super::L1).
///
/// The event carries a signature: a hash of the instruction that read, or that stored to the line last. If the
/// instruction is unknown, the signature is a hash of the region of memory
/// ([`MemoryAccess::new`](crate::trace::MemoryAccess::new)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CacheEvent(pub u64);

impl CacheEvent {
    /// Returns an event with these parts.
    #[inline]
    pub fn new(line: u64, is_write: bool, signature: u8) -> Self {
        Self(word(line, is_write, signature))
    }

    /// Returns a read of `line`, with a signature of zero.
    #[inline]
    pub fn read(line: u64) -> Self {
        Self::new(line, false, 0)
    }

    /// Returns a write of `line`, with a signature of zero.
    #[inline]
    pub fn write(line: u64) -> Self {
        Self::new(line, true, 0)
    }

    /// Returns the line, without the bits above 54, which repeat the highest.
    #[inline]
    pub fn line(self) -> u64 {
        self.0 >> 1 & LINE
    }

    /// Returns true for a write.
    #[inline]
    pub fn is_write(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns the signature.
    #[inline]
    pub fn signature(self) -> u8 {
        (self.0 >> SIGNATURE_SHIFT) as u8
    }
}
