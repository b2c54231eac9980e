//! Allocating and freeing space of a file without writing, and seeking.

use std::ops::Range;

use ferrite_memory::Span;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use crate::file::index::{self, IndexEntry, PartPlace};
use crate::file::{FileLayer, ahead, bring_in, cut, give_pages, size, stopped_append, superpage};
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::format::layout::FILE_BYTES_MAX;
use crate::format::word::IndexWord;
use crate::store::change::FsChange;
use crate::store::slots::SlotStore;
use crate::{Allocate, Error, Ino, Result, Seek};

/// How often a part is allocated at most while pages leave the pool and other writers take them.
const TRIES: u32 = 16;

/// See [`crate::FileSystem::allocate`].
pub(crate) fn allocate(files: &FileLayer, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
    files.refuse_if_read_only()?;
    if range.start >= range.end {
        return Err(Error::Invalid("the range is empty"));
    }
    if range.end > FILE_BYTES_MAX {
        return Err(Error::FileTooBig);
    }
    if how == Allocate::Punch {
        return files.with_space(|| allocate_locked(files, ino, range.clone(), how));
    }
    if exceeds_space(files, ino, &range, how)? {
        return Err(Error::NoSpace);
    }
    match &files.slots {
        Some(slots) => allocate_in_parts(files, slots, ino, range, how),
        None => files.with_space(|| allocate_locked(files, ino, range.clone(), how)),
    }
}

/// Returns true if `range` needs more pages than there are, beside those that the file has: in the pool, or with a tier
/// in the pool and on its SSDs as far as they are free. Without this check, the allocation takes all free
/// pages before it fails.
fn exceeds_space(files: &FileLayer, ino: Ino, range: &Range<u64>, how: Allocate) -> Result<bool> {
    let inode = {
        let _stripe = files.locks.read(ino);
        files.load_regular(ino)?
    };
    let wants = (range.end.div_ceil(PAGE) - range.start / PAGE).saturating_sub(inode.head.pages);
    let Some(slots) = &files.slots else { return Ok(wants > files.memory().size() / PAGE) };
    // Pages behind the end stay in the pool (TI8).
    let stays = matches!(how, Allocate::KeepSize | Allocate::ZeroKeepSize) && range.end > inode.size();
    let (content, room) = (files.content_space(), if stays { 0 } else { slots.room().1 });
    Ok(wants > (content.free + content.used) / PAGE + room)
}

/// Gives pages to a part of `range` at a time, so that pages of earlier parts can leave the pool for those of later ones.
/// If space runs out, the parts that the size covers stay.
fn allocate_in_parts(files: &FileLayer, slots: &SlotStore, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
    let (kept_before, mut start) = (keeps_pages(files, ino)?, range.start);
    while start < range.end {
        let end = (start + 1).next_multiple_of(CHUNK).min(range.end);
        let used = || slots.counters.evicted_pages.get();
        let (mut evicted, mut tries) = (used(), 1);
        loop {
            match files.with_space(|| allocate_locked(files, ino, start..end, how)) {
                Ok(()) => break,
                // Other writers took what was evicted.
                Err(why) if why.is_no_space() && used() > evicted && tries < TRIES => {
                    (evicted, tries) = (used(), tries + 1);
                }
                Err(why) => {
                    if !kept_before && keeps_pages(files, ino)? {
                        free_kept_pages(files, ino)?;
                    }
                    return Err(why);
                }
            }
        }
        start = end;
    }
    Ok(())
}

/// Returns true if the pages behind the end of a file stay.
fn keeps_pages(files: &FileLayer, ino: Ino) -> Result<bool> {
    let _stripe = files.locks.read(ino);
    Ok(files.load_regular(ino)?.head.flags & KEEPS_PAGES != 0)
}

/// Frees the pages behind the end of a file that kept them for an allocation which failed.
fn free_kept_pages(files: &FileLayer, ino: Ino) -> Result<()> {
    let _pass = files.gate.pass();
    let stripe = files.locks.write(ino);
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    inode.head.flags &= !KEEPS_PAGES;
    FsChange::new(files).commit_head(&mut inode)?;
    let end = inode.size();
    ahead::free_behind(files, &mut inode, end)
}

