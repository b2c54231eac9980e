//! What the kernel is told of files, and how long it may believe that.

use std::time::Duration;

use ferrite_fs::{Attr, Error, Ino, Result};
use fuser::{Errno, Generation, ReplyAttr, ReplyEmpty, ReplyEntry};

use super::errno::errno;
use super::front::Front;
use super::words::attributes;

/// How long the kernel may believe what it was told, where nobody else changes the file.
pub(super) const KNOWN: Duration = Duration::from_secs(24 * 3600);

/// Answers who wants to have a folder made durable, which it was when it was answered: the kernel asks no more (FM4).
pub(super) fn decline(reply: ReplyEmpty) {
    #[cfg(test)]
    if super::tests::note_settling() {
        return reply.ok();
    }
    reply.error(Errno::ENOSYS);
}

impl Front {
    /// What `name` in `dir` is, or `dir` itself by its number, be it a folder or not (FM11).
    pub(super) fn found(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::NumbersUnknown) {
            return self.fs.lookup(dir, name);
        }
        if name != b"." {
            return self.fs.lookup(dir, name);
        }
        let attr = self.fs.getattr(dir)?;
        if attr.links == 0 { Err(Error::Stale) } else { Ok(attr) }
    }

    /// Holds what is about to be told (FM1).
    pub(super) fn held(&self, found: Result<Attr>) -> Result<Attr> {
        let attr = found?;
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::NotHeld) {
            return Ok(attr);
        }
        match self.fs.hold(attr.ino) {
            Err(Error::Stale) => Err(Error::NotFound),
            other => other.map(|()| attr),
        }
    }

    /// Ends the right of clients to store to `ino` (FM5).
    pub(super) fn end_writing(&self, ino: Ino) {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::RightStays) {
            return;
        }
        self.fs.end_writing(ino);
    }

    /// How long the kernel may believe what it is told (FM5, FM12).
    pub(super) fn known(&self, attr: &Attr) -> Duration {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::Believed) {
            return KNOWN;
        }
        if attr.is_shrinking || self.fs.is_written_directly(attr.ino) { Duration::ZERO } else { KNOWN }
    }

    pub(super) fn tell_attr(&self, found: Result<Attr>, reply: ReplyAttr) {
        match found {
            Ok(attr) => reply.attr(&self.known(&attr), &attributes(&attr)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    pub(super) fn tell(&self, found: Result<Attr>, reply: ReplyEntry) {
        match self.held(found) {
            Ok(attr) => reply.entry(&self.known(&attr), &attributes(&attr), Generation(attr.generation.into())),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
