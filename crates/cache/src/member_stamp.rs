//! The stamps of a cache's SSDs and disks (see `ferrite_pool::disk_stamp`).
//!
//! ```text
//! magic "FERRCACH"   version 1   shape: 0 id u32   4 leb_bytes u32   8 lebs u32   12 zeros
//! ```

use ferrite_disk::Disk;
use ferrite_pool::disk_stamp::DiskStamp;
use ferrite_pool::tie::TieRecord;

use crate::Result;

/// What distinguishes a cache's stamps.
const MAGIC: [u8; 8] = *b"FERRCACH";
const VERSION: u32 = 1;

/// Bytes that a stamp keeps from a disk's data.
pub const STAMP_BYTES: u64 = 1 << 20;

/// A stamp as a member has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStamp {
    /// The tie's record.
    pub record: TieRecord,
    /// The generation of the cache's tag.
    pub cache: u64,
    /// The number of the member in its cache.
    pub id: u32,
    /// Bytes of a LEB; 0 for a disk.
    pub leb_bytes: u32,
    /// The number of LEBs; 0 for a disk.
    pub lebs: u32,
}

impl MemberStamp {
    /// Returns the stamp as the pool writes it.
    pub(crate) fn on_disk(&self) -> DiskStamp {
        let mut shape = [0; 40];
        for (at, word) in [self.id, self.leb_bytes, self.lebs].into_iter().enumerate() {
            shape[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        DiskStamp { record: self.record, magic: MAGIC, version: VERSION, tag: self.cache, shape }
    }

    fn of(stamp: &DiskStamp) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(stamp.shape[at * 4..at * 4 + 4].try_into().expect("four bytes"));
        let (record, cache) = (stamp.record, stamp.tag);
        (stamp.version == VERSION).then(|| Self { record, cache, id: word(0), leb_bytes: word(1), lebs: word(2) })
    }

    /// Returns the page with the stamp.
    pub fn encode(&self) -> Vec<u8> {
        self.on_disk().encode()
    }

    /// Returns the stamp in `page`, whose bytes are not trusted, or `None` if the page has no stamp of this version.
    pub fn decode(page: &[u8]) -> Option<Self> {
        Self::of(&DiskStamp::decode(page, &MAGIC)?)
    }
}

/// Reads the stamp whose two pages begin at byte `at` of `disk`.
///
/// # Errors
/// The errors of the disk.
pub fn read_stamp(disk: &dyn Disk, at: u64) -> Result<Option<MemberStamp>> {
    Ok(DiskStamp::read(disk, at, &MAGIC)?.as_ref().and_then(MemberStamp::of))
}

#[cfg(test)]
mod tests;
