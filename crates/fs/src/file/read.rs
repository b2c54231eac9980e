//! Reading: bytes are copied from where they lie.

use ferrite_memory::pin;
use ferrite_pool::layout::PAGE;
use parking_lot::RwLockReadGuard;

use crate::format::inode::Inode;
use crate::fs::FileSystem;
use crate::store::locks::Stripe;
use crate::{Ino, Result};

impl FileSystem {
    /// Reads from byte `at` on; how many bytes, fewer than asked for at the end only.
    ///
    /// # Errors
    /// [`crate::Error::IsDirectory`] for a directory, [`crate::Error::Invalid`] for what else has no content; else as
    /// [`FileSystem`] says.
    pub fn read(&self, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        self.read_by(ino, at, into, true)
    }

    /// The same, and the file does not say that it was read (O_NOATIME).
    ///
    /// # Errors
    /// As [`FileSystem::read`].
    pub fn read_unnoted(&self, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        self.read_by(ino, at, into, false)
    }

    #[inline]
    fn read_by(&self, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
        match self.read_pinned(ino, at, into, notes) {
            Some(len) => Ok(len),
            None => self.read_anew(ino, at, into, notes),
        }
    }

    #[inline(never)]
    fn read_anew(&self, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
        self.look_at(ino, at);
        match self.read_pinned(ino, at, into, notes) {
            Some(len) => Ok(len),
            None => self.read_locked(ino, at, into, notes),
        }
    }

    /// Without a lock (FL2), where all of it lies together and nobody changes the file; nothing is said of other cases.
    #[inline]
    fn read_pinned(&self, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Option<usize> {
        let _pin = pin();
        let version = self.locks.version(ino).filter(|_| !self.waits())?;
        let (file, place) = self.glance((ino, version), at, into.len())?;
        let is_to_note = notes && file.is_unread() && self.refuse_if_read_only().is_ok();
        if is_to_note || !self.locks.is_still(ino, version) {
            return None;
        }
        self.memory().load(place, into);
        Some(into.len())
    }

    #[inline(never)]
    fn read_locked(&self, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
        let stripe = self.locks.read(ino);
        let mut inode = self.load_regular(ino)?;
        apply_waiting(&stripe, &mut inode);
        let len = inode.size().saturating_sub(at).min(into.len() as u64);
        if len == 0 {
            return Ok(0);
        }
        self.copy_out(&inode, at, &mut into[..len as usize])?;
        if notes && inode.head.atime <= inode.head.mtime {
            self.note_access(stripe, &mut inode);
        }
        self.forget_glance(ino, at);
        Ok(len as usize)
    }

    /// Copies bytes of the file from byte `at` on, all before its end.
    pub(crate) fn copy_out(&self, inode: &Inode, at: u64, into: &mut [u8]) -> Result<()> {
        let end = at + into.len() as u64;
        self.parts(inode, at / PAGE..end.div_ceil(PAGE), |part| {
            let start = (part.first * PAGE).max(at);
            let stop = ((part.first + part.pages) * PAGE).min(end);
            let into = &mut into[(start - at) as usize..(stop - at) as usize];
            match part.at {
                Some(place) => self.memory().load(place + start - part.first * PAGE, into),
                None => self.memory().load_hole(into),
            }
            Ok(true)
        })
    }

    /// As `relatime` has it: only where the file changed since. Durable some time later.
    #[cold]
    fn note_access(&self, stripe: RwLockReadGuard<'_, Stripe>, inode: &mut Inode) {
        // Others store the same line then, or it is to be stored by none.
        let is_others = stripe.has_appender(inode.ino) || self.is_haunted(&stripe, inode.ino);
        if is_others || inode.is_torn() || self.refuse_if_read_only().is_err() {
            return;
        }
        inode.head.atime = self.now().max(inode.head.mtime.saturating_add(1));
        if stripe.waiting.contains_key(&inode.ino.0) {
            drop(stripe);
            self.note_access_later(inode.ino, inode.head.atime);
        } else if let Some(_pass) = self.gate.try_pass() {
            inode.store_direct(self.memory());
        }
    }

    /// Lets the time of an access wait with the other times, or by itself where those are on the medium by now.
    fn note_access_later(&self, ino: Ino, atime: i64) {
        let mut stripe = self.locks.write(ino);
        let Ok(mut inode) = self.load_regular(ino) else { return };
        apply_waiting(&stripe, &mut inode);
        inode.head.atime = atime;
        stripe.wait(&inode);
    }
}

/// Lets `inode` have the size and times that wait for an fsync.
pub(crate) fn apply_waiting(stripe: &Stripe, inode: &mut Inode) {
    if let Some(waiting) = stripe.waiting.get(&inode.ino.0) {
        inode.hold_size(inode.size());
        inode.head.size = waiting.size;
        waiting.tell_times(inode);
    }
}
