//! The map from the blocks of the disk to the blocks of the data stream.
//!
//! ```text
//! word on the medium   bits 0..31 block of the data stream + 1, or 0 for a block that reads as zeros
//!                      bits 32..63 checksum of its content, or 0 if the disk keeps none
//! word in DRAM         bits 0..30 the same   bit 31 a writer is changing the word
//! ```
//!
//! Readers follow the words in DRAM. A crash leaves the words on the medium.
//!
//! If 64 neighbours lie in one run in the pool, as after a sequential fill, one *group* holds the offset of all of
//! them. A writer sets a group while it holds the locks of all its blocks, and clears it when it locks one.
//!
//! On a disk that was filled in order, every block lies at the same distance from its address: at its *usual place*. If
//! all groups of 2 MiB do, one word records that. These words fit the nearest cache, and a lookup that misses costs a
//! tenth of a 4 KiB read.
//!
//! - MU1. A writer that has locked a block and cleared its group, or found it clear, changes the word of its 2 MiB: the
//!   word is neither `USUAL` nor `BEING_CHECKED` afterwards. If it was one of them, it gets a value that it never had.
//! - MU2. A writer sets `USUAL` in three steps: it sets `BEING_CHECKED`, checks each group, and replaces the word by
//!   compare-and-swap. A group shows each block that was locked earlier, and the word shows each block that was locked
//!   later.
//!
//! A reader that finds the word unchanged after its copy needs no pin, because no block moved in between. A pin's two
//! stores cost a tenth of a 4 KiB read on processors whose string instruction waits for earlier stores. On other
//! processors a second lookup costs as much: the next copy starts early only if few instructions lie between the two.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ferrite_memory::{Memory, Scheme, Span, order_loads, planted};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Extent, Result, Role, Stream};

use crate::table::{GrowingTable, zeroed};

const LOCKED: u32 = 1 << 31;
/// Bytes of a word on the medium.
const WORD: u64 = 8;
/// Blocks of a group.
pub(crate) const GROUP: u64 = 64;
/// Groups whose usual place one word records.
const GROUPS_PER_WORD: u64 = 8;
/// Bytes of a group.
pub(crate) const GROUP_BYTES: u64 = GROUP * PAGE;
const USUAL_BYTES: u64 = GROUPS_PER_WORD * GROUP_BYTES;
/// Set in a word if all its groups lie at their usual place. The low bits count how often that ended.
const USUAL: u32 = 1 << 31;
/// Set in a word while a writer checks its groups.
const BEING_CHECKED: u32 = 1 << 30;
/// The shift of a map in which no group was set yet.
const NO_SHIFT: u64 = u64::MAX;

/// The part of a map word that names a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapEntry(pub(crate) u32);

impl MapEntry {
    /// The entry of a block that reads as zeros.
    pub const ZERO: Self = Self(0);

    /// Returns the block of the data stream, or `None` for zeros.
    #[inline]
    pub fn block(self) -> Option<u64> {
        self.0.checked_sub(1).map(u64::from)
    }

    /// Returns the entry of block `block` of the data stream.
    #[inline]
    pub fn of(block: u32) -> Self {
        Self(block + 1)
    }
}

/// A map word on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapWord(pub u64);

impl MapWord {
    /// Returns the word of `entry` whose block has `checksum`, which is 0 for zeros and if the disk keeps none.
    #[inline]
    pub fn of(entry: MapEntry, checksum: u32) -> Self {
        Self(u64::from(entry.0) | u64::from(checksum) << 32)
    }

    /// Returns the entry of the word.
    pub fn entry(self) -> MapEntry {
        MapEntry(self.0 as u32)
    }

    /// Returns the checksum of the block that the word names.
    pub fn checksum(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Bytes of a disk that lie at their usual place.
pub(crate) struct Usual<'a> {
    /// Offset in the pool.
    pub place: u64,
    /// The word that recorded it.
    row: &'a AtomicU32,
    /// The value of the word at the lookup.
    word: u32,
}

/// The map of one disk.
pub(crate) struct BlockMap {
    words: GrowingTable<AtomicU32>,
    /// The offset of each group in the pool if its blocks are one run there, else 0.
    groups: GrowingTable<AtomicU64>,
    /// The distance between the first group that was set and its address on the disk.
    usual_shift: AtomicU64,
    /// The words that record usual places. They are one slice, because a row of a [`GrowingTable`] is three loads away.
    usual: Box<[AtomicU32]>,
    /// The offset in the pool of each page of words.
    places: GrowingTable<AtomicU64>,
}

impl BlockMap {
    /// Makes a map that can grow to `blocks_max` blocks.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Medium`] if there is no memory for it.
    pub fn new(blocks_max: u64) -> Result<Self> {
        Ok(Self {
            words: GrowingTable::new(blocks_max),
            groups: GrowingTable::new(blocks_max / GROUP + 1),
            usual_shift: AtomicU64::new(NO_SHIFT),
            usual: zeroed((blocks_max / GROUP / GROUPS_PER_WORD) as usize + 1)?,
            places: GrowingTable::new(blocks_max * WORD / PAGE + 1),
        })
    }

