//! Pages behind the end of a file, for a client that appends by itself.

use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use crate::file::index::Found;
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::format::layout::FILE_BYTES_MAX;
use crate::fs::FileSystem;
use crate::share::layout::request::Access;
use crate::share::sessions::refused;
use crate::store::change::Change;
use crate::store::locks::Stripe;
use crate::store::space::ChunkKind;
use crate::{Ino, Result};

/// Bytes that are given at a time, at most: of pages to small files, and else.
const BYTES_MAX: (u64, u64) = (4 << 20, 16 << 20);
/// Part of what is free that is given at a time, at most; and where many append, half of their even share. So there is
/// some for the next one.
const SHARE: u64 = 8;

impl FileSystem {
    /// Gives `ino`, to which `session` may append, pages for `bytes` bytes behind its end. What they hold is undefined (FT1).
    pub(crate) fn give_ahead(&self, session: u64, ino: Ino, bytes: u64) -> Result<()> {
        let books = self.desk.books.lock();
        let access = books.leases.get(&(ino.0, session)).map(|out| out.access);
        let appenders = books.leases.values().filter(|out| out.access == Access::Append).count() as u64;
        drop(books);
        if access != Some(Access::Append) {
            return refused("the session may not append to this file");
        }
        let _pass = self.gate.pass();
        self.take_ahead(ino, bytes, SHARE.max(2 * appenders))
    }

    /// Takes pages for `bytes` bytes, but at most one of `share` parts of what is free.
    pub(crate) fn take_ahead(&self, ino: Ino, bytes: u64, share: u64) -> Result<()> {
        let mut stripe = self.locks.write(ino);
        let mut inode = self.load_regular(ino)?;
        self.calm(&mut stripe, &mut inode)?;
        while inode.is_cut() {
            self.trim_orphan(&mut inode)?;
        }
        let size = inode.size();
        if !size.is_multiple_of(PAGE) {
            // What lies before the end in a page that is not there yet are zeros.
            self.give_pages(&mut inode, size..size + 1)?;
        }
        let most = if self.has_superpages() { BYTES_MAX.1 } else { size.clamp(BYTES_MAX.0, BYTES_MAX.1) };
        let most = self.free_bytes_up_to(most * share) / share;
        let (mut page, mut end) = (size.div_ceil(PAGE), (size + bytes.min(most)).min(FILE_BYTES_MAX).div_ceil(PAGE));
        if end.saturating_sub(page) > CHUNK_PAGES && self.has_superpages() {
            end = end.next_multiple_of(CHUNK_PAGES);
        }
        while page < end {
            let is_block = page.is_multiple_of(CHUNK_PAGES) && page + CHUNK_PAGES <= end;
            match self.walk(&inode, page)? {
                Found::Words { at, left } => {
                    let count = left.min(end - page);
                    self.give_words(&mut inode, at, count, |_| Ok(()))?;
                    page += count;
                }
                Found::Super { left, .. } => page += left,
                Found::Nothing { .. } if is_block && self.take_super(&mut inode, page)? => page += CHUNK_PAGES,
                Found::Nothing { .. } => self.extend_index(&mut inode, page)?,
            }
        }
        Ok(())
    }

    /// Bytes that pages can be made of, counted no further than to `enough`.
    fn free_bytes_up_to(&self, enough: u64) -> u64 {
        let mut free = self.pool().space().idle_bytes_up_to(enough);
        for chunk in 0..self.space.chunks() {
            if free >= enough {
                return enough;
            }
            free += match self.space.kind(chunk) {
                Some(ChunkKind::Free) => CHUNK,
                Some(ChunkKind::Data) => self.space.free_pages(chunk) * PAGE,
                _ => 0,
            };
        }
        free.min(enough)
    }

    /// Takes back what clients were given for appends to come. They may ask again, one page at a time if need be: by the
    /// mount.
    pub(crate) fn take_back_all_ahead(&self) {
        let books = self.desk.books.lock();
        let appends = books.leases.iter().filter(|(_, out)| out.access == Access::Append);
        let appended: Vec<Ino> = appends.map(|((ino, _), _)| Ino(*ino)).collect();
        drop(books);
        appended.into_iter().for_each(|ino| self.lower(ino, Access::Write));
    }

    /// Takes the pages behind byte `end` away, and those of the index that were needed for them. Where there are none
    /// nothing is stored.
    pub(crate) fn free_behind(&self, inode: &mut Inode, end: u64) -> Result<()> {
        loop {
            let mut change = Change::new(self);
            let is_last = self.trim(&mut change, inode, end.div_ceil(PAGE))?;
            if change.frees_any() {
                self.commit_head(change, inode)?;
            }
            if is_last {
                return self.lower_index(inode);
            }
        }
    }

    /// Nobody appends to `ino` directly any more: what was taken ahead goes back, and the file may move.
    pub(crate) fn end_appends(&self, stripe: &mut Stripe, ino: Ino) {
        if let Some(hold) = stripe.holds.get_mut(&ino.0) {
            hold.ends = hold.ends.wrapping_add(1);
        }
        let Ok(mut inode) = self.load_regular(ino) else { return };
        if inode.head.links > 0 && inode.head.flags & KEEPS_PAGES == 0 && !inode.is_cut() {
            let size = inode.size();
            // What fails here is done when the file is given back by all.
            let _ = self.free_behind(&mut inode, size).and_then(|()| self.shrink_super(&mut inode));
        }
        // What fails here is done by whoever stores to the file next.
        let _ = self.settle_end(&mut inode);
        self.note_growth(ino, 0..inode.size());
    }
}
