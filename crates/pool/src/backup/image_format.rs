//! The image: a pool as a stream of bytes.
//!
//! ```text
//! header  0 magic "FERRIMG\0"   8 version u32   12 crc u32   16 image uuid [16]   32 pool uuid [16]   48 size u64
//!         56 frames u64   64 generation u64 (the superblock's)   72 stamp [20]   92 reserved [36]      128 bytes
//! frame   0 magic "FRAM"   4 crc u32   8 chunk u64   16 pages u32   20 reserved [44]
//!         64 used [64] (pages of the chunk in use)   128 carried [64] (those that follow)              192 bytes
//!         then the carried pages in order, 4096 bytes each; pages that are used and not carried are zeros
//! trailer 0 magic "DONE"   4 crc u32   8 frames u64   16 pages u64   24 chain u32   28 reserved [36]    64 bytes
//! ```
//!
//! - IM1. Every byte is under a checksum or compared with its only valid value, so one changed byte is noticed.
//! - IM2. The checksums of frames and trailer start from the header's, so parts of two images do not verify together.
//!   Chunks ascend, and the trailer's chain is the CRC-32 of the frames' checksums, so no frame can be missing, doubled
//!   or moved.
//! - IM3. The image ends with the trailer, so an image that was cut off is noticed.
//! - IM4. Whatever the bytes, reading them takes the memory of one chunk.

use std::io::{ErrorKind, Read};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::kept_format::KEPT_VERSION;
use crate::bounds::GENERATION_BOUND;
use crate::chunk_pages::ChunkPages;
use crate::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use crate::tie::{STAMP_BYTES, TieRole, TieStamp};
use crate::{Error, Result};

/// The newest image format that this program reads, and the one that it writes. An image of version 1 has no stamp.
pub const VERSION: u32 = 2;

/// The bound of an image's generation. A restore adds a few to it.
pub(super) const GENERATION_MAX: u64 = GENERATION_BOUND - 16;

pub(super) const HEADER_MAGIC: [u8; 8] = *b"FERRIMG\0";
const FRAME_MAGIC: [u8; 4] = *b"FRAM";
const TRAILER_MAGIC: [u8; 4] = *b"DONE";

/// The header of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageHeader {
    pub image: [u8; 16],
    pub pool: [u8; 16],
    pub size: u64,
    pub frames: u64,
    pub generation: u64,
    /// The image's side of the tie to its pool; `None` in format version 1.
    pub stamp: Option<TieStamp>,
}

/// The pages of one chunk.
#[derive(Debug)]
pub(crate) struct ImageFrame {
    pub chunk: u64,
    pub used: ChunkPages,
    pub carried: ChunkPages,
    pub content: Vec<u8>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct HeaderMedia {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    image: [u8; 16],
    pool: [u8; 16],
    size: U64,
    frames: U64,
    generation: U64,
    stamp: [u8; STAMP_BYTES],
    reserved: [u8; 36],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct FrameMedia {
    magic: [u8; 4],
    crc: U32,
    chunk: U64,
    pages: U32,
    reserved: [u8; 44],
    used: ChunkPages,
    carried: ChunkPages,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TrailerMedia {
    magic: [u8; 4],
    crc: U32,
    frames: U64,
    pages: U64,
    chain: U32,
    reserved: [u8; 36],
}

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = size_of::<HeaderMedia>();
/// Bytes of a frame before its pages.
pub(crate) const FRAME_BYTES: usize = size_of::<FrameMedia>();
/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = size_of::<TrailerMedia>();

const _: () = assert!(HEADER_BYTES == 128 && FRAME_BYTES == 192 && TRAILER_BYTES == 64);

/// The checksums and counts that writer and reader keep from the header on.
#[derive(Debug)]
pub(crate) struct ImageTally {
    salt: u32,
    chain: crc32fast::Hasher,
    frames: u64,
    /// The number of pages carried so far.
    pub pages: u64,
}

impl ImageTally {
    fn new(salt: u32) -> Self {
        Self { salt, chain: crc32fast::Hasher::new(), frames: 0, pages: 0 }
    }

    fn count(&mut self, crc: u32, pages: u64) {
        self.chain.update(&crc.to_le_bytes());
        self.frames += 1;
        self.pages += pages;
    }

    fn checksum(&self, parts: [&[u8]; 2]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.salt);
        parts.into_iter().for_each(|part| hasher.update(part));
        hasher.finalize()
    }

    /// Returns the bytes of the header, and the tally that starts with it.
    pub fn start(header: &ImageHeader) -> (Vec<u8>, Self) {
        let mut media = HeaderMedia::new_zeroed();
        (media.magic, media.version) = (HEADER_MAGIC, (if header.stamp.is_some() { VERSION } else { 1 }).into());
        media.stamp = header.stamp.map_or([0; STAMP_BYTES], |stamp| stamp.encode(TieRole::Image));
        (media.image, media.pool, media.size) = (header.image, header.pool, header.size.into());
        (media.frames, media.generation) = (header.frames.into(), header.generation.into());
        let crc = media.checksum();
        media.crc = crc.into();
        (media.as_bytes().to_vec(), Self::new(crc))
    }

    /// Returns the bytes of the next frame, without its content.
    pub fn frame(&mut self, frame: &ImageFrame) -> Vec<u8> {
        let mut media = FrameMedia::new_zeroed();
        (media.magic, media.chunk, media.pages) =
            (FRAME_MAGIC, frame.chunk.into(), (frame.carried.count() as u32).into());
        (media.used, media.carried) = (frame.used, frame.carried);
        let crc = self.checksum([&media.as_bytes()[8..], &frame.content]);
        media.crc = crc.into();
        self.count(crc, frame.carried.count());
        media.as_bytes().to_vec()
    }

    /// Returns the bytes of the trailer.
    pub fn trailer(&self) -> Vec<u8> {
        let mut media = TrailerMedia::new_zeroed();
        (media.magic, media.frames, media.pages) = (TRAILER_MAGIC, self.frames.into(), self.pages.into());
        media.chain = self.chain.clone().finalize().into();
        media.crc = self.checksum([&media.as_bytes()[8..], &[]]).into();
        media.as_bytes().to_vec()
    }
}

impl HeaderMedia {
    fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.as_bytes()[..12]);
        hasher.update(&self.as_bytes()[16..]);
        hasher.finalize()
    }
}

