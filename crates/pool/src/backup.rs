//! Backup and restore: a pool to an image and back.
//!
//! An image holds every page in use that is not zeros, as of one moment (see `image_format` for its bytes). It is small for a
//! pool that is nearly empty, and it goes into any pool that is at least as large.
//!
//! - BK1. The pool stands still while it is copied ([`crate::Frozen`]), and every transaction is home before: the image
//!   is what a clean stop at that moment would have left, and carries no lane. Clients that store through a grant
//!   cannot be stopped, but by a service that has them stand still with it: beside them a backup is refused, which costs
//!   them nothing.
//! - BK2. A file that was an image stays one: a new image is written beside it, read back, made durable, and only then
//!   takes its name. A file that holds a pool stays one, too.
//! - BK3. Before the first byte of the target changes, both its superblocks say, durably, that this image is being
//!   restored; they say so until everything is durable. So after a crash it is not a pool until the same restore
//!   has been run again, from the start, and finished.
//! - BK4. Every page that was in use has its content after a restore, zeros included, whatever the target held. No
//!   record of the target's earlier life stays in a lane, where it would verify again.
//! - BK5. A restore never takes a generation that either the image or the target has used.
//! - BK7. Each image has a stamp of the tie between the pool and its images (`crate::tie`): the pool has the generation,
//!   durably, before the image is written, and the image has it in both. So a backup detects an image of another pool,
//!   or one later than this pool knows, and does not overwrite it.
//! - BK6. Grants of the original count as ended in what is restored: their processes, which may live, work on the
//!   original.
//!
//! A restored pool is the same pool, with its uuid. Two copies in use at once are two pools with one name, which is for
//! whoever restores beside a living original to avoid.

mod image_file;
mod image_format;
mod image_tie;
mod restore;

use std::io::Write;

use ferrite_memory::{Error as MediumError, Memory};
use serde::{Deserialize, Serialize};

pub use image_file::{backup_to, open_image, restore_from, save_to};
pub use image_format::VERSION;
pub use image_tie::ensure_may_replace;
pub use restore::{RestoreOptions, restore, verify};

use crate::Progress;
use crate::chunk_pages::ChunkPages;
use crate::layout::{CHUNK, LANE, LANE_COUNT, LANES, PAGE, is_meta, kind_at};
use crate::page_allocator::ChunkUse;
use crate::{Error, Pool, Result};
use image_format::{ImageFrame, ImageHeader, ImageTally};

/// What an image holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSummary {
    /// Which image it is.
    pub image: [u8; 16],
    /// Which pool it is of.
    pub pool: [u8; 16],
    /// Bytes of that pool.
    pub pool_bytes: u64,
    /// Bytes of it that were in use.
    pub used_bytes: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
}

/// Writes an image of `pool` to `out`, as of one moment; `image` is its uuid, random, from the caller. Services and
/// transactions wait until the last byte is written, so `out` is a file or a reader that keeps up. Nothing is flushed
/// or synced at `out`.
///
/// # Errors
/// [`Error::Busy`] beside a client that may store through a grant, [`Error::Cancelled`] where `watch` says so,
/// [`Error::Medium`] where `out` fails, [`Error::Corrupt`] where a table is damaged: `out` has no image then. Else as
/// [`Pool`] says.
pub fn backup(
    pool: &Pool,
    out: &mut dyn Write,
    image: [u8; 16],
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    write_image(pool, out, image, GrantWriters::Refused, watch)
}

/// What becomes of clients that may store through a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrantWriters {
    Refused,
    Ignored,
}

