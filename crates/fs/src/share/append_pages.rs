//! Pages behind the end of a file, for a client that appends directly.

use crate::file::{ahead, size, superpage};
use crate::format::inode::KEEPS_PAGES;
use crate::share::layout::request::LeaseAccess;
use crate::share::sessions::refused;
use crate::share::shared_files::SharedFiles;
use crate::store::locks::Stripe;
use crate::{Ino, Result};

/// Part of what is free that is given at a time, at most; and where many append, half of their even share. So there is
/// some for the next one.
const SHARE: u64 = 8;

impl SharedFiles {
    /// Reserves pages for `bytes` bytes behind the end of `ino`, which `session` may append to. Their content is
    /// undefined (FT1).
    pub(crate) fn reserve_ahead_for(&self, session: u64, ino: Ino, bytes: u64) -> Result<()> {
        let table = self.sessions.table.lock();
        let access = table.leases.get(&(ino.0, session)).map(|entry| entry.access);
        let appenders = table.leases.values().filter(|entry| entry.access == LeaseAccess::Append).count() as u64;
        drop(table);
        if access != Some(LeaseAccess::Append) {
            return refused("the session may not append to this file");
        }
        let _pass = self.gate.pass();
        ahead::reserve_ahead(self, ino, bytes, SHARE.max(2 * appenders))
    }

    /// Frees the pages that clients reserved for appends, and limits their leases to overwrites. Further appends go
    /// through the mount.
    pub(crate) fn end_all_appends(&self) {
        let table = self.sessions.table.lock();
        let appends = table.leases.iter().filter(|(_, entry)| entry.access == LeaseAccess::Append);
        let appended: Vec<Ino> = appends.map(|((ino, _), _)| Ino(*ino)).collect();
        drop(table);
        appended.into_iter().for_each(|ino| self.limit_leases(ino, LeaseAccess::Write));
    }

    /// Ends the state of direct appends to `ino`: pages ahead are freed, and the file may move again.
    pub(crate) fn end_appends(&self, stripe: &mut Stripe, ino: Ino) {
        if let Some(hold) = stripe.holds.get_mut(&ino.0) {
            hold.ends = hold.ends.wrapping_add(1);
        }
        let Ok(mut inode) = self.load_regular(ino) else { return };
        if inode.head.links > 0 && inode.head.flags & KEEPS_PAGES == 0 && !inode.is_cut() {
            let size = inode.size();
            // After a failure they are freed with the last hold.
            let _ = ahead::free_behind(self, &mut inode, size).and_then(|()| superpage::shrink_super(self, &mut inode));
        }
        // The next writer of the file meets the same failure.
        let _ = size::commit_size(self, &mut inode);
        superpage::note_growth(self, ino, 0..inode.size());
    }
}
