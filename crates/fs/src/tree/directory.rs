//! The names of a directory: pages of names under a tree of hashes.
//!
//! ```text
//!   root word of the directory --> page of names                          few names
//!
//!   root word --> | w0 | w1 | w1 | .. | w511 |  by bits 46..55 of the hash     more: neighbours may share a page
//!                   |     \____/
//!                   |        page of names
//!                   | w0 .. w511 |              by bits 37..46, and so on
//! ```
//!
//! - FN1. A full page is split by one bit of the hash. If one word alone names it, a new page of words for the next
//!   nine bits comes between. Each split is a change of its own that names the same files. So the words that name a
//!   page are one aligned block.
//! - FN2. A listing follows the positions, which never change while a name exists. So a listing that continues behind
//!   a position neither misses nor repeats a name that stayed.
//! - FN3. The size of a directory is the number of its entries, changed with them.
//! - FN4. An entry whose position does not match its place, or with an impossible name, is damaged and not listed. All
//!   other entries are listed, and then the listing ends with an error, also if it was read in pieces. A name of a
//!   damaged inode is listed like any other; only the attributes are missing.

use std::ops::Range;
use std::sync::atomic::Ordering;

use ferrite_memory::{Span, planted};
use ferrite_pool::layout::PAGE;

use crate::format::inode::Inode;
use crate::format::layout::NODE_WORDS;
use crate::format::leaf::{
    HASH_BITS, Leaf, LeafEntry, LeafRoom, NameSlot, NewLeafEntry, ORDINAL_BITS, is_name, name_hash,
};
use crate::format::word::{IndexWord, NamedBy};
use crate::store::change::{FREED_PAGES_MAX, FsChange};
use crate::tree::TreeLayer;
use crate::{Error, FileKind, Ino, NAME_BYTES_MAX, Result};

const NODE_BITS: u32 = 9;

/// A name with its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashedName<'a> {
    pub bytes: &'a [u8],
    pub hash: u64,
}

/// A name that was found.
#[derive(Debug)]
pub(crate) struct NameHit {
    pub entry: LeafEntry,
    leaf: Leaf,
    spot: HashSpot,
}

/// The place of a name, present or not.
#[derive(Debug)]
pub(crate) struct NamePlace {
    spot: HashSpot,
    leaf: Option<Leaf>,
    /// Room in the page, if it was looked for.
    room: Option<LeafRoom>,
}

/// A word of the tree and the hashes it stands for.
#[derive(Clone, Copy, Debug)]
struct HashSpot {
    /// The offset of the word in the pool.
    at: u64,
    word: IndexWord,
    /// Bits of the hash below those that led here.
    bits: u32,
    /// Its number in its page; `None` for the root word.
    index: Option<u64>,
}

/// A name for something that is made.
pub(crate) fn name_to_make<'a>(tree: &TreeLayer, name: &'a [u8]) -> Result<HashedName<'a>> {
    if matches!(name, b"." | b"..") {
        return Err(Error::Exists);
    }
    hash_name(tree, name)
}

/// Refuses what cannot be a name, and hashes it.
pub(crate) fn hash_name<'a>(tree: &TreeLayer, bytes: &'a [u8]) -> Result<HashedName<'a>> {
    if bytes.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if !is_name(bytes) {
        return Err(Error::Invalid("a name is 1 to 255 bytes, none of them zero or a slash"));
    }
    Ok(HashedName { bytes, hash: name_hash(tree.shape.hash_seed, bytes) })
}

/// The word that stands for `hash`.
fn find_spot(tree: &TreeLayer, dir: &Inode, hash: u64) -> Result<HashSpot> {
    let mut spot = HashSpot { at: dir.root_at(0), word: dir.roots[0], bits: HASH_BITS, index: None };
    while let NamedBy::Node(node) = spot.word.named() {
        spot.bits = spot.bits.checked_sub(NODE_BITS).ok_or_else(|| tree.corrupt("a tree of names", spot.at))?;
        let index = hash >> spot.bits & (NODE_WORDS - 1);
        spot.at = tree.place(node)? + index * 8;
        spot.index = Some(index);
        spot.word = IndexWord(tree.memory().load_word(spot.at));
    }
    Ok(spot)
}

