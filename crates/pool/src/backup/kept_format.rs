//! The bytes of a kept image: image format version 4.
//!
//! ```text
//! block 0, 1   header of save n in block n mod 2
//! block 2..    pages of the pool, and nodes: 256 entries { block u64, sum u64 } each
//!
//! header  0 magic "FERRIMG\0"   8 version u32 (4)   12 crc u32   16 image uuid [16]   32 pool uuid [16]   48 size u64
//!         56 save u64   64 generation u64 (the superblock's)   72 stamp [20]   92 reserved [4]
//!         96 root entry [16]   112 time of the save u64 (seconds since 1970)   120 reserved [8]          128 bytes
//! tree    root (header) -> node -> ... -> node -> page; an entry of block 0 stands for zeros
//! ```
//!
//! - KF1. Every byte that a reader uses is under a checksum: the header's crc, else the sum in the entry that names the
//!   block. So a damaged or misplaced block is noticed.
//! - KF2. Sums depend on the uuid of the image, which is random. So two different pages of a pool have one sum by chance
//!   alone, once in 2^64.

use ferrite_memory::mix::{FACTORS, fold};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::image_format::{GENERATION_MAX, HEADER_BYTES, HEADER_MAGIC, bad};
use crate::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use crate::tie::{STAMP_BYTES, TieRole, TieStamp};
use crate::{Error, Result};

/// The format version of a kept image.
pub const KEPT_VERSION: u32 = 4;

/// Bytes of a block, which is a page of the pool, a node or a header.
pub(super) const BLOCK: usize = PAGE as usize;
/// Blocks of headers at the start of the image.
pub(super) const HEADER_BLOCKS: u64 = 2;
/// Entries of a node.
pub(super) const FANOUT: usize = BLOCK / size_of::<BlockEntry>();
/// The bound of the number of saves.
const SAVE_BOUND: u64 = 1 << 48;

/// The bytes of a block.
pub(super) type BlockBytes = [u8; BLOCK];

/// The place and the sum of a block that a node or a header names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct BlockEntry {
    /// The number of the block, or 0 for zeros.
    pub block: U64,
    /// The sum of the block, or 0 for zeros.
    pub sum: U64,
}

impl BlockEntry {
    /// Returns true if the entry stands for zeros.
    pub fn is_zeros(self) -> bool {
        self.block.get() == 0
    }
}

/// The header of a kept image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptHeader {
    pub image: [u8; 16],
    pub pool: [u8; 16],
    pub size: u64,
    /// The number of the save, or 0 before the first.
    pub save: u64,
    pub generation: u64,
    /// The image's side of the tie to its pool; `None` before the first save.
    pub stamp: Option<TieStamp>,
    pub root: BlockEntry,
    pub time_s: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct KeptHeaderMedia {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    image: [u8; 16],
    pool: [u8; 16],
    size: U64,
    save: U64,
    generation: U64,
    stamp: [u8; STAMP_BYTES],
    reserved: [u8; 4],
    root: BlockEntry,
    time_s: U64,
    more: [u8; 8],
}

const _: () = assert!(size_of::<KeptHeaderMedia>() == HEADER_BYTES && FANOUT == 256);

impl KeptHeader {
    /// Returns the bytes of the header's block.
    pub fn encode(&self) -> BlockBytes {
        let mut media = KeptHeaderMedia::new_zeroed();
        (media.magic, media.version) = (HEADER_MAGIC, KEPT_VERSION.into());
        (media.image, media.pool, media.size) = (self.image, self.pool, self.size.into());
        (media.save, media.generation) = (self.save.into(), self.generation.into());
        media.stamp = self.stamp.map_or([0; STAMP_BYTES], |stamp| stamp.encode(TieRole::Image));
        (media.root, media.time_s) = (self.root, self.time_s.into());
        media.crc = media.checksum().into();
        let mut bytes = [0; BLOCK];
        bytes[..HEADER_BYTES].copy_from_slice(media.as_bytes());
        bytes
    }

