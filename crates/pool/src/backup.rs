//! Backup and restore: a pool to an image and back.
//!
//! An image holds every page in use that is not zeros, as of one moment (see `image_format` for its bytes). The image
//! of a nearly empty pool is small, and it can be restored into any pool that is at least as large.
//!
//! - BK1. The pool is frozen while it is copied ([`crate::Frozen`]), and every transaction is at home before. So the
//!   image is the state of a clean stop at that moment, and holds no lane. The pool cannot stop clients that store
//!   through a grant; only a service can stop its clients with it. If other such clients exist, the backup is refused,
//!   which does not affect them. A grant slot that cannot be read counts as such a client.
//! - BK2. An image in a file stays whole: a new image is written beside it, read back, made durable, and only then gets
//!   its name. A file that holds a pool stays, too.
//! - BK3. Before the first byte of the target changes, both its superblocks name the image that is being restored,
//!   durably, and they name it until everything is durable. So after a crash the target is not a pool until the same
//!   restore has run again, from the start, and finished.
//! - BK4. After a restore, every page that was in use has its content, zeros included, whatever the target held. The
//!   lanes hold no record of the target's earlier life, which would verify again.
//! - BK5. A restore never uses a generation that either the image or the target has used.
//! - BK7. Each image has a stamp of the tie between the pool and its images (`crate::tie`). The pool has the
//!   generation, durably, before the image is written, and the image has it in both places. So a backup detects an
//!   image of another pool, or one that is later than this pool knows, and does not overwrite it.
//! - BK6. Grants of the original count as ended in the restored pool: their processes, which may live, work on the
//!   original.
//!
//! A restored pool is the same pool, with its UUID. Two copies in use at once are two pools with one name; a user who
//! restores beside a living original has to avoid that.

mod frames;
mod image_file;
mod image_format;
mod image_tie;
mod kept_file;
mod kept_format;
mod kept_image;
mod kept_reader;
mod kept_restore;
mod kept_tree;
mod restore;

use std::io::Write;

use ferrite_memory::{Error as MediumError, Memory};
use serde::{Deserialize, Serialize};

pub use image_file::{backup_to, backup_with, open_image, restore_from, save_to};
pub use image_format::VERSION;
pub use image_tie::ensure_may_replace;
pub use kept_file::{KeptFile, kept_save, restore_image, restore_kept, verify_image, verify_kept};
pub use kept_format::KEPT_VERSION;
pub use kept_image::{KeptImage, KeptSave, PoolSnapshot, SaveOptions, SaveReport};
pub use restore::{RestoreOptions, restore, verify};

use crate::Progress;
use crate::chunk_pages::ChunkPages;
use crate::layout::{CHUNK, LANE, LANE_COUNT, LANES, PAGE, is_meta, kind_at};
use crate::page_allocator::ChunkUse;
use crate::{Error, Pool, Result};
use image_format::{ImageFrame, ImageHeader, ImageTally};

/// The description of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSummary {
    /// The UUID of the image.
    pub image: [u8; 16],
    /// The UUID of the pool.
    pub pool: [u8; 16],
    /// The size of the pool in bytes.
    pub pool_bytes: u64,
    /// The bytes of the pool that were in use.
    pub used_bytes: u64,
    /// The size of the image in bytes.
    pub image_bytes: u64,
}

/// Writes an image of `pool` to `out`, as of one moment. `image` is the image's UUID, which the caller draws at random.
/// Services and transactions wait until the last byte is written, so `out` should be a file or a fast reader. This does
/// not flush or sync `out`.
///
/// # Errors
/// [`Error::Busy`] if a client may store through a grant, [`Error::Cancelled`] if `watch` returns false,
/// [`Error::Medium`] if `out` fails, [`Error::Corrupt`] if a table is damaged: `out` then holds no image. Else as
/// [`Pool`] says.
pub fn backup(
    pool: &Pool,
    out: &mut dyn Write,
    image: [u8; 16],
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    write_image(pool, out, image, GrantWriters::Refused, watch)
}

/// The treatment of clients that may store through a grant.
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
    // A grant begins with a transaction, so none begins while the pool is frozen.
    let frozen = pool.freeze();
    if writers == GrantWriters::Refused {
        pool.grants().refuse_writers(pool, &frozen.stilled())?;
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

/// Returns every chunk in use, with its pages in use on the medium. Space that is taken and not committed is not in
/// use.
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

/// Returns the pages of `chunk` that a restore writes itself.
fn superblock_pages(chunk: u64) -> ChunkPages {
    let mut pages = ChunkPages::default();
    if chunk == 0 {
        pages.insert(0..2);
    }
    pages
}

/// Returns the pages of `chunk` with lanes. Their records are at home, so they are zeros in the image (BK1, BK4).
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
