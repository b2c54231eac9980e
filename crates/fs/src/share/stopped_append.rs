//! Clients that were stopped in the middle of an append (FG7).

use ferrite_memory::order_loads;

use crate::file::stopped_append;
use crate::share::appenders;
use crate::share::shared_files::SharedFiles;
use crate::store::clients::RevokedAppend;
use crate::store::locks::Stripe;
use crate::tree::inode_lifetime;

impl SharedFiles {
    /// Invalidates all that a client may still do after it lost the end of a file, including a size that it has stored
    /// but not reported. If no space is left for a new last page, the next writer meets that again.
    pub(crate) fn invalidate_revoked_append(&self, stripe: &mut Stripe, revoked: RevokedAppend) {
        let Ok(mut inode) = self.load_regular(revoked.ino) else { return };
        order_loads();
        if let Some(size) = appenders::size_before(&revoked, &self.space.shared_state) {
            inode.head.size = inode.size().min(size);
        }
        let _ = stopped_append::invalidate_stopped_append(self, stripe, &mut inode);
    }

    /// Forgets stopped appends, once no stopped client is left that could continue.
    pub(crate) fn forget_stopped_appends(&self) {
        let may_come_back = || self.link.pins.is_stuck() || self.link.pins.has_orphaned_clients();
        if !self.locks.is_append_stopped() || may_come_back() {
            return;
        }
        self.locks.forget_stopped_appends(may_come_back);
        let kept = std::mem::take(&mut self.sessions.table.lock().kept);
        for ino in kept {
            if self.locks.read(ino).stopped_appends.contains_key(&ino.0) {
                self.sessions.table.lock().kept.push(ino);
            } else {
                inode_lifetime::release(self, ino, 1);
            }
        }
    }
}
