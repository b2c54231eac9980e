//! Append checksums: they prove the size of a file that is appended to with one fence.
//!
//! ```text
//! checksum   0 end: bits 0..48 a size   48..64 of how many bytes, which end there   8 sum u32 of those   12 check u32
//! ```
//!
//! The line of an inode that is stored directly has two. An append stores its bytes, over the lesser of the two a
//! proof of them, and fences once; a crash may keep any part of that. All the same:
//!
//! - FP1. A checksum is whole if its check word matches its other words and the epoch. It holds if the bytes that it
//!   covers are there. The size is the greatest that holds; if no checksum is whole, the size word counts.
//! - FP2. A new checksum is stored over the lesser one, and the greater one holds without it: its bytes and itself are
//!   durable. So a crash leaves the earlier size, or the new size and every byte before it.
//! - FP3. Bytes that the size rests on are stored over only when it rests on none: on a proof of no bytes, or on the
//!   head.
//! - FP4. If the greatest checksum does not hold, or the size word differs from it, an append is running or a crash
//!   interrupted one. The next holder of the file commits the size to the head before it stores anything, so that
//!   remains of the interrupted append never become valid.

use ferrite_memory::mix::{FACTORS, fold};
use ferrite_memory::planted;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::format::inode::{SIZE, SIZE_BITS};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AppendChecksum {
    end: u64,
    sums: u64,
}

/// The two of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AppendChecksums([AppendChecksum; 2]);

impl AppendChecksum {
    /// The most bytes that a checksum can cover.
    pub const BYTES_MAX: usize = u16::MAX as usize;
    /// None.
    const NONE: Self = Self { end: 0, sums: 0 };

    /// Returns the checksum of the last `bytes` bytes before `size`, whole lines with this sum.
    #[inline]
    pub(crate) fn of(epoch: u16, size: u64, bytes: u16, sum: u32) -> Self {
        let end = size | u64::from(bytes) << SIZE_BITS;
        Self { end, sums: u64::from(sum) | u64::from(Self::check(epoch, end, sum)) << 32 }
    }

    /// Returns the checksum of a size whose bytes are durable.
    #[inline]
    pub(crate) fn of_size(epoch: u16, size: u64) -> Self {
        Self::of(epoch, size, 0, 0)
    }

    /// Never 0, so that an absent checksum differs from all others. Computed from registers alone: a load of freshly
    /// stored words would wait for all bytes before them.
    #[inline(always)]
    fn check(epoch: u16, end: u64, sum: u32) -> u32 {
        (fold(end ^ FACTORS[0], (u64::from(sum) | u64::from(epoch) << 32) ^ FACTORS[1]) >> 32) as u32 | 1
    }

    #[inline]
    fn is_whole(self, epoch: u16) -> bool {
        Self::check(epoch, self.end, self.sums as u32) == (self.sums >> 32) as u32
    }

    /// The sum of the bytes it is of.
    pub(crate) fn sum(self) -> u32 {
        self.sums as u32
    }

    #[inline]
    pub(crate) fn size(self) -> u64 {
        self.end & SIZE
    }

    /// Returns how many bytes it covers.
    #[inline]
    pub fn bytes(self) -> u64 {
        self.end >> SIZE_BITS
    }

    /// Orders checksums: by size, then by how few bytes they cover. An absent checksum is the least.
    #[inline(always)]
    fn rank(self) -> u64 {
        let rank = (self.end << 16 | (self.end >> SIZE_BITS ^ 0xffff)).wrapping_add(1);
        if self.sums == 0 { 0 } else { rank }
    }
}

impl AppendChecksums {
    /// None.
    pub(crate) const NONE: Self = Self([AppendChecksum::NONE; 2]);

    /// Returns the checksums in these words, all of them present or absent.
    #[inline(always)]
    pub fn of_words([end, sums, other_end, other_sums]: [u64; 4]) -> Self {
        Self([AppendChecksum { end, sums }, AppendChecksum { end: other_end, sums: other_sums }])
    }

    /// Their words.
    #[inline(always)]
    pub fn words(self) -> [u64; 4] {
        [self.0[0].end, self.0[0].sums, self.0[1].end, self.0[1].sums]
    }

    /// Returns those that are whole in `epoch`, with absent ones in place of the others.
    #[inline]
    pub(crate) fn whole(self, epoch: u16) -> Self {
        Self(self.0.map(|checksum| if checksum.is_whole(epoch) { checksum } else { AppendChecksum::NONE }))
    }

    /// Which one is stored over next.
    #[inline(always)]
    fn lesser(self) -> usize {
        usize::from(self.0[0].rank() > self.0[1].rank())
    }

    /// Returns those that are present, the greater one first.
    pub(crate) fn in_turn(self) -> impl Iterator<Item = AppendChecksum> {
        let lesser = self.lesser();
        [self.0[1 - lesser], self.0[lesser]].into_iter().filter(|checksum| *checksum != AppendChecksum::NONE)
    }

    /// The greater one.
    #[inline]
    pub(crate) fn greatest(self) -> Option<AppendChecksum> {
        self.in_turn().next()
    }

    /// With `checksum` over the lesser one (FP2).
    #[inline(always)]
    pub(crate) fn with(self, checksum: AppendChecksum) -> Self {
        let lesser = self.lesser();
        let lesser = if planted!("fs: one checksum") { 1 - lesser } else { lesser };
        let [one, other] = self.0;
        Self(if lesser == 0 { [checksum, other] } else { [one, checksum] })
    }
}

#[cfg(test)]
mod tests;
