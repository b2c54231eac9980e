//! Segments: the units in which pages go to the tier's SSDs (nvm-storage-hierarchy.txt 3.2.4).
//!
//! ```text
//! SSD       0 stamps   1 MiB + n * 512 KiB  segment n of the SSD
//! segment   128 blocks of 4 KiB: block 0 summary, blocks 1..128 slots of one page each
//! summary   0 magic "FSEG"   4 crc u32 of 8..4096 and of the salt   8 sequence u64   16 segment u64   24 count u32
//!           28 zeros u32   32 entries of 24 bytes: inode u64, page of the file u64, crc u32 of the page, zeros u32
//! salt      pool uuid [16]   generation of the file system's tag u64
//! ```
//!
//! The segments of all SSDs are numbered together, and so are their blocks: block 128 n is the summary of segment n.

use ferrite_pool::layout::PAGE;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Bytes of a segment.
pub(crate) const SEGMENT_BYTES: u64 = 512 << 10;
/// Blocks of a segment.
pub(crate) const SEGMENT_BLOCKS: u64 = SEGMENT_BYTES / PAGE;
/// Pages in a segment.
pub(crate) const SEGMENT_PAGES: u64 = SEGMENT_BLOCKS - 1;
/// Bytes before the first segment of an SSD.
pub(crate) const SEGMENTS_AT: u64 = 1 << 20;

const MAGIC: [u8; 4] = *b"FSEG";
const CRC_FROM: usize = 8;

/// A segment, by its number among those of all SSDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentNo(pub u64);

/// A page in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub u64);

impl Slot {
    pub(crate) fn segment(self) -> SegmentNo {
        SegmentNo(self.0 / SEGMENT_BLOCKS)
    }

    /// The block within the segment.
    pub(crate) fn block(self) -> u64 {
        self.0 % SEGMENT_BLOCKS
    }
}

impl SegmentNo {
    /// The block of the summary, which no word names.
    pub(crate) fn slot_of_summary(self) -> Slot {
        Slot(self.0 * SEGMENT_BLOCKS)
    }

    /// The slot of page `page` of the segment.
    pub(crate) fn slot(self, page: u64) -> Slot {
        debug_assert!(page < SEGMENT_PAGES);
        Slot(self.0 * SEGMENT_BLOCKS + 1 + page)
    }
}

/// A file system, which its segments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSalt {
    pub pool: [u8; 16],
    /// The generation of the file system's tag.
    pub tag: u64,
}

/// A page of a segment as its summary lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub ino: u64,
    /// The page of the file.
    pub page: u64,
    /// The crc-32 of the page's bytes.
    pub crc: u32,
}

/// What a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSummary {
    pub segment: SegmentNo,
    /// Which write of a segment of the file system it was.
    pub sequence: u64,
    pub entries: Vec<SegmentEntry>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct EntryMedia {
    ino: U64,
    page: U64,
    crc: U32,
    zeros: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SummaryMedia {
    magic: [u8; 4],
    crc: U32,
    sequence: U64,
    segment: U64,
    count: U32,
    zeros: U32,
    entries: [EntryMedia; SEGMENT_PAGES as usize],
    rest: [u8; 1016],
}

const _: () = assert!(size_of::<SummaryMedia>() == PAGE as usize);

fn summary_crc(bytes: &[u8], salt: &SegmentSalt) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[CRC_FROM..]);
    hasher.update(&salt.pool);
    hasher.update(&salt.tag.to_le_bytes());
    hasher.finalize()
}

impl SegmentSummary {
    /// Returns the block of the summary. It lists as many pages as a segment has at most.
    pub(crate) fn encode(&self, salt: &SegmentSalt) -> [u8; PAGE as usize] {
        let mut media = SummaryMedia::new_zeroed();
        media.magic = MAGIC;
        (media.sequence, media.segment) = (self.sequence.into(), self.segment.0.into());
        media.count = (self.entries.len() as u32).into();
        for (media, entry) in media.entries.iter_mut().zip(&self.entries) {
            (media.ino, media.page, media.crc) = (entry.ino.into(), entry.page.into(), entry.crc.into());
        }
        media.crc = summary_crc(media.as_bytes(), salt).into();
        zerocopy::transmute!(media)
    }

    /// Returns the summary in `block`, whose bytes may be anything; `None` if it is none of this file system.
    pub(crate) fn decode(block: &[u8; PAGE as usize], salt: &SegmentSalt) -> Option<Self> {
        let media = SummaryMedia::ref_from_bytes(block).ok()?;
        let count = media.count.get() as usize;
        let is_whole = media.magic == MAGIC && media.crc.get() == summary_crc(block, salt);
        let entries = media.entries.get(..count).filter(|_| is_whole)?;
        let entry =
            |media: &EntryMedia| SegmentEntry { ino: media.ino.get(), page: media.page.get(), crc: media.crc.get() };
        Some(Self {
            segment: SegmentNo(media.segment.get()),
            sequence: media.sequence.get(),
            entries: entries.iter().map(entry).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
