//! Superpages: files that have outgrown a threshold move, 2 MiB at a time, from pages of 4 KiB to one of 2 MiB
//! (nvm-storage-hierarchy.txt 5.2.2).
//!
//! If a fence is not durable nothing moves: reads through a host's file use the host's pages.
//!
//! - FS1. A block of 2 MiB moves when it lies before the end of its file and 507 of its 512 pages exist; so superpages
//!   waste at most 1 %. A superpage at the end that is only partly used, after a cut or a client's appends, is split
//!   again, unless it is less than 1 % of the file. Its pages stay where they are.
//! - FS2. The copy is durable before one change names it and frees what was copied.
//! - FS3. While a block is copied readers go on and writers wait. A file that a client appends to by itself is moved
//!   when that has ended.

use std::ops::Range;

use ferrite_memory::{Scheme, Span, planted};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use crate::file::{FileLayer, index};
use crate::format::inode::Inode;
use crate::format::layout::ChunkKind;
use crate::format::word::{IndexWord, NamedBy};
use crate::store::change::FsChange;
use crate::store::copy_bytes;
use crate::store::slots::SlotStore;
use crate::{Error, FileKind, Ino, Result};

/// Pages of a block that must be there for it to move.
const PAGES_MIN: u64 = CHUNK_PAGES - CHUNK_PAGES / 100;
/// Bytes of a file that a superpage is 1 % of.
pub(crate) const LARGE_BYTES: u64 = 100 * CHUNK;
/// A superpage of which fewer than one in so many pages are used is divided for the tier.
const USED_SHARE: u64 = 8;
/// Blocks that one step looks at.
const LOOKED_AT_MAX: u64 = 64;

/// Notes that a file has grown from one size to another, so that it may move.
#[inline]
pub(crate) fn note_growth(files: &FileLayer, ino: Ino, sizes: Range<u64>) {
    let threshold = files.shape.super_threshold_bytes.filter(|_| !files.waits());
    let Some(threshold) = threshold.filter(|threshold| sizes.end >= *threshold) else {
        return;
    };
    if sizes.start < threshold {
        files.candidates.add(ino, 0);
    } else if sizes.start / CHUNK < sizes.end / CHUNK {
        files.candidates.add(ino, sizes.start / CHUNK);
    }
}

/// Moves a block, or looks at a few; `false` when no file waits.
pub(crate) fn step_superpages(files: &FileLayer) -> Result<bool> {
    let Some((ino, block)) = files.candidates.take() else { return Ok(false) };
    let _pass = files.gate.pass();
    let copying = files.locks.copying(ino);
    let Ok(mut inode) = files.load(ino) else { return Ok(true) };
    let stripe = copying.stripe();
    // A file that a client appends to directly is noted again when that client returns it.
    if inode.kind() != Some(FileKind::File) || stripe.waiting.contains_key(&ino.0) || stripe.has_appender(ino) {
        return Ok(true);
    }
    let end = inode.size() / CHUNK;
    for block in (block..end).take(LOOKED_AT_MAX as usize) {
        let Some(found) = movable(files, &inode, block)? else { continue };
        return match copy_block(files, &found) {
            Ok(chunk) => {
                let _writing = copying.upgrade();
                name_block(files, &mut inode, &found, chunk)?;
                files.clients.note_stale(ino);
                files.candidates.add(ino, block + 1);
                Ok(true)
            }
            // The file is noted again when it grows.
            Err(Error::NoSpace) => Ok(true),
            Err(error) => Err(error),
        };
    }
    if block + LOOKED_AT_MAX < end {
        files.candidates.add(ino, block + LOOKED_AT_MAX);
    }
    Ok(true)
}

/// The words of block `block`, if it is to move (FS1).
fn movable(files: &FileLayer, inode: &Inode, block: u64) -> Result<Option<MovableBlock>> {
    let Some((at, word)) = index::block_word(files, inode, block * CHUNK_PAGES)? else { return Ok(None) };
    let NamedBy::Node(node) = word.named() else { return Ok(None) };
    let words = files.load_words(files.place(node)?);
    let there = words.iter().filter(|word| **word != 0).count() as u64;
    let is_any_away = words.iter().any(|word| matches!(IndexWord(*word).named(), NamedBy::Away(_)));
    Ok((there >= PAGES_MIN && !is_any_away).then_some(MovableBlock { at, node, words, there }))
}

/// Copies a block to a chunk, which stays claimed (FS2).
fn copy_block(files: &FileLayer, block: &MovableBlock) -> Result<u64> {
    let chunk = files.claim_chunk()?.ok_or(Error::NoSpace)?;
    let copied = copy_to(files, block, chunk);
    if copied.is_err() {
        files.space.unclaim(chunk);
    }
    copied.map(|()| chunk)
}

fn copy_to(files: &FileLayer, block: &MovableBlock, chunk: u64) -> Result<()> {
    let to = files.place(chunk * CHUNK_PAGES)?;
    for (index, word) in block.words.iter().enumerate() {
        let to = to + index as u64 * PAGE;
        match IndexWord(*word).named() {
            NamedBy::Page(page) => copy_bytes(files.memory(), files.place(page)?, to, PAGE),
            NamedBy::Nothing => files.memory().zero(Span::new(to, PAGE), Scheme::Nt),
            _ => return Err(files.corrupt("a word of an index", block.at)),
        }
    }
    planted!("fs: super before copy" => return Ok(()));
    files.drain()
}

