//! Pages that were read from SSDs lately, by name alone: a page that is read again is worth a page of the pool.

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::planted;

use crate::format::word::{AwayPage, IndexWord};

/// A table with a place for each page by its slot. A page with the same place as another one replaces it, so the
/// table forgets the older ones.
#[derive(Debug)]
pub(crate) struct ReadGhosts {
    places: Box<[AtomicU64]>,
    /// The page that was read last: its parts are read one by one, which is one use.
    last: AtomicU64,
}

/// A multiplier that spreads neighbouring slots over the table.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl ReadGhosts {
    /// An empty table for a pool of `pages` pages: twice as many places, so that few pages replace each other.
    pub fn new(pages: u64) -> Self {
        let places = (0..(2 * pages).next_power_of_two().max(64)).map(|_| AtomicU64::new(0)).collect();
        Self { places, last: AtomicU64::new(0) }
    }

    /// Notes that `page` was read. Returns true if the table knew it, from another use.
    pub fn note(&self, page: AwayPage) -> bool {
        planted!("fs: every read admitted" => return true);
        let word = IndexWord::away(page).0;
        if self.last.swap(word, Ordering::Relaxed) == word {
            return false;
        }
        let bits = self.places.len().trailing_zeros();
        let place = page.slot.0.wrapping_mul(SPREAD) >> (64 - bits);
        self.places[place as usize].swap(word, Ordering::Relaxed) == word
    }
}