    /// Returns the header in `bytes`, which are not trusted and lie in header block `slot`.
    ///
    /// # Errors
    /// [`Error::BadImage`] if the bytes are not a header of that block, [`Error::Limit`] for another format version.
    pub fn decode(slot: u64, bytes: &BlockBytes) -> Result<Self> {
        let at = slot * PAGE;
        let (media, rest) = KeptHeaderMedia::ref_from_prefix(bytes).expect("a block holds a header");
        if media.magic != HEADER_MAGIC || media.crc.get() != media.checksum() || rest.iter().any(|byte| *byte != 0) {
            return Err(bad("a header of the kept image", at));
        }
        if media.version.get() != KEPT_VERSION {
            let found = media.version.get();
            return Err(Error::Limit(format!(
                "the image has format version {found}, and a kept image has {KEPT_VERSION}: name a kept image, or a new file"
            )));
        }
        let header = Self {
            image: media.image,
            pool: media.pool,
            size: media.size.get(),
            save: media.save.get(),
            generation: media.generation.get(),
            stamp: TieStamp::decode(TieRole::Image, &media.stamp),
            root: media.root,
            time_s: media.time_s.get(),
        };
        if header.size < POOL_BYTES_MIN || !header.size.is_multiple_of(CHUNK) || header.size > u64::MAX / 4 {
            return Err(bad("the size in the header", at + 48));
        }
        if header.save >= SAVE_BOUND || header.save % HEADER_BLOCKS != slot {
            return Err(bad("the number of the save in the header", at + 56));
        }
        if header.generation >= GENERATION_MAX {
            return Err(bad("the generation in the header", at + 64));
        }
        let is_empty = header.save == 0;
        if header.stamp.is_none() != is_empty || is_empty && !header.root.is_zeros() || header.encode() != *bytes {
            return Err(bad("the header, which this program cannot have written,", at));
        }
        Ok(header)
    }

    /// Returns the key of the sums of this image's blocks.
    pub fn key(&self) -> SumKey {
        SumKey::of(&self.image)
    }
}

impl KeptHeaderMedia {
    fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.as_bytes()[..12]);
        hasher.update(&self.as_bytes()[16..]);
        hasher.finalize()
    }
}

/// The key of the sums of an image (KF2).
#[derive(Clone, Copy, Debug)]
pub(super) struct SumKey([u64; 2]);

impl SumKey {
    /// Independent chains of a sum, so that the processor multiplies without waiting.
    const LANES: usize = 8;

    fn of(image: &[u8; 16]) -> Self {
        let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"));
        Self([fold(word(0) ^ FACTORS[0], FACTORS[1]), fold(word(8) ^ FACTORS[1], FACTORS[0])])
    }

    /// Returns the sum of a block.
    pub fn sum(self, bytes: &BlockBytes) -> u64 {
        let mut lanes: [u64; Self::LANES] = std::array::from_fn(|lane| self.0[0].wrapping_add(lane as u64));
        for line in bytes.as_chunks::<{ 16 * Self::LANES }>().0 {
            for (lane, pair) in lanes.iter_mut().zip(line.as_chunks::<16>().0) {
                let [one, other] =
                    [0, 8].map(|at| u64::from_le_bytes(pair[at..at + 8].try_into().expect("eight bytes")));
                *lane = fold(*lane ^ one, other ^ self.0[1]) ^ lane.rotate_left(32);
            }
        }
        lanes.into_iter().fold(self.0[1], |all, lane| fold(all ^ lane, FACTORS[0]) ^ all.rotate_left(32))
    }
}

/// Returns the numbers of entries in the levels of the tree of a pool of `size` bytes: pages first, the root last.
pub(super) fn level_lengths(size: u64) -> Vec<usize> {
    let mut lengths = vec![(size / PAGE) as usize];
    while *lengths.last().expect("one is there") > 1 {
        lengths.push(lengths.last().expect("one is there").div_ceil(FANOUT));
    }
    lengths
}

/// Returns the bytes of an image of a pool of `size` bytes. The image has room for two trees, because the previous
/// save stays until the new one is durable.
pub(super) fn capacity_bytes(size: u64) -> u64 {
    let blocks: usize = level_lengths(size).into_iter().sum();
    (HEADER_BLOCKS + 2 * blocks as u64) * PAGE
}
