//! Removing names.

use crate::file::read::apply_waiting;
use crate::format::inode::Inode;
use crate::fs::FileSystem;
use crate::store::change::Change;
use crate::store::locks::Locked;
use crate::tree::directory::Name;
use crate::{Error, Ino, Result};

impl FileSystem {
    /// Removes a name of what is no directory. A file without a name lives on while it is held; a crash ends it.
    /// Space of a large one is freed by [`FileSystem::step`].
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDirectory`], [`Error::NotDirectory`] where `parent` is none,
    /// [`Error::NameTooLong`], and [`Error::Invalid`] for what can be no name. [`Error::NoSpace`] only where 8192 files
    /// wait already, held without a name or to be freed by steps; else as [`FileSystem`] says.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.refuse_if_read_only()?;
        if matches!(name, b"." | b"..") {
            return Err(Error::IsDirectory);
        }
        self.remove_entry(parent, &self.name(name)?, false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::NotEmpty`], also for `..`, and [`Error::Invalid`] for
    /// `.`; else as [`FileSystem::unlink`].
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.refuse_if_read_only()?;
        match name {
            b"." => Err(Error::Invalid("a directory is not removed by the name it has for itself")),
            b".." => Err(Error::NotEmpty),
            _ => self.remove_entry(parent, &self.name(name)?, true),
        }
    }

    fn remove_entry(&self, parent: Ino, name: &Name<'_>, is_rmdir: bool) -> Result<()> {
        let _pass = self.gate.pass();
        let mut locked = self.locks.write_all(&[parent]);
        loop {
            let mut dir = self.load_directory(parent)?;
            let hit = self.find(&dir, name)?.ok_or(Error::NotFound)?;
            let child = hit.entry.ino;
            if !self.locks.try_add(&mut locked, child) {
                // Whoever has it may want the directory: both are taken in order, and looked at anew.
                drop(locked);
                locked = self.locks.write_all(&[parent, child]);
                continue;
            }
            let mut inode = self.load_child(child)?;
            apply_waiting(locked.stripe(child), &mut inode);
            check_removable(&inode, is_rmdir)?;
            let now = self.now();
            let mut change = Change::new(self);
            self.remove_name(&mut change, &mut dir, &hit, false);
            dir.touch(now);
            dir.count_links(0, is_rmdir.into());
            let dropped = self.drop_link(&mut change, locked.stripe(child), &mut inode, now)?;
            change.write_head(&mut dir);
            change.commit()?;
            self.dropped(locked.stripe(child), child, dropped);
            return Ok(());
        }
    }

    /// What an entry names: it must be there.
    pub(crate) fn load_child(&self, ino: Ino) -> Result<Inode> {
        self.load(ino).map_err(|_| self.corrupt("a name, whose inode is free,", 0))
    }

    /// Locks `inos` and what `also` finds with them locked, whatever order that takes.
    pub(crate) fn lock_with(&self, inos: &[Ino], also: impl Fn() -> Result<Vec<Ino>>) -> Result<Locked<'_>> {
        let mut wanted = inos.to_vec();
        loop {
            let locked = self.locks.write_all(&wanted);
            let more = also()?;
            if more.iter().all(|ino| wanted.contains(ino)) {
                return Ok(locked);
            }
            wanted.truncate(inos.len());
            wanted.extend(more);
        }
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
