//! Appending, as a client does it by itself (FG7).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{Memory, Scheme};
use ferrite_pool::layout::CHUNK;

use super::{Hands, Tried};
use ferrite_fs::format::append_checksum::Proof;
use ferrite_fs::format::inode::End;
use ferrite_fs::format::layout::FILE_BYTES_MAX;
use ferrite_fs::share::layout::brief_wait::wait_a_little;
use ferrite_fs::share::layout::lease_state::{Mode, State};
use ferrite_fs::share::layout::shared_state::Board;
use ferrite_fs::view::hints::{self, Piece};
use ferrite_fs::view::index_reader::Found;
use ferrite_fs::view::inode_snapshot::{Sight, Viewer};
use ferrite_fs::view::version::{Places, Version};

/// At work at the end of a file; nobody else is until this is dropped.
struct AtEnd<'a> {
    word: &'a AtomicU64,
    at_work: State,
}

impl AtEnd<'_> {
    /// Lets go, once: what is at work a moment later may be another thread. Whether it was ours to the last (FG7).
    #[inline(always)]
    fn finish(self) -> bool {
        let was_ours = self.let_go(self.at_work.finished());
        std::mem::forget(self);
        was_ours
    }

    fn let_go(&self, to: State) -> bool {
        self.word.compare_exchange(self.at_work.0, to.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.let_go(self.at_work.to(Mode::Append));
    }
}