fn allocate_locked(files: &FileLayer, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
    let _pass = files.gate.pass();
    let mut stripe = files.locks.write(ino);
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    stopped_append::invalidate_stopped_append(files, &mut stripe, &mut inode)?;
    if !stripe.waiting.is_empty() {
        size::flush_size(files, &mut stripe, &mut inode)?;
    }
    while inode.is_cut() {
        cut::trim_orphan(files, &mut inode)?;
    }
    let size = inode.size();
    match how {
        Allocate::Punch => punch(files, &mut inode, range)?,
        Allocate::Grow | Allocate::KeepSize | Allocate::Zero | Allocate::ZeroKeepSize => {
            // Before any content changes: without space the file stays as it is.
            if let Err(why) = give_pages::give_pages(files, &mut inode, range.clone()) {
                free_pages_behind(files, ino, size)?;
                return Err(why);
            }
            let grows = matches!(how, Allocate::Grow | Allocate::Zero);
            let grown = if grows { size.max(range.end) } else { size };
            let is_zeroed = matches!(how, Allocate::Zero | Allocate::ZeroKeepSize);
            let (from, to) = (if is_zeroed { range.start.min(size) } else { size }, range.end.min(grown));
            if from < to {
                bring_in::bring_in(files, &mut inode, from..to)?;
                index::zero_bytes(files, &inode, from..to)?;
                files.drain()?;
            }
            inode.head.size = grown;
        }
    }
    if matches!(how, Allocate::KeepSize | Allocate::ZeroKeepSize) {
        inode.head.flags |= KEEPS_PAGES;
    }
    inode.touch(files.now());
    let change = FsChange::new(files);
    change.commit_head(&mut inode)?;
    superpage::note_growth(files, ino, size..inode.size());
    Ok(())
}

/// Frees the pages behind byte `end`, the end of the file, that were allocated before space ran out; not of a file
/// that keeps pages there.
fn free_pages_behind(files: &FileLayer, ino: Ino, end: u64) -> Result<()> {
    let mut inode = files.load_regular(ino)?;
    if inode.head.flags & KEEPS_PAGES == 0 { ahead::free_behind(files, &mut inode, end) } else { Ok(()) }
}

/// Makes a hole of `range`; parts of pages at its ends become zeros.
fn punch(files: &FileLayer, inode: &mut Inode, range: Range<u64>) -> Result<()> {
    let (first, end) = (range.start.div_ceil(PAGE), range.end / PAGE);
    if first >= end {
        bring_in::bring_in(files, inode, range.clone())?;
        index::zero_bytes(files, inode, range)?;
        return files.drain();
    }
    bring_in::bring_in(files, inode, range.start..first * PAGE)?;
    bring_in::bring_in(files, inode, end * PAGE..range.end)?;
    index::zero_bytes(files, inode, range.start..first * PAGE)?;
    index::zero_bytes(files, inode, end * PAGE..range.end)?;
    files.drain()?;
    let mut page = first;
    while page < end {
        match index::walk(files, inode, page)? {
            IndexEntry::Words { at, left } => {
                let count = left.min(end - page);
                free_words(files, inode, at, count)?;
                page += count;
            }
            IndexEntry::Super { left, at, .. } if left == CHUNK_PAGES && end - page >= left => {
                free_words(files, inode, at, 1)?;
                page += left;
            }
            IndexEntry::Super { left, .. } => match superpage::split_super(files, inode, page) {
                // A full file system has no pages for the rest: what is punched reads as zeros.
                Err(Error::NoSpace) => {
                    let stop = (page + left).min(end);
                    index::zero_bytes(files, inode, page * PAGE..stop * PAGE)?;
                    files.drain()?;
                    page = stop;
                }
                split => split?,
            },
            IndexEntry::Nothing { left, .. } => page += left.min(end - page),
        }
    }
    Ok(())
}

/// Frees what `count` words from `at` on name.
fn free_words(files: &FileLayer, inode: &mut Inode, at: u64, count: u64) -> Result<()> {
    let mut change = FsChange::new(files);
    let before = inode.head.pages;
    for word_at in (0..count).map(|index| at + index * 8) {
        let word = IndexWord(files.memory().load_word(word_at));
        inode.head.pages = inode.head.pages.saturating_sub(change.free_word(word));
        inode.note_word(word_at, IndexWord::NONE);
    }
    if inode.head.pages == before {
        return Ok(());
    }
    change.zero(Span::new(at, count * 8));
    change.commit_head(inode)
}

/// See [`crate::FileSystem::seek`].
pub(crate) fn seek(files: &FileLayer, ino: Ino, at: u64, what: Seek) -> Result<u64> {
    let stripe = files.locks.read(ino);
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    let size = inode.size();
    if at >= size {
        return Err(Error::PastEnd);
    }
    let mut found = None;
    index::parts(files, &inode, at / PAGE..size.div_ceil(PAGE), |part| {
        if (part.at != PartPlace::Missing) == (what == Seek::Data) {
            found = Some((part.first * PAGE).max(at));
        }
        Ok(found.is_none())
    })?;
    match (found.filter(|found| *found < size), what) {
        (Some(found), _) => Ok(found),
        (None, Seek::Hole) => Ok(size),
        (None, Seek::Data) => Err(Error::PastEnd),
    }
}
