//! What the pool has of its host: storage behind its chunks, promised before anything is stored in them.

use ferrite_memory::{Error as MediumError, Span};

use crate::Progress;
use crate::extent::{Extent, Role, Zone};
use crate::layout::{CHUNK, CHUNK_PAGES};
use crate::page_allocator::SpaceNeed;
use crate::{Error, Pool, Result};

/// Pages that the host is asked for at once, 32 MiB of them: between two such pieces the caller may stop it. In each the
/// kernel waits once for every processor, which is why they are no smaller.
const PIECE_PAGES: u32 = 16 * CHUNK_PAGES as u32;

/// Called with how far the host has given what it is asked for; returns whether to go on.
pub type ProgressWatch<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// A long request to the host, which its caller watches and may stop.
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

    /// Counts `bytes` that the host has given.
    fn had(&mut self, bytes: u64) -> Result<()> {
        self.done_bytes = (self.done_bytes + bytes).min(self.total_bytes);
        let progress = Progress { done: self.done_bytes, total: self.total_bytes, what: "taking space".into() };
        if (self.watch)(progress) { Ok(()) } else { Err(Error::Cancelled("taking space")) }
    }
}

/// What a full host was asked for.
#[derive(Default)]
struct HostAttempt {
    /// It has storage behind these.
    had: Vec<Extent>,
    /// And not behind all of these, which nobody has any more.
    refused: Vec<Extent>,
}

impl HostAttempt {
    /// Adds what is had, to the extents from the one numbered `first_new` on.
    fn add(&mut self, part: Extent, first_new: usize) {
        match self.had[first_new..].last_mut() {
            Some(last) if last.continues_in(part) => last.pages += part.pages,
            _ => self.had.push(part),
        }
    }
}

impl Pool {
    /// Takes space for `needs`, in DRAM alone, with the host's promise for it, all or nothing. `watch` may stop it with
    /// [`Error::Cancelled`].
    pub(crate) fn take_promised(&self, needs: &[SpaceNeed], watch: ProgressWatch<'_>) -> Result<Vec<Extent>> {
        let first = self.space().take(needs)?;
        let mut watched = WatchedRequest::new(first.iter().map(|extent| extent.span().len).sum(), watch);
        let Err(why) = self.promise(&first, &mut watched) else { return Ok(first) };
        if !is_no_space(&why) {
            self.give_up(&first);
            return Err(why);
        }
        self.space().give_back(&first);
        let kept = self.take_kept(needs, &mut watched);
        self.let_go(&first);
        kept
    }

    /// As [`Pool::take_promised`] on a host that is full: chunks that it has storage behind can still be had.
    fn take_kept(&self, needs: &[SpaceNeed], watched: &mut WatchedRequest<'_>) -> Result<Vec<Extent>> {
        let mut tried = HostAttempt::default();
        let done = needs.iter().try_for_each(|need| self.take_kept_for(*need, &mut tried, watched));
        let HostAttempt { mut had, mut refused } = tried;
        if done.is_err() {
            self.space().give_back(&had);
            refused.append(&mut had);
        }
        self.let_go(&refused);
        done.map(|()| had)
    }

    fn take_kept_for(
        &self,
        mut need: SpaceNeed,
        tried: &mut HostAttempt,
        watched: &mut WatchedRequest<'_>,
    ) -> Result<()> {
        let first_new = tried.had.len();
        while need.bytes > 0 {
            let found = self.space().take_kept_first(&[need])?;
            let parts: Vec<Extent> = found.into_iter().flat_map(|extent| pieces(extent, CHUNK_PAGES as u32)).collect();
            need.bytes = self.try_each(&parts, first_new, tried, watched)?;
        }
        Ok(())
    }

    /// Has the host promise storage for each of `parts`; the bytes for which it has none, to be looked for elsewhere. Where it
    /// has none for a chunk that was known to be bare there is no elsewhere: those are taken last.
    fn try_each(
        &self,
        parts: &[Extent],
        first_new: usize,
        tried: &mut HostAttempt,
        watched: &mut WatchedRequest<'_>,
    ) -> Result<u64> {
        let mut refused_bytes = 0;
        for (i, part) in parts.iter().enumerate() {
            let Err(why) = self.promise(&[*part], watched) else {
                tried.add(*part, first_new);
                continue;
            };
            tried.refused.push(*part);
            if !is_no_space(&why) || self.space().is_bare(part.page / CHUNK_PAGES) {
                self.space().give_back(&parts[i..]);
                return Err(why);
            }
            self.space().note_bare(chunks_of(part), true);
            self.space().give_back(&[*part]);
            refused_bytes += part.span().len;
        }
        Ok(refused_bytes)
    }

    /// Has the host promise storage for all of `extents`. What it gave before it refused stays until they are given up.
    pub(crate) fn promise(&self, extents: &[Extent], watched: &mut WatchedRequest<'_>) -> Result<()> {
        extents.iter().flat_map(|extent| pieces(*extent, PIECE_PAGES)).try_for_each(|piece| {
            self.memory().reserve(chunks_around(piece))?;
            self.space().note_bare(chunks_of(&piece), false);
            watched.had(piece.span().len)
        })
    }

    /// Gives back `extents`, which were taken and are not used: to the pool, and to the host what others have nothing of.
    pub(crate) fn give_up(&self, extents: &[Extent]) {
        self.space().give_back(extents);
        self.let_go(extents);
    }

    /// Gives the host those chunks of `extents` back that nobody has anything in (A3). Of what it does not take nothing is
    /// lost: it stays promised.
    pub(crate) fn let_go(&self, extents: &[Extent]) {
        // Where that fails the pool is poisoned, which tells whoever goes on.
        let _ = self.let_go_chunks(extents.iter().flat_map(chunks_of));
    }

    /// As [`Pool::let_go`], of all chunks: who was killed gives nothing back, and what there is storage behind is not known.
    pub(crate) fn let_go_all(&self) -> Result<()> {
        self.let_go_chunks(0..self.superblock().size / CHUNK)
    }

    fn let_go_chunks(&self, chunks: impl Iterator<Item = u64>) -> Result<()> {
        let mut runs: Vec<Extent> = Vec::new();
        for chunk in chunks.map(whole).filter(|chunk| self.space().take_at(*chunk)) {
            match runs.last_mut() {
                Some(last) if last.continues_in(chunk) => last.pages += chunk.pages,
                _ => runs.push(chunk),
            }
        }
        if runs.is_empty() {
            return Ok(());
        }
        let released = runs.iter().filter(|run| self.memory().release(run.span()).is_ok());
        released.for_each(|run| self.space().note_bare(chunks_of(run), true));
        let settled = self.memory().barrier().inspect_err(|error| self.poison(error));
        self.space().give_back(&runs);
        Ok(settled?)
    }
}

/// All of a chunk.
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

/// The chunks that hold `extent`: the host promises storage for whole ones.
fn chunks_around(extent: Extent) -> Span {
    let chunks = chunks_of(&extent);
    Span::new(chunks.start * CHUNK, (chunks.end - chunks.start) * CHUNK)
}

#[cfg(test)]
mod tests;
