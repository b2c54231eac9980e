//! Making durable what was written, and showing it then: where a fence is not durable, sizes wait for that (FW4).

use crate::file::{Files, size};
use crate::{Ino, Result};

/// See [`crate::FileSystem::fsync`].
pub(crate) fn fsync(files: &Files, ino: Ino) -> Result<()> {
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
    size::publish_size(files, &mut stripe, &mut inode)
}

/// See [`crate::FileSystem::flush`].
pub(crate) fn flush(files: &Files) -> Result<()> {
    files.pool().check_poison()?;
    if !files.waits() {
        files.memory().fence();
        return Ok(());
    }
    let _pass = files.gate.pass();
    size::publish_all(files)
}

/// See [`crate::FileSystem::write_back`].
pub(crate) fn write_back(files: &Files) -> Result<()> {
    if unsaved(files).is_some() { flush(files) } else { Ok(()) }
}

/// See [`crate::FileSystem::unsaved`].
pub(crate) fn unsaved(files: &Files) -> Option<u64> {
    let (mut waits, mut writes) = (false, 0_u64);
    if files.waits() {
        files.locks.each(|stripe| {
            waits |= !stripe.waiting.is_empty();
            writes = writes.wrapping_add(stripe.serial);
        });
    }
    waits.then_some(writes)
}
