//! Space that is taken before the transaction that uses it.
//!
//! Content of unknown length, or from a slow source, is written before anything is committed: a transaction that stayed
//! open would delay every freeze of the pool. The space is taken in DRAM alone, so after a crash before the transaction
//! it is free again.

use crate::extent::Extent;
use crate::host_space::WatchedRequest;
use crate::page_allocator::SpaceNeed;
use crate::{Error, Pool, Result};

/// Space that no other caller gets. Dropping this frees it, unless a transaction has adopted it.
#[derive(Debug)]
pub struct ReservedSpace<'pool> {
    pool: &'pool Pool,
    extents: Vec<Extent>,
}

impl Pool {
    /// Starts to take space before the transaction that uses it.
    pub fn reserve(&self) -> ReservedSpace<'_> {
        ReservedSpace::new(self)
    }
}

impl<'pool> ReservedSpace<'pool> {
    fn new(pool: &'pool Pool) -> Self {
        Self { pool, extents: Vec::new() }
    }

    /// Takes more space, which the host reserves. Returns the extents of this call. After an error this call has taken
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Medium`] if the host cannot reserve the space.
    pub fn take(&mut self, need: SpaceNeed) -> Result<Vec<Extent>> {
        let taken = self.pool.take_reserved(&[need], &mut |_| true)?;
        taken.iter().for_each(|extent| self.append(*extent));
        Ok(taken)
    }

    /// Takes the pages of `extent`, which the host reserves. Refuses unless all of them are free.
    pub(crate) fn take_at(&mut self, extent: Extent) -> Result<()> {
        if !self.pool.space().take_at(extent) {
            let (needed_bytes, free_bytes) = (extent.span().len, self.pool.usage().free_bytes);
            return Err(Error::Full { needed_bytes, free_bytes });
        }
        self.append(extent);
        self.pool.reserve_storage(&[extent], &mut WatchedRequest::new(0, &mut |_| true))
    }

    /// Returns all extents taken, in order, neighbours joined.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Returns the extents; the caller has to free them.
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
        self.pool.free_unused(&self.extents);
    }
}
