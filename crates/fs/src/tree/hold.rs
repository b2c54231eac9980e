//! Inodes that are held, that lose their last name, and that end.

use ferrite_pool::layout::PAGE;

use crate::file::read::apply_waiting;
use crate::format::inode::Inode;
use crate::format::layout::{LAST_ORPHAN, ORPHANS, UNLISTED};
use crate::format::word::Word;
use crate::fs::FileSystem;
use crate::store::change::{Change, FREED_PAGES_MAX};
use crate::store::gate::Pass;
use crate::store::locks::Stripe;
use crate::{Error, Ino, Kind, Result};

/// Inodes that end in one change where each waits for a disk, and pages of each at most: what is said of them fits a record.
const ENDED_TOGETHER: usize = 16;
const ENDED_PAGES: u64 = FREED_PAGES_MAX.div_ceil(32);

impl FileSystem {
    /// Keeps the inode although its last name may be removed: an open file, or a number that a kernel remembers.
    /// Once for each [`FileSystem::release`].
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn hold(&self, ino: Ino) -> Result<()> {
        let mut stripe = self.locks.write(ino);
        let mut inode = self.load(ino)?;
        let hold = stripe.holds.entry(ino.0).or_default();
        hold.count += 1;
        let is_first = hold.count == 1 && inode.kind() == Some(Kind::File);
        if (is_first || inode.is_unsettled())
            && self.refuse_if_read_only().is_ok()
            && let Some(_pass) = self.gate.try_pass()
        {
            // What a crash left of an append would be looked at with each read.
            let _ = self.settle_end(&mut inode);
            if is_first && !self.ahead.has(ino) {
                let _ = self.free_ahead(&stripe, &mut inode);
            }
        }
        Ok(())
    }

    /// Gives back `count` holds. With the last one a file without a name ends, and pages that were taken ahead of
    /// appends become free (FX1).
    pub fn release(&self, ino: Ino, count: u64) {
        let _pass = self.gate.pass();
        let mut stripe = self.locks.write(ino);
        let Some(hold) = stripe.holds.get_mut(&ino.0) else { return };
        hold.count = hold.count.saturating_sub(count);
        if hold.count > 0 {
            return;
        }
        stripe.holds.remove(&ino.0);
        let Ok(mut inode) = self.load(ino) else { return };
        apply_waiting(&stripe, &mut inode);
        if inode.head.links == 0 {
            // What fails here is done by a step, or after the next start. Where it would wait for a disk a step ends many.
            if self.waits() || !matches!(self.end_some(&mut stripe, &mut inode), Ok(true)) {
                self.orphans.make_ready(ino);
            }
        } else if self.refuse_if_read_only().is_ok() {
            let _ = self.free_ahead(&stripe, &mut inode);
        }
    }

    /// Lets `change` take one name from `inode`; with the last one it ends, now or by steps. The caller holds its lock.
    pub(crate) fn drop_link(
        &self,
        change: &mut Change<'_>,
        stripe: &Stripe,
        inode: &mut Inode,
        now: i64,
    ) -> Result<Dropped> {
        inode.head.ctime = now;
        let last = if inode.is_directory() { 2 } else { 1 };
        if inode.head.links > last {
            inode.head.links -= 1;
            change.write_head(inode);
            return Ok(Dropped::Named);
        }
        inode.head.links = 0;
        if !stripe.is_held(inode.ino) && self.free_some(change, inode)? {
            self.free_inode(change, inode)?;
            return Ok(Dropped::Freed);
        }
        self.make_orphan(change, inode)?;
        Ok(Dropped::Orphan { is_ready: !stripe.is_held(inode.ino) })
    }

    /// What is to be done when the change of [`FileSystem::drop_link`] is committed.
    pub(crate) fn dropped(&self, stripe: &mut Stripe, ino: Ino, dropped: Dropped) {
        match dropped {
            Dropped::Named => {}
            Dropped::Freed => drop(stripe.waiting.remove(&ino.0)),
            Dropped::Orphan { is_ready: true } => self.orphans.make_ready(ino),
            Dropped::Orphan { is_ready: false } => {}
        }
    }

