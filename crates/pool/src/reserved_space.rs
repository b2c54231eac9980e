//! Space taken ahead of the transaction that makes it last.
//!
//! Content of unknown length, or from a slow source, is written before anything is committed: a transaction kept
//! open meanwhile would hold up everybody who needs the pool to stand still. The space is taken in DRAM alone, so a
//! crash before the transaction leaves it as free as it was.

use crate::extent::Extent;
use crate::host_space::WatchedRequest;
use crate::page_allocator::SpaceNeed;
use crate::{Error, Pool, Result};

/// Space that nobody else is given; free again when dropped, unless a transaction adopts it.
#[derive(Debug)]
pub struct ReservedSpace<'pool> {
    pool: &'pool Pool,
    extents: Vec<Extent>,
}

impl Pool {
    /// Starts to take space before the transaction that makes it last.
    pub fn reserve(&self) -> ReservedSpace<'_> {
        ReservedSpace::new(self)
    }
}

impl<'pool> ReservedSpace<'pool> {
    fn new(pool: &'pool Pool) -> Self {
        Self { pool, extents: Vec::new() }
    }

    /// Takes more, with the host's promise for it; what was taken by this call, which is nothing where it fails.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Medium`] where the host does not promise it.
    pub fn take(&mut self, need: SpaceNeed) -> Result<Vec<Extent>> {
        let taken = self.pool.take_promised(&[need], &mut |_| true)?;
        taken.iter().for_each(|extent| self.append(*extent));
        Ok(taken)
    }

    /// Takes the pages of `extent`, with the host's promise for them; refuses unless all of them are free.
    pub(crate) fn take_at(&mut self, extent: Extent) -> Result<()> {
        if !self.pool.space().take_at(extent) {
            let (needed_bytes, free_bytes) = (extent.span().len, self.pool.usage().free_bytes);
            return Err(Error::Full { needed_bytes, free_bytes });
        }
        self.append(extent);
        self.pool.promise(&[extent], &mut WatchedRequest::new(0, &mut |_| true))
    }

    /// All that was taken, in order, neighbours joined.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Its extents, which are the caller's to give back from now on.
    pub(crate) fn into_extents(mut self) -> Vec<Extent> {
        std::mem::take(&mut self.extents)
    }

    fn append(&mut self, extent: Extent) {
        match self.extents.last_mut() {
            Some(last) if last.continues_in(extent) => last.pages += extent.pages,
            _ => self.extents.push(extent),
        }
    }
}

impl Drop for ReservedSpace<'_> {
    fn drop(&mut self) {
        self.pool.give_up(&self.extents);
    }
}
