//! The map: which block of the data stream holds each block of the disk.
//!
//! ```text
//! word on the medium   bits 0..31 block of the data stream + 1, or 0 for a block that reads as zeros
//!                      bits 32..63 checksum of its content, or 0 where the disk keeps none
//! word in DRAM         bits 0..30 as above   bit 31 a writer is changing it
//! ```
//!
//! The words in DRAM are what readers follow; those on the medium are what a crash leaves.
//!
//! Where 64 neighbours lie in one run in the pool, as after a sequential fill, one *group* tells it for all of them.
//! A group is set only by who has locked all of its blocks, and cleared by whoever locks one.
//!
//! A disk that was filled in order lies as far from its own addresses everywhere. Where all groups of 2 MiB do, one word
//! says so for them: the words of a disk fit the nearest cache, where a lookup that misses costs a tenth of a 4 KiB read.
//!
//! - MU1. Whoever has locked a block and finds its group clear, or clears it, leaves that word neither saying so nor being
//!   looked into, and with another value than it ever had, if it did or was.
//! - MU2. Who makes it say so first notes in it that the groups are looked at, then looks, and then finds the word as it
//!   noted it: each who locked a block before was seen by its group, each who came later by the word.
//!
//! So a reader who finds the word unchanged behind its copy needs no pin: nobody moved any block meanwhile. (A pin's two
//! stores cost a tenth of a 4 KiB read on some processors, whose string instruction waits for what was stored before it. On
//! others a second look-up does, as the next copy begins ahead of this one's end only if few instructions lie between.)

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
/// Groups that one word tells to lie at their usual place.
const GROUPS_PER_WORD: u64 = 8;
/// Bytes of a group, and of those.
pub(crate) const GROUP_BYTES: u64 = GROUP * PAGE;
const USUAL_BYTES: u64 = GROUPS_PER_WORD * GROUP_BYTES;
/// They do; the low bits count how often they did not any more.
const USUAL: u32 = 1 << 31;
/// Somebody looks whether they do.
const BEING_CHECKED: u32 = 1 << 30;
/// No group was set yet.
const NO_SHIFT: u64 = u64::MAX;

/// What a map word names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapEntry(pub(crate) u32);

impl MapEntry {
    /// Reads as zeros.
    pub const ZERO: Self = Self(0);

    /// The block of the data stream, if there is one.
    #[inline]
    pub fn block(self) -> Option<u64> {
        self.0.checked_sub(1).map(u64::from)
    }

    /// The entry of block `block` of the data stream.
    #[inline]
    pub fn of(block: u32) -> Self {
        Self(block + 1)
    }

    /// The entry of a word on the medium, which may be anything.
    pub fn from_media(word: u64) -> Self {
        Self(word as u32)
    }
}

/// A word as it is on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapWord(pub u64);

impl MapWord {
    /// The word of `entry`, whose block's content has `checksum` (0 where none is kept, and for zeros).
    #[inline]
    pub fn of(entry: MapEntry, checksum: u32) -> Self {
        Self(u64::from(entry.0) | u64::from(checksum) << 32)
    }

    /// What it names.
    pub fn entry(self) -> MapEntry {
        MapEntry::from_media(self.0)
    }

    /// The checksum of what it names.
    pub fn checksum(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Where bytes of a disk lie that lie at their usual place.
pub(crate) struct Usual<'a> {
    /// In the pool.
    pub place: u64,
    /// The word that says so.
    row: &'a AtomicU32,
    /// What it was.
    word: u32,
}

/// The map of one disk.
pub(crate) struct BlockMap {
    words: GrowingTable<AtomicU32>,
    /// Where a group lies in the pool if its blocks are one run there, or 0.
    groups: GrowingTable<AtomicU64>,
    /// How far from its address in the disk the group lies that was set first.
    usual_shift: AtomicU64,
    /// Whether groups lie there together. One piece, as a row of a [`GrowingTable`] is three loads away.
    usual: Box<[AtomicU32]>,
    /// Where each page of words lies on the medium.
    places: GrowingTable<AtomicU64>,
}

impl BlockMap {
    /// A map with room for `blocks_max` blocks.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn new(blocks_max: u64) -> Result<Self> {
        Ok(Self {
            words: GrowingTable::new(blocks_max),
            groups: GrowingTable::new(blocks_max / GROUP + 1),
            usual_shift: AtomicU64::new(NO_SHIFT),
            usual: zeroed((blocks_max / GROUP / GROUPS_PER_WORD) as usize + 1)?,
            places: GrowingTable::new(blocks_max * WORD / PAGE + 1),
        })
    }

