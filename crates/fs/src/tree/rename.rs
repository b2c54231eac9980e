//! Moving names, all or nothing.

use crate::file::size;
use crate::format::inode::Inode;
use crate::store::change::FsChange;
use crate::store::locks::LockedStripes;
use crate::tree::directory::{self, HashedName, NameHit, NamePlace};
use crate::tree::remove::check_removable;
use crate::tree::{TreeLayer, create, inode_lifetime};
use crate::{Credentials, Error, FileKind, Ino, NewFile, Rename, Result};

/// A name to be moved, or to be moved to.
struct RenameEnd<'a> {
    dir: Ino,
    name: HashedName<'a>,
}

/// A name that is moved.
struct MovedName {
    dir: Inode,
    hit: NameHit,
    /// Whose whiteout is left there, if one is.
    whiteout: Option<Credentials>,
}

/// The target of a moved name.
enum MoveTarget<'a> {
    /// A name that is there.
    Met(Box<NameHit>),
    /// One that has room.
    Free(Box<NamePlace>, &'a HashedName<'a>),
}

/// Locks `inos` and what `also` finds with them locked, whatever order that takes.
pub(crate) fn lock_with<'a>(
    tree: &'a TreeLayer,
    inos: &[Ino],
    also: impl Fn() -> Result<Vec<Ino>>,
) -> Result<LockedStripes<'a>> {
    let mut wanted = inos.to_vec();
    loop {
        let locked = tree.locks.write_all(&wanted);
        let more = also()?;
        if more.iter().all(|ino| wanted.contains(ino)) {
            return Ok(locked);
        }
        wanted.truncate(inos.len());
        wanted.extend(more);
    }
}

/// See [`crate::FileSystem::rename`].
pub(crate) fn rename(tree: &TreeLayer, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename) -> Result<()> {
    tree.with_space(|| rename_by_names(tree, from, to, how))
}

fn rename_by_names(tree: &TreeLayer, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename) -> Result<()> {
    tree.refuse_if_read_only()?;
    if [from.1, to.1].iter().any(|name| matches!(*name, b"." | b"..")) {
        return Err(Error::Invalid("a directory is not moved by the name it has for itself or its parent"));
    }
    let from = RenameEnd { dir: from.0, name: directory::hash_name(tree, from.1)? };
    let to = RenameEnd { dir: to.0, name: directory::hash_name(tree, to.1)? };
    let _pass = tree.gate.pass();
    // The nesting of directories does not change while this is held.
    let _moving = (from.dir != to.dir).then(|| tree.moving.lock());
    let also = || {
        let one = |end: &RenameEnd<'_>| -> Result<Option<Ino>> {
            Ok(directory::find_name(tree, &tree.load_living(end.dir)?, &end.name)?.map(|hit| hit.entry.ino))
        };
        Ok([one(&from)?, one(&to)?].into_iter().flatten().collect::<Vec<Ino>>())
    };
    let mut locked = lock_with(tree, &[from.dir, to.dir], also)?;
    rename_locked(tree, &mut locked, &from, &to, how)
}

fn rename_locked(
    tree: &TreeLayer,
    locked: &mut LockedStripes<'_>,
    from: &RenameEnd<'_>,
    to: &RenameEnd<'_>,
    how: Rename,
) -> Result<()> {
    let (mut from_dir, mut to_dir) = (tree.load_living(from.dir)?, tree.load_living(to.dir)?);
    let moved = directory::find_name(tree, &from_dir, &from.name)?.ok_or(Error::NotFound)?;
    let met = directory::find_name(tree, &to_dir, &to.name)?;
    let inode = tree.load_child(moved.entry.ino)?;
    if from.dir != to.dir && inode.is_directory() {
        refuse_within(tree, inode.ino, to.dir)?;
    }
    match (how, &met) {
        (Rename::NoReplace | Rename::WhiteoutNoReplace(_), Some(_)) => return Err(Error::Exists),
        (Rename::Exchange, None) => return Err(Error::NotFound),
        (Rename::Exchange, Some(met)) => {
            return exchange(tree, locked, &mut from_dir, &moved, &mut to_dir, met);
        }
        (_, Some(met)) if met.entry.ino == moved.entry.ino => return Ok(()),
        _ => {}
    }
    let mut place = None;
    if met.is_none() {
        place = Some(directory::make_room(tree, &mut to_dir, &to.name)?);
        if from.dir == to.dir {
            from_dir = to_dir;
        }
    }
    // A page may have been split: looks for the removed name again.
    let moved = directory::find_name(tree, &from_dir, &from.name)?.ok_or(Error::NotFound)?;
    let to = match (met, place) {
        (Some(met), _) => MoveTarget::Met(Box::new(met)),
        (None, Some(place)) => MoveTarget::Free(Box::new(place), &to.name),
        (None, None) => return Err(Error::NotFound),
    };
    let whiteout = match how {
        Rename::Whiteout(by) | Rename::WhiteoutNoReplace(by) => Some(by),
        _ => None,
    };
    move_name(tree, locked, MovedName { dir: from_dir, hit: moved, whiteout }, to_dir, to)
}

