//! Files that a client was stopped in the middle of an append to, while the owner needed them.
//!
//! Whenever it goes on it stores bytes behind the end that the file had, and then a size and times with the epoch that
//! the inode had. Until its pin is gone neither may count (FG7): sizes are written by transactions alone, under a later
//! epoch, and what lies behind the old end are other pages. Those it had are freed, and wait for its pin.

use ferrite_memory::order_loads;
use ferrite_pool::layout::{CHUNK, PAGE};

use crate::file::index::Found;
use crate::format::inode::Inode;
use crate::format::word::{Named, Word};
use crate::fs::{FileSystem, copy_bytes};
use crate::share::appenders::Forced;
use crate::store::change::Change;
use crate::store::locks::Stripe;
use crate::{Ino, Kind, Result};

impl FileSystem {
    /// Whether somebody may still store size and times of `ino` that are not to count.
    pub(crate) fn is_haunted(&self, stripe: &Stripe, ino: Ino) -> bool {
        stripe.haunted.contains_key(&ino.0) || self.space.abroad.has_forerunners()
    }

    /// Lets nothing count any more that a stopped client may do at the end of a file, from whom that was taken by force
    /// right now; nor a size that it has stored and will not vouch for. Where there is no space for another last page, who
    /// wants to store there meets that again.
    pub(crate) fn calm_forced(&self, stripe: &mut Stripe, forced: Forced) {
        let Ok(mut inode) = self.load_regular(forced.ino) else { return };
        order_loads();
        if let Some(size) = forced.size_before(&self.space.board) {
            inode.head.size = inode.size().min(size);
        }
        let _ = self.calm(stripe, &mut inode);
    }

    /// The same for whoever is about to store there; and the size rests on no bytes any more that are stored over (FP3).
    pub(crate) fn calm(&self, stripe: &mut Stripe, inode: &mut Inode) -> Result<()> {
        self.settle_end(inode)?;
        let is_calm = stripe.haunted.get(&inode.ino.0).copied().unwrap_or(false);
        if is_calm || !self.is_haunted(stripe, inode.ino) || inode.kind() != Some(Kind::File) {
            return Ok(());
        }
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::HauntedEnd) {
            return Ok(());
        }
        inode.leave_epoch();
        let change = Change::new(self);
        self.commit_head(change, inode)?;
        if !inode.size().is_multiple_of(CHUNK) {
            self.split_super(inode, inode.size() / PAGE)?;
        }
        let end = inode.size().div_ceil(PAGE);
        loop {
            let mut change = Change::new(self);
            let is_last = self.trim(&mut change, inode, end)?;
            self.commit_roots(change, inode)?;
            if is_last {
                break;
            }
        }
        self.renew_last_page(inode)?;
        stripe.haunted.insert(inode.ino.0, true);
        Ok(())
    }

    /// The same for who stores before `end` only: that there is no space for another last page is no reason not to store
    /// before the end of the file, where nobody stores late.
    pub(crate) fn calm_below(&self, stripe: &mut Stripe, inode: &mut Inode, end: u64) -> Result<()> {
        #[cfg(test)]
        let end = if crate::tests::is_planted(crate::tests::Bug::HauntedPage) { 0 } else { end };
        match self.calm(stripe, inode) {
            Err(error) if self.is_full(&error) && end <= inode.size() => Ok(()),
            calmed => calmed,
        }
    }

    /// Gives the last page of a file, where that is not full, another place.
    fn renew_last_page(&self, inode: &mut Inode) -> Result<()> {
        let used = inode.size() % PAGE;
        if used == 0 {
            return Ok(());
        }
        let Found::Words { at, .. } = self.walk(inode, inode.size() / PAGE)? else { return Ok(()) };
        let old = Word(self.memory().load_word(at));
        let Named::Page(page) = old.named() else { return Ok(()) };
        let mut change = Change::new(self);
        let new = change.take_data(1)?[0].page;
        copy_bytes(self.memory(), self.place(page)?, self.place(new)?, used);
        self.settle()?;
        self.set_word(&mut change, inode, at, Word::page(new));
        change.free_word(old);
        self.commit_roots(change, inode)
    }

    fn commit_roots(&self, mut change: Change<'_>, inode: &mut Inode) -> Result<()> {
        change.write_roots(inode);
        let committed = change.commit();
        if committed.is_err()
            && let Some(before) = self.load_any(inode.ino)
        {
            *inode = before;
        }
        committed
    }

    /// Lets the head say the size, where that rests on the last bytes (FP3) or on what a crash left (FP4).
    pub(crate) fn settle_end(&self, inode: &mut Inode) -> Result<()> {
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::UnsettledEnd) {
            return Ok(());
        }
        if inode.is_unsettled() { self.commit_head(Change::new(self), inode) } else { Ok(()) }
    }

    /// Stores size and times, durable on return: directly, or by a transaction where others may store over that.
    pub(crate) fn store_end(&self, stripe: &Stripe, inode: &mut Inode) -> Result<()> {
        if self.is_haunted(stripe, inode.ino) || inode.is_torn() {
            return self.commit_head(Change::new(self), inode);
        }
        inode.store_direct(self.memory());
        self.memory().fence();
        Ok(())
    }

    /// Forgets what was haunted, when nobody is left who could come back.
    pub(crate) fn end_haunting(&self) {
        let may_come_back = || self.space.abroad.is_stuck() || self.space.abroad.has_forerunners();
        if !self.locks.is_haunted() || may_come_back() {
            return;
        }
        self.locks.end_haunting(may_come_back);
        let kept = std::mem::take(&mut self.desk.books.lock().kept);
        for ino in kept {
            if self.locks.read(ino).haunted.contains_key(&ino.0) {
                self.desk.books.lock().kept.push(ino);
            } else {
                self.release(ino, 1);
            }
        }
    }
}