/// Returns the page of names at `spot`; `None` if that does not exist yet.
fn load_leaf(tree: &TreeLayer, spot: &HashSpot) -> Result<Option<Leaf>> {
    match spot.word.named() {
        NamedBy::Nothing => Ok(None),
        NamedBy::Page(page) => Ok(Some(Leaf::load(tree.memory(), tree.place(page)?))),
        _ => Err(tree.corrupt("a tree of names", spot.at)),
    }
}

/// Returns the place of `name` in `dir`, present or not.
pub(crate) fn seek_name(tree: &TreeLayer, dir: &Inode, name: &HashedName<'_>) -> Result<NamePlace> {
    let spot = find_spot(tree, dir, name.hash)?;
    Ok(NamePlace { leaf: load_leaf(tree, &spot)?, spot, room: None })
}

/// Looks `name` up in `dir`.
pub(crate) fn find_name(tree: &TreeLayer, dir: &Inode, name: &HashedName<'_>) -> Result<Option<NameHit>> {
    let NamePlace { spot, leaf, .. } = seek_name(tree, dir, name)?;
    let Some(leaf) = leaf else { return Ok(None) };
    Ok(leaf.find(tree.memory(), name.hash, name.bytes).map(|entry| NameHit { entry, leaf, spot }))
}

/// Returns room in `dir` for `name`, which must not be present; splits pages for it (FN1).
pub(crate) fn make_room(tree: &TreeLayer, dir: &mut Inode, name: &HashedName<'_>) -> Result<NamePlace> {
    let mut place = seek_name(tree, dir, name)?;
    if place.leaf.as_ref().is_some_and(|leaf| leaf.find(tree.memory(), name.hash, name.bytes).is_some()) {
        return Err(Error::Exists);
    }
    while let Some(leaf) = &place.leaf {
        place.room = leaf.room(name.bytes.len() as u64);
        if place.room.is_some() {
            break;
        }
        split(tree, dir, &place.spot, leaf)?;
        place = seek_name(tree, dir, name)?;
    }
    Ok(place)
}

/// Adds `name` to `dir` at `place` through `change`; the caller writes the head of the directory.
pub(crate) fn add_name(
    tree: &TreeLayer,
    change: &mut FsChange<'_>,
    dir: &mut Inode,
    name: &HashedName<'_>,
    place: NamePlace,
    ino: Ino,
    kind: FileKind,
) -> Result<()> {
    let mut leaf = match place.leaf {
        Some(leaf) => leaf,
        None => new_leaf(tree, change, dir, &place.spot)?,
    };
    let room = place.room.or_else(|| leaf.room(name.bytes.len() as u64)).ok_or(Error::NoSpace)?;
    let position = leaf.position_for(tree.memory(), name.hash).ok_or(Error::NoSpace)?;
    leaf.add(change, room, &NewLeafEntry { position, ino, kind, name: name.bytes });
    dir.head.size += 1;
    Ok(())
}

/// Allocates a page for the hashes of `spot`, and for its neighbours without a page as far as one aligned block
/// reaches.
fn new_leaf(tree: &TreeLayer, change: &mut FsChange<'_>, dir: &mut Inode, spot: &HashSpot) -> Result<Leaf> {
    let (page, at) = change.allocate_index_page()?;
    dir.add_pages(1);
    let block = word_block(tree, spot);
    let words: Vec<u8> = (0..block.len / 8).flat_map(|_| IndexWord::page(page).0.to_le_bytes()).collect();
    change.write(block.at, &words);
    dir.note_word(block.at, IndexWord::page(page));
    Ok(Leaf::create(change, at, dir.ino))
}

/// Returns the largest aligned block of equal words around `spot`.
fn word_block(tree: &TreeLayer, spot: &HashSpot) -> Span {
    let Some(index) = spot.index else { return Span::new(spot.at, 8) };
    let first = spot.at - index * 8;
    let words = tree.load_words(first);
    let mut len = 1;
    while len < NODE_WORDS {
        let start = (index & !(2 * len - 1)) as usize;
        if words[start..start + 2 * len as usize].iter().any(|word| *word != spot.word.0) {
            break;
        }
        len *= 2;
    }
    Span::new(first + (index & !(len - 1)) * 8, len * 8)
}