/// Names the copy in the place of what was copied (FS2).
fn name_block(files: &FileLayer, inode: &mut Inode, block: &MovableBlock, chunk: u64) -> Result<()> {
    let mut change = FsChange::new(files);
    change.set_word(inode, block.at, IndexWord::superpage(chunk * CHUNK_PAGES));
    change.write_kind(chunk, ChunkKind::Super);
    block.words.iter().for_each(|word| _ = change.free_word(IndexWord(*word)));
    change.free_page(block.node);
    inode.head.pages = inode.head.pages.saturating_add(CHUNK_PAGES).saturating_sub(block.there + 1);
    match change.commit_head(inode) {
        Ok(()) => files.space.set_kind(chunk, ChunkKind::Super),
        Err(error) => {
            files.space.unclaim(chunk);
            return Err(error);
        }
    }
    Ok(())
}

/// Allocates a superpage for the block at the end of a large file, so that appends need no other pages (FS1). Returns
/// true if it did.
pub(crate) fn expand_super(files: &FileLayer, inode: &mut Inode) -> Result<bool> {
    let is_wanted = inode.size() >= LARGE_BYTES && inode.size().is_multiple_of(CHUNK);
    let is_over = |threshold| inode.size() >= threshold;
    let is_wanted = is_wanted && files.shape.super_threshold_bytes.is_some_and(is_over);
    if is_wanted { allocate_super(files, inode, inode.size() / PAGE) } else { Ok(false) }
}

/// Returns true if files may lie on superpages.
pub(crate) fn has_superpages(files: &FileLayer) -> bool {
    files.shape.super_threshold_bytes.is_some() && !files.waits()
}

/// Allocates a superpage for the empty block that begins with page `page`, behind the end. Returns false if there is
/// no room.
pub(crate) fn allocate_super(files: &FileLayer, inode: &mut Inode, page: u64) -> Result<bool> {
    if !has_superpages(files) {
        return Ok(false);
    }
    let Some(at) = index::extend_index_to_block(files, inode, page)? else { return Ok(false) };
    let Some(chunk) = files.claim_chunk()? else { return Ok(false) };
    let mut change = FsChange::new(files);
    change.set_word(inode, at, IndexWord::superpage(chunk * CHUNK_PAGES));
    change.write_kind(chunk, ChunkKind::Super);
    inode.add_pages(CHUNK_PAGES);
    match change.commit_head(inode) {
        Ok(()) => files.space.set_kind(chunk, ChunkKind::Super),
        Err(error) => {
            files.space.unclaim(chunk);
            return Err(error);
        }
    }
    Ok(true)
}

/// A superpage that is only partly before the end becomes pages, if it is more than 1 % of the file (FS1). Where there
/// is no page for their index it stays.
pub(crate) fn shrink_super(files: &FileLayer, inode: &mut Inode) -> Result<()> {
    if inode.size() >= LARGE_BYTES || inode.size().is_multiple_of(CHUNK) {
        return Ok(());
    }
    match split_super(files, inode, inode.size() / PAGE) {
        Err(Error::NoSpace) => Ok(()),
        split => split,
    }
}

/// Returns the page behind the block of 2 MiB around `page`.
pub(crate) fn behind(page: u64) -> u64 {
    page - page % CHUNK_PAGES + CHUNK_PAGES
}

/// Returns true if the block around `page` is a superpage, of which few pages were used since the last look. The block
/// is locked to be changed. The pages that were used stay marked.
pub(crate) fn is_cold(files: &FileLayer, slots: &SlotStore, inode: &Inode, page: u64) -> Result<bool> {
    let Some((_, word)) = index::block_word(files, inode, page)? else { return Ok(false) };
    let Some(first) = word.superpage_named() else { return Ok(false) };
    let place = files.place(first)?;
    let places = (0..CHUNK_PAGES).map(|page| place + page * PAGE);
    let used: Vec<u64> = places.filter(|place| slots.take_touched(*place) | slots.take_stored(*place)).collect();
    let is_cold = (used.len() as u64) < CHUNK_PAGES / USED_SHARE;
    if is_cold {
        used.into_iter().for_each(|place| files.space.shared_state.note_touched(place, 1));
    }
    Ok(is_cold)
}

/// Divides the superpage around page `page` into pages, in place: those before the end of the file can then be
/// replaced one by one. The others are freed.
pub(crate) fn split_super(files: &FileLayer, inode: &mut Inode, page: u64) -> Result<()> {
    let Some((at, word)) = index::block_word(files, inode, page)? else { return Ok(()) };
    let Some(first) = word.superpage_named() else { return Ok(()) };
    files.place(first)?;
    let start = page - page % CHUNK_PAGES;
    let count = inode.size().div_ceil(PAGE).saturating_sub(start).min(CHUNK_PAGES);
    let words: Vec<u8> = (first..first + count).flat_map(|page| IndexWord::page(page).0.to_le_bytes()).collect();
    let mut change = FsChange::new(files);
    let (node, node_at) = change.allocate_index_page()?;
    change.write(node_at, &words);
    change.set_word(inode, at, IndexWord::node(node));
    change.divide_super(first, count);
    inode.head.pages = inode.head.pages.saturating_add(count + 1).saturating_sub(CHUNK_PAGES);
    change.commit_head(inode)
}

/// A block that is to move.
struct MovableBlock {
    /// The place of the word that names it.
    at: u64,
    /// The page of its words.
    node: u64,
    words: [u64; CHUNK_PAGES as usize],
    /// Pages that are there.
    there: u64,
}
