//! From an image to a pool.

use std::io::Read;

use ferrite_memory::{ByteCount, Memory, Scheme, Span};

use super::image_format::{ImageFrame, ImageHeader, ImageReader};
use super::{ImageSummary, progress};
use crate::Progress;
use crate::bounds::GENERATION_BOUND;
use crate::create_pool::{add_chunks, reserve_tables};
use crate::grant::disown;
use crate::layout::{CHUNK, PAGE, SUPERBLOCKS};
use crate::superblock::{FIRST_VERSION, PoolState, Superblock, VERSION};
use crate::{Error, Result, member, show_uuid};

/// How to restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Go on although that destroys what is there: see [`crate::ensure_may_be_lost`].
    pub overwrite: bool,
}

/// Reads an image to its end; an error says where it is not whole. Nothing is written anywhere.
///
/// # Errors
/// [`Error::BadImage`] where it is not whole, [`Error::Limit`] for a newer version, [`Error::Medium`] where `input`
/// fails, [`Error::Cancelled`] where `watch` says so.
pub fn verify(input: &mut dyn Read, watch: &mut dyn FnMut(Progress) -> bool) -> Result<ImageSummary> {
    each_frame(&mut ImageReader::open(input)?, "verifying", watch, |_| Ok(()))
}

/// Makes `memory` the pool that `input` is an image of, closed and durable on return. A larger memory makes a larger
/// pool. Each frame is verified before it is written; where the image turns out damaged further on, or anything else
/// fails, `memory` is left as a restore that did not finish, which the same image finishes from the start (BK3). Where
/// `input` can be read twice, [`verify`] it first.
///
/// # Errors
/// [`Error::Limit`] where `memory` is too small, [`Error::Occupied`] for what only [`RestoreOptions::overwrite`] destroys: nothing
/// is changed then. Else as [`verify`], or [`Error::Medium`] where the memory fails.
pub fn restore(
    input: &mut dyn Read,
    memory: &dyn Memory,
    options: RestoreOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    let mut image = ImageReader::open(input)?;
    let header = image.header;
    ensure_fits(memory, &header)?;
    // Also to read a page that is not there yet takes one of the host's.
    memory.reserve(Span::new(SUPERBLOCKS[0], SUPERBLOCKS.len() as u64 * PAGE))?;
    if !options.overwrite {
        ensure_vacant(memory, &header)?;
    }
    let mut superblock = begin(memory, &header)?;
    let summary = each_frame(&mut image, "restoring", watch, |frame| put(memory, frame))?;
    disown(memory, header.size / PAGE);
    let new = header.size / CHUNK..superblock.size / CHUNK;
    reserve_tables(memory, new.clone())?;
    add_chunks(memory, new);
    memory.settle()?;
    memory.barrier()?;
    if member::has_ties(memory) {
        superblock.version = VERSION;
    }
    (superblock.state, superblock.image) = (PoolState::Clean, [0; 16]);
    superblock.advance(memory)?;
    Ok(summary)
}

/// Gives every frame to `visit` once it has verified, to the end of the image.
fn each_frame(
    image: &mut ImageReader<'_>,
    what: &'static str,
    watch: &mut dyn FnMut(Progress) -> bool,
    visit: impl Fn(&ImageFrame) -> Result<()>,
) -> Result<ImageSummary> {
    let (mut done, mut used_bytes) = (0, 0);
    while let Some(frame) = image.next()? {
        visit(&frame)?;
        done += 1;
        used_bytes += frame.used.count() * PAGE;
        if !watch(progress(what, done, image.header.frames)) {
            return Err(Error::Cancelled(what));
        }
    }
    let ImageHeader { image: uuid, pool, size, .. } = image.header;
    Ok(ImageSummary { image: uuid, pool, pool_bytes: size, used_bytes, image_bytes: image.at })
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

/// Refuses where something would be lost that the caller may not know of.
fn ensure_vacant(memory: &dyn Memory, header: &ImageHeader) -> Result<()> {
    let found = match Superblock::read(memory) {
        Err(Error::NotAPool(_)) if is_blank(memory) => return Ok(()),
        Err(Error::NotAPool(_)) => "here is something else, no pool".to_string(),
        Ok(found) if found.state == PoolState::Restoring && found.image == header.image => return Ok(()),
        Ok(found) if found.state == PoolState::Restoring => {
            "here another image is half restored: restore that one again".to_string()
        }
        Ok(found) => format!("here is a pool already, {}", show_uuid(&found.uuid)),
        Err(error) => format!("here was a pool ({error})"),
    };
    Err(Error::Occupied(format!("{found}, which would be lost")))
}

/// Whether nothing stands where a pool begins, as in a file that was made for this.
fn is_blank(memory: &dyn Memory) -> bool {
    SUPERBLOCKS.into_iter().all(|at| {
        let mut bytes = [0; PAGE as usize];
        memory.load(at, &mut bytes);
        bytes == [0; PAGE as usize]
    })
}

/// Lets both superblocks say that the image is being restored (BK3), as generations nobody has used (BK5). The first of
/// them is written where the current one is not, so that a crash leaves the old pool whole or this restore begun.
fn begin(memory: &dyn Memory, header: &ImageHeader) -> Result<Superblock> {
    let current = current_generation(memory);
    if current >= GENERATION_BOUND - 16 {
        let what = "from which none can be counted on: make a new pool there first, with `ferrite pool create`";
        return Err(Error::Limit(format!("here is a pool of generation {current}, {what}")));
    }
    let mut generation = current.max(header.generation);
    generation += (generation ^ current) & 1;
    let mut superblock = Superblock {
        version: FIRST_VERSION,
        generation,
        uuid: header.pool,
        size: memory.size() / CHUNK * CHUNK,
        state: PoolState::Restoring,
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

/// Stores what a frame carries, and zeros where it says so (BK4).
fn put(memory: &dyn Memory, frame: &ImageFrame) -> Result<()> {
    let start = frame.chunk * CHUNK;
    memory.reserve(Span::new(start, CHUNK))?;
    let mut rest = &frame.content[..];
    for run in frame.carried.runs() {
        let (part, after) = rest.split_at(((run.end - run.start) * PAGE) as usize);
        memory.store(start + run.start * PAGE, part, Scheme::Nt);
        rest = after;
    }
    for page in frame.used.without(frame.carried).runs().flatten() {
        clear(memory, Span::new(start + page * PAGE, PAGE));
    }
    Ok(())
}

/// Most pages of a new target are zeros already; those are only flushed, since whoever zeroed them may have been killed
/// before.
fn clear(memory: &dyn Memory, page: Span) {
    let mut bytes = [0; PAGE as usize];
    memory.load(page.at, &mut bytes);
    if bytes == [0; PAGE as usize] {
        memory.flush(page);
    } else {
        memory.zero(page, Scheme::Nt);
    }
}