/// Splits the full page at `spot` (FN1).
fn split(tree: &TreeLayer, dir: &mut Inode, spot: &HashSpot, leaf: &Leaf) -> Result<()> {
    let mut changed = *dir;
    let mut change = FsChange::new(tree);
    let block = word_block(tree, spot);
    let (page, at) = change.allocate_index_page()?;
    changed.add_pages(1);
    if block.len > 8 {
        let half = block.len / 2;
        // The bit of the hash that distinguishes the halves of the block.
        let bit = spot.bits + (half / 8).trailing_zeros();
        let words: Vec<u8> = (0..half / 8).flat_map(|_| IndexWord::page(page).0.to_le_bytes()).collect();
        change.write(block.at + half, &words);
        move_half(tree, &mut change, leaf, at, dir.ino, bit)?;
    } else {
        let bits = spot.bits.checked_sub(NODE_BITS).ok_or(Error::NoSpace)?;
        let (node, node_at) = change.allocate_index_page()?;
        changed.add_pages(1);
        let halves = [spot.word, IndexWord::page(page)];
        let words: Vec<u8> = (0..NODE_WORDS).flat_map(|i| halves[(i / 256) as usize].0.to_le_bytes()).collect();
        change.write(node_at, &words);
        change.set_word(&mut changed, spot.at, IndexWord::node(node));
        move_half(tree, &mut change, leaf, at, dir.ino, bits + NODE_BITS - 1)?;
    }
    change.write_head(&mut changed);
    change.commit()?;
    *dir = changed;
    Ok(())
}

/// Moves those entries of `leaf` whose hash has `bit` to the new page at `at`.
fn move_half(tree: &TreeLayer, change: &mut FsChange<'_>, leaf: &Leaf, at: u64, dir: Ino, bit: u32) -> Result<()> {
    let mut new = Leaf::create(change, at, dir);
    for (index, slot) in leaf.used() {
        let entry = leaf.entry(tree.memory(), index, slot);
        let entry = entry.ok_or_else(|| tree.corrupt("a page of names", leaf.at))?;
        if entry.position >> (ORDINAL_BITS + bit) & 1 == 1 {
            // Entries that lie over one another may need more than there is.
            let room = new.room(entry.len as u64).ok_or_else(|| tree.corrupt("a page of names", leaf.at))?;
            let name = entry.name(tree.memory());
            let moved = NewLeafEntry { position: entry.position, ino: entry.ino, kind: entry.kind, name: &name };
            new.add(change, room, &moved);
            leaf.remove(change, index);
        }
    }
    Ok(())
}

/// Removes `hit` from `dir` through `change`; the caller writes the head of the directory. An empty page is freed too,
/// unless the same change may have `added` a name there.
pub(crate) fn remove_name(tree: &TreeLayer, change: &mut FsChange<'_>, dir: &mut Inode, hit: &NameHit, added: bool) {
    dir.head.size = dir.head.size.saturating_sub(1);
    if !hit.leaf.remove(change, hit.entry.slot) || added {
        return;
    }
    if let NamedBy::Page(page) = hit.spot.word.named() {
        let block = word_block(tree, &hit.spot);
        change.zero(block);
        dir.note_word(block.at, IndexWord::NONE);
        change.free_page(page);
        dir.head.pages = dir.head.pages.saturating_sub(1);
    }
}

/// Makes `hit` name another inode, through `change`.
pub(crate) fn redirect_name(change: &mut FsChange<'_>, hit: &NameHit, ino: Ino, kind: FileKind) {
    hit.leaf.redirect(change, &hit.entry, ino, kind);
}

/// Passes the entries of `dir` behind `position` in order, with their names, to `each`, until it returns `false` (FN2,
/// FN4).
pub(crate) fn each_name(
    tree: &TreeLayer,
    dir: &Inode,
    position: u64,
    each: &mut dyn FnMut(&LeafEntry, &[u8]) -> bool,
) -> Result<()> {
    let mut goes_on = true;
    let mut damaged = each_sound_name(tree, dir, position, &mut |entry, name| {
        goes_on = each(entry, name);
        goes_on
    })?;
    let is_known = tree.has_damaged_names.load(Ordering::Relaxed);
    let is_known = is_known && !planted!("fs: forgotten damage");
    if damaged.is_none() && goes_on && is_known {
        // A caller that reads in pieces learns at the end of damage in earlier pieces.
        damaged = each_sound_name(tree, dir, 0, &mut |_, _| true)?;
    }
    damaged.filter(|_| goes_on).map_or(Ok(()), |at| Err(tree.corrupt("a page of names", at)))
}

