//! Storage of the host, which is reserved for chunks before anything is stored in them.

use ferrite_memory::{Error as MediumError, Span};

use crate::Progress;
use crate::extent::{Extent, Role, Zone};
use crate::layout::{CHUNK, CHUNK_PAGES};
use crate::page_allocator::SpaceNeed;
use crate::{Error, Pool, Result};

/// Pages of one request to the host, 32 MiB: between two requests the caller may stop. Smaller requests would be
/// slower, because in each the kernel waits once for every processor.
const PIECE_PAGES: u32 = 16 * CHUNK_PAGES as u32;

/// A function that is called with the progress of the host's reservation, and returns true to continue.
pub type ProgressWatch<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// A long request to the host, with the caller's progress function.
pub(crate) struct WatchedRequest<'a> {
    watch: ProgressWatch<'a>,
    done_bytes: u64,
    total_bytes: u64,
}

impl<'a> WatchedRequest<'a> {
    /// Returns a count of `total_bytes` at zero.
    pub fn new(total_bytes: u64, watch: ProgressWatch<'a>) -> Self {
        Self { watch, done_bytes: 0, total_bytes }
    }

    /// Counts `bytes` that the host has reserved.
    fn reserved(&mut self, bytes: u64) -> Result<()> {
        self.done_bytes = (self.done_bytes + bytes).min(self.total_bytes);
        let progress = Progress { done: self.done_bytes, total: self.total_bytes, what: "taking space".into() };
        if (self.watch)(progress) { Ok(()) } else { Err(Error::Cancelled("taking space")) }
    }
}

/// The results of requests to a full host.
#[derive(Default)]
struct HostAttempt {
    /// The extents with storage.
    reserved: Vec<Extent>,
    /// The extents without storage for all of them, which are no longer taken.
    refused: Vec<Extent>,
}

impl HostAttempt {
    /// Adds an extent with storage, joining it to those from number `first_new` on.
    fn add(&mut self, part: Extent, first_new: usize) {
        match self.reserved[first_new..].last_mut() {
            Some(last) if last.continues_in(part) => last.pages += part.pages,
            _ => self.reserved.push(part),
        }
    }
}

impl Pool {
    /// Takes space for all of `needs`, or none, in DRAM alone, and reserves the host's storage for it. `watch` may stop
    /// it with [`Error::Cancelled`].
    pub(crate) fn take_reserved(&self, needs: &[SpaceNeed], watch: ProgressWatch<'_>) -> Result<Vec<Extent>> {
        let first = self.space().take(needs)?;
        let mut watched = WatchedRequest::new(first.iter().map(|extent| extent.span().len).sum(), watch);
        let Err(why) = self.reserve_storage(&first, &mut watched) else { return Ok(first) };
        if !is_no_space(&why) {
            self.free_unused(&first);
            return Err(why);
        }
        self.space().free(&first);
        let kept = take_kept(self, needs, &mut watched);
        self.return_free_chunks(&first);
        kept
    }

    /// Reserves the host's storage for all of `extents`. After a refusal, storage that was reserved before stays until
    /// the extents are given up.
    pub(crate) fn reserve_storage(&self, extents: &[Extent], watched: &mut WatchedRequest<'_>) -> Result<()> {
        extents.iter().flat_map(|extent| pieces(*extent, PIECE_PAGES)).try_for_each(|piece| {
            self.memory().reserve(chunks_around(piece))?;
            self.space().record_bare(chunks_of(&piece), false);
            watched.reserved(piece.span().len)
        })
    }

    /// Frees `extents`, which were taken and not used, in the allocator, and returns chunks that are free then to the
    /// host.
    pub(crate) fn free_unused(&self, extents: &[Extent]) {
        self.space().free(extents);
        self.return_free_chunks(extents);
    }

    /// Returns those chunks of `extents` that are free to the host (A3). A chunk that the host does not accept stays
    /// reserved.
    pub(crate) fn return_free_chunks(&self, extents: &[Extent]) {
        // A failure poisons the pool, and the next change reports that.
        let _ = return_chunks(self, extents.iter().flat_map(chunks_of));
    }

    /// Returns all free chunks to the host: a killed process returned none, and the chunks with storage are not known.
    pub(crate) fn return_all_free_chunks(&self) -> Result<()> {
        return_chunks(self, 0..self.superblock().size / CHUNK)
    }
}

