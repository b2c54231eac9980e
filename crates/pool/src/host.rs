//! What the pool has of its host: storage behind its chunks, promised before anything is stored in them.

use ferrite_medium::Span;

use crate::extent::{Extent, Role, Zone};
use crate::layout::{CHUNK, CHUNK_PAGES};
use crate::space::Need;
use crate::{Pool, Result};

impl Pool {
    /// Takes space for `needs`, in DRAM alone, with the host's promise for it, all or nothing.
    pub(crate) fn take_promised(&self, needs: &[Need]) -> Result<Vec<Extent>> {
        let taken = self.space().take(needs)?;
        self.promise(&taken).inspect_err(|_| self.give_up(&taken))?;
        Ok(taken)
    }

    /// Has the host promise storage for all of `extents`. What it gave before it refused stays until they are given up.
    pub(crate) fn promise(&self, extents: &[Extent]) -> Result<()> {
        extents.iter().try_for_each(|extent| Ok(self.memory().reserve(chunks_around(*extent))?))
    }

    /// Gives back `extents`, which were taken and are not used: to the pool, and to the host what others have nothing of.
    pub(crate) fn give_up(&self, extents: &[Extent]) {
        self.space().give_back(extents);
        self.let_go(extents);
    }

    /// Gives the host those chunks of `extents` back that nobody has anything in (A3). Of what it does not take nothing is
    /// lost: it stays promised.
    pub(crate) fn let_go(&self, extents: &[Extent]) {
        let mut chunks: Vec<u64> = extents.iter().flat_map(chunks_of).collect();
        chunks.dedup();
        let whole = |chunk| Extent {
            page: chunk * CHUNK_PAGES,
            pages: CHUNK_PAGES as u32,
            role: Role::DATA,
            zone: Zone::Super,
        };
        let taken: Vec<Extent> = chunks.into_iter().map(whole).filter(|chunk| self.space().take_at(*chunk)).collect();
        if taken.is_empty() {
            return;
        }
        taken.iter().for_each(|chunk| _ = self.memory().release(chunk.span()));
        if let Err(error) = self.memory().barrier() {
            self.poison(&error);
        }
        self.space().give_back(&taken);
    }
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
