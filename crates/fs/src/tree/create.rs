//! Making files and giving them names.

use ferrite_memory::Scheme;

use crate::file::read::apply_waiting;
use crate::format::inode::{Inode, TARGET_INLINE};
use crate::format::word::{Named, Word};
use crate::fs::FileSystem;
use crate::store::change::Change;
use crate::{Attr, Credentials, DataMode, Error, Ino, Kind, NewFile, Result};

/// Names that a file can have.
const LINKS_MAX: u32 = 1 << 31;
/// Bytes of a symbolic link at most.
const TARGET_BYTES_MAX: usize = 4095;
const SET_GID: u16 = 0o2000;

impl FileSystem {
    /// Makes a file, a directory, a pipe, or a socket's or device's name.
    ///
    /// # Errors
    /// [`Error::Exists`], also for `.` and `..`; [`Error::NotDirectory`] where `parent` is none, and
    /// [`Error::NotFound`] where that was removed; [`Error::NameTooLong`], and [`Error::Invalid`] for what can be no
    /// name and for a symbolic link. [`Error::TooManyLinks`] where `parent` has no room for one more directory; else as
    /// [`FileSystem`] says.
    pub fn create_file(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Attr> {
        if new.kind == Kind::Symlink {
            return Err(Error::Invalid("a symbolic link needs a target"));
        }
        self.with_space(|| self.make(parent, name, new, &mut |change, inode| self.take_first_page(change, inode)))
    }

    /// Takes a page ahead for a new regular file, where a transaction waits for a disk and what is written does not: then
    /// what fits that page costs no transaction of its own (FW4).
    fn take_first_page(&self, change: &mut Change<'_>, inode: &mut Inode) -> Result<()> {
        if self.data_mode() != DataMode::Posix || inode.kind() != Some(Kind::File) {
            return Ok(());
        }
        match change.take_data(1) {
            Ok(runs) => {
                inode.roots[0] = Word::page(runs[0].page);
                inode.head.pages = 1;
                Ok(())
            }
            Err(error) if self.is_full(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a symbolic link to `target`, 1 to 4095 bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an empty target, [`Error::NameTooLong`] for one that is too long; else as
    /// [`FileSystem::create_file`].
    pub fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], by: Credentials) -> Result<Attr> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let new = NewFile { kind: Kind::Symlink, mode: 0o777, umask: 0, rdev: 0, by };
        self.with_space(|| self.make(parent, name, &new, &mut |change, inode| self.set_target(change, inode, target)))
    }

    fn set_target(&self, change: &mut Change<'_>, inode: &mut Inode, target: &[u8]) -> Result<()> {
        inode.head.size = target.len() as u64;
        if target.len() <= TARGET_INLINE {
            let mut bytes = [0; TARGET_INLINE];
            bytes[..target.len()].copy_from_slice(target);
            let words: [[u8; 8]; TARGET_INLINE / 8] = zerocopy::transmute!(bytes);
            inode.roots = words.map(|word| Word(u64::from_le_bytes(word)));
            return Ok(());
        }
        let page = change.take_data(1)?[0].page;
        self.memory().store(self.place(page)?, target, Scheme::Nt);
        self.settle()?;
        inode.roots[0] = Word::page(page);
        inode.head.pages = 1;
        Ok(())
    }

    /// The target of a symbolic link.
    pub(crate) fn target(&self, inode: &Inode) -> Result<Vec<u8>> {
        let len = inode.size() as usize;
        if len <= TARGET_INLINE {
            let bytes: Vec<u8> = inode.roots.iter().flat_map(|word| word.0.to_le_bytes()).collect();
            return Ok(bytes[..len].to_vec());
        }
        let Named::Page(page) = inode.roots[0].named() else { return Err(self.corrupt("a symbolic link", inode.at)) };
        let mut target = vec![0; len.min(TARGET_BYTES_MAX)];
        self.memory().load(self.place(page)?, &mut target);
        Ok(target)
    }

    /// Makes a file called `name` in `parent`; `fill` gives it what its kind has.
    fn make(
        &self,
        parent: Ino,
        name: &[u8],
        new: &NewFile,
        fill: &mut dyn FnMut(&mut Change<'_>, &mut Inode) -> Result<()>,
    ) -> Result<Attr> {
        self.refuse_if_read_only()?;
        let name = self.name_to_make(name)?;
        let _pass = self.gate.pass();
        let _stripe = self.locks.write(parent);
        let mut dir = self.load_living(parent)?;
        let place = self.make_room(&mut dir, &name)?;
        if new.kind == Kind::Directory && dir.head.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let now = self.now();
        let mut change = Change::new(self);
        let mut inode = change.take_inode()?;
        self.fill_new_inode(&mut change, &dir, &mut inode, new, now)?;
        fill(&mut change, &mut inode)?;
        self.add_name(&mut change, &mut dir, (&name, place), (inode.ino, new.kind))?;
        dir.touch(now);
        dir.head.links += u32::from(new.kind == Kind::Directory);
        change.write_inode(&mut inode);
        change.write_head(&mut dir);
        change.commit()?;
        if new.kind == Kind::File && inode.head.pages > 0 {
            self.ahead.note(inode.ino, now);
        }
        self.attr_of(&inode)
    }

    pub(crate) fn fill_new_inode(
        &self,
        change: &mut Change<'_>,
        dir: &Inode,
        inode: &mut Inode,
        new: &NewFile,
        now: i64,
    ) -> Result<()> {
        let set_gid = dir.head.mode & SET_GID;
        let is_directory = new.kind == Kind::Directory;
        let inherited = if is_directory { set_gid } else { 0 };
        inode.head.mode = new.kind.mode_bits() as u16 | (new.mode & 0o7777 & !new.umask) | inherited;
        inode.head.links = if is_directory { 2 } else { 1 };
        inode.head.uid = new.by.uid;
        inode.head.gid = if set_gid != 0 { dir.head.gid } else { new.by.gid };
        inode.rest.rdev = new.rdev;
        inode.rest.parent = if is_directory { dir.ino.0 } else { 0 };
        inode.set_times(now);
        self.inherit_acl(change, dir, inode, new)
    }

    /// Gives a file, not a directory, one more name.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] for a directory, [`Error::TooManyLinks`] for a file that has 2^31 names; else as
    /// [`FileSystem::create_file`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.with_space(|| self.link_anew(ino, parent, name))
    }

    fn link_anew(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.refuse_if_read_only()?;
        let name = self.name_to_make(name)?;
        let _pass = self.gate.pass();
        let mut locked = self.locks.write_all(&[ino, parent]);
        let mut dir = self.load_living(parent)?;
        let mut inode = self.load(ino)?;
        apply_waiting(locked.stripe(ino), &mut inode);
        if inode.is_directory() {
            return Err(Error::NotPermitted("a directory has one name"));
        }
        let place = self.make_room(&mut dir, &name)?;
        if inode.head.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        if locked.stripe(ino).waiting.contains_key(&ino.0) {
            self.publish_size(locked.stripe(ino), &mut inode)?;
        }
        let now = self.now();
        let mut change = Change::new(self);
        if inode.head.links == 0 {
            // What is given a name again is no orphan.
            self.free_orphan(&mut change, &mut inode)?;
        }
        inode.head.links += 1;
        inode.head.ctime = now;
        self.add_name(&mut change, &mut dir, (&name, place), (ino, inode.kind().unwrap_or(Kind::File)))?;
        dir.touch(now);
        change.write_head(&mut inode);
        change.write_head(&mut dir);
        change.commit()?;
        self.attr_of(&inode)
    }

    /// A name for something that is made.
    pub(crate) fn name_to_make<'a>(&self, name: &'a [u8]) -> Result<crate::tree::directory::Name<'a>> {
        if matches!(name, b"." | b"..") {
            return Err(Error::Exists);
        }
        self.name(name)
    }

    /// A directory that has not been removed.
    pub(crate) fn load_living(&self, ino: Ino) -> Result<Inode> {
        let dir = self.load_directory(ino)?;
        if dir.head.links == 0 { Err(Error::NotFound) } else { Ok(dir) }
    }
}
