//! Writing: in place if the pages exist, otherwise to new pages.
//!
//! - FW1. Content is durable before the word or the size that makes it visible: new pages before their words, bytes
//!   behind the end before the size, unless that has an append checksum. So a crash shows no bytes of other files.
//! - FW2. An overwrite costs one copy and one fence. A write behind the end, to pages ahead, costs two of each, and
//!   one of each for a client. If a fence is durable, the write is durable on return.
//! - FW3. `Atomic`: all of a part is written to new pages, and one record names them in the place of the old ones.
//! - FW4. If a fence is not durable, sizes wait in DRAM until an fsync has made the data durable. Times wait with
//!   them, even times that a program sets; if only times wait, they become durable with the data. A new file then has
//!   its first page from its creation on.
//! - FW5. A write that is refused for lack of space changed nothing. If a part fits, that part is written, except
//!   under `Atomic`. Before a write is refused or cut short, all space that can be freed is freed.
//! - FW6. Other threads see an append as one change, even if space is freed in the middle of it. Its earlier parts
//!   stay invisible, and their pages serve the next attempt.

use ferrite_memory::{Scheme, pin, planted};
use ferrite_pool::layout::PAGE;

use crate::file::index::PartPlace;
use crate::file::{FileLayer, append, content, gap, index, new_pages, size, stopped_append, superpage};
use crate::format::inode::{Inode, TIME_GRAIN_NS};
use crate::format::layout::FILE_BYTES_MAX;
use crate::options::ATOMIC_BYTES_MAX;
use crate::store::change::FsChange;
use crate::store::locks::Stripe;
use crate::view::hints;
use crate::{DataMode, Error, Ino, Result};

/// The mode of a write.
#[derive(Clone, Copy)]
struct WriteMode {
    /// Without a lock, over what is there.
    overwrites: bool,
    /// The times of the file change.
    notes: bool,
    /// Writes as many bytes as fit.
    fits: bool,
}

/// Returns how many of the bytes `from` a file can hold from byte `at` on.
fn can_have(at: u64, from: &[u8]) -> u64 {
    (from.len() as u64).min(FILE_BYTES_MAX.saturating_sub(at))
}

/// See [`crate::FileSystem::write`].
#[inline]
pub(crate) fn write(files: &FileLayer, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
    write_by(files, ino, at, from, true)
}

/// See [`crate::FileSystem::write_unnoted`].
#[inline]
pub(crate) fn write_unnoted(files: &FileLayer, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
    write_by(files, ino, at, from, false)
}

#[inline]
fn write_by(files: &FileLayer, ino: Ino, at: u64, from: &[u8], notes: bool) -> Result<usize> {
    if let Some(place) = hints::guess(ino, at) {
        files.memory().expect_store(place);
    }
    files.refuse_if_read_only()?;
    let overwrites = files.data_mode() == DataMode::Sync && !files.waits();
    if overwrites && let Some(is_noted) = write_pinned(files, ino, at, from) {
        if notes && !is_noted {
            note_write_time(files, ino)?;
        }
        return Ok(from.len());
    }
    write_all(files, ino, at, from, WriteMode { overwrites, notes, fits: false })
}

/// Writes part by part, and continues after a part without space once there is some (FW5).
fn write_all(files: &FileLayer, ino: Ino, at: u64, from: &[u8], how: WriteMode) -> Result<usize> {
    let mut done = 0;
    let all = with_space_to_write(files, |fits| {
        let (at, rest) = (at + done as u64, &from[done..]);
        let written = write_locked(files, ino, at, rest, WriteMode { fits, ..how })?;
        done += written;
        if fits || written as u64 == can_have(at, rest) { Ok(()) } else { Err(Error::NoSpace) }
    });
    match all {
        Err(error) if done == 0 || !files.is_full(&error) => Err(error),
        _ => Ok(done),
    }
}

