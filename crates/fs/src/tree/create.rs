//! Making files and giving them names.

use ferrite_memory::Scheme;

use crate::file::size;
use crate::format::inode::{Inode, TARGET_INLINE};
use crate::format::word::{IndexWord, NamedBy};
use crate::store::change::FsChange;
use crate::tree::{TreeLayer, acl, directory};
use crate::{Attr, Credentials, DataMode, Error, FileKind, Ino, NewFile, Result};

/// Names that a file can have.
const LINKS_MAX: u32 = 1 << 31;
/// Bytes of a symbolic link at most.
const TARGET_BYTES_MAX: usize = 4095;
const SET_GID: u16 = 0o2000;

/// See [`crate::FileSystem::create_file`].
pub(crate) fn create_file(tree: &TreeLayer, parent: Ino, name: &[u8], new: &NewFile) -> Result<Attr> {
    if new.kind == FileKind::Symlink {
        return Err(Error::Invalid("a symbolic link needs a target"));
    }
    tree.with_space(|| make(tree, parent, name, new, &mut |change, inode| allocate_first_page(tree, change, inode)))
}

/// Allocates the first page of a new regular file, if a transaction waits for a disk and a write does not: then data
/// that fits that page costs no further transaction (FW4).
fn allocate_first_page(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<()> {
    if tree.data_mode() != DataMode::Posix || inode.kind() != Some(FileKind::File) {
        return Ok(());
    }
    match change.allocate_data(1) {
        Ok(runs) => {
            inode.roots[0] = IndexWord::page(runs[0].page);
            inode.head.pages = 1;
            Ok(())
        }
        Err(error) if tree.is_full(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// See [`crate::FileSystem::symlink`].
pub(crate) fn symlink(tree: &TreeLayer, parent: Ino, name: &[u8], target: &[u8], by: Credentials) -> Result<Attr> {
    if target.is_empty() {
        return Err(Error::NotFound);
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    let new = NewFile { kind: FileKind::Symlink, mode: 0o777, umask: 0, rdev: 0, by };
    tree.with_space(|| make(tree, parent, name, &new, &mut |change, inode| set_target(tree, change, inode, target)))
}

fn set_target(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode, target: &[u8]) -> Result<()> {
    inode.head.size = target.len() as u64;
    if target.len() <= TARGET_INLINE {
        let mut bytes = [0; TARGET_INLINE];
        bytes[..target.len()].copy_from_slice(target);
        let words: [[u8; 8]; TARGET_INLINE / 8] = zerocopy::transmute!(bytes);
        inode.roots = words.map(|word| IndexWord(u64::from_le_bytes(word)));
        return Ok(());
    }
    let page = change.allocate_data(1)?[0].page;
    tree.memory().store(tree.place(page)?, target, Scheme::Nt);
    tree.drain()?;
    inode.roots[0] = IndexWord::page(page);
    inode.head.pages = 1;
    Ok(())
}

/// The target of a symbolic link.
pub(crate) fn target(tree: &TreeLayer, inode: &Inode) -> Result<Vec<u8>> {
    let len = inode.size() as usize;
    if len <= TARGET_INLINE {
        let bytes: Vec<u8> = inode.roots.iter().flat_map(|word| word.0.to_le_bytes()).collect();
        return Ok(bytes[..len].to_vec());
    }
    let NamedBy::Page(page) = inode.roots[0].named() else { return Err(tree.corrupt("a symbolic link", inode.at)) };
    let mut target = vec![0; len.min(TARGET_BYTES_MAX)];
    tree.memory().load(tree.place(page)?, &mut target);
    Ok(target)
}

/// Makes a file called `name` in `parent`; `fill` gives it what its kind has.
fn make(
    tree: &TreeLayer,
    parent: Ino,
    name: &[u8],
    new: &NewFile,
    fill: &mut dyn FnMut(&mut FsChange<'_>, &mut Inode) -> Result<()>,
) -> Result<Attr> {
    tree.refuse_if_read_only()?;
    let name = directory::name_to_make(tree, name)?;
    let _pass = tree.gate.pass();
    let _stripe = tree.locks.write(parent);
    let mut dir = tree.load_living(parent)?;
    let place = directory::make_room(tree, &mut dir, &name)?;
    if new.kind == FileKind::Directory && dir.head.links >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    let now = tree.now();
    let mut change = FsChange::new(tree);
    let mut inode = change.take_inode()?;
    fill_new_inode(tree, &mut change, &dir, &mut inode, new, now)?;
    fill(&mut change, &mut inode)?;
    directory::add_name(tree, &mut change, &mut dir, &name, place, inode.ino, new.kind)?;
    dir.touch(now);
    dir.head.links += u32::from(new.kind == FileKind::Directory);
    change.write_inode(&mut inode);
    change.write_head(&mut dir);
    change.commit()?;
    if new.kind == FileKind::File && inode.head.pages > 0 {
        tree.ahead.note(inode.ino, now);
    }
    tree.attr_of(&inode)
}

pub(crate) fn fill_new_inode(
    tree: &TreeLayer,
    change: &mut FsChange<'_>,
    dir: &Inode,
    inode: &mut Inode,
    new: &NewFile,
    now: i64,
) -> Result<()> {
    let set_gid = dir.head.mode & SET_GID;
    let is_directory = new.kind == FileKind::Directory;
    let inherited = if is_directory { set_gid } else { 0 };
    inode.head.mode = new.kind.mode_bits() as u16 | (new.mode & 0o7777 & !new.umask) | inherited;
    inode.head.links = if is_directory { 2 } else { 1 };
    inode.head.uid = new.by.uid;
    inode.head.gid = if set_gid != 0 { dir.head.gid } else { new.by.gid };
    inode.rest.rdev = new.rdev;
    inode.rest.parent = if is_directory { dir.ino.0 } else { 0 };
    inode.set_times(now);
    acl::inherit_acl(tree, change, dir, inode, new)
}

/// See [`crate::FileSystem::link`].
pub(crate) fn link(tree: &TreeLayer, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
    tree.with_space(|| link_locked(tree, ino, parent, name))
}

fn link_locked(tree: &TreeLayer, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
    tree.refuse_if_read_only()?;
    let name = directory::name_to_make(tree, name)?;
    let _pass = tree.gate.pass();
    let mut locked = tree.locks.write_all(&[ino, parent]);
    let mut dir = tree.load_living(parent)?;
    let mut inode = tree.load(ino)?;
    locked.stripe(ino).apply_waiting(&mut inode);
    if inode.is_directory() {
        return Err(Error::NotPermitted("a directory has one name"));
    }
    let place = directory::make_room(tree, &mut dir, &name)?;
    if inode.head.links >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    if locked.stripe(ino).waiting.contains_key(&ino.0) {
        size::flush_size(tree, locked.stripe(ino), &mut inode)?;
    }
    let now = tree.now();
    let mut change = FsChange::new(tree);
    if inode.head.links == 0 {
        // A file with a name again is not an orphan.
        tree.free_orphan(&mut change, &mut inode)?;
    }
    inode.head.links += 1;
    inode.head.ctime = now;
    directory::add_name(tree, &mut change, &mut dir, &name, place, ino, inode.kind().unwrap_or(FileKind::File))?;
    dir.touch(now);
    change.write_head(&mut inode);
    change.write_head(&mut dir);
    change.commit()?;
    tree.attr_of(&inode)
}