    /// Makes room for `blocks` blocks. The words are as they were; new ones are zero.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn grow(&self, blocks: u64) -> Result<()> {
        self.words.grow(blocks)?;
        self.groups.grow(blocks / GROUP + 1)?;
        self.places.grow((blocks * WORD).div_ceil(PAGE))
    }

    /// Takes over the map stream of `extents` for `blocks` blocks, for which there is room.
    pub fn adopt(&self, extents: &[Extent], blocks: u64) {
        let stream = Stream::new(extents, Role::MAP);
        for page in 0..(blocks * WORD).div_ceil(PAGE) {
            let place = stream.locate(page * PAGE).expect("within the stream").at;
            self.places.row(page).store(place, Ordering::Release);
        }
    }

    /// Sets a word in DRAM, while nobody else uses the map.
    pub fn set(&self, index: u64, entry: MapEntry) {
        self.words.row(index).store(entry.0, Ordering::Relaxed);
    }

    /// Finds the groups among `blocks` blocks, while nobody else uses the map. `place` tells where a block of the data
    /// stream lies in the pool.
    pub fn find_groups(&self, blocks: u64, place: impl Fn(u64) -> u64) {
        let mut entries = [MapEntry::ZERO; GROUP as usize];
        for first in (0..blocks / GROUP * GROUP).step_by(GROUP as usize) {
            for (i, entry) in (0..).zip(&mut entries) {
                *entry = self.get(first + i);
            }
            self.group(first, &entries, &place);
        }
    }

    /// What block `index` of the disk is.
    #[inline]
    pub fn get(&self, index: u64) -> MapEntry {
        MapEntry(self.words.row(index).load(Ordering::Acquire) & !LOCKED)
    }

    /// Where group `index` of the disk lies in the pool, if it is set.
    #[inline]
    pub fn group_place(&self, index: u64) -> Option<u64> {
        let place = self.groups.row(index).load(Ordering::Acquire);
        (place != 0).then_some(place)
    }

    /// Keeps other writers away from block `index`; readers go on. Its entry is as returned until [`BlockMap::unlock`].
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

    /// What who has locked block `index` does before it may move (MU1).
    #[inline]
    fn leave_group(&self, index: u64) {
        let was_set = self.clear_group(index);
        if !was_set && planted!("block: writer leaves the word to the writer that cleared the group") {
            return;
        }
        self.clear_usual(index);
    }

    /// Whether the group was set.
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

    /// Lets writers at block `index` again, with `entry` as what readers find from now on.
    pub fn unlock(&self, index: u64, entry: MapEntry) {
        self.words.row(index).store(entry.0, Ordering::Release);
    }

    /// Sets the group of block `first` if `entries`, all locked by the caller and about to be shown, are all of it and
    /// lie in one run. A group spans two chunks at most, so its ends tell.
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

    /// Says that the groups of `together` lie at their usual place, if they do (MU2).
    fn update_usual(&self, together: u64) {
        let looked_at = self.begin_check(together);
        if self.are_usual(together) {
            self.set_usual(together, looked_at);
        }
    }

    /// Notes that the groups of `together` are looked at; their word with that.
    fn begin_check(&self, together: u64) -> u32 {
        let word = &self.usual[together as usize];
        if planted!("block: look at groups is not noted") {
            return word.load(Ordering::SeqCst);
        }
        word.fetch_or(BEING_CHECKED, Ordering::SeqCst) | BEING_CHECKED
    }

    /// Whether the groups of `together` lie at their usual place.
    fn are_usual(&self, together: u64) -> bool {
        let shift = self.usual_shift.load(Ordering::SeqCst);
        let mut groups = together * GROUPS_PER_WORD..(together + 1) * GROUPS_PER_WORD;
        groups.all(|group| {
            let place = self.groups.get(group).map_or(0, |place| place.load(Ordering::SeqCst));
            place != 0 && place == (group * GROUP * PAGE).wrapping_add(shift)
        })
    }

    /// Says so, if nobody has left one since the word was `looked_at`.
    fn set_usual(&self, together: u64, looked_at: u32) {
        let usual = looked_at & !BEING_CHECKED | USUAL;
        let _ = self.usual[together as usize].compare_exchange(looked_at, usual, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Where `span`, which is not empty, lies in the pool if all of it lies at its usual place.
    #[inline]
    pub fn usual(&self, span: Span) -> Option<Usual<'_>> {
        let row = &self.usual[(span.at / USUAL_BYTES) as usize];
        let word = row.load(Ordering::Acquire);
        let is_within = span.at % USUAL_BYTES + span.len <= USUAL_BYTES;
        let place = span.at.wrapping_add(self.usual_shift.load(Ordering::Relaxed));
        (word & USUAL != 0 && is_within).then_some(Usual { place, row, word })
    }

    /// Whether what was loaded from `usual` is what its span held at one moment, for who was not pinned (MU1): a block that
    /// moved before it was loaded has changed the word.
    #[inline]
    pub fn is_still(&self, usual: &Usual<'_>) -> bool {
        order_loads();
        if planted!("block: unpinned reader does not check again") {
            return true;
        }
        usual.row.load(Ordering::Relaxed) == usual.word
    }

    /// Writes the words of blocks `first ..`, 64 at most, on the medium; durable once the caller has settled.
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

    /// Writes the word of block `index` on the medium; durable once the caller has settled.
    #[inline]
    pub fn publish_one(&self, memory: &dyn Memory, index: u64, word: MapWord) {
        memory.store(self.place(index * WORD), &word.0.to_le_bytes(), Scheme::Nt);
    }

    /// The word of block `index` on the medium.
    pub fn published_one(&self, memory: &dyn Memory, index: u64) -> MapWord {
        let mut word = [MapWord::default()];
        self.published(memory, index, &mut word);
        word[0]
    }

    /// The words of blocks `first ..` on the medium.
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

    /// Where byte `at` of the map stream lies on the medium.
    #[inline]
    fn place(&self, at: u64) -> u64 {
        self.places.row(at / PAGE).load(Ordering::Acquire) + at % PAGE
    }
}

#[cfg(test)]
mod tests;
