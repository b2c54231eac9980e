//! One cache line's pending stores. The rules are those of the module `possible`.

use crate::event::Way;
use crate::pages::LINE_BYTES;
use crate::thread::Thread;

/// A line's bytes.
pub(crate) type Content = [u8; LINE_BYTES];

/// The part that one store call has in one line.
#[derive(Clone)]
pub(crate) struct Store {
    /// The event's, so that newer stores have greater ones.
    pub number: u64,
    pub thread: Thread,
    pub way: Way,
    /// A bit for each byte it stores.
    pub mask: u64,
    pub bytes: Content,
}

impl Store {
    /// A bit for each 8-byte word it touches.
    pub fn words(&self) -> u8 {
        (0..8).filter(|word| self.mask >> (word * 8) & 0xff != 0).fold(0, |words, word| words | 1 << word)
    }

    pub fn is_cached(&self) -> bool {
        self.way != Way::Nt
    }

    /// Whether it would change nothing in `content`.
    pub fn is_in(&self, content: &Content) -> bool {
        let mut after = *content;
        self.land(&mut after, 0xff);
        after == *content
    }

    /// Lands its bytes of the words `words` on `content`.
    pub fn land(&self, content: &mut Content, words: u8) {
        for word in (0..8).filter(|word| words >> word & 1 != 0) {
            let bits = byte_bits((self.mask >> (word * 8)) as u8);
            let place = &mut content[word * 8..word * 8 + 8];
            let (old, new) = (word_of(place), word_of(&self.bytes[word * 8..word * 8 + 8]));
            place.copy_from_slice(&(old & !bits | new & bits).to_le_bytes());
        }
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"))
}

/// All bits of each byte whose bit is set in `mask`.
fn byte_bits(mask: u8) -> u64 {
    let spread = (u64::from(mask).wrapping_mul(0x0101_0101_0101_0101)) & 0x8040_2010_0804_0201;
    (0..8).filter(|byte| spread >> (byte * 8) & 0xff != 0).fold(0, |bits, byte| bits | 0xff << (byte * 8))
}

/// A line's pending stores, oldest first.
#[derive(Clone, Default)]
pub(crate) struct Line {
    pub stores: Vec<Store>,
    /// Who flushed the line, and the number of the newest event that the flush covers.
    pub flushed: Vec<(Thread, u64)>,
}

impl Line {
    /// Settles what a fence by `thread` settles (CP5).
    pub fn fence(&mut self, thread: Thread, image: &mut Content) {
        let covered = self.flushed.iter().filter(|(by, _)| *by == thread).map(|(_, number)| *number).max();
        self.flushed.retain(|(by, _)| *by != thread);
        self.settle(image, |store| match store.way {
            Way::Nt => store.thread == thread,
            _ => covered.is_some_and(|covered| store.number <= covered),
        });
    }

    /// A flush by `thread` of what the line has of `Writeback` stores, and of what lies before them (CP6).
    pub fn flush_tracked(&mut self, thread: Thread) {
        let newest = self.stores.iter().filter(|store| store.way == Way::Tracked).map(|store| store.number).max();
        self.flushed.extend(newest.map(|number| (thread, number)));
    }

    /// Lands the stores that `settled` picks for good, over all that is older.
    pub fn settle(&mut self, image: &mut Content, settled: impl Fn(&Store) -> bool) {
        for number in 0..self.stores.len() {
            let (older, rest) = self.stores.split_at_mut(number);
            let store = &mut rest[0];
            if settled(store) {
                store.land(image, 0xff);
                older.iter_mut().for_each(|old| old.mask &= !store.mask);
                store.mask = 0;
            }
        }
        self.stores.retain(|store| store.mask != 0);
    }

    /// What the line holds when of each store the words in `landed` landed on `image`.
    pub fn content(&self, image: &Content, landed: &[u8]) -> Content {
        let mut content = *image;
        for (store, &words) in self.stores.iter().zip(landed) {
            store.land(&mut content, words);
        }
        content
    }
}
