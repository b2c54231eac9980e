//! Pages that come back from SSDs because a change needs them in the pool (TI10 of `tier.rs`).

use std::ops::Range;

use ferrite_memory::{Scheme, planted};
use ferrite_pool::layout::PAGE;

use crate::error::AwayPages;
use crate::file::FileLayer;
use crate::file::index::{self, IndexEntry};
use crate::format::inode::Inode;
use crate::format::word::{AwayPage, IndexWord, NamedBy};
use crate::store::bits::pages_of;
use crate::store::change::FsChange;
use crate::store::clean_list::{CleanOrigin, CleanPage};
use crate::{Error, Ino, Result};

/// Pages that one change brings in. Few in tests, so that small files too are brought in by steps.
const BROUGHT_PAGES_MAX: usize = if cfg!(test) { 8 } else { 256 };

/// A word that names a page that is away.
struct AwayWord {
    at: u64,
    /// The page of the file.
    number: u64,
    page: AwayPage,
}

/// Brings in what is away of the bytes `range` of a file, which is locked to be changed.
///
/// # Errors
/// [`Error::Away`] with the pages that have to be fetched.
pub(crate) fn bring_in(files: &FileLayer, inode: &mut Inode, range: Range<u64>) -> Result<()> {
    if files.slots.is_none() || range.is_empty() {
        return Ok(());
    }
    let words = away_words(files, inode, range)?;
    words.chunks(BROUGHT_PAGES_MAX).try_for_each(|words| bring_in_words(files, inode, words, CleanOrigin::ReadOnce))
}

/// Brings in pages of `read`, which were read from their SSDs for the bytes `range` of `ino`: all if there is room
/// without an eviction, otherwise those that were read before. The caller has no lock. A failure leaves the pages away.
pub(crate) fn admit(files: &FileLayer, ino: Ino, range: Range<u64>, read: &[AwayPage]) {
    let Some(slots) = files.slots.as_ref().filter(|_| !files.waits() && files.refuse_if_read_only().is_ok()) else {
        return;
    };
    let (free, needed) = (files.content_space().free, read.len() as u64 * PAGE);
    let has_room = free >= 2 * files.free_bytes_wanted() + needed;
    let is_known = |page: &&AwayPage| slots.note_read(**page);
    let mut known: Vec<AwayPage> = read.iter().filter(is_known).copied().collect();
    let is_tight = free < files.free_bytes_wanted() / 2 + needed;
    if is_tight || known.is_empty() && !has_room || files.locks.read(ino).has_appender(ino) {
        return;
    }
    known.sort_unstable();
    let Some(_pass) = files.gate.try_pass() else { return };
    let stripe = files.locks.write(ino);
    let Ok(mut inode) = files.load_regular(ino) else { return };
    stripe.apply_waiting(&mut inode);
    let end = range.end.min(inode.size());
    let Ok(words) = away_words(files, &inode, range.start.min(end)..end) else { return };
    let (again, once): (Vec<AwayWord>, Vec<AwayWord>) =
        words.into_iter().partition(|word| known.binary_search(&word.page).is_ok());
    let once = if has_room { once } else { Vec::new() };
    for (words, origin) in [(again, CleanOrigin::ReadAgain), (once, CleanOrigin::ReadOnce)] {
        for words in words.chunks(BROUGHT_PAGES_MAX) {
            if bring_in_words(files, &mut inode, words, origin).is_err() {
                return;
            }
        }
    }
}

/// Brings in what is away of the bytes `range` of `ino`. The caller has no lock, and has not passed the gate.
pub(crate) fn bring_in_of(files: &FileLayer, ino: Ino, range: Range<u64>) -> Result<()> {
    files.refuse_if_read_only()?;
    files.with_space(|| {
        let _pass = files.gate.pass();
        let stripe = files.locks.write(ino);
        let mut inode = files.load_regular(ino)?;
        stripe.apply_waiting(&mut inode);
        let end = range.end.min(inode.size());
        bring_in(files, &mut inode, range.start.min(end)..end)
    })
}

/// Returns what is away of the bytes `range` of a file, which is locked.
pub(crate) fn away_pages(files: &FileLayer, inode: &Inode, range: Range<u64>) -> Result<Vec<AwayPage>> {
    Ok(away_words(files, inode, range)?.into_iter().map(|word| word.page).collect())
}

fn away_words(files: &FileLayer, inode: &Inode, range: Range<u64>) -> Result<Vec<AwayWord>> {
    let (mut page, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
    let mut found = Vec::new();
    while page < end {
        page += match index::walk(files, inode, page)? {
            IndexEntry::Words { at, left } => {
                let left = left.min(end - page);
                for (number, at) in (0..left).map(|index| (page + index, at + index * 8)) {
                    if let NamedBy::Away(page) = IndexWord(files.memory().load_word(at)).named() {
                        found.push(AwayWord { at, number, page });
                    }
                }
                left
            }
            IndexEntry::Super { left, .. } | IndexEntry::Nothing { left, .. } => left,
        };
    }
    Ok(found)
}

/// Brings in the pages that `words` name. They are clean then.
fn bring_in_words(files: &FileLayer, inode: &mut Inode, words: &[AwayWord], origin: CleanOrigin) -> Result<()> {
    let (mut contents, mut wanted) = (Vec::new(), Vec::new());
    for word in words {
        match files.fetched(word.page)? {
            Some(bytes) => contents.push(bytes),
            None => wanted.push(word.page),
        }
    }
    if !wanted.is_empty() {
        return Err(Error::Away(AwayPages(wanted)));
    }
    let mut change = FsChange::new(files);
    let runs = change.allocate_data(words.len() as u64)?;
    for ((word, bytes), page) in words.iter().zip(&contents).zip(pages_of(&runs)) {
        let place = files.place(page)?;
        files.memory().store(place, bytes, Scheme::Nt);
        if let Some(slots) = &files.slots {
            // No other thread knows the page. Its shadow is set before its slot loses its name, so that the segment is
            // never free.
            slots.clear_stored(place);
            let clean = CleanPage { ino: inode.ino, page: word.number, place, away: word.page };
            slots.set_shadow(clean, origin);
        }
        change.set_word(inode, word.at, IndexWord::page(page));
        change.free_word(IndexWord::away(word.page));
    }
    if !planted!("fs: named before brought in") {
        files.drain()?;
    }
    change.commit_head(inode)?;
    files.slots.iter().for_each(|slots| slots.counters.brought_in_pages.add(words.len() as u64));
    Ok(())
}