/// Writes `from` over bytes of `ino` from byte `at` on, if `ensure_may_write` allows it under the file's lock (FG13).
///
/// # Errors
/// [`Error::Refused`] if not all of the bytes are before the end of the file. Then nothing was changed.
pub(crate) fn overwrite(
    files: &FileLayer,
    ino: Ino,
    at: u64,
    from: &[u8],
    ensure_may_write: impl Fn() -> Result<()>,
) -> Result<()> {
    files.refuse_if_read_only()?;
    let end = at.saturating_add(from.len() as u64);
    files.with_space(|| {
        let _pass = files.gate.pass();
        let mut stripe = files.locks.write(ino);
        ensure_may_write()?;
        let mut inode = files.load_regular(ino)?;
        stripe.apply_waiting(&mut inode);
        if end > inode.size() {
            return Err(Error::Refused("the bytes are not all before the end of the file".into()));
        }
        stopped_append::invalidate_stopped_append_below(files, &mut stripe, &mut inode, end)?;
        let written = write_parts(files, &mut stripe, &mut inode, at, from, false)?;
        if written == from.len() { Ok(()) } else { Err(Error::NoSpace) }
    })
}

/// Stores to the inode that the file was written to now.
#[cold]
fn note_write_time(files: &FileLayer, ino: Ino) -> Result<()> {
    let _pass = files.gate.pass();
    let mut stripe = files.locks.write(ino);
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    stopped_append::invalidate_stopped_append_below(files, &mut stripe, &mut inode, 0)?;
    finish_in_place(files, &mut stripe, &mut inode, 0)
}

#[inline(never)]
fn write_locked(files: &FileLayer, ino: Ino, at: u64, from: &[u8], how: WriteMode) -> Result<usize> {
    // The lookup caches its result.
    let behind = append::find_append_place(files, ino, Some(at), from.len());
    let is_done = |is_noted: bool| is_noted || !how.notes;
    if behind.is_none() && how.overwrites && write_pinned(files, ino, at, from).is_some_and(is_done) {
        return Ok(from.len());
    }
    let _pass = files.gate.pass();
    let mut stripe = files.locks.write(ino);
    if how.notes
        && let Some(behind) = behind
        && append::extend(files, &stripe, ino, &behind, from)?
    {
        return Ok(from.len());
    }
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    stopped_append::invalidate_stopped_append_below(
        files,
        &mut stripe,
        &mut inode,
        at.saturating_add(from.len() as u64),
    )?;
    if !how.notes {
        inode.keep_times();
    }
    write_parts(files, &mut stripe, &mut inode, at, from, how.fits)
}

/// Writes without a lock (FL2, FL3), over bytes that are adjacent, while no thread changes the file. Returns `None` in
/// all other cases, and otherwise whether the time of change is recent enough.
#[inline]
fn write_pinned(files: &FileLayer, ino: Ino, at: u64, from: &[u8]) -> Option<bool> {
    let _pin = pin();
    let version = files.locks.version_to_write(ino).filter(|_| files.gate.is_open())?;
    let (file, place) = files.snapshot_place(ino, version, at, from.len())?;
    file.expect_store(files.memory(), at, place);
    if at + from.len() as u64 > file.overwritable_bytes() || !files.locks.is_still(ino, version) {
        return None;
    }
    files.memory().store(place, from, Scheme::Nt);
    // Asked while the bytes are on their way, for which the fence waits.
    let is_noted = files.now().abs_diff(file.mtime) < TIME_GRAIN_NS;
    files.space.shared_state.note_stored(place, from.len());
    planted!("fs: return before fence" => return Some(is_noted));
    files.memory().fence();
    Some(is_noted)
}

/// See [`crate::FileSystem::append`].
pub(crate) fn append(files: &FileLayer, ino: Ino, from: &[u8]) -> Result<(u64, usize)> {
    files.refuse_if_read_only()?;
    with_space_to_write(files, |fits| append_locked(files, ino, from, fits))
}

fn append_locked(files: &FileLayer, ino: Ino, from: &[u8], fits: bool) -> Result<(u64, usize)> {
    let behind = append::find_append_place(files, ino, None, from.len());
    let _pass = files.gate.pass();
    let mut stripe = files.locks.write(ino);
    if let Some(behind) = behind
        && append::extend(files, &stripe, ino, &behind, from)?
    {
        return Ok((behind.at, from.len()));
    }
    let mut inode = files.load_regular(ino)?;
    stripe.apply_waiting(&mut inode);
    stopped_append::invalidate_stopped_append(files, &mut stripe, &mut inode)?;
    let at = inode.size();
    let written = write_parts(files, &mut stripe, &mut inode, at, from, fits)?;
    if !fits && (written as u64) < can_have(at, from) {
        undo_append(files, &mut stripe, &mut inode, at)?;
        return Err(Error::NoSpace);
    }
    Ok((at, written))
}

