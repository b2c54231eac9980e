//! Reading: copies bytes from where they lie.

use std::ops::Range;

use ferrite_memory::pin;
use parking_lot::RwLockReadGuard;

use crate::file::{FileLayer, bring_in, content};
use crate::format::inode::Inode;
use crate::format::word::AwayPage;
use crate::store::locks::Stripe;
use crate::{Ino, Result};

/// Bytes that are fetched for one read at a time.
const FETCHED_BYTES_MAX: usize = 1 << 20;

/// See [`crate::FileSystem::read`].
#[inline]
pub(crate) fn read(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
    read_by(files, ino, at, into, true)
}

/// See [`crate::FileSystem::read_unnoted`].
#[inline]
pub(crate) fn read_unnoted(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
    read_by(files, ino, at, into, false)
}

#[inline]
fn read_by(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
    match read_pinned(files, ino, at, into, notes) {
        Some(len) => Ok(len),
        None => read_uncached(files, ino, at, into, notes),
    }
}

#[inline(never)]
fn read_uncached(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
    files.cache_snapshot(ino, at);
    match read_pinned(files, ino, at, into, notes) {
        Some(len) => Ok(len),
        None if into.len() > FETCHED_BYTES_MAX && files.slots.is_some() => read_in_parts(files, ino, at, into, notes),
        None => read_away(files, ino, at, into, notes),
    }
}

/// Reads under the lock, and pages that are away without it. They may come back into the pool.
fn read_away(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
    read_ahead(files, ino, at..at.saturating_add(into.len() as u64));
    let mut away = Vec::new();
    let read = files.with_pages(|| read_locked(files, ino, at, into, notes, &mut away))?;
    if !away.is_empty() {
        bring_in::admit(files, ino, at..at + read as u64, &away);
    }
    Ok(read)
}

/// Has pages behind the bytes `range` of `ino` read from their SSDs, if a read of `range` continues an earlier one.
fn read_ahead(files: &FileLayer, ino: Ino, range: Range<u64>) {
    let Some(slots) = &files.slots else { return };
    let Some(range) = slots.streams.note(ino, range) else { return };
    let stripe = files.locks.read(ino);
    let Ok(mut inode) = files.load_regular(ino) else { return };
    stripe.apply_waiting(&mut inode);
    let end = range.end.min(inode.size());
    let away = bring_in::away_pages(files, &inode, range.start.min(end)..end);
    drop(stripe);
    // A reader meets an error of the index itself.
    files.read_ahead.request(slots, away.unwrap_or_default());
}

/// Reads so much at a time that what is fetched of it is kept until it is copied.
fn read_in_parts(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Result<usize> {
    let mut done = 0;
    for part in into.chunks_mut(FETCHED_BYTES_MAX) {
        let read = read_away(files, ino, at + done as u64, part, notes)?;
        done += read;
        if read < part.len() {
            break;
        }
    }
    Ok(done)
}

/// Reads without a lock (FL2), if all bytes are adjacent and no thread changes the file. Returns `None` in all other
/// cases.
#[inline]
fn read_pinned(files: &FileLayer, ino: Ino, at: u64, into: &mut [u8], notes: bool) -> Option<usize> {
    let _pin = pin();
    let version = files.locks.version(ino).filter(|_| !files.waits())?;
    let (file, place) = files.snapshot_place(ino, version, at, into.len())?;
    let is_to_note = notes && file.is_unread() && files.refuse_if_read_only().is_ok();
    if is_to_note || !files.locks.is_still(ino, version) {
        return None;
    }
    files.memory().load(place, into);
    files.space.shared_state.note_touched(place, into.len());
    Some(into.len())
}

#[inline(never)]
fn read_locked(
    files: &FileLayer,
    ino: Ino,
    at: u64,
    into: &mut [u8],
    notes: bool,
    away: &mut Vec<AwayPage>,
) -> Result<usize> {
    let stripe = files.locks.read(ino);
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    let len = inode.size().saturating_sub(at).min(into.len() as u64);
    if len == 0 {
        return Ok(0);
    }
    *away = content::copy_out(files, &inode, at, &mut into[..len as usize])?;
    if notes && inode.head.atime <= inode.head.mtime {
        note_access(files, stripe, &mut inode);
    }
    files.forget_snapshot(ino, at);
    Ok(len as usize)
}

/// Like `relatime`: only if the file changed since the last access. Durable some time later.
#[cold]
fn note_access(files: &FileLayer, stripe: RwLockReadGuard<'_, Stripe>, inode: &mut Inode) {
    // Then other threads or clients store the same line, or only a transaction may.
    let is_others = stripe.has_appender(inode.ino) || files.is_append_stopped(&stripe, inode.ino);
    if is_others || inode.is_torn() || files.refuse_if_read_only().is_err() {
        return;
    }
    inode.head.atime = files.now().max(inode.head.mtime.saturating_add(1));
    if stripe.waiting.contains_key(&inode.ino.0) {
        drop(stripe);
        note_access_later(files, inode.ino, inode.head.atime);
    } else if let Some(_pass) = files.gate.try_pass() {
        inode.store_direct(files.memory());
    }
}

/// Adds the access time to the times that wait, or stores it alone if those are stored already.
fn note_access_later(files: &FileLayer, ino: Ino, atime: i64) {
    let mut stripe = files.locks.write(ino);
    let Ok(mut inode) = files.load_regular(ino) else { return };
    stripe.apply_waiting(&mut inode);
    inode.head.atime = atime;
    stripe.wait(&inode);
}
