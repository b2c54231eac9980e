//! Looking up names and attributes, and listing directories.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::tree::{TreeLayer, create, directory};
use crate::{Attr, DirEntry, Error, FileKind, Ino, ListedEntry, Result};

/// Cookies of `.` and `..`; the cookies of names are larger.
const DOTS: [(&[u8], u64); 2] = [(b".", 1), (b"..", 2)];

/// See [`crate::FileSystem::lookup`].
pub(crate) fn lookup(tree: &TreeLayer, parent: Ino, name: &[u8]) -> Result<Attr> {
    getattr(tree, child(tree, parent, name)?)
}

/// The number of what `parent` calls `name`.
pub(crate) fn child(tree: &TreeLayer, parent: Ino, name: &[u8]) -> Result<Ino> {
    let _stripe = tree.locks.read(parent);
    let dir = tree.load_directory(parent)?;
    match name {
        b"." => Ok(parent),
        b".." => Ok(Ino(dir.rest.parent)),
        _ => {
            Ok(directory::find_name(tree, &dir, &directory::hash_name(tree, name)?)?.ok_or(Error::NotFound)?.entry.ino)
        }
    }
}

/// See [`crate::FileSystem::getattr`].
pub(crate) fn getattr(tree: &TreeLayer, ino: Ino) -> Result<Attr> {
    tree.clients.fold_times(ino);
    let stripe = tree.locks.read(ino);
    let mut inode = tree.load(ino)?;
    stripe.apply_waiting(&mut inode);
    tree.attr_of(&inode)
}

/// See [`crate::FileSystem::readlink`].
pub(crate) fn readlink(tree: &TreeLayer, ino: Ino) -> Result<Vec<u8>> {
    let _stripe = tree.locks.read(ino);
    let inode = tree.load(ino)?;
    if inode.kind() != Some(FileKind::Symlink) {
        return Err(Error::Invalid("not a symbolic link"));
    }
    create::target(tree, &inode)
}

/// See [`crate::FileSystem::list`].
pub(crate) fn list(tree: &TreeLayer, dir: Ino, cookie: u64, count: usize) -> Result<Vec<ListedEntry>> {
    let mut behind = cookie.max(DOTS[1].1);
    loop {
        let mut found = Vec::new();
        let listed = readdir(tree, dir, behind, &mut |entry| {
            let DirEntry { name, ino, kind, cookie } = *entry;
            found.push(ListedEntry { name: name.to_vec(), cookie, ino, kind, attr: None });
            found.len() < count
        });
        let Some(last) = found.last() else { return listed.map(|()| found) };
        let among = behind..last.cookie;
        behind = last.cookie;
        found.iter_mut().for_each(|entry| entry.attr = getattr(tree, entry.ino).ok());
        if found.iter().any(|entry| entry.attr.is_none()) {
            let astray = astray(tree, dir, among);
            found.retain(|entry| entry.attr.is_some() || astray.contains(&entry.cookie));
        }
        // Otherwise the listing would seem to end here.
        if !found.is_empty() {
            return Ok(found);
        }
    }
}

/// See [`crate::FileSystem::readdir`].
pub(crate) fn readdir(
    tree: &TreeLayer,
    dir: Ino,
    cookie: u64,
    each: &mut dyn FnMut(&DirEntry<'_>) -> bool,
) -> Result<()> {
    let _stripe = tree.locks.read(dir);
    let inode = tree.load_directory(dir)?;
    for ((name, own), ino) in DOTS.into_iter().zip([dir, Ino(inode.rest.parent)]) {
        if cookie < own && !each(&DirEntry { name, ino, kind: FileKind::Directory, cookie: own }) {
            return Ok(());
        }
    }
    directory::each_name(tree, &inode, cookie, &mut |entry, name| {
        each(&DirEntry { name, ino: entry.ino, kind: entry.kind, cookie: entry.position })
    })
}

/// The names of `dir` behind position `among.start`, up to `among.end`, that lead to no inode, or to a damaged one:
/// their positions. While `dir` is locked no name goes, and what has one is in use.
fn astray(tree: &TreeLayer, dir: Ino, among: Range<u64>) -> BTreeSet<u64> {
    let _stripe = tree.locks.read(dir);
    let mut astray = BTreeSet::new();
    // The next listing from there reports what cannot be read.
    let _ = tree.load_directory(dir).and_then(|dir| {
        directory::each_sound_name(tree, &dir, among.start, &mut |entry, _| {
            let is_among = entry.position <= among.end;
            if is_among && tree.load(entry.ino).and_then(|inode| tree.attr_of(&inode)).is_err() {
                astray.insert(entry.position);
            }
            is_among
        })
    });
    astray
}
