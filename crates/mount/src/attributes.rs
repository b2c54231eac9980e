//! Extended attributes, as the kernel asks for them.

use ferrite_fs::{Error, Ino, Result, SetXattr};
use fuser::{Errno, ReplyXattr, Request};

use super::errno::errno;
use super::front::Front;
use super::reserve::NAME_BYTES;

pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const BOTH: i32 = libc::XATTR_CREATE | libc::XATTR_REPLACE;

impl Front {
    /// As setxattr(2) by flags `how`.
    pub(super) fn set_attribute(&self, by: &Request, ino: Ino, name: &[u8], (value, how): (&[u8], i32)) -> Result<()> {
        let how = match how {
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            // It is to be there, and not to be there.
            BOTH => return self.fs.xattr(ino, name).and(Err(Error::Exists)),
            _ => SetXattr::Any,
        };
        self.ensure_room(by.uid(), NAME_BYTES)?;
        self.lose_group(by, ino, name)?;
        let done = self.fs.set_xattr(ino, name, value, how);
        // Behind it (fs FG9).
        self.end_writing(ino);
        done
    }

    /// As removexattr(2). A file without an ACL has one that says what its mode does: nothing is to be taken away.
    pub(super) fn remove_attribute(&self, ino: Ino, name: &[u8]) -> Result<()> {
        match self.fs.remove_xattr(ino, name) {
            Err(Error::NoAttribute) if name == ACCESS || name == DEFAULT => Ok(()),
            removed => removed,
        }
    }
}

/// Sends an attribute's bytes, or how many there are where no room was given.
pub(super) fn send(value: Result<Vec<u8>>, len: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if len == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > len as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(&error)),
    }
}