/// Takes space as [`Pool::take_reserved`] does, on a full host: chunks for which it has storage can still be taken.
fn take_kept(pool: &Pool, needs: &[SpaceNeed], watched: &mut WatchedRequest<'_>) -> Result<Vec<Extent>> {
    let mut tried = HostAttempt::default();
    let done = needs.iter().try_for_each(|need| take_kept_for(pool, *need, &mut tried, watched));
    let HostAttempt { mut reserved, mut refused } = tried;
    if done.is_err() {
        pool.space().free(&reserved);
        refused.append(&mut reserved);
    }
    pool.return_free_chunks(&refused);
    done.map(|()| reserved)
}

fn take_kept_for(
    pool: &Pool,
    mut need: SpaceNeed,
    tried: &mut HostAttempt,
    watched: &mut WatchedRequest<'_>,
) -> Result<()> {
    let first_new = tried.reserved.len();
    while need.bytes > 0 {
        let found = pool.space().take_kept_first(&[need])?;
        let parts: Vec<Extent> = found.into_iter().flat_map(|extent| pieces(extent, CHUNK_PAGES as u32)).collect();
        need.bytes = try_each(pool, &parts, first_new, tried, watched)?;
    }
    Ok(())
}

/// Reserves storage for each of `parts`. Returns the bytes without storage, which the caller takes elsewhere. Fails
/// if a chunk that is known to have no storage gets none, because such chunks are taken last.
fn try_each(
    pool: &Pool,
    parts: &[Extent],
    first_new: usize,
    tried: &mut HostAttempt,
    watched: &mut WatchedRequest<'_>,
) -> Result<u64> {
    let mut refused_bytes = 0;
    for (i, part) in parts.iter().enumerate() {
        let Err(why) = pool.reserve_storage(&[*part], watched) else {
            tried.add(*part, first_new);
            continue;
        };
        tried.refused.push(*part);
        if !is_no_space(&why) || pool.space().is_bare(part.page / CHUNK_PAGES) {
            pool.space().free(&parts[i..]);
            return Err(why);
        }
        pool.space().record_bare(chunks_of(part), true);
        pool.space().free(&[*part]);
        refused_bytes += part.span().len;
    }
    Ok(refused_bytes)
}

fn return_chunks(pool: &Pool, chunks: impl Iterator<Item = u64>) -> Result<()> {
    let mut runs: Vec<Extent> = Vec::new();
    for chunk in chunks.map(whole).filter(|chunk| pool.space().take_at(*chunk)) {
        match runs.last_mut() {
            Some(last) if last.continues_in(chunk) => last.pages += chunk.pages,
            _ => runs.push(chunk),
        }
    }
    if runs.is_empty() {
        return Ok(());
    }
    let released = runs.iter().filter(|run| pool.memory().release(run.span()).is_ok());
    released.for_each(|run| pool.space().record_bare(chunks_of(run), true));
    let settled = pool.memory().barrier().inspect_err(|error| pool.poison(error));
    pool.space().free(&runs);
    Ok(settled?)
}

/// Returns the extent of a whole chunk.
fn whole(chunk: u64) -> Extent {
    Extent { page: chunk * CHUNK_PAGES, pages: CHUNK_PAGES as u32, role: Role::DATA, zone: Zone::Super }
}

fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::Medium(MediumError::NoSpace(_)))
}

/// Returns the parts of `extent`, of at most `most` pages each. If `most` is a chunk, each part lies in one chunk,
/// which is how parts of the normal zone are found.
fn pieces(extent: Extent, most: u32) -> impl Iterator<Item = Extent> {
    (0..extent.pages).step_by(most as usize).map(move |done| Extent {
        page: extent.page + u64::from(done),
        pages: most.min(extent.pages - done),
        ..extent
    })
}

fn chunks_of(extent: &Extent) -> std::ops::Range<u64> {
    extent.page / CHUNK_PAGES..extent.end().div_ceil(CHUNK_PAGES)
}

/// Returns the chunks that hold `extent`, because the host reserves storage for whole chunks.
fn chunks_around(extent: Extent) -> Span {
    let chunks = chunks_of(&extent);
    Span::new(chunks.start * CHUNK, (chunks.end - chunks.start) * CHUNK)
}

#[cfg(test)]
mod tests;
