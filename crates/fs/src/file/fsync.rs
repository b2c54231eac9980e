//! Fsync: makes written data durable, and then the sizes that cover it, if a fence is not durable (FW4).

use crate::file::{FileLayer, size};
use crate::{Ino, Result};

/// See [`crate::FileSystem::fsync`].
pub(crate) fn fsync(files: &FileLayer, ino: Ino) -> Result<()> {
    files.pool().check_poison()?;
    files.clients.fold_times(ino);
    if !files.waits() {
        files.memory().fence();
        return Ok(());
    }
    let _pass = files.gate.pass();
    let mut stripe = files.locks.write(ino);
    let mut inode = files.load(ino)?;
    stripe.apply_waiting(&mut inode);
    size::flush_size(files, &mut stripe, &mut inode)
}

/// See [`crate::FileSystem::flush`].
pub(crate) fn flush(files: &FileLayer) -> Result<()> {
    files.pool().check_poison()?;
    if !files.waits() {
        files.memory().fence();
        return Ok(());
    }
    let _pass = files.gate.pass();
    size::flush_sizes(files)
}

/// See [`crate::FileSystem::write_back`].
pub(crate) fn write_back(files: &FileLayer) -> Result<()> {
    if unsaved(files).is_some() { flush(files) } else { Ok(()) }
}

/// See [`crate::FileSystem::unsaved`].
pub(crate) fn unsaved(files: &FileLayer) -> Option<u64> {
    let (mut waits, mut writes) = (false, 0_u64);
    if files.waits() {
        files.locks.each(|stripe| {
            waits |= !stripe.waiting.is_empty();
            writes = writes.wrapping_add(stripe.serial);
        });
    }
    waits.then_some(writes)
}
