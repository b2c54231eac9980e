//! The pending stores of one cache line, by the rules of the module `possible`.

use crate::event::StoreWay;
use crate::pages::LINE_BYTES;
use crate::thread::Thread;

/// The bytes of a line.
pub(crate) type LineBytes = [u8; LINE_BYTES];

/// The part of one store call in one line.
#[derive(Clone)]
pub(crate) struct LineStore {
    /// The number of the event. Newer stores have greater numbers.
    pub number: u64,
    pub thread: Thread,
    pub way: StoreWay,
    /// A bit for each stored byte.
    pub mask: u64,
    pub bytes: LineBytes,
}

impl LineStore {
    /// Returns a bit for each 8-byte word that the store touches.
    pub fn words(&self) -> u8 {
        (0..8).filter(|word| self.mask >> (word * 8) & 0xff != 0).fold(0, |words, word| words | 1 << word)
    }

    pub fn is_cached(&self) -> bool {
        self.way != StoreWay::Nt
    }

    /// Returns true if the store would not change `content`.
    pub fn is_in(&self, content: &LineBytes) -> bool {
        let mut after = *content;
        self.land(&mut after, 0xff);
        after == *content
    }

    /// Copies the stored bytes of the words `words` to `content`.
    pub fn land(&self, content: &mut LineBytes, words: u8) {
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

/// Returns all bits of each byte whose bit is set in `mask`.
fn byte_bits(mask: u8) -> u64 {
    let spread = (u64::from(mask).wrapping_mul(0x0101_0101_0101_0101)) & 0x8040_2010_0804_0201;
    (0..8).filter(|byte| spread >> (byte * 8) & 0xff != 0).fold(0, |bits, byte| bits | 0xff << (byte * 8))
}

/// The pending stores of a line, oldest first.
#[derive(Clone, Default)]
pub(crate) struct PendingLine {
    pub stores: Vec<LineStore>,
    /// The threads that flushed the line, each with the number of the newest event that its flush covers.
    pub flushed: Vec<(Thread, u64)>,
}

impl PendingLine {
    /// Applies a fence of `thread`: the stores that it covers become durable (CP5).
    pub fn fence(&mut self, thread: Thread, image: &mut LineBytes) {
        let covered = self.flushed.iter().filter(|(by, _)| *by == thread).map(|(_, number)| *number).max();
        self.flushed.retain(|(by, _)| *by != thread);
        self.make_durable(image, |store| match store.way {
            StoreWay::Nt => store.thread == thread,
            _ => covered.is_some_and(|covered| store.number <= covered),
        });
    }

    /// Applies a flush by `thread` of the line's `Writeback` stores and all stores before them (CP6).
    pub fn flush_tracked(&mut self, thread: Thread) {
        let newest = self.stores.iter().filter(|store| store.way == StoreWay::Tracked).map(|store| store.number).max();
        self.flushed.extend(newest.map(|number| (thread, number)));
    }

    /// Makes the stores that `settled` selects durable, over all older stores.
    pub fn make_durable(&mut self, image: &mut LineBytes, settled: impl Fn(&LineStore) -> bool) {
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

    /// Returns the line's content if the words `landed` of each store have landed on `image`.
    pub fn content(&self, image: &LineBytes, landed: &[u8]) -> LineBytes {
        let mut content = *image;
        for (store, &words) in self.stores.iter().zip(landed) {
            store.land(&mut content, words);
        }
        content
    }
}