/// Moves the name `from` to `to`.
fn move_name(
    tree: &TreeLayer,
    locked: &mut LockedStripes<'_>,
    from: MovedName,
    mut to_dir: Inode,
    to: MoveTarget<'_>,
) -> Result<()> {
    let MovedName { dir: mut from_dir, hit: moved, whiteout } = from;
    let (now, is_same) = (tree.now(), from_dir.ino == to_dir.ino);
    let (ino, kind) = (moved.entry.ino, moved.entry.kind);
    let mut inode = load_for_head(tree, locked, ino)?;
    let is_directory = inode.is_directory();
    let mut change = FsChange::new(tree);
    let mut dropped = None;
    match to {
        MoveTarget::Met(met) => {
            let mut victim = load_for_head(tree, locked, met.entry.ino)?;
            check_removable(&victim, is_directory)?;
            directory::redirect_name(&mut change, &met, ino, kind);
            to_dir.count_links(0, is_directory.into());
            let how = inode_lifetime::drop_link(tree, &mut change, locked.stripe(victim.ino), &mut victim, now)?;
            dropped = Some((victim.ino, how));
        }
        MoveTarget::Free(place, name) => directory::add_name(tree, &mut change, &mut to_dir, name, *place, ino, kind)?,
    }
    if is_same {
        from_dir = to_dir;
    }
    match whiteout {
        Some(by) => {
            let white = make_whiteout(tree, &mut change, &from_dir, by, now)?;
            directory::redirect_name(&mut change, &moved, white, FileKind::CharDevice);
        }
        None => directory::remove_name(tree, &mut change, &mut from_dir, &moved, is_same),
    }
    if is_directory && !is_same {
        from_dir.count_links(0, 1);
        to_dir.count_links(1, 0);
        inode.rest.parent = to_dir.ino.0;
    }
    inode.head.ctime = now;
    from_dir.touch(now);
    to_dir.touch(now);
    change.write_inode(&mut inode);
    if !is_same {
        change.write_head(&mut to_dir);
    }
    change.write_head(&mut from_dir);
    change.commit()?;
    if let Some((ino, how)) = dropped {
        inode_lifetime::dropped(tree, locked.stripe(ino), ino, how);
    }
    Ok(())
}

/// Creates a whiteout for a name in `dir`, through `change`.
fn make_whiteout(tree: &TreeLayer, change: &mut FsChange<'_>, dir: &Inode, by: Credentials, now: i64) -> Result<Ino> {
    let new = NewFile { kind: FileKind::CharDevice, mode: 0, umask: 0, rdev: 0, by };
    let mut inode = change.take_inode()?;
    create::fill_new_inode(tree, change, dir, &mut inode, &new, now)?;
    change.write_inode(&mut inode);
    Ok(inode.ino)
}

/// Lets two names change what they name.
fn exchange(
    tree: &TreeLayer,
    locked: &mut LockedStripes<'_>,
    from_dir: &mut Inode,
    one: &NameHit,
    to_dir: &mut Inode,
    other: &NameHit,
) -> Result<()> {
    if one.entry.ino == other.entry.ino {
        return Ok(());
    }
    let (now, is_same) = (tree.now(), from_dir.ino == to_dir.ino);
    let (mut first, mut second) =
        (load_for_head(tree, locked, one.entry.ino)?, load_for_head(tree, locked, other.entry.ino)?);
    if !is_same && second.is_directory() {
        refuse_within(tree, second.ino, from_dir.ino)?;
    }
    let mut change = FsChange::new(tree);
    directory::redirect_name(&mut change, one, other.entry.ino, other.entry.kind);
    directory::redirect_name(&mut change, other, one.entry.ino, one.entry.kind);
    if !is_same {
        for (inode, entered) in [(&mut first, to_dir.ino), (&mut second, from_dir.ino)] {
            if inode.is_directory() {
                inode.rest.parent = entered.0;
            }
        }
        let (ones, others) = (u32::from(first.is_directory()), u32::from(second.is_directory()));
        from_dir.count_links(others, ones);
        to_dir.count_links(ones, others);
    }
    for inode in [&mut first, &mut second] {
        inode.head.ctime = now;
        change.write_inode(inode);
    }
    from_dir.touch(now);
    to_dir.touch(now);
    change.write_head(from_dir);
    if !is_same {
        change.write_head(to_dir);
    }
    change.commit()
}

/// Returns an inode whose head will be written, with the size that waits for an fsync; the bytes that it covers are
/// durable on return.
pub(crate) fn load_for_head(tree: &TreeLayer, locked: &mut LockedStripes<'_>, ino: Ino) -> Result<Inode> {
    let mut inode = tree.load_child(ino)?;
    let stripe = locked.stripe(ino);
    stripe.apply_waiting(&mut inode);
    if stripe.waiting.contains_key(&ino.0) {
        size::drain_data(tree)?;
        inode.mark_size_durable();
    }
    Ok(inode)
}

/// Refuses to move directory `ino` into `into` if that is `ino` or lies in it. Damaged directories may form a ring:
/// coming by the same one again shows that.
fn refuse_within(tree: &TreeLayer, ino: Ino, into: Ino) -> Result<()> {
    let (mut above, mut passed) = (into, None);
    for step in 1_u64.. {
        if above == ino {
            return Err(Error::Invalid("a directory is not moved into itself"));
        }
        if above == Ino::ROOT {
            break;
        }
        let inode = tree.load(above)?;
        if passed == Some(above) {
            return Err(tree.corrupt("the directory that a directory is in", inode.at));
        }
        if step.is_power_of_two() {
            passed = Some(above);
        }
        above = Ino(inode.rest.parent);
    }
    Ok(())
}
