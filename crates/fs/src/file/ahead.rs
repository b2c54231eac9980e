//! Pages that were taken ahead of appends, and how those that no append needs go back.
//!
//! - FX1. Pages behind the end of a file stay while a client appends to it directly. Pages that were asked for
//!   (`KEEPS_PAGES`) stay until the file is cut, even to the size that it has. All others are freed: a second after
//!   the last write, at the last release, when space runs out, and when the file system is closed.
//! - FX2. Pages that a crash left there are freed when the file is held, or the first time that space runs out.
//! - FX3. The next step after that invalidates the attributes that a kernel has cached.

use std::sync::atomic::Ordering;

use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::file::index::{self, IndexEntry};
use crate::file::noted_files::REST_NS;
use crate::file::{FileLayer, cut, fsync, give_pages, index_height, size, stopped_append, superpage};
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::format::layout::FILE_BYTES_MAX;
use crate::store::change::FsChange;
use crate::store::gate::GatePass;
use crate::store::locks::Stripe;
use crate::{FileKind, Ino, Result};

/// Bytes that are given at a time, at most: of pages to small files, and else.
const BYTES_MAX: (u64, u64) = (4 << 20, 16 << 20);

/// Frees the pages of `inode` behind its end, unless they must stay (FX1) or a client may still store there.
pub(crate) fn free_ahead(files: &FileLayer, stripe: &Stripe, inode: &mut Inode) -> Result<()> {
    let is_named_file = inode.kind() == Some(FileKind::File) && inode.head.links > 0 && !inode.is_cut();
    let is_kept = inode.head.flags & KEEPS_PAGES != 0 || stripe.has_appender(inode.ino);
    if !is_named_file || is_kept || is_busy(files, stripe, inode.ino) {
        return Ok(());
    }
    let end = inode.size();
    free_behind(files, inode, end)?;
    superpage::shrink_super(files, inode)
}

fn is_busy(files: &FileLayer, stripe: &Stripe, ino: Ino) -> bool {
    stripe.waiting.contains_key(&ino.0) || files.is_append_stopped(stripe, ino)
}

/// Frees the pages ahead of one file that has rested.
pub(crate) fn step_ahead(files: &FileLayer) -> Result<bool> {
    let now = files.now();
    let Some(ino) = files.ahead.pop_rested(now) else { return Ok(false) };
    if files.waits() && files.locks.read(ino).waiting.contains_key(&ino.0) {
        // With all that waits: for each by itself the disk would be waited for (FW4).
        fsync::flush(files)?;
    }
    let is_written = |inode: &Inode| now.abs_diff(inode.head.mtime) < REST_NS;
    give_back_ahead(files, ino, is_written, &files.gate.pass())?;
    Ok(true)
}

/// Frees what was taken ahead for any file. The caller has no lock.
pub(crate) fn free_all_ahead<'a>(files: &'a FileLayer, pass: impl Fn() -> Option<GatePass<'a>>) {
    let mut left = files.ahead.files.lock().len();
    while left > 0
        && let Some(pass) = pass()
        && let Some(ino) = files.ahead.take()
    {
        // The next holder of the file meets the same failure.
        let _ = give_back_ahead(files, ino, |_| false, &pass);
        left -= 1;
    }
}

/// Frees what a crash left (FX2), the first time. The caller has no lock, and has not passed the gate.
pub(crate) fn free_left_ahead(files: &FileLayer) {
    if files.clients.has_orphaned_clients() || files.ahead.is_searched.swap(true, Ordering::Relaxed) {
        return;
    }
    for number in files.space.inodes_in_use(files.memory()) {
        let _ = give_back_ahead(files, Ino(number), |_| false, &files.gate.pass());
    }
}

/// Frees the pages of `ino` behind its end, or waits longer if the file `is_wanted`.
fn give_back_ahead(files: &FileLayer, ino: Ino, is_wanted: impl Fn(&Inode) -> bool, _: &GatePass<'_>) -> Result<()> {
    let mut stripe = files.locks.write(ino);
    let Ok(mut inode) = files.load(ino) else { return Ok(()) };
    stripe.apply_waiting(&mut inode);
    if is_wanted(&inode) || files.is_append_stopped(&stripe, ino) {
        files.ahead.note(ino, files.now());
        return Ok(());
    }
    if stripe.waiting.contains_key(&ino.0) {
        size::flush_size(files, &mut stripe, &mut inode)?;
    }
    let before = inode.head.pages;
    let freed = free_ahead(files, &stripe, &mut inode);
    if inode.head.pages != before {
        files.clients.note_stale(ino);
    }
    freed
}

/// Takes pages for `bytes` bytes, but at most one of `share` parts of what is free.
pub(crate) fn reserve_ahead(files: &FileLayer, ino: Ino, bytes: u64, share: u64) -> Result<()> {
    let mut stripe = files.locks.write(ino);
    let mut inode = files.load_regular(ino)?;
    stopped_append::invalidate_stopped_append(files, &mut stripe, &mut inode)?;
    while inode.is_cut() {
        cut::trim_orphan(files, &mut inode)?;
    }
    let size = inode.size();
    if !size.is_multiple_of(PAGE) {
        // In a missing page, the bytes before the end are zeros.
        give_pages::give_pages(files, &mut inode, size..size + 1)?;
    }
    let most = if superpage::has_superpages(files) { BYTES_MAX.1 } else { size.clamp(BYTES_MAX.0, BYTES_MAX.1) };
    let most = files.free_bytes_up_to(most * share) / share;
    let (mut page, mut end) = (size.div_ceil(PAGE), (size + bytes.min(most)).min(FILE_BYTES_MAX).div_ceil(PAGE));
    if end.saturating_sub(page) > CHUNK_PAGES && superpage::has_superpages(files) {
        end = end.next_multiple_of(CHUNK_PAGES);
    }
    while page < end {
        let is_block = page.is_multiple_of(CHUNK_PAGES) && page + CHUNK_PAGES <= end;
        match index::walk(files, &inode, page)? {
            IndexEntry::Words { at, left } => {
                let count = left.min(end - page);
                give_pages::give_words(files, &mut inode, at, count, |_| Ok(()))?;
                page += count;
            }
            IndexEntry::Super { left, .. } => page += left,
            IndexEntry::Nothing { .. } if is_block && superpage::allocate_super(files, &mut inode, page)? => {
                page += CHUNK_PAGES
            }
            IndexEntry::Nothing { .. } => index::extend_index(files, &mut inode, page)?,
        }
    }
    Ok(())
}

/// Frees the pages behind byte `end`, and the index pages that they needed. Stores nothing if there are no such pages.
pub(crate) fn free_behind(files: &FileLayer, inode: &mut Inode, end: u64) -> Result<()> {
    loop {
        let mut change = FsChange::new(files);
        let is_last = index::trim(files, &mut change, inode, end.div_ceil(PAGE))?;
        if change.frees_any() {
            change.commit_head(inode)?;
        }
        if is_last {
            return index_height::lower_index(files, inode);
        }
    }
}
