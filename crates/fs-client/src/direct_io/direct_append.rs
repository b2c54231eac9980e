//! Appending, as a client does it by itself (FG7).

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{Memory, Scheme, planted};
use ferrite_pool::layout::CHUNK;

use super::{DirectIo, DirectOutcome};
use ferrite_fs::format::append_checksum::AppendChecksum;
use ferrite_fs::format::inode::{AppendTimes, FileEnd};
use ferrite_fs::format::layout::FILE_BYTES_MAX;
use ferrite_fs::share::layout::brief_wait::wait_briefly;
use ferrite_fs::share::layout::lease_state::{LeaseMode, LeaseState};
use ferrite_fs::view::hints::{self, FileBlock};
use ferrite_fs::view::index_reader::FoundBytes;
use ferrite_fs::view::inode_snapshot::InodeSnapshot;
use ferrite_fs::view::version::{ChunkPlaces, LockVersion};

/// An append whose bytes are stored, but not its size.
struct StoredAppend<'a> {
    file: InodeSnapshot,
    /// The end of the file before the append.
    inode: &'a FileEnd,
    /// The checksum of the new size.
    checksum: AppendChecksum,
    /// The first byte of the append.
    at: u64,
    /// The time of change.
    now: i64,
}

/// Holds the end of a file for one append, until it is dropped.
struct FileEndHold<'a> {
    word: &'a AtomicU64,
    at_work: LeaseState,
}

