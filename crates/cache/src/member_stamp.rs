//! The stamps of SSDs and disks: the outside ends of the ties between the pool and the members of a cache.
//!
//! ```text
//! two pages of 4 KiB, the newer of the two that verify counts:
//!   0 tie record [64] (see `ferrite_pool::tie`)
//!  64 magic "FERRCACH"   72 crc u32 of 76..128 and of the record   76 version u32   80 cache u64   88 id u32
//!  92 leb_bytes u32   96 lebs u32   100 zeros
//! ```
//!
//! `cache` is the generation of the cache's tag. The first 64 bytes are what other commands recognize a member by.
//!
//! - MS1. A stamp is written to the page that does not have the current one, and flushed. So a crash leaves the old
//!   stamp or the new one.

use std::sync::Arc;

use ferrite_disk::{Access, Disk};
use ferrite_pool::tie::{Generation, PoolSide, RECORD_BYTES, Tie, TieEnds, TieRecord, TieRole, TieStamp};
use ferrite_pool::{MemberTie, Pool};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::cache_layout::BLOCK;
use crate::{CacheError, Result};

const MAGIC: [u8; 8] = *b"FERRCACH";
const VERSION: u32 = 1;
const CRC_FROM: usize = 12;

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

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StampMedia {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    cache: U64,
    id: U32,
    leb_bytes: U32,
    lebs: U32,
    reserved: [u8; 28],
}

const _: () = assert!(size_of::<StampMedia>() == 64);

fn crc(record: &[u8], media: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(record);
    hasher.update(&media[CRC_FROM..]);
    hasher.finalize()
}

impl MemberStamp {
    /// Returns the page with the stamp.
    pub fn encode(&self) -> Vec<u8> {
        let record = self.record.encode();
        let mut media = StampMedia::new_zeroed();
        (media.magic, media.version) = (MAGIC, VERSION.into());
        (media.cache, media.id) = (self.cache.into(), self.id.into());
        (media.leb_bytes, media.lebs) = (self.leb_bytes.into(), self.lebs.into());
        media.crc = crc(&record, media.as_bytes()).into();
        let mut page = Vec::from(record);
        page.extend(media.as_bytes());
        page.resize(BLOCK as usize, 0);
        page
    }

    /// Returns the stamp in `page`, whose bytes are not trusted, or `None` if the page has no stamp of this version.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let (record, rest) = page.split_first_chunk::<RECORD_BYTES>()?;
        let (media, _) = StampMedia::read_from_prefix(rest).ok()?;
        if media.magic != MAGIC || media.version.get() != VERSION || media.crc.get() != crc(record, media.as_bytes()) {
            return None;
        }
        Some(Self {
            record: TieRecord::decode(record)?,
            cache: media.cache.get(),
            id: media.id.get(),
            leb_bytes: media.leb_bytes.get(),
            lebs: media.lebs.get(),
        })
    }
}

/// Reads the stamp whose two pages begin at byte `at` of `disk`.
///
/// # Errors
/// The errors of the disk.
pub fn read_stamp(disk: &dyn Disk, at: u64) -> ferrite_memory::Result<Option<MemberStamp>> {
    let mut pages = vec![0; 2 * BLOCK as usize];
    disk.read(at, &mut pages)?;
    let stamps = pages.chunks(BLOCK as usize).filter_map(MemberStamp::decode);
    Ok(stamps.max_by_key(|stamp| stamp.record.generation))
}

/// Overwrites both pages of a stamp with zeros. Durable on return.
///
/// # Errors
/// The errors of the disk.
pub(crate) fn erase_stamp(disk: &dyn Disk, at: u64) -> ferrite_memory::Result<()> {
    disk.write(at, &[0; 2 * BLOCK as usize], Access::Cached)?;
    disk.flush()
}

/// The two ends of the tie to one member.
pub(crate) struct MemberEnds<'a> {
    pub pool: &'a Pool,
    pub disk: &'a Arc<dyn Disk>,
    /// Where the stamp begins on the member.
    pub at: u64,
    pub role: TieRole,
    pub uuid: [u8; 16],
    /// The stamp to write; its generations are replaced.
    pub stamp: MemberStamp,
}

impl MemberEnds<'_> {
    fn tie(&self) -> MemberTie<'_> {
        self.pool.member_tie(self.uuid)
    }
}

impl PoolSide for MemberEnds<'_> {
    type Error = CacheError;

    fn load(&self) -> Result<Tie> {
        Ok(self.tie().load()?)
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        Ok(self.tie().set_current(current)?)
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        Ok(self.tie().set_previous(previous)?)
    }
}

impl TieEnds for MemberEnds<'_> {
    fn read(&self) -> Result<Option<TieStamp>> {
        let stamp = read_stamp(&**self.disk, self.at)?;
        let of_cache = stamp.filter(|stamp| stamp.record.role == self.role && stamp.cache == self.stamp.cache);
        Ok(of_cache.map(|stamp| TieStamp { identity: stamp.record.object, generation: stamp.record.generation }))
    }

    fn write(&self, stamp: &TieStamp) -> Result<()> {
        let previous = self.load()?.previous;
        let record = TieRecord { generation: stamp.generation, previous, ..self.stamp.record };
        let page = MemberStamp { record, ..self.stamp }.encode();
        let at = self.at + stamp.generation.count() % 2 * BLOCK;
        self.disk.write(at, &page, Access::Cached)?;
        Ok(self.disk.flush()?)
    }
}

#[cfg(test)]
mod tests;
