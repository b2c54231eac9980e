//! Changing attributes and sizes.

use ferrite_pool::layout::PAGE;

use crate::file::{gap, index, size, stopped_append, superpage};
use crate::format::inode::{Inode, InodeHead, KEEPS_PAGES};
use crate::format::layout::FILE_BYTES_MAX;
use crate::store::change::FsChange;
use crate::tree::{TreeLayer, acl};
use crate::{Attr, DataMode, Error, FileKind, Ino, Result, SetAttr, SetTime};

/// See [`crate::FileSystem::setattr`].
pub(crate) fn setattr(tree: &TreeLayer, ino: Ino, set: &SetAttr) -> Result<Attr> {
    tree.with_space(|| setattr_locked(tree, ino, set))
}

fn setattr_locked(tree: &TreeLayer, ino: Ino, set: &SetAttr) -> Result<Attr> {
    tree.refuse_if_read_only()?;
    tree.clients.fold_times(ino);
    let _pass = tree.gate.pass();
    let mut stripe = tree.locks.write(ino);
    let mut inode = tree.load(ino)?;
    stripe.apply_waiting(&mut inode);
    stopped_append::invalidate_stopped_append(tree, &mut stripe, &mut inode)?;
    if are_only_times(tree, &inode, set) {
        set_times(&mut inode, set, tree.now());
        stripe.wait(&inode);
        return tree.attr_of(&inode);
    }
    if set.size.is_some() && stripe.waiting.contains_key(&ino.0) {
        size::flush_size(tree, &mut stripe, &mut inode)?;
    }
    let (before, cuts) = (inode.size(), set.size.is_some_and(|size| frees(&inode, size)));
    if let Some(size) = set.size {
        refuse_size(&inode, size)?;
        if size > inode.size() {
            gap::define_until(tree, &mut stripe, &mut inode, size)?;
        }
    }
    let mut change = FsChange::new(tree);
    let is_ready = set_fields(tree, &mut change, &mut inode, set)?;
    change.write_inode(&mut inode);
    change.commit()?;
    stripe.wait_on(&inode);
    if is_ready {
        tree.orphans.make_ready(ino);
    }
    if cuts {
        superpage::shrink_super(tree, &mut inode)?;
    }
    superpage::note_growth(tree, ino, before..inode.size());
    tree.attr_of(&inode)
}

/// Returns true if only times of `inode` would change; those wait like times of writes (FW4).
fn are_only_times(tree: &TreeLayer, inode: &Inode, set: &SetAttr) -> bool {
    let InodeHead { mode, uid, gid, ctime, .. } = inode.head;
    tree.data_mode() == DataMode::Posix
        && inode.kind() == Some(FileKind::File)
        && set.size.is_none()
        && set.mode.is_none_or(|set| set & 0o7777 == mode & 0o7777)
        && set.uid.is_none_or(|set| set == uid)
        && set.gid.is_none_or(|set| set == gid)
        // An earlier one than is on the medium does not count while it waits.
        && set.ctime.is_none_or(|set| set.0 >= ctime)
}

fn refuse_size(inode: &Inode, size: u64) -> Result<()> {
    match inode.kind() {
        Some(FileKind::File) if size <= FILE_BYTES_MAX => Ok(()),
        Some(FileKind::File) => Err(Error::FileTooBig),
        Some(FileKind::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("only regular files have a size to set")),
    }
}

/// Applies `set`. Returns true if the inode has become an orphan whose end is freed by steps.
fn set_fields(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode, set: &SetAttr) -> Result<bool> {
    let now = tree.now();
    let mut is_ready = false;
    if let Some(size) = set.size {
        is_ready = frees(inode, size) && cut(tree, change, inode, size)?;
        inode.head.size = size;
        inode.head.mtime = now;
    }
    if let Some(mode) = set.mode {
        inode.head.mode = inode.head.mode & !0o7777 | mode & 0o7777;
        acl::mask_acl(tree, change, inode)?;
    }
    inode.head.uid = set.uid.unwrap_or(inode.head.uid);
    inode.head.gid = set.gid.unwrap_or(inode.head.gid);
    set_times(inode, set, now);
    Ok(is_ready)
}

/// Frees the pages behind `size` through `change`, or makes the inode an orphan if those are too many for one change.
/// Returns true in the second case. Content behind the end is undefined, so it may stay until then.
fn cut(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode, size: u64) -> Result<bool> {
    inode.head.flags &= !KEEPS_PAGES;
    let from = size.div_ceil(PAGE);
    if index::trim(tree, change, inode, from)? {
        return Ok(false);
    }
    tree.make_orphan(change, inode)?;
    Ok(true)
}

/// Returns true if pages of `inode` must be freed when its size becomes `size`: those kept behind the end (FX1) even
/// if the size stays.
fn frees(inode: &Inode, size: u64) -> bool {
    size < inode.size() || size == inode.size() && inode.head.flags & KEEPS_PAGES != 0
}

/// Sets the times of `inode` as `set` says, and otherwise as for a change at `now`.
fn set_times(inode: &mut Inode, set: &SetAttr, now: i64) {
    let time = |set| if let SetTime::To(time) = set { time.0 } else { now };
    inode.head.atime = set.atime.map_or(inode.head.atime, time);
    inode.head.mtime = set.mtime.map_or(inode.head.mtime, time);
    inode.head.ctime = set.ctime.map_or(now, |time| time.0);
}