impl<M: Memory + ?Sized> Hands<'_, M> {
    /// Takes the end of the file, where neither the owner nor another thread has it.
    #[inline(always)]
    fn take_end(&self) -> Option<AtEnd<'_>> {
        let (word, free) = (self.board.lease(self.slot), self.state());
        if free.mode(self.serial) != Mode::Append {
            return None;
        }
        let at_work = free.to(Mode::AtWork);
        let taken = word.compare_exchange(free.0, at_work.0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        // Made only where it was taken: dropping one lets go.
        if taken { Some(AtEnd { word, at_work }) } else { None }
    }

    /// Waits, not pinned, until nobody has the end of the file; whether that came soon.
    #[inline]
    fn may_append_soon(&self) -> bool {
        let is_known = || self.mode() <= Mode::Append;
        (is_known() || wait_a_little(is_known)) && self.mode() >= Mode::Append
    }

    /// FW1: what a size is to cover is durable on return.
    #[inline(always)]
    fn settle_data(&self) {
        ferrite_fs::planted!(SizeBeforeData => return);
        self.memory.fence();
    }

    /// Writes from byte `at` on, or from the end, to behind the end, or over what the size rests on; where it went (FG7).
    /// Durable on return.
    #[inline]
    pub fn append(&self, seat: usize, at: Option<u64>, from: &[u8], now: impl Fn() -> i64) -> Tried<u64> {
        if !self.may_append_soon() || !self.may_write_soon() {
            return Tried::Refused;
        }
        let Some(_pin) = self.foreign.pin(self.board.pin(seat)) else { return Tried::Refused };
        let Some(end_is_ours) = self.take_end() else { return Tried::Overtaken };
        // Whoever changes a file with this lock takes the end first: nothing changes until we let go, or it is forced.
        if !self.lets_write() {
            return Tried::Refused;
        }
        let Some(version) = self.board.version_to_write(self.ino) else { return Tried::Overtaken };
        let (place, known) = (self.board.inode_place(self.ino.0), self.end.after(version));
        let Some(inode) = place.and_then(|place| End::of(self.memory, place, known)) else { return Tried::Refused };
        // Where an append goes is known only now.
        let at = at.unwrap_or(inode.size);
        let Some(file) = self.look_at_end(version, at, known.is_some()) else { return Tried::Refused };
        let end = at.saturating_add(from.len() as u64);
        if at > inode.size || end > FILE_BYTES_MAX {
            return Tried::Refused;
        }
        if inode.is_cut {
            return Tried::NoPages;
        }
        let inode = if at < inode.size { self.rest_on_none(version, &inode, (now(), file.atime)) } else { inode };
        match self.copy_in(version, &file, at, from) {
            Tried::Done(()) => {}
            Tried::NoPages => return Tried::NoPages,
            _ => return Tried::Refused,
        }
        let now = now();
        self.settle_data();
        let (seen, proof) = ((self.viewer(version), file), inode.proof_of_size(inode.size.max(end)));
        if self.show(end_is_ours, seen, (&inode, proof), at..end, now) { Tried::Done(at) } else { Tried::Refused }
    }

    /// Lets the size, which bytes were stored behind, rest on no bytes (FP3); durable on return.
    fn rest_on_none(&self, version: Version, inode: &End, times: (i64, i64)) -> End {
        if !inode.rests_on_bytes() {
            return *inode;
        }
        let known = inode.store(self.memory, inode.proof_of_size(inode.size), times, Scheme::Nt);
        self.memory.fence();
        self.end.note(version, known);
        inode.after(known)
    }

    /// The usual case of it, where this client's last append ended: nothing is said of others.
    #[inline(always)]
    pub fn append_together(&self, seat: usize, at: u64, from: &[u8], now: impl Fn() -> i64) -> Option<()> {
        let _pin = self.foreign.pin(self.board.pin(seat))?;
        let end_is_ours = self.take_end()?;
        let version = self.board.version_to_write(self.ino)?;
        let known = self.end.after(version)?;
        if !self.lets_write() || known.size != at {
            return None;
        }
        let mut file = hints::find(Piece { board: self.board.id(), ino: self.ino, block: at / CHUNK }, version)?;
        let inode = End::of(self.memory, file.at, Some(known))?;
        let end = at.checked_add(from.len() as u64)?;
        let Found::At(place, together) = self.find(version, &mut file, at)? else { return None };
        file.expect_store(self.memory, at, place);
        if from.len() as u64 > together || inode.is_cut || end > FILE_BYTES_MAX || !self.is_still(version) {
            return None;
        }
        ferrite_fs::stop_point!(Store);
        let (proof, now) = self.store_proved(&inode, (place, end), from, now);
        if self.show(end_is_ours, (self.viewer(version), file), (&inode, proof), at..end, now) {
            Some(())
        } else {
            None
        }
    }

    /// Stores `from` at the end, which lies there; what proves the new end, as the bytes are durable (FW1), or will be when that
    /// is (FP2); and when that was, asked while they are on their way, for which a fence waits.
    #[inline(always)]
    fn store_proved(&self, inode: &End, (place, end): (u64, u64), from: &[u8], now: impl Fn() -> i64) -> (Proof, i64) {
        if from.len() <= Proof::BYTES_MAX
            && let Some(sum) = self.memory.store_summed(place, from)
        {
            return (inode.proof(end, from.len() as u16, sum.finish()), now());
        }
        self.memory.store(place, from, Scheme::Nt);
        let now = now();
        self.settle_data();
        (inode.proof_of_size(end), now)
    }

    /// Makes `bytes` that were stored durable with the size that `proof` proves, which covers them; whether they count.
    #[inline(always)]
    fn show(
        &self,
        end_is_ours: AtEnd<'_>,
        (viewer, file): (Viewer<'_, M, Board>, Sight),
        (inode, proof): (&End, Proof),
        bytes: Range<u64>,
        now: i64,
    ) -> bool {
        ferrite_fs::stop_point!(Size);
        self.board.note_size_before(self.slot, end_is_ours.at_work.turn(), inode.size);
        let known = inode.store(self.memory, proof, (now, file.atime), Scheme::Nt);
        // Should the end be another's by now, none of that counts: the version is another one, too.
        self.end.note(viewer.version, known);
        viewer.keep(bytes.start, file.grown(inode.word(known.size), proof.bytes(), now));
        self.memory.fence();
        ferrite_fs::stop_point!(Kept);
        end_is_ours.finish() && self.board.is_lit()
    }

    /// The 2 MiB around byte `at`, for who has the end of the file; where that is known nobody stored a size since, but by
    /// this lease, and pages stay where they are (FH1).
    #[inline]
    fn look_at_end(&self, version: Version, at: u64, is_known: bool) -> Option<Sight> {
        let piece = Piece { board: self.board.id(), ino: self.ino, block: at / CHUNK };
        let seen = if is_known { hints::find(piece, version) } else { None };
        seen.or_else(|| self.viewer(version).look(at))
    }
}
