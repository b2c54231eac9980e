//! ACLs: extended attributes that include the mode and extend it (POSIX 1003.1e draft 17, as Linux has it).
//!
//! ```text
//! 0 version u32 (2)   then each: 0 tag u16   2 permissions u16   4 id u32
//! ```
//!
//! An access ACL of owner, group and others alone is the mode and is not kept. A longer one has a mask, which the group
//! bits of the mode stand for. A new file takes over the default ACL of its directory in the place of the umask.

use crate::format::inode::Inode;
use crate::store::change::FsChange;
use crate::tree::{TreeLayer, xattr};
use crate::{Error, FileKind, NewFile, Result};

/// The attribute that holds the access ACL of a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute that holds the default ACL of a directory.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AccessList(Vec<AclEntry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl AccessList {
    /// The ACL in `bytes`, if it is one: each sort once, in order, with a mask where others than the three have
    /// entries.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || !rest.len().is_multiple_of(8) {
            return None;
        }
        let entry = |bytes: &[u8]| AclEntry {
            tag: u16::from_le_bytes([bytes[0], bytes[1]]),
            permissions: u16::from_le_bytes([bytes[2], bytes[3]]),
            id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        };
        let acl = Self(rest.chunks_exact(8).map(entry).collect());
        let count = |tag| acl.0.iter().filter(|entry| entry.tag == tag).count();
        let is_ordered = acl.0.is_sorted_by_key(|entry| entry.tag);
        let is_known = acl.0.iter().all(|entry| {
            matches!(entry.tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER) && entry.permissions <= 7
        });
        let is_named = count(USER) + count(GROUP) > 0;
        let is_whole = [USER_OBJ, GROUP_OBJ, OTHER].into_iter().all(|tag| count(tag) == 1);
        (is_ordered && is_known && is_whole && count(MASK) <= 1 && (!is_named || count(MASK) == 1)).then_some(acl)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend(entry.tag.to_le_bytes());
            bytes.extend(entry.permissions.to_le_bytes());
            bytes.extend(entry.id.to_le_bytes());
        }
        bytes
    }

    fn get(&self, tag: u16) -> Option<u16> {
        self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
    }

    fn set(&mut self, tag: u16, permissions: u16) {
        self.0.iter_mut().filter(|entry| entry.tag == tag).for_each(|entry| entry.permissions = permissions);
    }

    /// The sort of entry that the group bits of the mode stand for.
    fn group_tag(&self) -> u16 {
        if self.get(MASK).is_some() { MASK } else { GROUP_OBJ }
    }

    /// The nine bits of the mode that it stands for.
    fn mode(&self) -> u16 {
        let bits = |tag| self.get(tag).unwrap_or(0);
        bits(USER_OBJ) << 6 | bits(self.group_tag()) << 3 | bits(OTHER)
    }

    /// Sets the entries to the permissions of `mode`.
    fn chmod(&mut self, mode: u16) {
        let group = self.group_tag();
        self.set(USER_OBJ, mode >> 6 & 7);
        self.set(group, mode >> 3 & 7);
        self.set(OTHER, mode & 7);
    }

    /// Restricts the entries to the permissions of `mode`.
    fn narrow(&mut self, mode: u16) {
        self.chmod(self.mode() & mode);
    }

    /// Returns true if it equals a mode.
    fn is_mode(&self) -> bool {
        self.0.len() == 3
    }
}

/// Applies an ACL before attribute `name` is set to `value`: an access ACL changes the mode. Returns true if the
/// attribute must be stored.
pub(crate) fn apply_acl(inode: &mut Inode, name: &[u8], value: &[u8]) -> Result<bool> {
    if name != ACCESS && name != DEFAULT {
        return Ok(true);
    }
    if inode.kind() == Some(FileKind::Symlink) {
        return Err(Error::Unsupported("a symbolic link has no ACL"));
    }
    if name == DEFAULT && !inode.is_directory() {
        return Err(Error::NotPermitted("only a directory has a default ACL"));
    }
    let acl = AccessList::decode(value);
    if name == DEFAULT {
        let is_empty = value.len() == 4;
        return if acl.is_some() || is_empty { Ok(!is_empty) } else { Err(Error::Invalid("not an ACL")) };
    }
    let acl = acl.ok_or(Error::Invalid("not an ACL"))?;
    inode.head.mode = inode.head.mode & !0o777 | acl.mode();
    Ok(!acl.is_mode())
}

/// Updates the access ACL after the mode was set.
pub(crate) fn mask_acl(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<()> {
    if inode.rest.xattrs == 0 {
        return Ok(());
    }
    let mut xattrs = xattr::load_xattrs(tree, inode)?;
    let Some((_, value)) = xattrs.iter_mut().find(|(name, _)| name == ACCESS) else { return Ok(()) };
    let Some(mut acl) = AccessList::decode(value) else { return Ok(()) };
    acl.chmod(inode.head.mode);
    *value = acl.encode();
    xattr::store_xattrs(tree, change, inode, &xattrs)
}

/// Applies the default ACL of `dir` to a new inode, in place of the umask.
pub(crate) fn inherit_acl(
    tree: &TreeLayer,
    change: &mut FsChange<'_>,
    dir: &Inode,
    inode: &mut Inode,
    new: &NewFile,
) -> Result<()> {
    if dir.rest.xattrs == 0 || new.kind == FileKind::Symlink {
        return Ok(());
    }
    let of_dir = xattr::load_xattrs(tree, dir)?;
    let Some((_, value)) = of_dir.into_iter().find(|(name, _)| name == DEFAULT) else { return Ok(()) };
    let Some(mut acl) = AccessList::decode(&value) else { return Ok(()) };
    acl.narrow(new.mode);
    inode.head.mode = inode.head.mode & !0o777 | acl.mode();
    let mut xattrs = Vec::new();
    if !acl.is_mode() {
        xattrs.push((ACCESS.to_vec(), acl.encode()));
    }
    if new.kind == FileKind::Directory {
        xattrs.push((DEFAULT.to_vec(), value));
    }
    xattr::store_xattrs(tree, change, inode, &xattrs)
}
