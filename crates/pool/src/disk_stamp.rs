//! Stamps of members that are disks: the outside ends of the ties to them.
//!
//! ```text
//! two pages of 4 KiB, the newer of the two that verify counts:
//!   0 tie record [64] (see `tie`)
//!  64 magic [8]   72 crc u32 of 76..128 and of the record   76 version u32   80 tag u64   88 shape [40]
//! ```
//!
//! The magic, the version and the shape are the service's; `tag` is the generation of its tag. The first 64 bytes are
//! what other commands recognize a member by.
//!
//! - MS1. A stamp is written to the page that does not have the current one, and flushed. So a crash leaves the old
//!   stamp or the new one.

use ferrite_disk::{Access, Disk};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::PAGE;
use crate::tie::{Generation, PoolSide, RECORD_BYTES, Tie, TieEnds, TieRecord, TieStamp};
use crate::{Error, Pool, Result};

/// Bytes of the two pages.
pub const DISK_STAMP_BYTES: u64 = 2 * PAGE;
const CRC_FROM: usize = 12;

/// A stamp as a member has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStamp {
    /// The tie's record.
    pub record: TieRecord,
    /// The service that the member belongs to.
    pub magic: [u8; 8],
    /// The version of the service's format on the member.
    pub version: u32,
    /// The generation of the tag that the member belongs to.
    pub tag: u64,
    /// What the service notes of the member's shape.
    pub shape: [u8; 40],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StampMedia {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    tag: U64,
    shape: [u8; 40],
}

const _: () = assert!(size_of::<StampMedia>() == 64);

fn crc(record: &[u8], media: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(record);
    hasher.update(&media[CRC_FROM..]);
    hasher.finalize()
}

impl DiskStamp {
    /// Returns the page with the stamp.
    pub fn encode(&self) -> Vec<u8> {
        let record = self.record.encode();
        let mut media = StampMedia {
            magic: self.magic,
            crc: 0.into(),
            version: self.version.into(),
            tag: self.tag.into(),
            shape: self.shape,
        };
        media.crc = crc(&record, media.as_bytes()).into();
        let mut page = Vec::from(record);
        page.extend(media.as_bytes());
        page.resize(PAGE as usize, 0);
        page
    }

    /// Returns the stamp in `page`, whose bytes are not trusted, or `None` if the page has no stamp with `magic`.
    pub fn decode(page: &[u8], magic: &[u8; 8]) -> Option<Self> {
        let (record, rest) = page.split_first_chunk::<RECORD_BYTES>()?;
        let (media, _) = StampMedia::read_from_prefix(rest).ok()?;
        if media.magic != *magic || media.crc.get() != crc(record, media.as_bytes()) {
            return None;
        }
        Some(Self {
            record: TieRecord::decode(record)?,
            magic: media.magic,
            version: media.version.get(),
            tag: media.tag.get(),
            shape: media.shape,
        })
    }

    /// Reads the stamp whose two pages begin at byte `at` of `disk`.
    ///
    /// # Errors
    /// The errors of the disk.
    pub fn read(disk: &dyn Disk, at: u64, magic: &[u8; 8]) -> Result<Option<Self>> {
        let mut pages = vec![0; DISK_STAMP_BYTES as usize];
        disk.read(at, &mut pages)?;
        let stamps = pages.chunks(PAGE as usize).filter_map(|page| Self::decode(page, magic));
        Ok(stamps.max_by_key(|stamp| stamp.record.generation))
    }

    /// Writes the stamp at byte `at` of `disk`, to the page that does not have the stamp before it (MS1). Durable on return.
    ///
    /// # Errors
    /// The errors of the disk.
    pub fn write(&self, disk: &dyn Disk, at: u64) -> Result<()> {
        disk.write(at + self.record.generation.count() % 2 * PAGE, &self.encode(), Access::Cached)?;
        Ok(disk.flush()?)
    }

    /// Overwrites both pages of a stamp at byte `at` of `disk` with zeros. Durable on return.
    ///
    /// # Errors
    /// The errors of the disk.
    pub fn erase(disk: &dyn Disk, at: u64) -> Result<()> {
        disk.write(at, &[0; DISK_STAMP_BYTES as usize], Access::Cached)?;
        Ok(disk.flush()?)
    }
}

/// The two ends of the tie to one member.
#[derive(Clone, Copy)]
pub struct StampEnds<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The member.
    pub disk: &'a dyn Disk,
    /// Where the stamp begins on the member.
    pub at: u64,
    /// The stamp to write; its generations are replaced. Its record names the member.
    pub stamp: DiskStamp,
}

impl PoolSide for StampEnds<'_> {
    type Error = Error;

    fn load(&self) -> Result<Tie> {
        self.pool.member_tie(self.stamp.record.object).load()
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        self.pool.member_tie(self.stamp.record.object).set_current(current)
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        self.pool.member_tie(self.stamp.record.object).set_previous(previous)
    }
}

impl TieEnds for StampEnds<'_> {
    fn read(&self) -> Result<Option<TieStamp>> {
        let stamp = DiskStamp::read(self.disk, self.at, &self.stamp.magic)?;
        let is_ours = |stamp: &DiskStamp| stamp.record.role == self.stamp.record.role && stamp.tag == self.stamp.tag;
        Ok(stamp
            .filter(is_ours)
            .map(|stamp| TieStamp { identity: stamp.record.object, generation: stamp.record.generation }))
    }

    fn write(&self, stamp: &TieStamp) -> Result<()> {
        let previous = self.load()?.previous;
        let record = TieRecord { generation: stamp.generation, previous, ..self.stamp.record };
        DiskStamp { record, ..self.stamp }.write(self.disk, self.at)
    }
}