    /// Grows the map to `blocks` blocks. Existing words stay, and new ones are zero.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Medium`] if there is no memory for it.
    pub fn grow(&self, blocks: u64) -> Result<()> {
        self.words.grow(blocks)?;
        self.groups.grow(blocks / GROUP + 1)?;
        self.places.grow((blocks * WORD).div_ceil(PAGE))
    }

    /// Takes over the map stream of `extents` for `blocks` blocks, to which the map was grown.
    pub fn adopt(&self, extents: &[Extent], blocks: u64) {
        let stream = Stream::new(extents, Role::MAP);
        for page in 0..(blocks * WORD).div_ceil(PAGE) {
            let place = stream.locate(page * PAGE).expect("within the stream").at;
            self.places.row(page).store(place, Ordering::Release);
        }
    }

    /// Sets a word in DRAM. No other thread uses the map.
    pub fn set(&self, index: u64, entry: MapEntry) {
        self.words.row(index).store(entry.0, Ordering::Relaxed);
    }

    /// Finds the groups among `blocks` blocks. No other thread uses the map. `place` returns the offset in the pool of
    /// a block of the data stream.
    pub fn find_groups(&self, blocks: u64, place: impl Fn(u64) -> u64) {
        let mut entries = [MapEntry::ZERO; GROUP as usize];
        for first in (0..blocks / GROUP * GROUP).step_by(GROUP as usize) {
            for (i, entry) in (0..).zip(&mut entries) {
                *entry = self.get(first + i);
            }
            self.group(first, &entries, &place);
        }
    }

    /// Returns the entry of block `index`.
    #[inline]
    pub fn get(&self, index: u64) -> MapEntry {
        MapEntry(self.words.row(index).load(Ordering::Acquire) & !LOCKED)
    }

    /// Returns the offset in the pool of group `index`, if the group is set.
    #[inline]
    pub fn group_place(&self, index: u64) -> Option<u64> {
        let place = self.groups.row(index).load(Ordering::Acquire);
        (place != 0).then_some(place)
    }

    /// Locks block `index` against other writers and returns its entry. The entry stays until [`BlockMap::unlock`], and
    /// readers continue.
    #[inline]
    pub fn lock(&self, index: u64) -> MapEntry {
        let word = self.words.row(index);
        let seen = word.load(Ordering::Relaxed);
        let is_free = seen & LOCKED == 0;
        if !is_free || word.compare_exchange(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return self.wait_and_lock(index);
        }
        self.leave_group(index);
        MapEntry(seen)
    }

