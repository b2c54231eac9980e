//! The table of a tier in the pool: its SSDs, and which slots words name.
//!
//! ```text
//! TIER stream   page 0 header   from page 1 on descriptors of 32 bytes, one for each segment
//! header        0 magic "FTIER\0\0\0"   8 crc u32 of 12..4096   12 version u32   16 eight SSDs of 320 bytes
//!               2576 policy u32 (0 ferrite, 1 paper)
//! SSD           0 uuid [16]   16 first segment u64   24 segments u64 (0: no SSD)   32 state u32: 0 joining, 1 in use, 2 leaving
//!               36 length of the address u32   40 address [280]
//! descriptor    0 named u64 [2]: bit set = a word names the block   16 sequence u64 of what was written,
//!               bit 63: another life of the pool overwrote it   24 zeros u64
//! ```
//!
//! The address is a hint: the UUID decides.

use ferrite_memory::Span;
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Role, Stream, Tag};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT, SegmentNo, Slot};
use crate::format::tier_policy::TierPolicy;

/// The role of the table's pages in the tag.
pub(crate) const TIER_ROLE: Role = Role(2);
/// SSDs of one file system.
pub(crate) const TIER_SSDS_MAX: usize = 8;

const MAGIC: [u8; 8] = *b"FTIER\0\0\0";
const VERSION: u32 = 1;
const CRC_FROM: usize = 12;
const DESCRIPTOR: u64 = 32;
const SEQUENCE_AT: u64 = 16;
const ADDRESS_BYTES: usize = 280;
/// The bit of a sequence that says that the segment was overwritten by another life of the pool: what words name of it is
/// lost.
pub(crate) const OVERWRITTEN: u64 = 1 << 63;

/// Whether an SSD is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SsdState {
    /// Not yet: it may have no stamp.
    Joining = 0,
    /// It has a stamp.
    InUse = 1,
    /// It has a stamp, and nothing is written to it any more.
    Leaving = 2,
}

/// An SSD as the header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TierSsd {
    pub uuid: [u8; 16],
    pub first: SegmentNo,
    pub segments: u64,
    pub state: SsdState,
    /// Where it was opened last; at most 280 bytes.
    pub address: String,
}

impl TierSsd {
    /// Returns how many bytes the SSD has at least.
    pub fn disk_bytes(&self) -> u64 {
        SEGMENTS_AT + self.segments * SEGMENT_BYTES
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SsdMedia {
    uuid: [u8; 16],
    first: U64,
    segments: U64,
    state: U32,
    address_len: U32,
    address: [u8; ADDRESS_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct HeaderMedia {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    ssds: [SsdMedia; TIER_SSDS_MAX],
    policy: U32,
    rest: [u8; 1516],
}

const _: () = assert!(size_of::<HeaderMedia>() == PAGE as usize);

/// Returns the header's page for `ssds`, eight at most, and `policy`.
pub(crate) fn encode_header(ssds: &[TierSsd], policy: TierPolicy) -> [u8; PAGE as usize] {
    let mut media = HeaderMedia::new_zeroed();
    (media.magic, media.version) = (MAGIC, VERSION.into());
    for (media, ssd) in media.ssds.iter_mut().zip(ssds) {
        (media.uuid, media.first, media.segments) = (ssd.uuid, ssd.first.0.into(), ssd.segments.into());
        media.state = (ssd.state as u32).into();
        let address = &ssd.address.as_bytes()[..ssd.address.len().min(ADDRESS_BYTES)];
        media.address_len = (address.len() as u32).into();
        media.address[..address.len()].copy_from_slice(address);
    }
    media.policy = (policy as u32).into();
    media.crc = crc32fast::hash(&media.as_bytes()[CRC_FROM..]).into();
    zerocopy::transmute!(media)
}

/// Returns the SSDs of a header, whose bytes may be anything; `None` if it is none.
pub(crate) fn decode_header(page: &[u8; PAGE as usize]) -> Option<Vec<TierSsd>> {
    let media = HeaderMedia::ref_from_bytes(page).ok()?;
    let is_whole =
        media.magic == MAGIC && media.version.get() == VERSION && media.crc.get() == crc32fast::hash(&page[CRC_FROM..]);
    let there = media.ssds.iter().filter(|ssd| ssd.segments.get() > 0);
    let ssd = |media: &SsdMedia| {
        let address = media.address.get(..media.address_len.get() as usize)?;
        Some(TierSsd {
            uuid: media.uuid,
            first: SegmentNo(media.first.get()),
            segments: media.segments.get(),
            state: [SsdState::Joining, SsdState::InUse, SsdState::Leaving].get(media.state.get() as usize).copied()?,
            address: std::str::from_utf8(address).ok()?.into(),
        })
    };
    if is_whole { there.map(ssd).collect() } else { None }
}

/// Returns the policy of a header that [`decode_header`] decodes. A number of a newer version counts as the default.
pub(crate) fn decode_policy(page: &[u8; PAGE as usize]) -> TierPolicy {
    HeaderMedia::ref_from_bytes(page).ok().and_then(|media| TierPolicy::of(media.policy.get())).unwrap_or_default()
}

/// The places of the table's pages in the pool.
#[derive(Clone, Debug)]
pub(crate) struct SlotTable(Vec<u64>);

impl SlotTable {
    /// The table of `tag`; `None` without a tier.
    pub(crate) fn of(tag: &Tag) -> Option<Self> {
        let stream = Stream::new(&tag.extents, TIER_ROLE);
        let runs = stream.runs(Span::new(0, u64::MAX));
        let pages: Vec<u64> = runs.flat_map(|run| (0..run.len / PAGE).map(move |page| run.at + page * PAGE)).collect();
        (!pages.is_empty()).then_some(Self(pages))
    }

    /// Bytes of a table of `segments` segments.
    pub(crate) fn bytes(segments: u64) -> u64 {
        PAGE + (segments * DESCRIPTOR).next_multiple_of(PAGE)
    }

    fn place(&self, at: u64) -> u64 {
        self.0[(at / PAGE) as usize] + at % PAGE
    }

    /// Segments that it has room for.
    pub(crate) fn segments(&self) -> u64 {
        (self.0.len() as u64 - 1) * (PAGE / DESCRIPTOR)
    }

    /// Returns the offset of the header in the pool.
    pub(crate) fn header(&self) -> u64 {
        self.0[0]
    }

    fn descriptor(&self, segment: SegmentNo) -> u64 {
        self.place(PAGE + segment.0 * DESCRIPTOR)
    }

    /// Returns the offsets of the words that say which blocks of `segment` are named.
    pub(crate) fn named_words(&self, segment: SegmentNo) -> [u64; 2] {
        let at = self.descriptor(segment);
        [at, at + 8]
    }

    /// Returns the offset of the word that says whether `slot` is named, and its bit.
    pub(crate) fn named_bit(&self, slot: Slot) -> (u64, u64) {
        let block = slot.block();
        (self.descriptor(slot.segment()) + block / 64 * 8, 1 << (block % 64))
    }

    /// Returns the offset of the sequence of what was written to `segment`.
    pub(crate) fn sequence(&self, segment: SegmentNo) -> u64 {
        self.descriptor(segment) + SEQUENCE_AT
    }
}

#[cfg(test)]
mod tests;
