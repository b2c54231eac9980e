//! Inodes that are held, that lose their last name, and that end.

use crate::file::{ahead, cut, index, size};
use crate::format::inode::Inode;
use crate::format::word::IndexWord;
use crate::store::change::{FREED_PAGES_MAX, FsChange};
use crate::store::gate::GatePass;
use crate::store::locks::Stripe;
use crate::tree::{TreeLayer, directory, xattr};
use crate::{Error, FileKind, Ino, Result};

/// The most inodes that end in one change if each change waits for a disk, and the most pages of each, so that a
/// record has room.
const ENDED_TOGETHER: usize = 16;
const ENDED_PAGES: u64 = FREED_PAGES_MAX.div_ceil(32);

/// See [`crate::FileSystem::hold`].
pub(crate) fn hold(tree: &TreeLayer, ino: Ino) -> Result<()> {
    let mut stripe = tree.locks.write(ino);
    let mut inode = tree.load(ino)?;
    let hold = stripe.holds.entry(ino.0).or_default();
    hold.count += 1;
    let is_first = hold.count == 1 && inode.kind() == Some(FileKind::File);
    if (is_first || inode.needs_commit())
        && tree.refuse_if_read_only().is_ok()
        && let Some(_pass) = tree.gate.try_pass()
    {
        // Otherwise each read would check the remains of a crashed append.
        let _ = size::commit_size(tree, &mut inode);
        if is_first && !tree.ahead.has(ino) {
            let _ = ahead::free_ahead(tree, &stripe, &mut inode);
        }
    }
    Ok(())
}

/// See [`crate::FileSystem::release`].
pub(crate) fn release(tree: &TreeLayer, ino: Ino, count: u64) {
    let _pass = tree.gate.pass();
    let mut stripe = tree.locks.write(ino);
    let Some(hold) = stripe.holds.get_mut(&ino.0) else { return };
    hold.count = hold.count.saturating_sub(count);
    if hold.count > 0 {
        return;
    }
    stripe.holds.remove(&ino.0);
    let Ok(mut inode) = tree.load(ino) else { return };
    stripe.apply_waiting(&mut inode);
    if inode.head.links == 0 {
        // After a failure a step or the next opening repeats it. If it waits for a disk, one step ends many.
        if tree.waits() || !matches!(end_some(tree, &mut stripe, &mut inode), Ok(true)) {
            tree.orphans.make_ready(ino);
        }
    } else if tree.refuse_if_read_only().is_ok() {
        let _ = ahead::free_ahead(tree, &stripe, &mut inode);
    }
}

/// Removes one name from `inode` through `change`; without a name left it ends, now or by steps. The caller holds its
/// lock.
pub(crate) fn drop_link(
    tree: &TreeLayer,
    change: &mut FsChange<'_>,
    stripe: &Stripe,
    inode: &mut Inode,
    now: i64,
) -> Result<DroppedLink> {
    inode.head.ctime = now;
    let last = if inode.is_directory() { 2 } else { 1 };
    if inode.head.links > last {
        inode.head.links -= 1;
        change.write_head(inode);
        return Ok(DroppedLink::Named);
    }
    inode.head.links = 0;
    if !stripe.is_held(inode.ino) && free_some(tree, change, inode)? {
        free_inode(tree, change, inode)?;
        return Ok(DroppedLink::Freed);
    }
    tree.make_orphan(change, inode)?;
    Ok(DroppedLink::Orphan { is_ready: !stripe.is_held(inode.ino) })
}

/// Finishes [`drop_link`] after its change is committed.
pub(crate) fn dropped(tree: &TreeLayer, stripe: &mut Stripe, ino: Ino, dropped: DroppedLink) {
    match dropped {
        DroppedLink::Named => {}
        DroppedLink::Freed => drop(stripe.waiting.remove(&ino.0)),
        DroppedLink::Orphan { is_ready: true } => tree.orphans.make_ready(ino),
        DroppedLink::Orphan { is_ready: false } => tree.orphans.note_unnamed(tree.now()),
    }
}

