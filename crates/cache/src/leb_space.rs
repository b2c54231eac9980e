//! The free LEBs of the SSDs, and the order in which SSDs get new ones.

use std::collections::{BTreeMap, VecDeque};

use ferrite_memory::planted;

use crate::page_word::LebPlace;

/// The free LEBs.
#[derive(Default)]
pub(crate) struct LebSpace {
    free: BTreeMap<u8, VecDeque<u32>>,
    /// The SSD that got the last LEB.
    last: Option<u8>,
}

impl LebSpace {
    /// Adds the free LEB `place`, behind those that were freed earlier.
    pub fn add(&mut self, place: LebPlace) {
        self.free.entry(place.ssd).or_default().push_back(place.leb);
    }

    /// Forgets the free LEBs of an SSD.
    pub fn forget(&mut self, ssd: u8) {
        self.free.remove(&ssd);
    }

    /// Returns the number of free LEBs of an SSD.
    pub fn count(&self, ssd: u8) -> usize {
        self.free.get(&ssd).map_or(0, VecDeque::len)
    }

    /// Takes a LEB on each of `count` different SSDs, of those for which `may_use` returns true. Returns `None` if fewer
    /// than `count` have a free one.
    pub fn take(&mut self, count: usize, may_use: impl Fn(u8) -> bool) -> Option<Vec<LebPlace>> {
        let ring = self.free.iter().filter(|(ssd, lebs)| !lebs.is_empty() && may_use(**ssd)).map(|(ssd, _)| *ssd);
        let ring: Vec<u8> = ring.collect();
        if ring.len() < count {
            return None;
        }
        let first = self.last.and_then(|last| ring.iter().position(|ssd| *ssd > last)).unwrap_or(0);
        let same = planted!("cache: both copies go to one SSD");
        let chosen = (0..count).map(|index| ring[(first + if same { 0 } else { index }) % ring.len()]);
        let chosen: Vec<u8> = chosen.collect();
        self.last = chosen.last().copied().filter(|_| !planted!("cache: the ring does not go on"));
        let take = |ssd: u8| {
            let leb = self.free.get_mut(&ssd).and_then(VecDeque::pop_front)?;
            Some(LebPlace { ssd, leb })
        };
        chosen.into_iter().map(take).collect()
    }
}

#[cfg(test)]
mod tests;
