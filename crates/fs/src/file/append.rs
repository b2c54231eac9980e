//! Appends to pages that were allocated ahead. A place that was found without the file's lock is used under the lock
//! if no other thread held the lock in between. So an append costs two copies with a fence each.

use ferrite_memory::{Scheme, pin};

use crate::file::{FileLayer, size, superpage};
use crate::format::inode::{AppendTimes, FileEnd};
use crate::format::layout::FILE_BYTES_MAX;
use crate::store::locks::LockedStripe;
use crate::view::index_reader::FoundBytes;
use crate::view::inode_snapshot::InodeSnapshot;
use crate::view::version::LockVersion;
use crate::{DataMode, Ino, Result};

/// A place for bytes that reach behind the end of a file, found without its lock.
pub(crate) struct AppendPlace {
    version: LockVersion,
    seen: InodeSnapshot,
    /// The offset of the bytes in the file, and their place in the pool.
    pub at: u64,
    place: u64,
}

/// Returns the place of `len` adjacent bytes from byte `at` of `ino` on, or from its end, if they reach behind the end
/// and pages exist. Returns `None` in all other cases, and if a write is more than a copy and a size.
pub(crate) fn find_append_place(files: &FileLayer, ino: Ino, at: Option<u64>, len: usize) -> Option<AppendPlace> {
    if files.waits() || files.data_mode() != DataMode::Sync {
        return None;
    }
    let _pin = pin();
    let version = files.locks.version_to_write(ino)?;
    let reader = files.reader(ino, version);
    let mut seen = reader.look(at.unwrap_or(0))?;
    let at = at.unwrap_or(seen.size);
    if at == seen.size {
        seen = reader.look(at)?;
    }
    let end = at.checked_add(len as u64).filter(|end| *end <= FILE_BYTES_MAX)?;
    match reader.find(&seen, at)? {
        FoundBytes::At(place, together) if at <= seen.size && end > seen.size && len as u64 <= together => {
            Some(AppendPlace { version, seen, at, place })
        }
        _ => None,
    }
}

/// Stores `from` there, unless `ino` has changed since the lookup. Returns true if it did (FW1, FW2).
pub(crate) fn extend(
    files: &FileLayer,
    lock: &LockedStripe<'_>,
    ino: Ino,
    behind: &AppendPlace,
    from: &[u8],
) -> Result<bool> {
    let AppendPlace { version, seen, at, place } = behind;
    let Some(end) = FileEnd::of(files.memory(), seen.at, None) else { return Ok(false) };
    // Clients append without the lock, and without a version.
    let is_same = lock.follows(*version) && files.reader(ino, *version).is_as_seen(seen);
    let is_over = *at < seen.size && end.rests_on_bytes();
    if !is_same || end.is_cut || is_over || files.is_append_stopped(lock, ino) {
        return Ok(false);
    }
    let (size, now) = (at + from.len() as u64, files.now());
    files.memory().store(*place, from, Scheme::Nt);
    files.space.shared_state.note_stored(*place, from.len());
    size::drain_data(files)?;
    end.store(
        files.memory(),
        end.checksum_of_size(size),
        AppendTimes { written: now, accessed: seen.atime },
        Scheme::Flush,
    );
    files.drain()?;
    superpage::note_growth(files, ino, seen.size..size);
    files.reader(ino, lock.version_after()).keep(*at, seen.grown(end.word(size), 0, now));
    Ok(true)
}
