//! A page of names.
//!
//! ```text
//! 0 magic u32   4 reserved u32   8 directory u64   16 reserved [48]
//! 64    slot[96]: bits 0..32 tag   32..48 where the entry lies, in units of 8 bytes   48..56 bytes of its name   56..
//! kind 832   entries: 0 position u64   8 inode u64   16 name, padded with zeros to a multiple of 8
//! ```
//!
//! A slot of 0 is free. The tag is the low half of the position's hash. A position is the hash of the name, 55 bits,
//! and 8 bits that distinguish names of one hash. Entries lie in any order; all space that no slot names is free.

use std::ops::Deref;

use ferrite_memory::Memory;
use ferrite_memory::mix::{FACTORS, fold};
use ferrite_pool::layout::PAGE;
use zerocopy::IntoBytes;

use crate::{FileKind, Ino};

/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 255;
/// Slots of a page.
pub(crate) const SLOTS: usize = 96;
pub(crate) const SLOTS_AT: u64 = 64;
pub(crate) const HEAP: u64 = SLOTS_AT + SLOTS as u64 * 8;
const UNIT: u64 = 8;
const UNITS: u64 = (PAGE - HEAP) / UNIT;
pub(crate) const ENTRY: u64 = 16;
/// The first word of a page of names.
pub(crate) const MAGIC: u64 = u32::from_le_bytes(*b"LEAF") as u64;
/// Bits of a hash.
pub(crate) const HASH_BITS: u32 = 55;
/// Bits of a position that distinguish names of one hash.
pub(crate) const ORDINAL_BITS: u32 = 8;

const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharDevice,
    FileKind::BlockDevice,
];

const _: () = assert!(SLOTS.is_multiple_of(8));

/// Bits of a slot.
const TAG: u64 = u32::MAX as u64;
const NAME_LEN: u64 = 0xff << 48;

/// A slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameSlot(pub u64);

impl NameSlot {
    fn new(position: u64, unit: u64, name: &[u8], kind: FileKind) -> Self {
        let kind = KINDS.iter().position(|known| *known == kind).expect("every kind is known") as u64 + 1;
        Self(u64::from(tag(position)) | unit << 32 | (name.len() as u64) << 48 | kind << 56)
    }

    /// Returns the offset of its entry in the page; `None` if that is impossible.
    fn entry_at(self) -> Option<u64> {
        let at = (self.0 >> 32 & 0xffff) * UNIT;
        (at >= HEAP && self.name_len() > 0 && at + entry_bytes(self.name_len()) <= PAGE).then_some(at)
    }

    /// Returns true if its tag belongs to `position`.
    pub(crate) fn is_at(self, position: u64) -> bool {
        self.with_position(position) == self
    }

    /// Returns the slot with the tag of `position`.
    pub(crate) fn with_position(self, position: u64) -> Self {
        Self(self.0 & !TAG | u64::from(tag(position)))
    }

    pub(crate) fn name_len(self) -> u64 {
        self.0 >> 48 & 0xff
    }

    /// Returns the slot with another kind.
    pub(crate) fn with_kind(self, kind: FileKind) -> Self {
        let kind = KINDS.iter().position(|known| *known == kind).expect("every kind is known") as u64 + 1;
        Self(self.0 & !(0xff << 56) | kind << 56)
    }

    pub(crate) fn kind(self) -> Option<FileKind> {
        KINDS.get(((self.0 >> 56) as usize).wrapping_sub(1)).copied()
    }
}

/// The tag of a position or of a hash with its ordinal.
fn tag(position: u64) -> u32 {
    (position >> ORDINAL_BITS) as u32
}

fn entry_bytes(name_len: u64) -> u64 {
    ENTRY + name_len.next_multiple_of(UNIT)
}

/// Units of the entry of a slot.
fn entry_units(slot: u64) -> u64 {
    (ENTRY + (slot >> 48 & 0xff).next_multiple_of(UNIT)) / UNIT
}

/// An entry, read except for its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafEntry {
    pub(crate) slot: usize,
    /// The offset of its slot in the pool.
    pub(crate) slot_at: u64,
    pub(crate) position: u64,
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
    pub(crate) len: usize,
    /// The offset of its name in the pool, behind the entry itself.
    pub(crate) name_at: u64,
}

impl LeafEntry {
    pub(crate) fn name(&self, memory: &dyn Memory) -> LeafEntryName {
        let mut name = LeafEntryName { bytes: [0; 256], len: self.len };
        memory.load(self.name_at, &mut name.bytes[..self.len]);
        name
    }
}