/// Like [`each_name`], without an error at the end. Returns a page with damaged entries, if there was one.
pub(crate) fn each_sound_name(
    tree: &TreeLayer,
    dir: &Inode,
    position: u64,
    each: &mut dyn FnMut(&LeafEntry, &[u8]) -> bool,
) -> Result<Option<u64>> {
    let (mut hash, mut damaged) = (position >> ORDINAL_BITS, None);
    while hash < 1 << HASH_BITS {
        let spot = find_spot(tree, dir, hash)?;
        let hashes = hashes_of(tree, &spot, hash);
        hash = hashes.end;
        let Some(leaf) = load_leaf(tree, &spot)? else { continue };
        let mut is_damaged = || {
            tree.has_damaged_names.store(true, Ordering::Relaxed);
            damaged = Some(leaf.at);
        };
        let entries = entries_of(tree, &leaf, &hashes);
        if entries.len() < leaf.used().count() {
            is_damaged();
        }
        for entry in entries.iter().filter(|entry| entry.position > position) {
            let name = entry.name(tree.memory());
            if !is_name(&name) {
                is_damaged();
            } else if !each(entry, &name) {
                return Ok(damaged);
            }
        }
    }
    Ok(damaged)
}

/// Returns the hashes of the equal words around `spot`, where `hash` led. A repair may have left other words within a
/// block.
fn hashes_of(tree: &TreeLayer, spot: &HashSpot, hash: u64) -> Range<u64> {
    let start = hash >> spot.bits << spot.bits;
    let index = spot.index.unwrap_or(0);
    let end = if spot.index.is_some() { NODE_WORDS } else { 1 };
    let same = |other: &u64| tree.memory().load_word(spot.at - index * 8 + other * 8) == spot.word.0;
    let before = (0..index).rev().take_while(same).count() as u64;
    let behind = (index + 1..end).take_while(same).count() as u64;
    start - (before << spot.bits)..start + ((1 + behind) << spot.bits)
}

/// Returns the entries of `leaf`, the page of `hashes`, in order: those at their right place (FN4).
fn entries_of(tree: &TreeLayer, leaf: &Leaf, hashes: &Range<u64>) -> Vec<LeafEntry> {
    let sound = |(index, slot): (usize, NameSlot)| {
        let entry = leaf.entry(tree.memory(), index, slot)?;
        let is_there = slot.is_at(entry.position) && hashes.contains(&(entry.position >> ORDINAL_BITS));
        is_there.then_some(entry)
    };
    let mut entries: Vec<LeafEntry> = leaf.used().filter_map(sound).collect();
    entries.sort_unstable_by_key(|entry| entry.position);
    entries
}

/// Frees the pages of a directory without names through `change`, up to a bound. Returns true if those were all.
pub(crate) fn free_names(tree: &TreeLayer, change: &mut FsChange<'_>, dir: &mut Inode) -> Result<bool> {
    let is_done = free_below(tree, change, dir, dir.root_at(0), dir.roots[0], HASH_BITS)?;
    if is_done {
        dir.roots[0] = IndexWord::NONE;
    }
    Ok(is_done)
}

/// Frees what `word` at `at`, with `bits` of the hash below it, names; neighbours that share a page are one.
fn free_below(
    tree: &TreeLayer,
    change: &mut FsChange<'_>,
    dir: &mut Inode,
    at: u64,
    word: IndexWord,
    bits: u32,
) -> Result<bool> {
    if change.freed_pages() >= FREED_PAGES_MAX / 4 {
        return Ok(false);
    }
    match word.named() {
        NamedBy::Nothing => return Ok(true),
        NamedBy::Page(page) => change.free_page(page),
        NamedBy::Node(node) if bits >= NODE_BITS => {
            let first = tree.place(node)?;
            let (words, mut before) = (tree.load_words(first), IndexWord::NONE);
            for (index, word) in words.into_iter().enumerate() {
                let same = IndexWord(word) == before;
                before = IndexWord(word);
                let word_at = first + index as u64 * 8;
                if !same && !free_below(tree, change, dir, word_at, IndexWord(word), bits - NODE_BITS)? {
                    return Ok(false);
                }
                if word != 0 && same {
                    change.write_word(word_at, 0);
                }
            }
            change.free_page(node);
        }
        _ => return Err(tree.corrupt("a tree of names", at)),
    }
    change.write_word(at, 0);
    dir.head.pages = dir.head.pages.saturating_sub(1);
    Ok(true)
}

const _: () = assert!(PAGE / 8 == 1 << NODE_BITS);
