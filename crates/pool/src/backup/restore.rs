//! Restoring a pool from an image.

use std::io::Read;

use ferrite_memory::{ByteCount, Memory, Scheme, Span, planted};

use super::frames::FrameSource;
use super::image_format::{ImageFrame, ImageHeader, ImageReader};
use super::{ImageSummary, progress};
use crate::Progress;
use crate::bounds::GENERATION_BOUND;
use crate::create_pool::{add_chunks, reserve_tables};
use crate::grant::disown;
use crate::layout::{CHUNK, PAGE, SUPERBLOCKS};
use crate::superblock::{FIRST_VERSION, PoolState, Superblock, VERSION};
use crate::{Error, Result, member, show_uuid};

/// The options of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Restore although that destroys the target's content: see [`crate::ensure_may_be_lost`].
    pub overwrite: bool,
}

/// Reads and verifies an image to its end. Writes nothing.
///
/// # Errors
/// [`Error::BadImage`] at the damaged place, [`Error::Limit`] for a newer version, [`Error::Medium`] if `input` fails,
/// [`Error::Cancelled`] if `watch` returns false.
pub fn verify(input: &mut dyn Read, watch: &mut dyn FnMut(Progress) -> bool) -> Result<ImageSummary> {
    verify_frames(&mut ImageReader::open(input)?, watch)
}

/// Reads and verifies the frames of `image` to their end.
pub(super) fn verify_frames(
    image: &mut dyn FrameSource,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    each_batch(image, "verifying", watch, |_| Ok(()))
}

/// Restores the image in `input` into `memory`. The pool is durable and closed on return. A larger memory becomes a
/// larger pool. Each frame is verified before it is written. If a later part of the image is damaged, or anything else
/// fails, `memory` is left as an unfinished restore, which the same image completes from the start (BK3). If `input`
/// can be read twice, call [`verify`] first.
///
/// # Errors
/// [`Error::Limit`] if `memory` is too small, [`Error::Occupied`] if only [`RestoreOptions::overwrite`] allows the
/// loss: nothing is changed then. Else as [`verify`], or [`Error::Medium`] if the memory fails.
pub fn restore(
    input: &mut dyn Read,
    memory: &dyn Memory,
    options: RestoreOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    restore_frames(&mut ImageReader::open(input)?, memory, options, watch)
}

/// Restores the frames of `image` into `memory`: see [`restore`].
pub(super) fn restore_frames(
    image: &mut dyn FrameSource,
    memory: &dyn Memory,
    options: RestoreOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    let header = *image.header();
    restore_by(&header, memory, options, || each_batch(image, "restoring", watch, |frames| put(memory, frames)))
}

/// Restores an image with this `header` into `memory`, whose chunks in use `fill` stores: see [`restore`].
pub(super) fn restore_by(
    header: &ImageHeader,
    memory: &dyn Memory,
    options: RestoreOptions,
    fill: impl FnOnce() -> Result<ImageSummary>,
) -> Result<ImageSummary> {
    ensure_fits(memory, header)?;
    // Reading a page that does not exist yet also allocates a page of the host.
    memory.reserve(Span::new(SUPERBLOCKS[0], SUPERBLOCKS.len() as u64 * PAGE))?;
    if !options.overwrite {
        ensure_vacant(memory, header)?;
    }
    let mut superblock = begin(memory, header)?;
    let summary = fill()?;
    disown(memory, header.size / PAGE);
    let new = header.size / CHUNK..superblock.size / CHUNK;
    reserve_tables(memory, new.clone())?;
    add_chunks(memory, new);
    memory.drain()?;
    memory.barrier()?;
    if member::has_ties(memory) {
        superblock.version = VERSION;
    }
    (superblock.state, superblock.image) = (PoolState::Clean, [0; 16]);
    superblock.advance(memory)?;
    Ok(summary)
}

/// Frames that are stored together: to make huge pages of many chunks at once is faster.
const BATCH: usize = 16;

/// Passes every verified frame to `visit`, in batches, to the end of the image.
fn each_batch(
    image: &mut dyn FrameSource,
    what: &'static str,
    watch: &mut dyn FnMut(Progress) -> bool,
    visit: impl Fn(&[ImageFrame]) -> Result<()>,
) -> Result<ImageSummary> {
    let (mut done, mut used_bytes, mut is_over) = (0, 0, false);
    while !is_over {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH && !is_over {
            match image.next()? {
                Some(frame) => batch.push(frame),
                None => is_over = true,
            }
        }
        visit(&batch)?;
        done += batch.len() as u64;
        used_bytes += batch.iter().map(|frame| frame.used.count() * PAGE).sum::<u64>();
        if !batch.is_empty() && !watch(progress(what, done, image.header().frames)) {
            return Err(Error::Cancelled(what));
        }
        image.reuse(batch);
    }
    let ImageHeader { image: uuid, pool, size, .. } = *image.header();
    Ok(ImageSummary { image: uuid, pool, pool_bytes: size, used_bytes, image_bytes: image.bytes() })
}

