//! How long the kernel may cache what it learns of files.

use std::time::Duration;

use ferrite_fs::{Attr, Error, Ino, Result};
use ferrite_memory::planted;
use fuser::{Errno, Generation, ReplyAttr, ReplyEmpty, ReplyEntry};

use super::convert::attributes;
use super::errno::errno;
use super::server::FuseFs;

/// How long the kernel may cache the attributes of a file that only it changes.
pub(super) const KNOWN: Duration = Duration::from_secs(24 * 3600);

/// Answers a request to make a directory durable. Every change is durable when it is answered, so the kernel need not ask
/// again (FM4).
pub(super) fn decline(reply: ReplyEmpty) {
    if planted!("mount: settling answered") {
        return reply.ok();
    }
    reply.error(Errno::ENOSYS);
}

impl FuseFs {
    /// Returns the attributes of `name` in `dir`. The name `.` means `dir` itself, even if `dir` is not a directory (FM11).
    pub(super) fn found(&self, dir: Ino, name: &[u8]) -> Result<Attr> {
        if planted!("mount: numbers unknown") {
            return self.fs.lookup(dir, name);
        }
        if name != b"." {
            return self.fs.lookup(dir, name);
        }
        let attr = self.fs.getattr(dir)?;
        if attr.links == 0 { Err(Error::Stale) } else { Ok(attr) }
    }

    /// Takes a reference to an inode that the answer names (FM1).
    pub(super) fn held(&self, found: Result<Attr>) -> Result<Attr> {
        let attr = found?;
        if planted!("mount: not held") {
            return Ok(attr);
        }
        match self.fs.hold(attr.ino) {
            Err(Error::Stale) => Err(Error::NotFound),
            other => other.map(|()| attr),
        }
    }

    /// Revokes the write leases of clients on `ino` (FM5).
    pub(super) fn end_writing(&self, ino: Ino) {
        if planted!("mount: right stays") {
            return;
        }
        self.fs.end_writing(ino);
    }

    /// Returns how long the kernel may cache `attr` (FM5, FM12).
    pub(super) fn known(&self, attr: &Attr) -> Duration {
        if planted!("mount: believed") {
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
