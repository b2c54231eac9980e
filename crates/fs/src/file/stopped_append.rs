//! Files that a client was stopped in the middle of an append to, while the owner needed them.
//!
//! Whenever it goes on it stores bytes behind the end that the file had, and then a size and times with the epoch that
//! the inode had. Until its pin is gone neither may count (FG7): sizes are written by transactions alone, under a later
//! epoch, and what lies behind the old end are other pages. Those it had are freed, and wait for its pin.

use ferrite_memory::planted;
use ferrite_pool::layout::{CHUNK, PAGE};

use crate::file::index::{self, IndexEntry};
use crate::file::{FileLayer, size, superpage};
use crate::format::inode::Inode;
use crate::format::word::{IndexWord, NamedBy};
use crate::store::change::FsChange;
use crate::store::copy_bytes;
use crate::store::locks::Stripe;
use crate::{FileKind, Result};

/// Invalidates a stopped append before the caller stores to the file. Afterwards the size rests on no bytes that the
/// caller stores over (FP3).
pub(crate) fn invalidate_stopped_append(files: &FileLayer, stripe: &mut Stripe, inode: &mut Inode) -> Result<()> {
    size::commit_size(files, inode)?;
    let is_invalidated = stripe.stopped_appends.get(&inode.ino.0).copied().unwrap_or(false);
    if is_invalidated || !files.is_append_stopped(stripe, inode.ino) || inode.kind() != Some(FileKind::File) {
        return Ok(());
    }
    planted!("fs: stopped append end" => return Ok(()));
    inode.leave_epoch();
    let change = FsChange::new(files);
    change.commit_head(inode)?;
    if !inode.size().is_multiple_of(CHUNK) {
        superpage::split_super(files, inode, inode.size() / PAGE)?;
    }
    let end = inode.size().div_ceil(PAGE);
    loop {
        let mut change = FsChange::new(files);
        let is_last = index::trim(files, &mut change, inode, end)?;
        change.commit_roots(inode)?;
        if is_last {
            break;
        }
    }
    renew_last_page(files, inode)?;
    stripe.stopped_appends.insert(inode.ino.0, true);
    Ok(())
}

/// Like [`invalidate_stopped_append`], for a write that ends at byte `end`. If no space is left for a new last page, a
/// write before the end of the file goes on, because the stopped client does not store there.
pub(crate) fn invalidate_stopped_append_below(
    files: &FileLayer,
    stripe: &mut Stripe,
    inode: &mut Inode,
    end: u64,
) -> Result<()> {
    let end = if planted!("fs: stopped append page") { 0 } else { end };
    match invalidate_stopped_append(files, stripe, inode) {
        Err(error) if files.is_full(&error) && end <= inode.size() => Ok(()),
        invalidated => invalidated,
    }
}

/// Gives the last page of a file, where that is not full, another place.
fn renew_last_page(files: &FileLayer, inode: &mut Inode) -> Result<()> {
    let used = inode.size() % PAGE;
    if used == 0 {
        return Ok(());
    }
    let IndexEntry::Words { at, .. } = index::walk(files, inode, inode.size() / PAGE)? else { return Ok(()) };
    let old = IndexWord(files.memory().load_word(at));
    let NamedBy::Page(page) = old.named() else { return Ok(()) };
    let mut change = FsChange::new(files);
    let new = change.allocate_data(1)?[0].page;
    copy_bytes(files.memory(), files.place(page)?, files.place(new)?, used);
    files.drain()?;
    change.set_word(inode, at, IndexWord::page(new));
    change.free_word(old);
    change.commit_roots(inode)
}
