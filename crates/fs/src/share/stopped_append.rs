//! Clients that were stopped in the middle of an append (FG7).

use ferrite_memory::order_loads;

use crate::file::stopped_append;
use crate::share::appenders;
use crate::share::shared_files::SharedFiles;
use crate::store::clients::Forced;
use crate::store::locks::Stripe;
use crate::tree::hold;

impl SharedFiles {
    /// Lets nothing count any more that a stopped client may do at the end of a file, from whom that was taken by force
    /// right now; nor a size that it has stored and will not vouch for. Where there is no space for another last page, who
    /// wants to store there meets that again.
    pub(crate) fn calm_forced(&self, stripe: &mut Stripe, forced: Forced) {
        let Ok(mut inode) = self.load_regular(forced.ino) else { return };
        order_loads();
        if let Some(size) = appenders::size_before(&forced, &self.space.board) {
            inode.head.size = inode.size().min(size);
        }
        let _ = stopped_append::calm(self, stripe, &mut inode);
    }

    /// Forgets what was haunted, when nobody is left who could come back.
    pub(crate) fn end_haunting(&self) {
        let may_come_back = || self.link.pins.is_stuck() || self.link.pins.has_forerunners();
        if !self.locks.is_haunted() || may_come_back() {
            return;
        }
        self.locks.end_haunting(may_come_back);
        let kept = std::mem::take(&mut self.sessions.books.lock().kept);
        for ino in kept {
            if self.locks.read(ino).haunted.contains_key(&ino.0) {
                self.sessions.books.lock().kept.push(ino);
            } else {
                hold::release(self, ino, 1);
            }
        }
    }
}