    /// Gives `inode` an orphan word (FO1), as far as there are some.
    pub(crate) fn make_orphan(&self, change: &mut Change<'_>, inode: &mut Inode) -> Result<()> {
        if inode.head.orphan == 0 {
            let (word, says) = self.orphan_word(change, inode)?;
            #[cfg(test)]
            if crate::tests::is_planted(crate::tests::Bug::ForgottenOrphan) {
                change.write_roots(inode);
                return Ok(());
            }
            change.write_word(self.space.map.orphan(word), says);
        }
        change.write_roots(inode);
        Ok(())
    }

    /// The word that is to tell of `inode`, its own or the last one (FO3), and what it is to say.
    fn orphan_word(&self, change: &mut Change<'_>, inode: &mut Inode) -> Result<(u64, u64)> {
        let is_named = inode.head.links > 0;
        if let Some(word) = self.orphans.take(is_named) {
            change.note_orphan(word);
            inode.head.orphan = word + 1;
            return Ok((word.into(), inode.ino.0));
        }
        let last = self.memory().load_word(self.space.map.orphan(LAST_ORPHAN));
        let is_free = matches!(last, 0 | UNLISTED);
        if is_named || !is_free { Err(Error::NoSpace) } else { Ok((LAST_ORPHAN, UNLISTED)) }
    }

    /// Frees what `inode` has, up to a bound; whether that was all.
    fn free_some(&self, change: &mut Change<'_>, inode: &mut Inode) -> Result<bool> {
        let is_done = match inode.kind() {
            Some(Kind::File) => self.trim(change, inode, 0)?,
            Some(Kind::Directory) => self.free_names(change, inode)?,
            Some(Kind::Symlink) if inode.is_long_link() => {
                change.free_word(inode.roots[0]);
                inode.roots[0] = Word::NONE;
                true
            }
            _ => true,
        };
        if is_done {
            self.free_xattrs(change, inode)?;
        }
        Ok(is_done)
    }

    /// Lets `change` take the orphan word from `inode`, if it has one; the inode is the caller's to write.
    pub(crate) fn free_orphan(&self, change: &mut Change<'_>, inode: &mut Inode) -> Result<()> {
        let Some(word) = inode.head.orphan.checked_sub(1) else { return Ok(()) };
        if u64::from(word) >= ORPHANS {
            return Err(self.corrupt("the number of an orphan word", inode.at));
        }
        change.write_word(self.space.map.orphan(word.into()), 0);
        change.free_orphan(word);
        inode.head.orphan = 0;
        Ok(())
    }

    /// Lets `change` make `inode`, which has nothing any more, free (FI4).
    fn free_inode(&self, change: &mut Change<'_>, inode: &mut Inode) -> Result<()> {
        self.free_orphan(change, inode)?;
        let mut freed = inode.freed();
        change.write_inode(&mut freed);
        change.free_inode(inode.ino.0);
        Ok(())
    }

    /// One step of ending an inode without a name; whether it was the last.
    pub(crate) fn end_some(&self, stripe: &mut Stripe, inode: &mut Inode) -> Result<bool> {
        let mut change = Change::new(self);
        let is_last = self.free_some(&mut change, inode)?;
        if is_last {
            self.free_inode(&mut change, inode)?;
            stripe.waiting.remove(&inode.ino.0);
        } else {
            change.write_roots(inode);
        }
        change.commit()?;
        if is_last {
            self.orphans.remove(inode.ino);
        }
        Ok(is_last)
    }

