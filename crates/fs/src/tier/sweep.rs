//! A sweep over the pages of all files, in the order of their inodes.

use ferrite_pool::layout::PAGE;

use crate::file::FileLayer;
use crate::file::index::{self, IndexEntry};
use crate::format::inode::Inode;
use crate::format::word::{IndexWord, NamedBy};
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
    let numbers = || files.space.inodes_in_use(files.memory());
    let behind: Vec<u64> = numbers().filter(|number| *number >= start).collect();
    let before: Vec<u64> = numbers().filter(|number| *number <= start).collect();
    for number in behind.into_iter().chain(before) {
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
    inode.kind() == Some(FileKind::File)
        && inode.head.links > 0
        && !is_busy
        && !inode.is_cut()
        && !inode.is_torn()
        && !files.is_append_stopped(stripe, inode.ino)
}

/// Keeps writers of `ino` out and returns its inode, if its pages may leave the pool. Clients that were storing have
/// ended: their bytes and their marks are there (TI4). While one is stopped in a store, nothing leaves.
pub(crate) fn copying(files: &FileLayer, ino: Ino) -> Option<(CopiedStripe<'_>, Inode)> {
    if files.clients.is_stuck() {
        return None;
    }
    let copying = files.locks.copying(ino);
    if !files.clients.wait_for_pins() {
        return None;
    }
    let inode = files.load(ino).ok()?;
    let is_free = may_go(files, copying.stripe(), &inode);
    is_free.then_some((copying, inode))
}

/// Returns true if the index of `inode`, which is locked, names the page as it did when it was swept.
pub(crate) fn is_there(files: &FileLayer, inode: &Inode, swept: &SweptPage) -> bool {
    let found = index::walk(files, inode, swept.page);
    matches!(found, Ok(IndexEntry::Words { at, .. }) if at == swept.word_at)
        && files.memory().load_word(swept.word_at) == swept.word.0
}

/// Passes the pages of `inode` in the pool, whole and before its end, from page `from` on to `each`, until it returns
/// false. Returns the page behind the last one that was passed, or the first page of a superpage that comes before.
pub(crate) fn pages(
    files: &FileLayer,
    inode: &Inode,
    from: u64,
    mut each: impl FnMut(SweptPage) -> Result<bool>,
) -> Result<u64> {
    let (mut page, end) = (from, inode.size().div_ceil(PAGE));
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
