//! Inodes that a repair found without a name: each gets one in `lost+found` when the file system is opened.

use crate::format::inode::LOST;
use crate::store::change::FsChange;
use crate::tree::{TreeLayer, create, directory, lookup};
use crate::{Credentials, Error, FileKind, Ino, NewFile, Result};

const DIRECTORY: &str = "lost+found";
/// Names that are tried where others have them: the name itself, then with `.1` and so on behind it.
const TRIES: u32 = 100;

/// Gives every lost inode a name: `#` and its number. An inode that cannot have a name stays lost until the next
/// opening, so that it does not keep the others out.
pub(crate) fn rescue_lost(tree: &TreeLayer) -> Result<()> {
    for ino in tree.orphans.ready() {
        let is_lost = tree.load(ino).is_ok_and(|inode| inode.head.flags & LOST != 0);
        if is_lost && let Err(error @ Error::Pool(_)) = rescue(tree, ino) {
            return Err(error);
        }
    }
    Ok(())
}

fn rescue(tree: &TreeLayer, ino: Ino) -> Result<()> {
    let found = lost_found_directory(tree)?;
    let name = free_name(tree, found, ino)?;
    let name = directory::name_to_make(tree, name.as_bytes())?;
    let mut dir = tree.load_living(found)?;
    let place = directory::make_room(tree, &mut dir, &name)?;
    let mut inode = tree.load(ino)?;
    let mut change = FsChange::new(tree);
    directory::add_name(tree, &mut change, &mut dir, &name, place, ino, inode.kind().unwrap_or(FileKind::File))?;
    tree.free_orphan(&mut change, &mut inode)?;
    inode.head.flags &= !LOST;
    if inode.is_directory() {
        inode.rest.parent = found.0;
        dir.count_links(1, 0);
    }
    change.write_inode(&mut inode);
    change.write_head(&mut dir);
    change.commit()?;
    tree.orphans.remove(ino);
    Ok(())
}

/// Returns the directory for lost files: the first of its names that is a directory, or is free.
fn lost_found_directory(tree: &TreeLayer) -> Result<Ino> {
    for name in names_like(DIRECTORY) {
        match lookup::child(tree, Ino::ROOT, name.as_bytes()) {
            Ok(ino) if tree.load_living(ino).is_ok() => return Ok(ino),
            Ok(_) => {}
            Err(Error::NotFound) => return make_lost_and_found(tree, &name),
            Err(error) => return Err(error),
        }
    }
    Err(Error::Exists)
}

fn make_lost_and_found(tree: &TreeLayer, name: &str) -> Result<Ino> {
    let root = tree.load(Ino::ROOT)?;
    let by = Credentials { uid: root.head.uid, gid: root.head.gid };
    let new = NewFile { kind: FileKind::Directory, mode: 0o700, umask: 0, rdev: 0, by };
    create::create_file(tree, Ino::ROOT, name.as_bytes(), &new).map(|attr| attr.ino)
}

/// Returns the first name for `ino` that is free in `dir`.
fn free_name(tree: &TreeLayer, dir: Ino, ino: Ino) -> Result<String> {
    for name in names_like(&format!("#{}", ino.0)) {
        match lookup::child(tree, dir, name.as_bytes()) {
            Ok(_) => {}
            Err(Error::NotFound) => return Ok(name),
            Err(error) => return Err(error),
        }
    }
    Err(Error::Exists)
}

fn names_like(name: &str) -> impl Iterator<Item = String> {
    (0..TRIES).map(move |number| if number == 0 { name.to_owned() } else { format!("{name}.{number}") })
}
