//! Where the size of a file is stored: in its head by a transaction, or directly; and when (FW1, FW4, FP3).

use crate::file::Files;
use crate::format::inode::Inode;
use crate::store::change::Change;
use crate::store::locks::Stripe;
use crate::{Ino, Result};

/// Lets the head say the size, where that rests on the last bytes (FP3) or on what a crash left (FP4).
pub(crate) fn settle_end(files: &Files, inode: &mut Inode) -> Result<()> {
    crate::planted!(UnsettledEnd => return Ok(()));
    if inode.is_unsettled() { Change::new(files).commit_head(inode) } else { Ok(()) }
}

/// Stores size and times, durable on return: directly, or by a transaction where others may store over that.
pub(crate) fn store_end(files: &Files, stripe: &Stripe, inode: &mut Inode) -> Result<()> {
    if files.is_haunted(stripe, inode.ino) || inode.is_torn() {
        return Change::new(files).commit_head(inode);
    }
    inode.store_direct(files.memory());
    files.memory().fence();
    Ok(())
}

/// FW1: what is to become visible is durable on return.
pub(crate) fn settle_data(files: &Files) -> Result<()> {
    crate::planted!(WordBeforeData => return Ok(()));
    crate::planted!(SizeBeforeData => return Ok(()));
    files.settle()
}

/// Makes durable what was written to `ino` before, then the size that shows it (FW4). Times show nothing: where they
/// are all that waits, they go with what was written.
pub(crate) fn publish_size(files: &Files, stripe: &mut Stripe, inode: &mut Inode) -> Result<()> {
    let is_told = !stripe.waiting.contains_key(&inode.ino.0);
    if is_told || inode.durable_size() != inode.size() {
        settle_data(files)?;
    }
    inode.settle_size();
    if !is_told {
        inode.store_direct(files.memory());
        files.settle()?;
        stripe.waiting.remove(&inode.ino.0);
    }
    Ok(())
}

/// Makes durable what was written to any file, then the sizes that show it (FW4).
pub(crate) fn publish_all(files: &Files) -> Result<()> {
    let mut waited = Vec::new();
    files.locks.each(|stripe| waited.extend(stripe.waiting.iter().map(|(ino, waiting)| (Ino(*ino), *waiting))));
    settle_data(files)?;
    for (ino, waiting) in waited {
        let mut stripe = files.locks.write(ino);
        let now = stripe.waiting.get(&ino.0).copied().filter(|now| now.serial == waiting.serial);
        let Some(now) = now else { continue };
        let Ok(mut inode) = files.load(ino) else { continue };
        inode.head.size = waiting.size.min(now.size);
        waiting.tell_times(&mut inode);
        inode.store_direct(files.memory());
        if now == waiting {
            stripe.waiting.remove(&ino.0);
        }
    }
    files.settle()
}
