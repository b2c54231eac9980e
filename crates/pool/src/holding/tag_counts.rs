//! The owner's view of what the holders of tags counted.

use ferrite_memory::{RequestTotals, SharedWords};

use crate::grant::GrantId;
use crate::{Pool, Result, Tag};

use super::lease_counters::{LEASE_FIGURES, LEASE_OPS, SharedCounters, figures, set_wish};

/// The counts of the tags of a pool that this process owns.
#[derive(Clone, Copy)]
pub struct TagCounts<'a>(&'a Pool);

impl<'a> TagCounts<'a> {
    /// Returns the counts of the tags of `pool`.
    pub fn of(pool: &'a Pool) -> Self {
        Self(pool)
    }

    fn words(self) -> Option<&'a SharedWords> {
        self.0.holdings.known_words()
    }

    /// Returns what the holders of `tag` counted since the pool was opened, in this process and in others. A process
    /// that has the tag from an earlier owner is not counted.
    pub fn totals(self, tag: &Tag) -> [RequestTotals; LEASE_OPS] {
        self.0.holdings.counters.lock().totals(self.words(), tag.generation)
    }

    /// Begins the counts of grant `id` on `tag`. Returns the counters for the process that has the grant.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the grant has ended; else if the system has no memory or no descriptor left.
    pub fn share(self, tag: &Tag, id: GrantId) -> Result<SharedCounters> {
        let words = self.0.holdings.board()?.share()?;
        Ok(SharedCounters { words, slot: self.begin(tag, id)? })
    }

    /// Begins the counts of grant `id` on `tag`, if this process shares words. Returns the slot of the grant.
    pub(super) fn begin(self, tag: &Tag, id: GrantId) -> Result<usize> {
        let slot = self.0.grants().slot_of(id)?;
        if let Some(words) = self.words() {
            self.0.holdings.counters.lock().begin(words, slot, tag.generation);
        }
        Ok(slot)
    }

    /// Returns the figures that the holder of `tag` published last; `None` if no other process has the tag, or if it has
    /// published none yet.
    pub fn figures(self, tag: &Tag) -> Option<[u64; LEASE_FIGURES]> {
        let standing = self.0.grants().standing().into_iter().find(|grant| grant.tag_generation == tag.generation)?;
        figures(self.words()?, self.0.grants().slot_of(standing.id).ok()?)
    }

    /// Passes `wish` to the holder of `tag` in another process: a number greater than 0, whose meaning the service of the tag
    /// defines. Returns false if no process has the tag from this owner. The holder may ignore the wish.
    pub fn set_wish(self, tag: &Tag, wish: u64) -> bool {
        let slot = self.slot_of_holder(tag);
        let (Some(words), Some(slot)) = (self.words(), slot) else { return false };
        set_wish(words, slot, wish);
        true
    }

    /// Returns true if a process has `tag` from this owner, so that wishes reach it.
    pub fn is_reached(self, tag: &Tag) -> bool {
        self.words().is_some() && self.slot_of_holder(tag).is_some()
    }

    /// Returns the slot of the grant of `tag` that this owner gave.
    fn slot_of_holder(self, tag: &Tag) -> Option<usize> {
        let standing = self.0.grants().standing().into_iter().filter(|grant| grant.tag_generation == tag.generation);
        let mut slots = standing.filter_map(|grant| self.0.grants().slot_of(grant.id).ok());
        slots.find(|slot| self.0.holdings.counters.lock().is_of(*slot, tag.generation))
    }
}

#[cfg(test)]
mod tests;
