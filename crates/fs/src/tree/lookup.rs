//! What is where, and what is known of it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::file::read::apply_waiting;
use crate::fs::FileSystem;
use crate::{Attr, DirEntry, Error, Ino, Kind, Listed, Result};

/// Cookies of `.` and `..`; those of names are larger.
const DOTS: [(&[u8], u64); 2] = [(b".", 1), (b"..", 2)];

impl FileSystem {
    /// What `parent` calls `name`; `.` and `..` too.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`] where `parent` is none, [`Error::NameTooLong`], and
    /// [`Error::Invalid`] for what can be no name; [`Error::Stale`] also where it is removed meanwhile.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.getattr(self.child(parent, name)?)
    }

    /// The number of what `parent` calls `name`.
    pub(crate) fn child(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let _stripe = self.locks.read(parent);
        let dir = self.load_directory(parent)?;
        match name {
            b"." => Ok(parent),
            b".." => Ok(Ino(dir.rest.parent)),
            _ => Ok(self.find(&dir, &self.name(name)?)?.ok_or(Error::NotFound)?.entry.ino),
        }
    }

    /// What is known of a file.
    ///
    /// # Errors
    /// As [`FileSystem`] says.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.fold_times(ino);
        let stripe = self.locks.read(ino);
        let mut inode = self.load(ino)?;
        apply_waiting(&stripe, &mut inode);
        self.attr_of(&inode)
    }

    /// Where a symbolic link points.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no symbolic link.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let _stripe = self.locks.read(ino);
        let inode = self.load(ino)?;
        if inode.kind() != Some(Kind::Symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        self.target(&inode)
    }

    /// Up to `count` entries behind `cookie` as [`FileSystem::readdir`] lists them, but for `.` and `..`, with what is
    /// known of each (FN4). What is removed meanwhile is left out.
    ///
    /// # Errors
    /// As [`FileSystem::readdir`], where there are no entries before what is damaged.
    pub fn list(&self, dir: Ino, cookie: u64, count: usize) -> Result<Vec<Listed>> {
        let mut behind = cookie.max(DOTS[1].1);
        loop {
            let mut found = Vec::new();
            let listed = self.readdir(dir, behind, &mut |entry| {
                let DirEntry { name, ino, kind, cookie } = *entry;
                found.push(Listed { name: name.to_vec(), cookie, ino, kind, attr: None });
                found.len() < count
            });
            let Some(last) = found.last() else { return listed.map(|()| found) };
            let among = behind..last.cookie;
            behind = last.cookie;
            found.iter_mut().for_each(|entry| entry.attr = self.getattr(entry.ino).ok());
            if found.iter().any(|entry| entry.attr.is_none()) {
                let astray = self.astray(dir, among);
                found.retain(|entry| entry.attr.is_some() || astray.contains(&entry.cookie));
            }
            // Nothing would say that the directory ends here.
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Lists a directory, `.` and `..` first, from behind the entry with `cookie` (0: from the start) until `each`
    /// says `false` (that entry comes again). Entries that stay are listed once, whatever happens meanwhile. `each`
    /// calls nothing of this file system.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; [`Error::Corrupt`] in the end where entries are damaged and the others were listed, now or
    /// before. Else as [`FileSystem`] says.
    pub fn readdir(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result<()> {
        let _stripe = self.locks.read(dir);
        let inode = self.load_directory(dir)?;
        for ((name, own), ino) in DOTS.into_iter().zip([dir, Ino(inode.rest.parent)]) {
            if cookie < own && !each(&DirEntry { name, ino, kind: Kind::Directory, cookie: own }) {
                return Ok(());
            }
        }
        self.each_name(&inode, cookie, &mut |entry, name| {
            each(&DirEntry { name, ino: entry.ino, kind: entry.kind, cookie: entry.position })
        })
    }

    /// The names of `dir` behind position `among.start`, up to `among.end`, that lead to no inode, or to a damaged one:
    /// their positions. While `dir` is locked no name goes, and what has one is in use.
    fn astray(&self, dir: Ino, among: Range<u64>) -> BTreeSet<u64> {
        let _stripe = self.locks.read(dir);
        let mut astray = BTreeSet::new();
        // What cannot be looked through is told by who goes on there.
        let _ = self.load_directory(dir).and_then(|dir| {
            self.each_sound_name(&dir, among.start, &mut |entry, _| {
                let is_among = entry.position <= among.end;
                if is_among && self.load(entry.ino).and_then(|inode| self.attr_of(&inode)).is_err() {
                    astray.insert(entry.position);
                }
                is_among
            })
        });
        astray
    }
}
