//! A sweep over the pages of all files, in the order of their inodes.

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;

use crate::file::FileLayer;
use crate::file::index::{self, IndexEntry};
use crate::format::inode::Inode;
use crate::format::word::{IndexWord, NamedBy};
use crate::share::layout::shared_state::stripe;
use crate::store::clean_list::CleanPage;
use crate::store::locks::{CopiedStripe, Stripe};
use crate::{FileKind, Ino, Result};

/// The page of a file that a sweep looks at next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweepCursor {
    pub ino: u64,
    pub page: u64,
}

/// A page of a file in the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweptPage {
    pub ino: Ino,
    /// The page of the file.
    pub page: u64,
    /// The place of its word.
    pub word_at: u64,
    pub word: IndexWord,
    /// The offset of its bytes in the pool.
    pub place: u64,
}

/// Runs `look` for each regular file with content, from the cursor on and around once, until it returns false. `look`
/// moves the page of the cursor.
pub(crate) fn sweep(
    files: &FileLayer,
    cursor: &mut SweepCursor,
    mut look: impl FnMut(Ino, &mut u64) -> Result<bool>,
) -> Result<()> {
    let start = cursor.ino;
    let numbers = |from| files.space.inodes_in_use_from(files.memory(), from);
    let before = numbers(0).take_while(|number| *number <= start);
    for number in numbers(start).chain(before) {
        if number != cursor.ino {
            *cursor = SweepCursor { ino: number, page: 0 };
        }
        if !look(Ino(number), &mut cursor.page)? {
            return Ok(());
        }
        cursor.page = 0;
    }
    Ok(())
}

/// Returns true if pages of `inode` may leave the pool now.
pub(crate) fn may_go(files: &FileLayer, stripe: &Stripe, inode: &Inode) -> bool {
    let is_busy = stripe.waiting.contains_key(&inode.ino.0) || stripe.has_appender(inode.ino);
    // An open file without a name is in use. A closed one is about to be removed.
    let is_used = inode.head.links > 0 || stripe.is_held(inode.ino);
    inode.kind() == Some(FileKind::File)
        && is_used
        && !is_busy
        && !inode.is_cut()
        && !inode.is_torn()
        && !files.is_append_stopped(stripe, inode.ino)
}

/// Keeps writers of `ino` out and returns its inode, if its pages may leave the pool. Clients that were storing have
/// ended: their bytes and their marks are there (TI4). Nothing leaves of a file that a stopped client may store to (TI21).
pub(crate) fn copying(files: &FileLayer, ino: Ino) -> Option<(CopiedStripe<'_>, Inode)> {
    if files.clients.holds_back(Some(stripe(ino))) {
        return None;
    }
    let copying = files.locks.copying(ino);
    if !planted!("fs: unawaited pins") && !files.clients.wait_for_pins_on(stripe(ino)) {
        return None;
    }
    let inode = files.load(ino).ok()?;
    let is_free = may_go(files, copying.stripe(), &inode);
    is_free.then_some((copying, inode))
}

/// Returns the page behind the last one that may leave the pool: pages behind the end stay (TI8).
fn end_page(inode: &Inode) -> u64 {
    let more = if planted!("fs: pages behind the end away") { 16 } else { 0 };
    inode.size().div_ceil(PAGE) + more
}

/// Returns true if the index of `inode`, which is locked, names the page as it did when it was swept, before the end.
pub(crate) fn is_there(files: &FileLayer, inode: &Inode, swept: &SweptPage) -> bool {
    let found = index::walk(files, inode, swept.page);
    swept.page < end_page(inode)
        && matches!(found, Ok(IndexEntry::Words { at, .. }) if at == swept.word_at)
        && files.memory().load_word(swept.word_at) == swept.word.0
}

/// Returns the word of `page`, whose file is locked, if it names the same place of the pool still.
pub(crate) fn find(files: &FileLayer, inode: &Inode, page: &CleanPage) -> Option<SweptPage> {
    if page.page >= end_page(inode) {
        return None;
    }
    let Ok(IndexEntry::Words { at, .. }) = index::walk(files, inode, page.page) else { return None };
    let word = IndexWord(files.memory().load_word(at));
    let NamedBy::Page(named) = word.named() else { return None };
    let found = SweptPage { ino: inode.ino, page: page.page, word_at: at, word, place: page.place };
    let is_same = files.place(named).ok() == Some(page.place) || planted!("fs: victim without a second look");
    is_same.then_some(found)
}

/// Passes the pages of `inode` in the pool, whole and before its end, from page `from` on to `each`, until it returns
/// false. Returns the page behind the last one that was passed, or the first page of a superpage that comes before.
pub(crate) fn pages(
    files: &FileLayer,
    inode: &Inode,
    from: u64,
    mut each: impl FnMut(SweptPage) -> Result<bool>,
) -> Result<u64> {
    let (mut page, end) = (from, end_page(inode));
    while page < end {
        match index::walk(files, inode, page)? {
            IndexEntry::Words { at, left } => {
                for (index, word_at) in (0..left.min(end - page)).map(|index| (index, at + index * 8)) {
                    let word = IndexWord(files.memory().load_word(word_at));
                    let NamedBy::Page(named) = word.named() else { continue };
                    let place = files.place(named)?;
                    if !each(SweptPage { ino: inode.ino, page: page + index, word_at, word, place })? {
                        return Ok(page + index + 1);
                    }
                }
                page += left;
            }
            IndexEntry::Super { .. } => return Ok(page),
            IndexEntry::Nothing { left, .. } => page += left.min(end - page),
        }
    }
    Ok(page)
}