/// A reader of an image. `input` may give anything.
pub(crate) struct ImageReader<'input> {
    input: &'input mut dyn Read,
    /// The number of bytes read so far.
    pub at: u64,
    /// The header.
    pub header: ImageHeader,
    /// The tally of the part read so far.
    pub tally: ImageTally,
    chunk_min: u64,
    /// Memory of earlier frames.
    pub spare: Vec<Vec<u8>>,
}

impl<'input> ImageReader<'input> {
    /// Reads and verifies the header.
    pub fn open(input: &'input mut dyn Read) -> Result<Self> {
        let mut at = 0;
        let mut media = HeaderMedia::new_zeroed();
        read(input, &mut at, media.as_mut_bytes())?;
        if media.magic != HEADER_MAGIC {
            return Err(bad("the magic number, which is missing, so this is not an image of a pool,", 0));
        }
        if media.crc.get() != media.checksum() {
            return Err(bad("the header", 0));
        }
        if media.version.get() == KEPT_VERSION {
            return Err(Error::Limit("this is a kept image, which is read from a file and not from a stream".into()));
        }
        if media.version.get() > VERSION {
            let (found, known) = (media.version.get(), VERSION);
            return Err(Error::Limit(format!(
                "the backup image has format version {found}, this program knows versions up to {known}: use a newer ferrite"
            )));
        }
        let stamp = match media.version.get() {
            1 => None,
            _ => {
                Some(TieStamp::decode(TieRole::Image, &media.stamp).ok_or_else(|| bad("the stamp in the header", 72))?)
            }
        };
        let header = ImageHeader {
            stamp,
            image: media.image,
            pool: media.pool,
            size: media.size.get(),
            frames: media.frames.get(),
            generation: media.generation.get(),
        };
        if header.size < POOL_BYTES_MIN || !header.size.is_multiple_of(CHUNK) {
            return Err(bad("the size in the header", 48));
        }
        if header.frames > header.size / CHUNK {
            return Err(bad("the number of frames in the header", 56));
        }
        if header.generation >= GENERATION_MAX {
            return Err(bad("the generation in the header", 64));
        }
        Ok(Self { input, at, header, tally: ImageTally::new(media.crc.get()), chunk_min: 0, spare: Vec::new() })
    }

    /// Returns the next frame, verified. Returns `None` after the last one, if the image is whole.
    pub fn next(&mut self) -> Result<Option<ImageFrame>> {
        if self.tally.frames == self.header.frames {
            return self.finish().map(|()| None);
        }
        let start = self.at;
        let mut media = FrameMedia::new_zeroed();
        read(self.input, &mut self.at, media.as_mut_bytes())?;
        let pages = media.carried.count();
        if media.magic != FRAME_MAGIC || u64::from(media.pages.get()) != pages {
            return Err(bad("the head of a frame", start));
        }
        let mut content = self.spare.pop().unwrap_or_default();
        content.resize((pages * PAGE) as usize, 0);
        read(self.input, &mut self.at, &mut content)?;
        if self.tally.checksum([&media.as_bytes()[8..], &content]) != media.crc.get() {
            return Err(bad("a frame", start));
        }
        let frame = ImageFrame { chunk: media.chunk.get(), used: media.used, carried: media.carried, content };
        if !self.accepts(&frame) {
            return Err(bad("a frame that this program cannot have written", start));
        }
        self.tally.count(media.crc.get(), pages);
        self.chunk_min = frame.chunk + 1;
        Ok(Some(frame))
    }

    /// Returns true if `frame` may come next: chunks ascend, and no frame carries the superblock.
    fn accepts(&self, frame: &ImageFrame) -> bool {
        let in_pool = (self.chunk_min..self.header.size / CHUNK).contains(&frame.chunk);
        let superblock = frame.chunk == 0 && (frame.used.contains(0) || frame.used.contains(1));
        in_pool && !superblock && frame.carried.without(frame.used).is_empty()
    }

    fn finish(&mut self) -> Result<()> {
        let start = self.at;
        let mut found = [0; TRAILER_BYTES];
        read(self.input, &mut self.at, &mut found)?;
        if found[..] != self.tally.trailer() {
            return Err(bad("the trailer", start));
        }
        let mut more = [0];
        match read(self.input, &mut self.at, &mut more) {
            Ok(()) => Err(bad("data behind its end", self.at - 1)),
            Err(Error::BadImage { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }
}

fn read(input: &mut dyn Read, at: &mut u64, into: &mut [u8]) -> Result<()> {
    input.read_exact(into).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => bad("its end, which is missing,", *at),
        _ => ferrite_memory::Error::io("reading the backup image", error).into(),
    })?;
    *at += into.len() as u64;
    Ok(())
}

pub(super) fn bad(what: &str, at: u64) -> Error {
    Error::BadImage { what: what.into(), at }
}
