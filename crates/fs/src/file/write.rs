//! Writing: in place where there are pages, and into new ones where there are none.
//!
//! - FW1. What a word or a size makes visible is durable before it: new pages before the words that name them, bytes
//!   behind the end before the size that covers them, but where that has a proof (`proof`). So a crash shows no bytes of
//!   other files.
//! - FW2. Over what is there a write costs one copy and one fence; behind the end, where pages were taken ahead, two, and
//!   by clients one. Where a fence is durable it is durable when it returns.
//! - FW3. `Atomic`: all of a part is written to new pages, and one record names them in the place of the old ones.
//! - FW4. Where a fence is not durable, sizes wait in DRAM until an fsync has made the data durable, and times with them, also
//!   those that are set; where times alone wait, they are made durable with the data. A new file has its first page with its
//!   name then.
//! - FW5. A write that is refused for want of space changed nothing. Where some of it fits, that much is written, unless it
//!   is to be all or nothing (`Atomic`). Whichever part meets no space, what can be made free is, before the write is
//!   refused or ends there.
//! - FW6. An append is one record for others, also where space is made in the middle of it: nobody sees the parts before
//!   that, and their pages are there for when it begins again.

use ferrite_memory::{Scheme, pin};
use ferrite_pool::layout::PAGE;

use crate::file::read::apply_waiting;
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::format::layout::FILE_BYTES_MAX;
use crate::fs::FileSystem;
use crate::options::ATOMIC_BYTES_MAX;
use crate::store::change::Change;
use crate::store::locks::Stripe;
use crate::view::hints;
use crate::{DataMode, Error, Ino, Result};

/// Times of overwrites are no finer than this.
pub(crate) const TIME_GRAIN_NS: u64 = 1_000_000;

/// How a file is written.
#[derive(Clone, Copy)]
struct How {
    /// Without a lock, over what is there.
    overwrites: bool,
    /// The file says that it was written.
    notes: bool,
    /// As much of it as there is space for.
    fits: bool,
}

/// How many of the bytes `from` a file can have from byte `at` on.
fn can_have(at: u64, from: &[u8]) -> u64 {
    (from.len() as u64).min(FILE_BYTES_MAX.saturating_sub(at))
}

impl FileSystem {
    /// Writes from byte `at` on, which may lie past the end; how many bytes, fewer than given only where space ran out.
    ///
    /// # Errors
    /// [`Error::FileTooBig`] where `at` is where no file can have bytes, [`Error::IsDirectory`] for a directory and
    /// [`Error::Invalid`] for what else has no content. [`Error::NoSpace`] where nothing of it fits (FW5); else as
    /// [`FileSystem`] says.
    pub fn write(&self, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
        self.write_by(ino, at, from, true)
    }

    /// The same, and the file keeps its times: who writes has them, and sets them.
    ///
    /// # Errors
    /// As [`FileSystem::write`].
    pub fn write_unnoted(&self, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
        self.write_by(ino, at, from, false)
    }

    #[inline]
    fn write_by(&self, ino: Ino, at: u64, from: &[u8], notes: bool) -> Result<usize> {
        if let Some(place) = hints::guess(ino, at) {
            self.memory().expect_store(place);
        }
        self.refuse_if_read_only()?;
        let overwrites = self.data_mode() == DataMode::Sync && !self.waits();
        if overwrites && let Some(is_told) = self.write_pinned(ino, at, from) {
            if notes && !is_told {
                self.tell_write(ino)?;
            }
            return Ok(from.len());
        }
        self.write_all(ino, at, from, How { overwrites, notes, fits: false })
    }

    /// Goes on where a part met no space, once there is some (FW5).
    fn write_all(&self, ino: Ino, at: u64, from: &[u8], how: How) -> Result<usize> {
        let mut done = 0;
        let all = self.with_space_to_write(|fits| {
            let (at, rest) = (at + done as u64, &from[done..]);
            let written = self.write_anew(ino, at, rest, How { fits, ..how })?;
            done += written;
            if fits || written as u64 == can_have(at, rest) { Ok(()) } else { Err(Error::NoSpace) }
        });
        match all {
            Err(error) if done == 0 || !self.is_full(&error) => Err(error),
            _ => Ok(done),
        }
    }

    /// Lets the inode say that it was written to just now.
    #[cold]
    fn tell_write(&self, ino: Ino) -> Result<()> {
        let _pass = self.gate.pass();
        let mut stripe = self.locks.write(ino);
        let mut inode = self.load_regular(ino)?;
        apply_waiting(&stripe, &mut inode);
        self.calm_below(&mut stripe, &mut inode, 0)?;
        self.finish_in_place(&mut stripe, &mut inode, 0)
    }

