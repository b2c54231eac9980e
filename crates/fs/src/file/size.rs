//! The size of a file: how it is stored, in the head by a transaction or directly, and when (FW1, FW4, FP3).

use crate::file::FileLayer;
use crate::format::inode::Inode;
use crate::store::change::FsChange;
use crate::store::locks::Stripe;
use crate::{Ino, Result};
use ferrite_memory::planted;

/// Commits the size to the head, if it rests on its last bytes (FP3) or on remains of a crash (FP4).
pub(crate) fn commit_size(files: &FileLayer, inode: &mut Inode) -> Result<()> {
    planted!("fs: uncommitted size" => return Ok(()));
    if inode.needs_commit() { FsChange::new(files).commit_head(inode) } else { Ok(()) }
}

/// Stores size and times, durable on return: directly, or by a transaction where others may store over that.
pub(crate) fn store_size(files: &FileLayer, stripe: &Stripe, inode: &mut Inode) -> Result<()> {
    if files.is_append_stopped(stripe, inode.ino) || inode.is_torn() {
        return FsChange::new(files).commit_head(inode);
    }
    inode.store_direct(files.memory());
    files.memory().fence();
    Ok(())
}

/// FW1: what is to become visible is durable on return.
pub(crate) fn drain_data(files: &FileLayer) -> Result<()> {
    planted!("fs: word before data" => return Ok(()));
    planted!("fs: size before data" => return Ok(()));
    files.drain()
}

/// Makes durable what was written to `ino` before, then the size that shows it (FW4). Times show nothing: where they
/// are all that waits, they go with what was written.
pub(crate) fn flush_size(files: &FileLayer, stripe: &mut Stripe, inode: &mut Inode) -> Result<()> {
    let is_noted = !stripe.waiting.contains_key(&inode.ino.0);
    if is_noted || inode.durable_size() != inode.size() {
        drain_data(files)?;
    }
    inode.mark_size_durable();
    if !is_noted {
        inode.store_direct(files.memory());
        files.drain()?;
        stripe.waiting.remove(&inode.ino.0);
    }
    Ok(())
}

/// Makes durable what was written to any file, then the sizes that show it (FW4).
pub(crate) fn flush_sizes(files: &FileLayer) -> Result<()> {
    let mut waited = Vec::new();
    files.locks.each(|stripe| waited.extend(stripe.waiting.iter().map(|(ino, waiting)| (Ino(*ino), *waiting))));
    drain_data(files)?;
    for (ino, waiting) in waited {
        let mut stripe = files.locks.write(ino);
        let now = stripe.waiting.get(&ino.0).copied().filter(|now| now.serial == waiting.serial);
        let Some(now) = now else { continue };
        let Ok(mut inode) = files.load(ino) else { continue };
        inode.head.size = waiting.size.min(now.size);
        waiting.apply_times(&mut inode);
        inode.store_direct(files.memory());
        if now == waiting {
            stripe.waiting.remove(&ino.0);
        }
    }
    files.drain()
}
