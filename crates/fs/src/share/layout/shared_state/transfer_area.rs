//! Transfer areas: bytes of files that a client and the owner pass to each other beside a request.
//!
//! Only a file system with a tier has areas, because only there the owner reads and writes for clients. A session makes
//! one request at a time, so it needs one area. The request and its reply order all loads and stores of the area.

use std::sync::atomic::Ordering;

use super::{CHUNKS_AT, SharedState, mark_words};

/// Transfer areas: as many as a pool has grants.
pub const TRANSFER_AREAS: usize = 64;
/// Bytes of a transfer area.
pub const TRANSFER_BYTES: usize = 1 << 20;

const WORD: usize = 8;
const AREA_WORDS: usize = TRANSFER_BYTES / WORD;

/// Returns the words of all areas, for marks of `tier_pages` pages.
pub(super) fn transfer_words(tier_pages: u64) -> u64 {
    if tier_pages == 0 { 0 } else { (TRANSFER_AREAS * AREA_WORDS) as u64 }
}

impl SharedState {
    /// Returns the first word of transfer area `area`, if the area exists and has room for `len` bytes.
    fn transfer_area(&self, area: usize, len: usize) -> Option<usize> {
        let first = CHUNKS_AT + (self.chunks + mark_words(self.tier_pages)) as usize;
        let exists = self.tier_pages != 0 && area < TRANSFER_AREAS && len <= TRANSFER_BYTES;
        exists.then_some(first + area * AREA_WORDS)
    }

    /// Stores `bytes` at the start of transfer area `area`. Returns `None` if the area does not exist or is too small.
    #[cold]
    pub fn store_transfer(&self, area: usize, bytes: &[u8]) -> Option<()> {
        let first = self.transfer_area(area, bytes.len())?;
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        let words = whole.iter().chain((!rest.is_empty()).then_some(&last));
        for (at, word) in (first..).zip(words) {
            self.words.word(at).store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        Some(())
    }

    /// Loads the start of transfer area `area` to `into`. Returns `None` if the area does not exist or is too small.
    #[cold]
    pub fn load_transfer(&self, area: usize, into: &mut [u8]) -> Option<()> {
        let first = self.transfer_area(area, into.len())?;
        for (at, part) in (first..).zip(into.chunks_mut(WORD)) {
            let word = self.words.word(at).load(Ordering::Relaxed).to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
        Some(())
    }
}