/// The name of an entry, read.
pub(crate) struct LeafEntryName {
    bytes: [u8; 256],
    len: usize,
}

impl Deref for LeafEntryName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Room for an entry in a page of names: a free slot, and the unit of the page where the entry starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafRoom {
    pub slot: usize,
    pub unit: u64,
}

/// What takes the bytes that change a page of names: a transaction.
pub(crate) trait PageWriter {
    /// Writes `bytes` at byte `at` of the pool.
    fn write(&mut self, at: u64, bytes: &[u8]);

    /// Writes `word` at byte `at` of the pool.
    fn write_word(&mut self, at: u64, word: u64);
}

/// A page of names, its slots read.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// The offset in the pool.
    pub(crate) at: u64,
    /// Boxed, because a `Leaf` is moved often.
    slots: Box<[u64; SLOTS]>,
}

impl Leaf {
    /// The page at `at`.
    #[inline]
    pub(crate) fn load(memory: &dyn Memory, at: u64) -> Self {
        let mut slots = Box::new([0; SLOTS]);
        memory.load(at + SLOTS_AT, slots.as_mut_bytes());
        slots.iter_mut().for_each(|slot| *slot = u64::from_le(*slot));
        Self { at, slots }
    }

    /// A new page of directory `dir` at `at`, zeroed before in `change`.
    pub(crate) fn create(change: &mut impl PageWriter, at: u64, dir: Ino) -> Self {
        let mut head = [0; 16];
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..].copy_from_slice(&dir.0.to_le_bytes());
        change.write(at, &head);
        Self { at, slots: Box::new([0; SLOTS]) }
    }

    /// Returns the offset of slot `index` in the pool.
    pub(crate) fn slot_at(&self, index: usize) -> u64 {
        self.at + SLOTS_AT + index as u64 * 8
    }

    /// Slots in use, by number.
    pub(crate) fn used(&self) -> impl Iterator<Item = (usize, NameSlot)> + '_ {
        self.slots.iter().enumerate().filter(|(_, slot)| **slot != 0).map(|(index, slot)| (index, NameSlot(*slot)))
    }

    /// Slots in use whose bits of `mask` are `bits`. The search compares several at a time, because mostly none
    /// matches.
    fn alike(&self, mask: u64, bits: u64) -> impl Iterator<Item = (usize, NameSlot)> + '_ {
        const TOGETHER: usize = 8;
        let is_alike = move |slot: &u64| slot & mask == bits;
        let parts = self.slots.as_chunks::<TOGETHER>().0.iter().zip((0..).step_by(TOGETHER));
        let found = parts.filter(move |(part, _)| part.iter().fold(false, |any, slot| any | is_alike(slot)));
        let slots = found.flat_map(|(part, first)| (first..).zip(part));
        slots.filter(move |(_, slot)| is_alike(slot) && **slot != 0).map(|(index, slot)| (index, NameSlot(*slot)))
    }

    /// Reads the entry of `slot`; `None` if it cannot be one.
    pub(crate) fn entry(&self, memory: &dyn Memory, index: usize, slot: NameSlot) -> Option<LeafEntry> {
        let at = self.at + slot.entry_at()?;
        let [position, ino] = [0, 8].map(|field| memory.load_word(at + field));
        let (len, kind, slot_at) = (slot.name_len() as usize, slot.kind()?, self.slot_at(index));
        Some(LeafEntry { slot: index, slot_at, position, ino: Ino(ino), kind, len, name_at: at + ENTRY })
    }

    /// The entry of `name`, whose hash is `hash`.
    pub(crate) fn find(&self, memory: &dyn Memory, hash: u64, name: &[u8]) -> Option<LeafEntry> {
        let same = self.alike(TAG | NAME_LEN, u64::from(hash as u32) | (name.len() as u64) << 48);
        let mut entries = same.filter_map(|(index, slot)| self.entry(memory, index, slot));
        entries.find(|entry| *entry.name(memory) == *name)
    }

    /// A position for a name of hash `hash`; `None` where 256 names have it.
    pub(crate) fn position_for(&self, memory: &dyn Memory, hash: u64) -> Option<u64> {
        let same = self.alike(TAG, u64::from(hash as u32));
        let taken: Vec<u64> =
            same.filter_map(|(index, slot)| Some(self.entry(memory, index, slot)?.position)).collect();
        (0..1 << ORDINAL_BITS).map(|ordinal| hash << ORDINAL_BITS | ordinal).find(|position| !taken.contains(position))
    }

    /// Returns room for an entry with a name of `name_len` bytes.
    pub(crate) fn room(&self, name_len: u64) -> Option<LeafRoom> {
        let slot = self.slots.iter().position(|slot| *slot == 0)?;
        let wanted = entry_bytes(name_len) / UNIT;
        // Mostly there is room behind all entries.
        let end = |slot: &u64| if *slot == 0 { 0 } else { (slot >> 32 & 0xffff) + entry_units(*slot) };
        let end = self.slots.iter().map(end).fold(HEAP / UNIT, u64::max);
        if end + wanted <= PAGE / UNIT {
            return Some(LeafRoom { slot, unit: end });
        }
        Some(LeafRoom { slot, unit: self.gap(wanted)? })
    }

    /// Returns the first of `wanted` free units between entries.
    #[cold]
    fn gap(&self, wanted: u64) -> Option<u64> {
        let mut taken = [0_u64; UNITS.div_ceil(64) as usize];
        for (_, slot) in self.used() {
            let Some(at) = slot.entry_at() else { continue };
            let first = (at - HEAP) / UNIT;
            (first..first + entry_bytes(slot.name_len()) / UNIT)
                .for_each(|unit| taken[(unit / 64) as usize] |= 1 << (unit % 64));
        }
        let mut run = 0;
        for unit in 0..UNITS {
            run = if taken[(unit / 64) as usize] >> (unit % 64) & 1 == 0 { run + 1 } else { 0 };
            if run == wanted {
                return Some(HEAP / UNIT + unit + 1 - wanted);
            }
        }
        None
    }

    /// Adds an entry at `room`, through `change`.
    pub(crate) fn add(&mut self, change: &mut impl PageWriter, room: LeafRoom, entry: &NewLeafEntry<'_>) {
        let LeafRoom { slot: index, unit } = room;
        let slot = NameSlot::new(entry.position, unit, entry.name, entry.kind);
        let mut bytes = [0; ENTRY as usize + 256];
        bytes[..8].copy_from_slice(&entry.position.to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.ino.0.to_le_bytes());
        bytes[16..16 + entry.name.len()].copy_from_slice(entry.name);
        change.write(self.at + unit * UNIT, &bytes[..entry_bytes(entry.name.len() as u64) as usize]);
        change.write_word(self.slot_at(index), slot.0);
        self.slots[index] = slot.0;
    }

    /// Makes `entry` name the inode `ino` of kind `kind`, through `change`.
    pub(crate) fn redirect(&self, change: &mut impl PageWriter, entry: &LeafEntry, ino: Ino, kind: FileKind) {
        let slot = NameSlot(self.slots[entry.slot]);
        let Some(at) = slot.entry_at() else { return };
        change.write_word(self.at + at + 8, ino.0);
        if slot.with_kind(kind) != slot {
            change.write_word(entry.slot_at, slot.with_kind(kind).0);
        }
    }

    /// Removes the entry in slot `index`, through `change`. Returns true if the page has no other entry.
    pub(crate) fn remove(&self, change: &mut impl PageWriter, index: usize) -> bool {
        change.write_word(self.slot_at(index), 0);
        self.used().all(|(other, _)| other == index)
    }
}

/// An entry to be added.
pub(crate) struct NewLeafEntry<'a> {
    pub(crate) position: u64,
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
    pub(crate) name: &'a [u8],
}

/// The hash of a name: 55 bits, not 0. A fold for each 8 bytes.
pub(crate) fn name_hash(seed: u64, name: &[u8]) -> u64 {
    let mut state = seed ^ fold(name.len() as u64 ^ FACTORS[0], FACTORS[1]);
    for part in name.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        state = fold(state ^ u64::from_le_bytes(word), FACTORS[0]).rotate_left(23) ^ FACTORS[1];
    }
    (fold(state, FACTORS[1]) >> (64 - HASH_BITS)).max(1)
}

/// Returns true if `bytes`, 255 at most, can be a name. It looks at eight at a time, the last of which it may have
/// seen.
pub(crate) fn is_name(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let Some(last) = bytes.last_chunk() else {
        return !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, 0 | b'/'));
    };
    // The top bit of the lowest byte that is 0, if any is, and maybe of others.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & ONES << 7;
    let is_sound = |word| zeros(word) | zeros(word ^ (ONES * u64::from(b'/'))) == 0;
    bytes.as_chunks().0.iter().chain([last]).all(|eight| is_sound(u64::from_le_bytes(*eight)))
}