fn write_image(
    pool: &Pool,
    out: &mut dyn Write,
    image: [u8; 16],
    writers: GrantWriters,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    pool.check_poison()?;
    pool.grants().reap(pool)?;
    let stamp = Some(image_tie::next_stamp(pool, u16::from_le_bytes([image[0], image[1]]))?);
    // A grant begins with a transaction, so none comes while the pool stands still.
    let frozen = pool.freeze();
    if writers == GrantWriters::Refused {
        pool.grants().refuse_writers(&frozen.stilled())?;
    }
    pool.lanes().retire(pool.memory())?;
    let superblock = pool.superblock();
    let chunks = used_chunks(pool.memory(), superblock.size / CHUNK)?;
    let header = ImageHeader {
        image,
        pool: superblock.uuid,
        size: superblock.size,
        frames: chunks.len() as u64,
        generation: superblock.generation,
        stamp,
    };
    let (bytes, mut tally) = ImageTally::start(&header);
    let mut writer = CountingWriter { out, bytes: 0 };
    writer.write(&bytes)?;
    for (done, (chunk, used)) in chunks.iter().enumerate() {
        let frame = read_frame(pool.memory(), *chunk, *used);
        writer.write(&tally.frame(&frame))?;
        writer.write(&frame.content)?;
        if !watch(progress("backing up", done as u64 + 1, header.frames)) {
            return Err(Error::Cancelled("the backup"));
        }
    }
    writer.write(&tally.trailer())?;
    let used_bytes = chunks.iter().map(|(_, used)| used.count() * PAGE).sum();
    Ok(ImageSummary { image, pool: header.pool, pool_bytes: header.size, used_bytes, image_bytes: writer.bytes })
}

struct CountingWriter<'out> {
    out: &'out mut dyn Write,
    bytes: u64,
}

impl CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| MediumError::io("writing the backup image", error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn progress(what: &str, done_chunks: u64, chunks: u64) -> Progress {
    Progress { done: done_chunks * CHUNK, total: chunks * CHUNK, what: what.into() }
}

/// Every chunk in use, with its pages in use, as the medium says: what is taken and not committed is not in use.
fn used_chunks(memory: &dyn Memory, chunks: u64) -> Result<Vec<(u64, ChunkPages)>> {
    let mut found = Vec::new();
    for chunk in 0..chunks {
        let mut kind = [0];
        memory.load(kind_at(chunk), &mut kind);
        let kind = ChunkUse::from_byte(kind[0]).filter(|kind| (*kind == ChunkUse::Meta) == is_meta(chunk));
        let kind = kind.ok_or_else(|| Error::corrupt(format!("the kind of chunk {chunk}"), kind_at(chunk)))?;
        let used = match kind {
            ChunkUse::Free => ChunkPages::default(),
            ChunkUse::Normal => ChunkPages::load_bitmap(memory, chunk),
            ChunkUse::Super => ChunkPages::ALL,
            ChunkUse::Meta => ChunkPages::ALL.without(superblock_pages(chunk)),
        };
        if !used.is_empty() {
            found.push((chunk, used));
        }
    }
    Ok(found)
}

/// The pages of `chunk` that a restore writes by itself.
fn superblock_pages(chunk: u64) -> ChunkPages {
    let mut pages = ChunkPages::default();
    if chunk == 0 {
        pages.insert(0..2);
    }
    pages
}

/// Those with lanes: what is in them is home, so they are zeros in the image (BK1, BK4).
fn lane_pages(chunk: u64) -> ChunkPages {
    let mut pages = ChunkPages::default();
    if chunk == 0 {
        pages.insert(LANES / PAGE..(LANES + LANE_COUNT as u64 * LANE) / PAGE);
    }
    pages
}

fn read_frame(memory: &dyn Memory, chunk: u64, used: ChunkPages) -> ImageFrame {
    let (mut carried, mut content) = (ChunkPages::default(), Vec::new());
    let mut bytes = [0; PAGE as usize];
    for page in used.without(lane_pages(chunk)).runs().flatten() {
        memory.load(chunk * CHUNK + page * PAGE, &mut bytes);
        if bytes != [0; PAGE as usize] {
            carried.insert(page..page + 1);
            content.extend_from_slice(&bytes);
        }
    }
    ImageFrame { chunk, used, carried, content }
}

#[cfg(test)]
mod tests;