    #[cold]
    fn wait_and_lock(&self, index: u64) -> MapEntry {
        let word = self.words.row(index);
        let mut spins = 0_u32;
        loop {
            let seen = word.load(Ordering::Relaxed);
            if seen & LOCKED == 0
                && word.compare_exchange_weak(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                self.leave_group(index);
                return MapEntry(seen);
            }
            spins += 1;
            if spins < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Clears the group and the usual place of block `index`, which the caller has locked and may move (MU1).
    #[inline]
    fn leave_group(&self, index: u64) {
        let was_set = self.clear_group(index);
        if !was_set && planted!("block: writer leaves the word to the writer that cleared the group") {
            return;
        }
        self.clear_usual(index);
    }

    /// Clears the group of block `index`. Returns true if the group was set.
    #[inline]
    pub fn clear_group(&self, index: u64) -> bool {
        let group = self.groups.row(index / GROUP);
        let was_set = group.load(Ordering::Acquire) != 0;
        if was_set {
            group.store(0, Ordering::SeqCst);
        }
        was_set
    }

    #[inline]
    fn clear_usual(&self, index: u64) {
        let usual = &self.usual[(index / GROUP / GROUPS_PER_WORD) as usize];
        if usual.load(Ordering::SeqCst) & (USUAL | BEING_CHECKED) != 0 {
            let left = |word: u32| Some((word + 1) & !(USUAL | BEING_CHECKED));
            let _ = usual.fetch_update(Ordering::SeqCst, Ordering::Relaxed, left);
        }
    }

    /// Unlocks block `index` and sets its entry.
    pub fn unlock(&self, index: u64, entry: MapEntry) {
        self.words.row(index).store(entry.0, Ordering::Release);
    }

    /// Sets the group of block `first` if `entries` are the whole group and lie in one run. The caller holds the locks
    /// of the blocks and shows the entries next. A group spans two chunks at most, so comparing its first and last
    /// block suffices.
    pub fn group(&self, first: u64, entries: &[MapEntry], place: impl Fn(u64) -> u64) {
        if entries.len() as u64 != GROUP || !first.is_multiple_of(GROUP) {
            return;
        }
        let Some(block) = entries[0].block() else { return };
        let follow = entries.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
        if follow && place(block + GROUP - 1) == place(block) + (GROUP - 1) * PAGE {
            let shift = place(block).wrapping_sub(first * PAGE);
            let _ = self.usual_shift.compare_exchange(NO_SHIFT, shift, Ordering::SeqCst, Ordering::Relaxed);
            self.groups.row(first / GROUP).store(place(block), Ordering::SeqCst);
            self.update_usual(first / GROUP / GROUPS_PER_WORD);
        }
    }

    /// Records that the groups of word `together` lie at their usual place, if they do (MU2).
    fn update_usual(&self, together: u64) {
        let looked_at = self.begin_check(together);
        if self.are_usual(together) {
            self.set_usual(together, looked_at);
        }
    }

    /// Sets `BEING_CHECKED` in word `together` and returns the word.
    fn begin_check(&self, together: u64) -> u32 {
        let word = &self.usual[together as usize];
        if planted!("block: look at groups is not noted") {
            return word.load(Ordering::SeqCst);
        }
        word.fetch_or(BEING_CHECKED, Ordering::SeqCst) | BEING_CHECKED
    }

    /// Returns true if the groups of word `together` lie at their usual place.
    fn are_usual(&self, together: u64) -> bool {
        let shift = self.usual_shift.load(Ordering::SeqCst);
        let mut groups = together * GROUPS_PER_WORD..(together + 1) * GROUPS_PER_WORD;
        groups.all(|group| {
            let place = self.groups.get(group).map_or(0, |place| place.load(Ordering::SeqCst));
            place != 0 && place == (group * GROUP * PAGE).wrapping_add(shift)
        })
    }

    /// Sets `USUAL` if the word is still `looked_at`, as [`Self::begin_check`] returned it.
    fn set_usual(&self, together: u64, looked_at: u32) {
        let usual = looked_at & !BEING_CHECKED | USUAL;
        let _ = self.usual[together as usize].compare_exchange(looked_at, usual, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Returns the place of `span`, which is not empty, if all of it lies at its usual place.
    #[inline]
    pub fn usual(&self, span: Span) -> Option<Usual<'_>> {
        let row = &self.usual[(span.at / USUAL_BYTES) as usize];
        let word = row.load(Ordering::Acquire);
        let is_within = span.at % USUAL_BYTES + span.len <= USUAL_BYTES;
        let place = span.at.wrapping_add(self.usual_shift.load(Ordering::Relaxed));
        (word & USUAL != 0 && is_within).then_some(Usual { place, row, word })
    }

    /// Returns true if the bytes loaded from `usual` are the content of its span at one moment, though the reader held
    /// no pin: a block that moved earlier has changed the word (MU1).
    #[inline]
    pub fn is_still(&self, usual: &Usual<'_>) -> bool {
        order_loads();
        if planted!("block: unpinned reader does not check again") {
            return true;
        }
        usual.row.load(Ordering::Relaxed) == usual.word
    }

    /// Writes the words of at most 64 blocks from `first` on. The words are durable after the caller's next fence or
    /// barrier.
    pub fn publish(&self, memory: &dyn Memory, first: u64, words: impl ExactSizeIterator<Item = MapWord>) {
        let mut bytes = [0; (GROUP * WORD) as usize];
        let mut words = {
            let len = words.len() * WORD as usize;
            for (bytes, word) in bytes.chunks_exact_mut(WORD as usize).zip(words) {
                bytes.copy_from_slice(&word.0.to_le_bytes());
            }
            &bytes[..len]
        };
        let mut at = first * WORD;
        while !words.is_empty() {
            let (here, rest) = words.split_at(words.len().min((PAGE - at % PAGE) as usize));
            memory.store(self.place(at), here, Scheme::Nt);
            at += here.len() as u64;
            words = rest;
        }
    }

    /// Writes the word of block `index`. The word is durable after the caller's next fence or barrier.
    #[inline]
    pub fn publish_one(&self, memory: &dyn Memory, index: u64, word: MapWord) {
        memory.store(self.place(index * WORD), &word.0.to_le_bytes(), Scheme::Nt);
    }

    /// Returns the word of block `index` on the medium.
    pub fn published_one(&self, memory: &dyn Memory, index: u64) -> MapWord {
        let mut word = [MapWord::default()];
        self.published(memory, index, &mut word);
        word[0]
    }

    /// Reads the words from block `first` on from the medium.
    pub fn published(&self, memory: &dyn Memory, first: u64, words: &mut [MapWord]) {
        let mut page = [0; PAGE as usize];
        let (mut at, mut rest) = (first * WORD, words);
        while !rest.is_empty() {
            let count = rest.len().min(((PAGE - at % PAGE) / WORD) as usize);
            let (here, left) = rest.split_at_mut(count);
            let bytes = &mut page[..count * WORD as usize];
            memory.load(self.place(at), bytes);
            for (word, bytes) in here.iter_mut().zip(bytes.chunks_exact(WORD as usize)) {
                *word = MapWord(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            }
            at += bytes.len() as u64;
            rest = left;
        }
    }

    /// Returns the offset in the pool of byte `at` of the map stream.
    #[inline]
    fn place(&self, at: u64) -> u64 {
        self.places.row(at / PAGE).load(Ordering::Acquire) + at % PAGE
    }
}

#[cfg(test)]
mod tests;
