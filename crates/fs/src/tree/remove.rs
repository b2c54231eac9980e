//! Removing names.

use crate::format::inode::Inode;
use crate::store::change::FsChange;
use crate::tree::directory::{self, HashedName};
use crate::tree::{TreeLayer, inode_lifetime};
use crate::{Error, Ino, Result};

/// See [`crate::FileSystem::unlink`].
pub(crate) fn unlink(tree: &TreeLayer, parent: Ino, name: &[u8]) -> Result<()> {
    tree.refuse_if_read_only()?;
    if matches!(name, b"." | b"..") {
        return Err(Error::IsDirectory);
    }
    remove_entry(tree, parent, &directory::hash_name(tree, name)?, false)
}

/// See [`crate::FileSystem::rmdir`].
pub(crate) fn rmdir(tree: &TreeLayer, parent: Ino, name: &[u8]) -> Result<()> {
    tree.refuse_if_read_only()?;
    match name {
        b"." => Err(Error::Invalid("a directory is not removed by the name it has for itself")),
        b".." => Err(Error::NotEmpty),
        _ => remove_entry(tree, parent, &directory::hash_name(tree, name)?, true),
    }
}

fn remove_entry(tree: &TreeLayer, parent: Ino, name: &HashedName<'_>, is_rmdir: bool) -> Result<()> {
    let _pass = tree.gate.pass();
    let mut locked = tree.locks.write_all(&[parent]);
    loop {
        let mut dir = tree.load_directory(parent)?;
        let hit = directory::find_name(tree, &dir, name)?.ok_or(Error::NotFound)?;
        let child = hit.entry.ino;
        if !tree.locks.try_add(&mut locked, child) {
            // Another thread that holds it may want the directory: acquires both in order, and looks again.
            drop(locked);
            locked = tree.locks.write_all(&[parent, child]);
            continue;
        }
        let mut inode = tree.load_child(child)?;
        locked.stripe(child).apply_waiting(&mut inode);
        check_removable(&inode, is_rmdir)?;
        let now = tree.now();
        let mut change = FsChange::new(tree);
        directory::remove_name(tree, &mut change, &mut dir, &hit, false);
        dir.touch(now);
        dir.count_links(0, is_rmdir.into());
        let dropped = inode_lifetime::drop_link(tree, &mut change, locked.stripe(child), &mut inode, now)?;
        change.write_head(&mut dir);
        change.commit()?;
        inode_lifetime::dropped(tree, locked.stripe(child), child, dropped);
        return Ok(());
    }
}

/// Refuses what cannot be removed, or replaced by a directory or something else.
pub(crate) fn check_removable(inode: &Inode, is_rmdir: bool) -> Result<()> {
    match (inode.is_directory(), is_rmdir) {
        (true, false) => Err(Error::IsDirectory),
        (false, true) => Err(Error::NotDirectory),
        (true, true) if inode.size() > 0 => Err(Error::NotEmpty),
        _ => Ok(()),
    }
}
