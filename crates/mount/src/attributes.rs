//! Requests of the kernel about extended attributes.

use ferrite_fs::{Error, Ino, Result, SetXattr};
use fuser::{Errno, ReplyXattr, Request};

use super::errno::{errno, failed};
use super::reserve::NAME_BYTES;
use super::server::FuseFs;

pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const BOTH: i32 = libc::XATTR_CREATE | libc::XATTR_REPLACE;

impl FuseFs {
    /// Sets an attribute as setxattr(2) does.
    pub(super) fn set_attribute(&self, by: &Request, ino: Ino, name: &[u8], value: &[u8], how: i32) -> Result<()> {
        let how = match how {
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            // The attribute must exist and must not exist.
            BOTH => return self.fs.xattr(ino, name).and(Err(Error::Exists)),
            _ => SetXattr::Any,
        };
        self.ensure_room(by.uid(), NAME_BYTES)?;
        self.lose_group(by, ino, name)?;
        let done = self.fs.set_xattr(ino, name, value, how);
        // After the change (fs FG9).
        self.end_writing(ino);
        done
    }

    /// Removes an attribute as removexattr(2) does. A file without an ACL has an implied one that repeats its mode, so
    /// its removal succeeds.
    pub(super) fn remove_attribute(&self, ino: Ino, name: &[u8]) -> Result<()> {
        match self.fs.remove_xattr(ino, name) {
            Err(Error::NoAttribute) if name == ACCESS || name == DEFAULT => Ok(()),
            removed => removed,
        }
    }
}

/// Sends the bytes of an attribute, or their number if `len` is 0.
pub(super) fn send(value: Result<Vec<u8>>, len: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if len == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > len as usize => reply.error(failed(Errno::ERANGE)),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(&error)),
    }
}
