//! Pages behind the end of a file, for a client that appends by itself.

use crate::file::{ahead, size, superpage};
use crate::format::inode::KEEPS_PAGES;
use crate::share::layout::request::Access;
use crate::share::sessions::refused;
use crate::share::shared_files::SharedFiles;
use crate::store::locks::Stripe;
use crate::{Ino, Result};

/// Part of what is free that is given at a time, at most; and where many append, half of their even share. So there is
/// some for the next one.
const SHARE: u64 = 8;

impl SharedFiles {
    /// Gives `ino`, to which `session` may append, pages for `bytes` bytes behind its end. What they hold is undefined (FT1).
    pub(crate) fn give_ahead(&self, session: u64, ino: Ino, bytes: u64) -> Result<()> {
        let books = self.sessions.books.lock();
        let access = books.leases.get(&(ino.0, session)).map(|out| out.access);
        let appenders = books.leases.values().filter(|out| out.access == Access::Append).count() as u64;
        drop(books);
        if access != Some(Access::Append) {
            return refused("the session may not append to this file");
        }
        let _pass = self.gate.pass();
        ahead::take_ahead(self, ino, bytes, SHARE.max(2 * appenders))
    }

    /// Takes back what clients were given for appends to come. They may ask again, one page at a time if need be: by the
    /// mount.
    pub(crate) fn take_back_all_ahead(&self) {
        let books = self.sessions.books.lock();
        let appends = books.leases.iter().filter(|(_, out)| out.access == Access::Append);
        let appended: Vec<Ino> = appends.map(|((ino, _), _)| Ino(*ino)).collect();
        drop(books);
        appended.into_iter().for_each(|ino| self.lower(ino, Access::Write));
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
            let _ = ahead::free_behind(self, &mut inode, size).and_then(|()| superpage::shrink_super(self, &mut inode));
        }
        // What fails here is done by whoever stores to the file next.
        let _ = size::settle_end(self, &mut inode);
        superpage::note_growth(self, ino, 0..inode.size());
    }
}