    #[inline(never)]
    fn write_anew(&self, ino: Ino, at: u64, from: &[u8], how: How) -> Result<usize> {
        // It remembers what it sees.
        let behind = self.look_behind(ino, Some(at), from.len());
        let is_done = |is_told: bool| is_told || !how.notes;
        if behind.is_none() && how.overwrites && self.write_pinned(ino, at, from).is_some_and(is_done) {
            return Ok(from.len());
        }
        let _pass = self.gate.pass();
        let mut stripe = self.locks.write(ino);
        if how.notes
            && let Some(behind) = behind
            && self.extend(&stripe, ino, &behind, from)?
        {
            return Ok(from.len());
        }
        let mut inode = self.load_regular(ino)?;
        apply_waiting(&stripe, &mut inode);
        self.calm_below(&mut stripe, &mut inode, at.saturating_add(from.len() as u64))?;
        if !how.notes {
            inode.keep_times();
        }
        self.write_parts((&mut stripe, &mut inode), at, from, how.fits)
    }

    /// Without a lock (FL2, FL3), over bytes that lie together and while nobody changes the file; nothing is said of
    /// other cases. Whether the inode says it: the time of change stays for as long as it is no older than its grain.
    #[inline]
    fn write_pinned(&self, ino: Ino, at: u64, from: &[u8]) -> Option<bool> {
        let _pin = pin();
        let version = self.locks.version_to_write(ino).filter(|_| self.gate.is_open())?;
        let (file, place) = self.glance((ino, version), at, from.len())?;
        file.expect_store(self.memory(), at, place);
        if at + from.len() as u64 > file.settled() || !self.locks.is_still(ino, version) {
            return None;
        }
        self.memory().store(place, from, Scheme::Nt);
        // Asked while the bytes are on their way, for which the fence waits.
        let is_told = self.now().abs_diff(file.mtime) < TIME_GRAIN_NS;
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::ReturnBeforeFence) {
            return Some(is_told);
        }
        self.memory().fence();
        Some(is_told)
    }

    /// Writes behind the last byte, whoever else appends too; where it went, and how many bytes.
    ///
    /// # Errors
    /// As [`FileSystem::write`].
    pub fn append(&self, ino: Ino, from: &[u8]) -> Result<(u64, usize)> {
        self.refuse_if_read_only()?;
        self.with_space_to_write(|fits| self.append_anew(ino, from, fits))
    }

    fn append_anew(&self, ino: Ino, from: &[u8], fits: bool) -> Result<(u64, usize)> {
        let behind = self.look_behind(ino, None, from.len());
        let _pass = self.gate.pass();
        let mut stripe = self.locks.write(ino);
        if let Some(behind) = behind
            && self.extend(&stripe, ino, &behind, from)?
        {
            return Ok((behind.at, from.len()));
        }
        let mut inode = self.load_regular(ino)?;
        apply_waiting(&stripe, &mut inode);
        self.calm(&mut stripe, &mut inode)?;
        let at = inode.size();
        let written = self.write_parts((&mut stripe, &mut inode), at, from, fits)?;
        if !fits && (written as u64) < can_have(at, from) {
            self.undo_append(&mut stripe, &mut inode, at)?;
            return Err(Error::NoSpace);
        }
        Ok((at, written))
    }

    /// Lets the file end at byte `end` again, which nobody saw behind (FW6). The pages there stay, as if taken ahead.
    fn undo_append(&self, stripe: &mut Stripe, inode: &mut Inode, end: u64) -> Result<()> {
        if stripe.waiting.contains_key(&inode.ino.0) {
            self.publish_size(stripe, inode)?;
        }
        self.ahead.note(inode.ino, self.now());
        inode.head.size = end;
        self.commit_head(Change::new(self), inode)
    }

    /// What `write` comes to: of all of it, or where there is no space for that, of as much as fits (FW5).
    fn with_space_to_write<T>(&self, mut write: impl FnMut(bool) -> Result<T>) -> Result<T> {
        match self.with_space(|| write(false)) {
            Err(error) if self.is_full(&error) => write(true),
            written => written,
        }
    }

    /// Whether `error` says that there is no space, and not that the host's disk had none for what was stored already:
    /// after that nothing is to succeed.
    pub(crate) fn is_full(&self, error: &Error) -> bool {
        error.is_no_space() && self.pool().check_poison().is_ok()
    }

    /// Writes part by part. Where one does not fit, and `fits` says so, smaller ones are tried, down to a page.
    fn write_parts(
        &self,
        (stripe, inode): (&mut Stripe, &mut Inode),
        at: u64,
        from: &[u8],
        fits: bool,
    ) -> Result<usize> {
        if !from.is_empty() && at >= FILE_BYTES_MAX {
            return Err(Error::FileTooBig);
        }
        let len = can_have(at, from);
        let may_halve = fits && self.data_mode() != DataMode::Atomic;
        let (mut done, mut step) = (0, ATOMIC_BYTES_MAX);
        while done < len {
            let part = (step - (at + done) % step).min(len - done);
            let bytes = &from[done as usize..(done + part) as usize];
            match self.write_part(stripe, inode, at + done, bytes) {
                Ok(()) => done += part,
                Err(error) if may_halve && step > PAGE && self.is_full(&error) => {
                    step = (part / 2).next_power_of_two().clamp(PAGE, step / 2);
                }
                Err(error) if done > 0 && self.is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if self.waits() && self.data_mode() != DataMode::Posix {
            self.publish_size(stripe, inode)?;
        }
        Ok(done as usize)
    }

    pub(crate) fn write_part(&self, stripe: &mut Stripe, inode: &mut Inode, at: u64, from: &[u8]) -> Result<()> {
        let (size, end) = (inode.size(), at + from.len() as u64);
        if end > size && (at > size || inode.is_cut()) {
            self.define_until(stripe, inode, at)?;
        }
        if self.data_mode() == DataMode::Atomic && at < size {
            return self.write_new(stripe, inode, at, from, true);
        }
        let mut is_missing = false;
        self.parts(inode, at / PAGE..end.div_ceil(PAGE), |part| {
            is_missing |= part.at.is_none();
            Ok(!is_missing)
        })?;
        if is_missing {
            return self.write_new(stripe, inode, at, from, false);
        }
        self.store_there(inode, at, from)?;
        self.finish_in_place(stripe, inode, end)
    }

    /// Stores what goes to pages that the file has.
    pub(crate) fn store_there(&self, inode: &Inode, at: u64, from: &[u8]) -> Result<()> {
        let end = at + from.len() as u64;
        self.parts(inode, at / PAGE..end.div_ceil(PAGE), |part| {
            let Some(place) = part.at else { return Ok(true) };
            let start = (part.first * PAGE).max(at);
            let stop = ((part.first + part.pages) * PAGE).min(end);
            let bytes = &from[(start - at) as usize..(stop - at) as usize];
            self.memory().store(place + start - part.first * PAGE, bytes, Scheme::Nt);
            Ok(true)
        })
    }

    /// Makes durable what was stored in place, and shows it (FW1, FW2).
    fn finish_in_place(&self, stripe: &mut Stripe, inode: &mut Inode, end: u64) -> Result<()> {
        let (now, grows) = (self.now(), end > inode.size());
        if self.waits() {
            // Also where its times tell it already: what waits is what is written back.
            self.memory().fence();
            inode.hold_size(inode.durable_size());
            inode.head.size = inode.size().max(end);
            inode.touch(now);
            stripe.wait(inode);
            return Ok(());
        }
        if !grows && inode.tells(now, TIME_GRAIN_NS) {
            self.memory().fence();
            return Ok(());
        }
        let old = inode.size();
        if grows {
            self.settle_data()?;
            inode.head.size = end;
        }
        inode.touch(now);
        self.store_end(stripe, inode)?;
        self.note_growth(inode.ino, old..inode.size());
        Ok(())
    }

    /// FW1: what is to become visible is durable on return.
    pub(crate) fn settle_data(&self) -> Result<()> {
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::WordBeforeData)
            || crate::tests::is_planted(crate::tests::Bug::SizeBeforeData)
        {
            return Ok(());
        }
        self.settle()
    }

    /// Makes what lies between the end of a file and byte `until` read as zeros, before the end moves over it (FT1). Whole
    /// pages there that were taken for appends to come go back: they would stay in what is a hole.
    pub(crate) fn define_until(&self, stripe: &mut Stripe, inode: &mut Inode, until: u64) -> Result<()> {
        while inode.is_cut() {
            self.trim_orphan(inode)?;
        }
        let has_pages = until / PAGE > inode.size().div_ceil(PAGE);
        let may_free = inode.head.flags & KEEPS_PAGES == 0 && !stripe.waiting.contains_key(&inode.ino.0);
        if has_pages && may_free {
            let end = inode.size();
            self.free_behind(inode, end)?;
            self.shrink_super(inode)?;
        }
        #[cfg(test)]
        if crate::tests::is_planted(crate::tests::Bug::UndefinedGap) {
            return Ok(());
        }
        if until > inode.size() {
            self.zero_bytes(inode, inode.size()..until)?;
            self.settle()?;
        }
        Ok(())
    }
}