impl FileEndHold<'_> {
    /// Releases the end, once: a moment later another thread may hold it. Returns true if this thread held it until
    /// now (FG7).
    #[inline(always)]
    fn finish(self) -> bool {
        let was_ours = self.let_go(self.at_work.finished());
        std::mem::forget(self);
        was_ours
    }

    fn let_go(&self, to: LeaseState) -> bool {
        self.word.compare_exchange(self.at_work.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for FileEndHold<'_> {
    fn drop(&mut self) {
        self.let_go(self.at_work.to(LeaseMode::Append));
    }
}

impl<M: Memory + ?Sized> DirectIo<'_, M> {
    /// Takes the end of the file, where neither the owner nor another thread has it.
    #[inline(always)]
    fn take_end(&self) -> Option<FileEndHold<'_>> {
        let (word, free) = (self.shared_state.lease(self.slot), self.state());
        if free.mode(self.serial) != LeaseMode::Append {
            return None;
        }
        let at_work = free.to(LeaseMode::AtWork);
        let taken = word.compare_exchange(free.0, at_work.0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        // Created only after success, because dropping one releases the end.
        if taken { Some(FileEndHold { word, at_work }) } else { None }
    }

    /// Waits, without a pin, until the end of the file is free. Returns false if that takes too long.
    #[inline]
    fn may_append_soon(&self) -> bool {
        let is_known = || self.mode() <= LeaseMode::Append;
        (is_known() || wait_briefly(is_known)) && self.mode() >= LeaseMode::Append
    }

    /// FW1: what a size is to cover is durable on return.
    #[inline(always)]
    fn drain_data(&self) {
        planted!("fs: size before data" => return);
        self.memory.fence();
    }

    /// Writes from byte `at` on, or from the end: behind the end, or over bytes that the size rests on (FG7). Returns
    /// the offset. Durable on return.
    #[inline]
    pub fn append(
        &self,
        thread_slot: usize,
        at: Option<u64>,
        from: &[u8],
        now: impl Fn() -> i64,
    ) -> DirectOutcome<u64> {
        if !self.may_append_soon() || !self.may_write_soon() {
            return DirectOutcome::Refused;
        }
        let Some(_pin) = self.foreign.pin(self.shared_state.pin(thread_slot)) else { return DirectOutcome::Refused };
        let Some(end_is_ours) = self.take_end() else { return DirectOutcome::Overtaken };
        // Each thread that changes a file under this lock acquires the end first: nothing changes until this thread
        // releases it, or the owner revokes it.
        if !self.lets_write() {
            return DirectOutcome::Refused;
        }
        let Some(version) = self.shared_state.version_to_write(self.ino) else { return DirectOutcome::Overtaken };
        let (place, known) = (self.shared_state.inode_place(self.ino.0), self.end.after(version));
        let Some(inode) = place.and_then(|place| FileEnd::of(self.memory, place, known)) else {
            return DirectOutcome::Refused;
        };
        // The offset of an append is known only now.
        let at = at.unwrap_or(inode.size);
        let Some(file) = self.look_at_end(version, at, known.is_some()) else { return DirectOutcome::Refused };
        let end = at.saturating_add(from.len() as u64);
        if at > inode.size || end > FILE_BYTES_MAX {
            return DirectOutcome::Refused;
        }
        if inode.is_cut {
            return DirectOutcome::NoPages;
        }
        let inode = if at < inode.size {
            self.rest_on_none(version, &inode, AppendTimes { written: now(), accessed: file.atime })
        } else {
            inode
        };
        match self.copy_in(version, &file, at, from) {
            DirectOutcome::Done(()) => {}
            DirectOutcome::NoPages => return DirectOutcome::NoPages,
            _ => return DirectOutcome::Refused,
        }
        let now = now();
        self.drain_data();
        let checksum = inode.checksum_of_size(inode.size.max(end));
        if self.publish(end_is_ours, version, &StoredAppend { file, inode: &inode, checksum, at, now }) {
            DirectOutcome::Done(at)
        } else {
            DirectOutcome::Refused
        }
    }

    /// Stores the size with a checksum of no bytes, because bytes behind it were stored over (FP3). Durable on return.
    fn rest_on_none(&self, version: LockVersion, inode: &FileEnd, times: AppendTimes) -> FileEnd {
        if !inode.rests_on_bytes() {
            return *inode;
        }
        let known = inode.store(self.memory, inode.checksum_of_size(inode.size), times, Scheme::Nt);
        self.memory.fence();
        self.end.note(version, known);
        inode.after(known)
    }

    /// Appends in the usual case, where this client's last append ended. Returns `None` in all other cases.
    #[inline(always)]
    pub fn append_together(&self, thread_slot: usize, at: u64, from: &[u8], now: impl Fn() -> i64) -> Option<()> {
        let _pin = self.foreign.pin(self.shared_state.pin(thread_slot))?;
        let end_is_ours = self.take_end()?;
        let version = self.shared_state.version_to_write(self.ino)?;
        let known = self.end.after(version)?;
        if !self.lets_write() || known.size != at {
            return None;
        }
        let mut file =
            hints::find(FileBlock { shared_state: self.shared_state.id(), ino: self.ino, block: at / CHUNK }, version)?;
        let inode = FileEnd::of(self.memory, file.at, Some(known))?;
        let end = at.checked_add(from.len() as u64)?;
        let FoundBytes::At(place, together) = self.find(version, &mut file, at)? else { return None };
        file.expect_store(self.memory, at, place);
        if from.len() as u64 > together || inode.is_cut || end > FILE_BYTES_MAX || !self.is_still(version) {
            return None;
        }
        planted!("fs: before store" => ());
        let (checksum, now) = self.store_checked(&inode, place, end, from, now);
        self.shared_state.note_stored(place, from.len());
        if self.publish(end_is_ours, version, &StoredAppend { file, inode: &inode, checksum, at, now }) {
            Some(())
        } else {
            None
        }
    }

    /// Stores `from` at `place`, where the end of the file lies. Returns the checksum of the new end, and the time.
    /// With a checksum of bytes these become durable with the size (FP2), otherwise they are durable on return (FW1).
    #[inline(always)]
    fn store_checked(
        &self,
        inode: &FileEnd,
        place: u64,
        end: u64,
        from: &[u8],
        now: impl Fn() -> i64,
    ) -> (AppendChecksum, i64) {
        if from.len() <= AppendChecksum::BYTES_MAX
            && let Some(sum) = self.memory.store_summed(place, from)
        {
            return (inode.checksum(end, from.len() as u16, sum.finish()), now());
        }
        self.memory.store(place, from, Scheme::Nt);
        let now = now();
        self.drain_data();
        (inode.checksum_of_size(end), now)
    }

    /// Stores the size of `append`, whose bytes are stored, and makes both durable. Returns true if they count.
    #[inline(always)]
    fn publish(&self, end_is_ours: FileEndHold<'_>, version: LockVersion, append: &StoredAppend<'_>) -> bool {
        let StoredAppend { file, inode, checksum, at, now } = *append;
        planted!("fs: before size" => ());
        self.shared_state.note_size_before(self.slot, end_is_ours.at_work.turn(), inode.size);
        let times = AppendTimes { written: now, accessed: file.atime };
        let known = inode.store(self.memory, checksum, times, Scheme::Nt);
        // If this client has lost the end by now, none of that counts, because the version is another one, too.
        self.end.note(version, known);
        self.reader(version).keep(at, file.grown(inode.word(known.size), checksum.bytes(), now));
        self.memory.fence();
        planted!("fs: append kept" => ());
        end_is_ours.finish() && self.shared_state.is_owner_alive()
    }

    /// Returns a snapshot of the 2 MiB around byte `at`, for the holder of the end. If the size is known, no other
    /// thread stored one since, and pages stay where they are (FH1).
    #[inline]
    fn look_at_end(&self, version: LockVersion, at: u64, is_known: bool) -> Option<InodeSnapshot> {
        let piece = FileBlock { shared_state: self.shared_state.id(), ino: self.ino, block: at / CHUNK };
        let seen = if is_known { hints::find(piece, version) } else { None };
        seen.or_else(|| self.reader(version).look(at))
    }
}