/// Moves the end back to byte `end`, because other threads have not seen the bytes behind it (FW6). The pages there
/// stay as pages ahead.
fn undo_append(files: &FileLayer, stripe: &mut Stripe, inode: &mut Inode, end: u64) -> Result<()> {
    if stripe.waiting.contains_key(&inode.ino.0) {
        size::flush_size(files, stripe, inode)?;
    }
    files.ahead.note(inode.ino, files.now());
    inode.head.size = end;
    FsChange::new(files).commit_head(inode)
}

/// Runs `write` for all bytes, and if no space is left for all, for as many as fit (FW5).
fn with_space_to_write<T>(files: &FileLayer, mut write: impl FnMut(bool) -> Result<T>) -> Result<T> {
    match files.with_space(|| write(false)) {
        Err(error) if files.is_full(&error) => write(true),
        written => written,
    }
}

/// Writes in parts. If a part does not fit and `fits` is true, smaller parts are tried, down to a page.
fn write_parts(
    files: &FileLayer,
    stripe: &mut Stripe,
    inode: &mut Inode,
    at: u64,
    from: &[u8],
    fits: bool,
) -> Result<usize> {
    if !from.is_empty() && at >= FILE_BYTES_MAX {
        return Err(Error::FileTooBig);
    }
    let len = can_have(at, from);
    let may_halve = fits && files.data_mode() != DataMode::Atomic;
    let (mut done, mut step) = (0, ATOMIC_BYTES_MAX);
    while done < len {
        let part = (step - (at + done) % step).min(len - done);
        let bytes = &from[done as usize..(done + part) as usize];
        match write_part(files, stripe, inode, at + done, bytes) {
            Ok(()) => done += part,
            Err(error) if may_halve && step > PAGE && files.is_full(&error) => {
                step = (part / 2).next_power_of_two().clamp(PAGE, step / 2);
            }
            Err(error) if done > 0 && files.is_full(&error) => break,
            Err(error) => return Err(error),
        }
    }
    if files.waits() && files.data_mode() != DataMode::Posix {
        size::flush_size(files, stripe, inode)?;
    }
    Ok(done as usize)
}

pub(crate) fn write_part(
    files: &FileLayer,
    stripe: &mut Stripe,
    inode: &mut Inode,
    at: u64,
    from: &[u8],
) -> Result<()> {
    let (size, end) = (inode.size(), at + from.len() as u64);
    if end > size && (at > size || inode.is_cut()) {
        gap::define_until(files, stripe, inode, at)?;
    }
    if files.data_mode() == DataMode::Atomic && at < size {
        return new_pages::write_new(files, stripe, inode, at, from, true);
    }
    let mut is_missing = false;
    index::parts(files, inode, at / PAGE..end.div_ceil(PAGE), |part| {
        is_missing |= !matches!(part.at, PartPlace::At(_));
        Ok(!is_missing)
    })?;
    if is_missing && at == size && superpage::expand_super(files, inode)? {
        return write_part(files, stripe, inode, at, from);
    }
    if is_missing {
        return new_pages::write_new(files, stripe, inode, at, from, false);
    }
    content::store_there(files, inode, at, from)?;
    finish_in_place(files, stripe, inode, end)
}

/// Makes durable what was stored in place, and shows it (FW1, FW2).
fn finish_in_place(files: &FileLayer, stripe: &mut Stripe, inode: &mut Inode, end: u64) -> Result<()> {
    let (now, grows) = (files.now(), end > inode.size());
    if files.waits() {
        // Also if the times are recent: only files that wait are written back.
        files.memory().fence();
        inode.hold_size(inode.durable_size());
        inode.head.size = inode.size().max(end);
        inode.touch(now);
        stripe.wait(inode);
        return Ok(());
    }
    if !grows && inode.shows_change_at(now, TIME_GRAIN_NS) {
        files.memory().fence();
        return Ok(());
    }
    let old = inode.size();
    if grows {
        size::drain_data(files)?;
        inode.head.size = end;
    }
    inode.touch(now);
    size::store_size(files, stripe, inode)?;
    superpage::note_growth(files, inode.ino, old..inode.size());
    Ok(())
}