    /// One step of freeing what an orphan with a name has behind its end.
    pub(crate) fn trim_orphan(&self, inode: &mut Inode) -> Result<()> {
        if inode.head.orphan == 0 {
            return Ok(());
        }
        let mut change = Change::new(self);
        let end = inode.size().div_ceil(PAGE);
        let is_last = self.trim(&mut change, inode, end)?;
        if is_last {
            self.free_orphan(&mut change, inode)?;
        }
        self.commit_head(change, inode)?;
        if is_last {
            self.orphans.remove(inode.ino);
        }
        Ok(())
    }

    /// One step of what orphans wait for; `false` when none does.
    pub(crate) fn step_orphans(&self) -> Result<bool> {
        if self.orphans.some_ready(1).is_empty() { Ok(false) } else { self.step_some_orphans(&self.gate.pass()) }
    }

    /// One step for as many as end together; `false` when none waits.
    fn step_some_orphans(&self, pass: &Pass<'_>) -> Result<bool> {
        let ready = self.orphans.some_ready(if self.waits() { ENDED_TOGETHER } else { 1 });
        let Some(first) = ready.first() else { return Ok(false) };
        if ready.len() == 1 || !self.end_together(&ready, pass)? {
            self.step_orphan(*first, pass)?;
        }
        Ok(true)
    }

    /// Ends in one change, which waits for the disk once, those of `ready` that have little; whether there were any.
    /// Where one is damaged, none.
    fn end_together(&self, ready: &[Ino], _: &Pass<'_>) -> Result<bool> {
        let mut locked = self.locks.write_all(ready);
        let (mut change, mut ended) = (Change::new(self), Vec::new());
        for ino in ready {
            let is_held = locked.stripe(*ino).is_held(*ino);
            let nameless = self.load(*ino).ok().filter(|inode| inode.head.links == 0 && !is_held);
            let Some(mut inode) = nameless.filter(|inode| inode.head.pages <= ENDED_PAGES) else { continue };
            if !matches!(self.free_some(&mut change, &mut inode), Ok(true)) {
                return Ok(false);
            }
            if self.free_inode(&mut change, &mut inode).is_err() {
                return Ok(false);
            }
            ended.push(*ino);
        }
        if ended.is_empty() {
            return Ok(false);
        }
        change.commit()?;
        for ino in ended {
            locked.stripe(ino).waiting.remove(&ino.0);
            self.orphans.remove(ino);
        }
        Ok(true)
    }

    /// Frees what removed files held, for who is about to say how much is free. Not while the pool stands still: who asks
    /// then is answered at once.
    pub(crate) fn settle_removed(&self) {
        while self.refuse_if_read_only().is_ok()
            && let Some(pass) = self.gate.try_pass()
            && let Ok(true) = self.step_some_orphans(&pass)
        {}
    }

    /// One that is damaged is left to a check, and to who opens the file system next: those behind it go.
    fn step_orphan(&self, ino: Ino, pass: &Pass<'_>) -> Result<()> {
        let stepped = self.step_sound_orphan(ino, pass);
        if let Err(Error::Corrupt { .. }) = &stepped {
            self.orphans.remove(ino);
        }
        stepped
    }

    fn step_sound_orphan(&self, ino: Ino, _: &Pass<'_>) -> Result<()> {
        let mut stripe = self.locks.write(ino);
        let Ok(mut inode) = self.load(ino) else {
            self.orphans.remove(ino);
            return Ok(());
        };
        apply_waiting(&stripe, &mut inode);
        match inode.head.links {
            0 if stripe.is_held(ino) => self.orphans.remove(ino),
            0 => drop(self.end_some(&mut stripe, &mut inode)?),
            _ if !inode.is_cut() => self.orphans.remove(ino),
            _ => {
                if stripe.waiting.contains_key(&ino.0) {
                    self.publish_size(&mut stripe, &mut inode)?;
                }
                self.trim_orphan(&mut inode)?;
            }
        }
        Ok(())
    }
}

/// What became of an inode that lost a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It has others.
    Named,
    /// It is free.
    Freed,
    /// It ends by steps, as soon as nobody holds it.
    Orphan { is_ready: bool },
}