/// Frees what `inode` has, up to a bound. Returns true if that was all.
fn free_some(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<bool> {
    let is_done = match inode.kind() {
        Some(FileKind::File) => index::trim(tree, change, inode, 0)?,
        Some(FileKind::Directory) => directory::free_names(tree, change, inode)?,
        Some(FileKind::Symlink) if inode.is_long_link() => {
            change.free_word(inode.roots[0]);
            inode.roots[0] = IndexWord::NONE;
            true
        }
        _ => true,
    };
    if is_done {
        xattr::free_xattrs(tree, change, inode)?;
    }
    Ok(is_done)
}

/// Frees `inode`, which has no pages any more, through `change` (FI4).
fn free_inode(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<()> {
    tree.free_orphan(change, inode)?;
    let mut freed = inode.freed();
    change.write_inode(&mut freed);
    change.free_inode(inode.ino.0);
    Ok(())
}

/// Does one step of ending an inode without a name. Returns true if it was the last.
pub(crate) fn end_some(tree: &TreeLayer, stripe: &mut Stripe, inode: &mut Inode) -> Result<bool> {
    let mut change = FsChange::new(tree);
    let is_last = free_some(tree, &mut change, inode)?;
    if is_last {
        free_inode(tree, &mut change, inode)?;
        stripe.waiting.remove(&inode.ino.0);
    } else {
        change.write_roots(inode);
    }
    change.commit()?;
    if is_last {
        tree.orphans.remove(inode.ino);
    }
    Ok(is_last)
}

/// One step of what orphans wait for; `false` when none does.
pub(crate) fn step_orphans(tree: &TreeLayer) -> Result<bool> {
    if tree.orphans.some_ready(1).is_empty() { Ok(false) } else { step_some_orphans(tree, &tree.gate.pass()) }
}

/// One step for as many as end together; `false` when none waits.
fn step_some_orphans(tree: &TreeLayer, pass: &GatePass<'_>) -> Result<bool> {
    let ready = tree.orphans.some_ready(if tree.waits() { ENDED_TOGETHER } else { 1 });
    let Some(first) = ready.first() else { return Ok(false) };
    if ready.len() == 1 || !end_together(tree, &ready, pass)? {
        step_orphan(tree, *first, pass)?;
    }
    Ok(true)
}

/// Ends the small ones of `ready` in one change, which waits for the disk once. Returns false if it ends none, as when
/// one is damaged.
fn end_together(tree: &TreeLayer, ready: &[Ino], _: &GatePass<'_>) -> Result<bool> {
    let mut locked = tree.locks.write_all(ready);
    let (mut change, mut ended) = (FsChange::new(tree), Vec::new());
    for ino in ready {
        let is_held = locked.stripe(*ino).is_held(*ino);
        let nameless = tree.load(*ino).ok().filter(|inode| inode.head.links == 0 && !is_held);
        let Some(mut inode) = nameless.filter(|inode| inode.head.pages <= ENDED_PAGES) else { continue };
        if !matches!(free_some(tree, &mut change, &mut inode), Ok(true)) {
            return Ok(false);
        }
        if free_inode(tree, &mut change, &mut inode).is_err() {
            return Ok(false);
        }
        ended.push(*ino);
    }
    if ended.is_empty() {
        return Ok(false);
    }
    change.commit()?;
    for ino in ended {
        locked.stripe(ino).waiting.remove(&ino.0);
        tree.orphans.remove(ino);
    }
    Ok(true)
}

/// Frees the pages of removed files before free space is counted. Does nothing while the pool stands still, so that
/// the caller gets its answer at once.
pub(crate) fn free_removed(tree: &TreeLayer) {
    while tree.refuse_if_read_only().is_ok()
        && let Some(pass) = tree.gate.try_pass()
        && let Ok(true) = step_some_orphans(tree, &pass)
    {}
}

/// A damaged one is left to a check, and to the next opening: those behind it go on.
fn step_orphan(tree: &TreeLayer, ino: Ino, pass: &GatePass<'_>) -> Result<()> {
    let stepped = step_sound_orphan(tree, ino, pass);
    if let Err(Error::Corrupt { .. }) = &stepped {
        tree.orphans.remove(ino);
    }
    stepped
}

fn step_sound_orphan(tree: &TreeLayer, ino: Ino, _: &GatePass<'_>) -> Result<()> {
    let mut stripe = tree.locks.write(ino);
    let Ok(mut inode) = tree.load(ino) else {
        tree.orphans.remove(ino);
        return Ok(());
    };
    stripe.apply_waiting(&mut inode);
    match inode.head.links {
        0 if stripe.is_held(ino) => tree.orphans.remove(ino),
        0 => drop(end_some(tree, &mut stripe, &mut inode)?),
        _ if !inode.is_cut() => tree.orphans.remove(ino),
        _ => {
            if stripe.waiting.contains_key(&ino.0) {
                size::flush_size(tree, &mut stripe, &mut inode)?;
            }
            cut::trim_orphan(tree, &mut inode)?;
        }
    }
    Ok(())
}

/// What became of an inode that lost a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DroppedLink {
    /// The inode has other names.
    Named,
    /// The inode is free.
    Freed,
    /// It ends by steps, once it is not held.
    Orphan { is_ready: bool },
}