fn ensure_fits(memory: &dyn Memory, header: &ImageHeader) -> Result<()> {
    if memory.size() < header.size {
        return Err(Error::Limit(format!(
            "the image is of a pool of {} and there are only {} here: restore into a larger one",
            ByteCount(header.size),
            ByteCount(memory.size())
        )));
    }
    Ok(())
}

/// Refuses if content would be lost that the caller may not know of.
fn ensure_vacant(memory: &dyn Memory, header: &ImageHeader) -> Result<()> {
    let found = match Superblock::read(memory) {
        Err(Error::NotAPool(_)) if is_blank(memory) => return Ok(()),
        Err(Error::NotAPool(_)) => "the target holds data other than a pool".to_string(),
        Ok(found) if found.state == PoolState::Restoring && found.image == header.image => return Ok(()),
        Ok(found) if found.state == PoolState::Restoring => {
            "an unfinished restore of another image is here: restore that image again".to_string()
        }
        Ok(found) => format!("a pool is here already: {}", show_uuid(&found.uuid)),
        Err(error) => format!("a damaged pool is here ({error})"),
    };
    Err(Error::Occupied(format!("{found}, which would be lost")))
}

/// Returns true if the places of the superblocks are zeros, as in a new file.
fn is_blank(memory: &dyn Memory) -> bool {
    SUPERBLOCKS.into_iter().all(|at| {
        let mut bytes = [0; PAGE as usize];
        memory.load(at, &mut bytes);
        bytes == [0; PAGE as usize]
    })
}

/// Writes the image to both superblocks (BK3), as generations that were never used (BK5). The first one does not
/// overwrite the current superblock, so a crash leaves the old pool whole or this restore begun.
fn begin(memory: &dyn Memory, header: &ImageHeader) -> Result<Superblock> {
    let current = current_generation(memory);
    if current >= GENERATION_BOUND - 16 {
        let what = "and no later one can be counted: make a new pool there first, with `ferrite pool create`";
        return Err(Error::Limit(format!("the pool here has generation {current}, {what}")));
    }
    let mut generation = current.max(header.generation);
    generation += (generation ^ current) & 1;
    let mut superblock = Superblock {
        version: FIRST_VERSION,
        generation,
        uuid: header.pool,
        size: memory.size() / CHUNK * CHUNK,
        state: if planted!("restore: a pool from the start") { PoolState::Clean } else { PoolState::Restoring },
        boot_id: [0; 16],
        image: header.image,
        trusted: 0,
    };
    superblock.advance(memory)?;
    Ok(superblock)
}

fn current_generation(memory: &dyn Memory) -> u64 {
    let generations = SUPERBLOCKS.into_iter().filter_map(|at| {
        let mut bytes = [0; PAGE as usize];
        memory.load(at, &mut bytes);
        Superblock::decode(&bytes).ok().map(|superblock| superblock.generation)
    });
    generations.max().unwrap_or(0)
}

/// Stores the pages that `frames` carry, and zeros to their other used pages (BK4).
fn put(memory: &dyn Memory, frames: &[ImageFrame]) -> Result<()> {
    for run in frames.chunk_by(|frame, next| frame.chunk + 1 == next.chunk) {
        memory.reserve(Span::new(run[0].chunk * CHUNK, run.len() as u64 * CHUNK))?;
    }
    for frame in frames {
        put_frame(memory, frame);
    }
    Ok(())
}

fn put_frame(memory: &dyn Memory, frame: &ImageFrame) {
    let start = frame.chunk * CHUNK;
    let mut rest = &frame.content[..];
    for run in frame.carried.runs() {
        let (part, after) = rest.split_at(((run.end - run.start) * PAGE) as usize);
        memory.store(start + run.start * PAGE, part, Scheme::Nt);
        rest = after;
    }
    for page in frame.used.without(frame.carried).runs().flatten() {
        clear(memory, Span::new(start + page * PAGE, PAGE));
    }
}

/// Clears a page (BK4). Most pages of a new target are zeros already and are only flushed, because the process that zeroed
/// them may have been killed.
pub(super) fn clear(memory: &dyn Memory, page: Span) {
    let mut bytes = [0; PAGE as usize];
    memory.load(page.at, &mut bytes);
    if bytes == [0; PAGE as usize] {
        memory.flush(page);
    } else {
        memory.zero(page, Scheme::Nt);
    }
}
