//! The shared state: what a client beside the owner must know at each step, in words that all of them map.
//!
//! ```text
//! word  0        liveness of the owner (low half)
//!       1        the pool's uuid, generation of the tag, first and last session (2, 1, 1, 1)
//!       16       gate: not 0 while changes wait   17 pages of the pool, if there is a tier, else 0   18 chunk words
//!       32       version[1024], each with writes_wait on 128 bytes of its own: the locks of inodes
//!       16416    thread slot[1024] of 64 bytes:   0 pin   1 the session that claimed it, or 0
//!                                                2 reads   3 bytes of them   4 writes   5 bytes of them
//!       24608    lease[16384] of 64 bytes: 0 state   1 time of the last write   2 time of the first read since
//!                                          3 turn of an append and the size before it   4 other leases on the file
//!       155680   chunk[]: where each chunk lies, with its kind in the low bits
//!                with a tier, one byte for each page of the pool: 1 if it was stored to; then as many: 1 if it was read;
//!                in the next whole word, transfer area[64] of 1 MiB: bytes of files beside a request of a session
//! ```
//!
//! The words are DRAM and end with the owner and its clients. A wrong word of a client harms only that client.

mod transfer_area;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use ferrite_memory::{LivenessWord, SharedWords, barrier_abroad};
use ferrite_pool::Result;
use ferrite_pool::grant::GrantId;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use crate::format::attr::Ino;
use crate::format::inode::{SIZE, SIZE_BITS};
use crate::format::layout::{CHUNK_INODES, ChunkKind, INODE};
use crate::format::noted_times::NotedTimes;
use crate::share::layout::lease_state::{LeaseMode, LeaseState};
use crate::view::version::{ChunkPlaces, LockVersion, StateId};
use transfer_area::transfer_words;

pub use transfer_area::{TRANSFER_AREAS, TRANSFER_BYTES};

/// The version of the layout of these words, and of the words that clients store to inodes. Owner and client need the
/// same version; versions before 2 are not reported.
pub const LAYOUT: u32 = 4;

/// Refuses the other side of a session if its layout differs.
///
/// # Errors
/// [`ferrite_pool::Error::Busy`] if `layout` is not [`LAYOUT`].
pub fn ensure_alike(layout: u32) -> Result<()> {
    if layout == LAYOUT {
        return Ok(());
    }
    let why =
        "the file system is served by another version of ferrite than runs the program: mount it again by this one";
    Err(ferrite_pool::Error::Busy(why.into()))
}

/// Locks of inodes.
pub(crate) const STRIPES: u64 = 1024;
/// Threads of clients that may be at work at once.
pub const THREAD_SLOTS: usize = 1024;
/// Leases that may be out at once.
pub const LEASES: usize = 16384;

const LIVENESS: usize = 0;
const NAME: usize = 1;
const GATE: usize = 16;
const TIER_PAGES: usize = 17;
const CHUNK_COUNT: usize = 18;
const VERSIONS: usize = 32;
const VERSION_WORDS: usize = 16;
const SEATS_AT: usize = VERSIONS + STRIPES as usize * VERSION_WORDS;
const LEASES_AT: usize = SEATS_AT + THREAD_SLOTS * LINE;
const CHUNKS_AT: usize = LEASES_AT + LEASES * LINE;
/// Words of a line.
const LINE: usize = 8;

const KIND: u64 = CHUNK - 1;

/// The first word of a thread slot that counts.
const COUNTS_AT: usize = 2;

/// A request that a client does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectRequest {
    /// A read.
    Read,
    /// A write or an append.
    Write,
}

/// The distance between the locks of two neighbouring chunks: an odd number, so that chunks differ at any distance.
const CHUNK_STRIDE: u64 = 61;

/// Which lock is an inode's. Threads take inodes from chunks of their own, each from the first one on: equal places of
/// different chunks have different locks.
#[inline(always)]
pub(crate) fn stripe(ino: Ino) -> u64 {
    ino.0.wrapping_add(ino.0 / CHUNK_INODES * CHUNK_STRIDE) % STRIPES
}

/// The file system that shared words belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateOwner {
    pub(crate) pool: [u8; 16],
    /// The generation of its tag.
    pub(crate) generation: u64,
}

impl StateOwner {
    fn words(self) -> [u64; 3] {
        let pool = u128::from_le_bytes(self.pool);
        [pool as u64, (pool >> 64) as u64, self.generation]
    }
}

/// Returns the words of the marks of `tier_pages` pages.
fn mark_words(tier_pages: u64) -> u64 {
    tier_pages.saturating_mul(2).div_ceil(8)
}

/// The shared words, mapped.
#[derive(Debug)]
pub struct SharedState {
    /// All but the chunks are there for sure.
    words: SharedWords<CHUNKS_AT>,
    /// Numbers that chunks may have, and pages with marks: not from the words, which any client may change.
    chunks: u64,
    tier_pages: u64,
    /// Tells these words from others of the process.
    pub id: StateId,
}

impl SharedState {
    /// A new one, for `chunks` chunks, and with marks for `tier_pages` pages of the pool (TI4).
    pub(crate) fn new(chunks: u64, tier_pages: u64) -> Result<Self> {
        let more = mark_words(tier_pages) + transfer_words(tier_pages);
        let words = SharedWords::new(CHUNKS_AT + (chunks + more) as usize)?;
        let new = Self { words, chunks, tier_pages, id: StateId::new() };
        new.words.first()[TIER_PAGES].store(tier_pages, Ordering::Relaxed);
        new.words.first()[CHUNK_COUNT].store(chunks, Ordering::Release);
        Ok(new)
    }

    /// Maps the words that the owner shares as `fd`.
    ///
    /// # Errors
    /// Fails if they cannot be mapped, or `fd` is too small for them.
    pub fn of(fd: OwnedFd) -> Result<Self> {
        let words: SharedWords<CHUNKS_AT> = SharedWords::of(fd)?;
        let [pages, chunks] = [TIER_PAGES, CHUNK_COUNT].map(|word| words.first()[word].load(Ordering::Acquire));
        let more = mark_words(pages).saturating_add(transfer_words(pages));
        if chunks.saturating_add(more).saturating_add(CHUNKS_AT as u64) != words.count() as u64 {
            return Err(ferrite_pool::Error::Busy("the shared state has another size than it says".into()));
        }
        Ok(Self { words, chunks, tier_pages: pages, id: StateId::new() })
    }

    /// Pages of the pool that have marks; 0 without a tier.
    #[inline(always)]
    pub fn tier_pages(&self) -> u64 {
        self.tier_pages
    }

    /// The mark of a store to page `page` of the pool; it has marks.
    #[inline]
    pub(crate) fn stored(&self, page: u64) -> &AtomicU8 {
        self.words.byte((CHUNKS_AT + self.chunks() as usize) * 8 + page as usize)
    }

    /// The mark of a read.
    #[inline]
    pub(crate) fn touched(&self, page: u64) -> &AtomicU8 {
        self.words.byte((CHUNKS_AT + self.chunks() as usize) * 8 + (self.tier_pages() + page) as usize)
    }

    /// Marks what `len` bytes from `at` of the pool on touch as stored to, if there is a tier. The bytes are stored, and
    /// the caller's pin or lock lasts (TI4).
    #[inline(always)]
    pub fn note_stored(&self, at: u64, len: usize) {
        if self.tier_pages() != 0 {
            self.mark(at, len, Self::stored);
        }
    }

    /// Marks what `len` bytes from `at` of the pool on touch as read, if there is a tier.
    #[inline(always)]
    pub fn note_touched(&self, at: u64, len: usize) {
        if self.tier_pages() != 0 {
            self.mark(at, len, Self::touched);
        }
    }

    #[inline]
    fn mark(&self, at: u64, len: usize, mark: impl Fn(&Self, u64) -> &AtomicU8) {
        let last = (at + len.max(1) as u64 - 1) / PAGE;
        for page in at / PAGE..=last.min(self.tier_pages() - 1) {
            let mark = mark(self, page);
            // A mark that is set is not stored to again: its line stays shared.
            if mark.load(Ordering::Relaxed) == 0 {
                mark.store(1, Ordering::Release);
            }
        }
    }

    /// A descriptor of it for a client.
    pub(crate) fn share(&self) -> Result<OwnedFd> {
        Ok(self.words.share()?)
    }

    /// Shows that the owner lives, until the result is dropped.
    pub(crate) fn announce_owner(&self) -> Result<LivenessWord> {
        Ok(LivenessWord::set(&self.words, LIVENESS)?)
    }

    /// Returns true if the owner lives.
    #[inline(always)]
    pub fn is_owner_alive(&self) -> bool {
        LivenessWord::is_alive(&self.words.first()[LIVENESS])
    }

    /// Keeps children that are forked from having the words mapped.
    pub fn keep_from_children(&self) {
        self.words.keep_from_children();
    }

    /// Unmaps the words: from now on they show no owner.
    pub fn withdraw(&self, instead: BorrowedFd<'_>) {
        self.words.withdraw(instead);
    }

    /// Names the file system that the words belong to, and adds `session`. Sessions of a pool have ascending numbers
    /// under every owner: all between the first and the last one belong to these words.
    pub(crate) fn add_session(&self, state_owner: StateOwner, session: GrantId) {
        let word = |index| &self.words.first()[NAME + index];
        for (index, part) in state_owner.words().into_iter().enumerate() {
            word(index).store(part, Ordering::Relaxed);
        }
        let _ = word(3).compare_exchange(0, session.0, Ordering::Relaxed, Ordering::Relaxed);
        word(4).store(session.0, Ordering::Release);
    }

    /// Returns true if `session` belongs to these words. Words of older versions of Ferrite never say so.
    pub(crate) fn has(&self, state_owner: StateOwner, session: GrantId) -> bool {
        let word = |index: usize| self.words.first()[NAME + index].load(Ordering::Acquire);
        (word(3)..=word(4)).contains(&session.0) && state_owner.words() == [word(0), word(1), word(2)]
    }

    /// Returns true if no thread of `session`, which belongs to these words, stores anything any more. The owner is
    /// gone, and a thread that pins behind the barrier sees that before it stores (FG1, FG2).
    pub(crate) fn is_left_by(&self, session: GrantId) -> bool {
        if self.is_owner_alive() {
            return false;
        }
        barrier_abroad();
        let is_theirs = |thread_slot: &usize| self.slot_session(*thread_slot).load(Ordering::Acquire) == session.0;
        (0..THREAD_SLOTS)
            .filter(is_theirs)
            .all(|thread_slot| self.pin(thread_slot).load(Ordering::Acquire).is_multiple_of(2))
    }

    /// The word of the gate: not 0 while changes wait.
    #[inline(always)]
    pub fn gate(&self) -> &AtomicU64 {
        &self.words.first()[GATE]
    }

    #[inline(always)]
    pub(crate) fn version(&self, stripe: u64) -> &AtomicU64 {
        &self.words.first()[VERSIONS + (stripe % STRIPES) as usize * VERSION_WORDS]
    }

    #[inline(always)]
    pub(crate) fn writes_wait(&self, stripe: u64) -> &AtomicU64 {
        &self.words.first()[VERSIONS + (stripe % STRIPES) as usize * VERSION_WORDS + 1]
    }

    /// Returns the current version of the lock of `ino`, even or odd.
    #[inline(always)]
    pub fn version_of(&self, ino: Ino) -> LockVersion {
        LockVersion(self.version(stripe(ino)).load(Ordering::Acquire))
    }

    /// Returns the version from which a reader without a lock starts; `None` while a thread changes something.
    #[inline(always)]
    pub fn even_version(&self, ino: Ino) -> Option<LockVersion> {
        let version = self.version_of(ino);
        if version.0.is_multiple_of(2) { Some(version) } else { None }
    }

    /// Returns the version from which a writer without a lock starts; `None` while writers wait.
    #[inline(always)]
    pub fn version_to_write(&self, ino: Ino) -> Option<LockVersion> {
        let version = self.even_version(ino)?;
        if self.writes_wait(stripe(ino)).load(Ordering::Acquire) == 0 { Some(version) } else { None }
    }

    /// Returns true if nothing changed since `version`. The caller keeps its earlier loads ahead of this one.
    #[inline(always)]
    pub fn is_still(&self, ino: Ino, version: LockVersion) -> bool {
        self.version(stripe(ino)).load(Ordering::Relaxed) == version.0
    }

    /// Word `word` of slot `thread_slot`.
    #[inline(always)]
    fn thread_slot(&self, thread_slot: usize, word: usize) -> &AtomicU64 {
        debug_assert!(thread_slot < THREAD_SLOTS);
        &self.words.first()[SEATS_AT + thread_slot % THREAD_SLOTS * LINE + word % LINE]
    }

    /// The pin of slot `thread_slot`.
    #[inline(always)]
    pub fn pin(&self, thread_slot: usize) -> &AtomicU64 {
        self.thread_slot(thread_slot, 0)
    }

    /// The session that has claimed slot `thread_slot`; 0 if none has.
    pub fn slot_session(&self, thread_slot: usize) -> &AtomicU64 {
        self.thread_slot(thread_slot, 1)
    }

    /// Counts a request of the thread that has slot `thread_slot`, which moved `bytes`. The counts stay when another
    /// thread claims the slot. A signal handler that interrupts this may lose a count.
    #[inline(always)]
    pub fn count(&self, thread_slot: usize, request: DirectRequest, bytes: usize) {
        let words = COUNTS_AT + 2 * request as usize;
        for (word, amount) in [(words, 1), (words + 1, bytes as u64)] {
            let count = self.thread_slot(thread_slot, word);
            count.store(count.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Returns the number of requests of all clients since the file system was mounted, and their bytes.
    pub(crate) fn counts(&self, request: DirectRequest) -> (u64, u64) {
        let words = COUNTS_AT + 2 * request as usize;
        let sum = |word| {
            let counts =
                (0..THREAD_SLOTS).map(|thread_slot| self.thread_slot(thread_slot, word).load(Ordering::Relaxed));
            counts.fold(0, u64::wrapping_add)
        };
        (sum(words), sum(words + 1))
    }

    /// Word `word` of lease `lease`.
    #[inline(always)]
    fn leased(&self, lease: usize, word: usize) -> &AtomicU64 {
        debug_assert!(lease < LEASES);
        &self.words.first()[LEASES_AT + lease % LEASES * LINE + word % LINE]
    }

    /// The state of lease `lease`.
    #[inline(always)]
    pub fn lease(&self, lease: usize) -> &AtomicU64 {
        self.leased(lease, 0)
    }

    /// The state of lease `lease`.
    #[inline(always)]
    pub fn state(&self, lease: usize) -> LeaseState {
        LeaseState(self.lease(lease).load(Ordering::Acquire))
    }

    /// Returns true if the owner lives and lets who has lease `lease` with this serial do what `least` may.
    #[inline(always)]
    pub fn allows(&self, lease: usize, serial: u64, least: LeaseMode) -> bool {
        self.is_owner_alive() && self.state(lease).mode(serial) >= least
    }

    /// When its file was last written to, in nanoseconds since the start of 1970; 0 if the inode has it already.
    #[inline(always)]
    pub fn written(&self, lease: usize) -> &AtomicU64 {
        self.leased(lease, 1)
    }

    /// When its file was first read since its last change, likewise.
    #[inline(always)]
    pub fn accessed(&self, lease: usize) -> &AtomicU64 {
        self.leased(lease, 2)
    }

    /// Returns the times that clients noted in `lease`, and clears them.
    pub(crate) fn take_noted_times(&self, lease: usize) -> NotedTimes {
        let take = |word: &AtomicU64| match word.load(Ordering::Acquire) {
            0 => 0,
            _ => word.swap(0, Ordering::AcqRel),
        };
        NotedTimes { written: take(self.written(lease)), accessed: take(self.accessed(lease)) }
    }

    /// Returns the times that are noted in `lease`.
    pub fn noted_times(&self, lease: usize) -> NotedTimes {
        let load = |word: &AtomicU64| word.load(Ordering::Acquire);
        NotedTimes { written: load(self.written(lease)), accessed: load(self.accessed(lease)) }
    }

    /// Says, before a size is stored in an append of turn `turn`, that it was `size`.
    #[inline]
    pub fn note_size_before(&self, lease: usize, turn: u64, size: u64) {
        self.leased(lease, 3).store(turn << SIZE_BITS | size, Ordering::Release);
    }

    /// Clears the note on the first turn.
    pub(crate) fn forget_size_before(&self, lease: usize) {
        self.note_size_before(lease, 1, 0);
    }

    /// Returns the turn of the last note, and the noted size.
    pub(crate) fn size_before(&self, lease: usize) -> (u64, u64) {
        let word = self.leased(lease, 3).load(Ordering::Acquire);
        (word >> SIZE_BITS, word & SIZE)
    }

    /// How many other leases its file has.
    #[inline]
    pub fn others(&self, lease: usize) -> &AtomicU64 {
        self.leased(lease, 4)
    }

    /// Numbers that chunks may have.
    #[inline]
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    #[inline]
    fn chunk(&self, chunk: u64) -> Option<u64> {
        (chunk < self.chunks()).then(|| self.words.word(CHUNKS_AT + chunk as usize).load(Ordering::Acquire))
    }

    /// Returns where chunk `chunk` lies in the pool; 0 if no chunk has this number.
    #[inline]
    pub(crate) fn base(&self, chunk: u64) -> u64 {
        self.chunk(chunk).map_or(0, |word| word & !KIND)
    }

    /// What chunk `chunk`, which is there, is used for.
    #[inline]
    pub(crate) fn kind(&self, chunk: u64) -> u64 {
        self.chunk(chunk).map_or(0, |word| word & KIND)
    }

    /// Gives chunk `chunk` a place, or takes it away (0).
    pub(crate) fn set_base(&self, chunk: u64, base: u64) {
        self.change(chunk, |word| base | word & KIND);
    }

    pub(crate) fn set_kind(&self, chunk: u64, kind: ChunkKind) {
        self.change(chunk, |word| word & !KIND | kind as u64);
    }

    fn change(&self, chunk: u64, how: impl Fn(u64) -> u64) {
        let word = self.words.word(CHUNKS_AT + chunk as usize);
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| Some(how(word)));
    }
}

impl ChunkPlaces for SharedState {
    #[inline(always)]
    fn id(&self) -> StateId {
        self.id
    }

    /// Returns where `page` lies in the pool; `None` if there is no such page.
    #[inline]
    fn place(&self, page: u64) -> Option<u64> {
        let base = self.base(page / CHUNK_PAGES);
        (base != 0).then_some(base + page % CHUNK_PAGES * PAGE)
    }

    /// Returns where inode `number` lies in the pool; `None` if there is no such inode.
    #[inline]
    fn inode_place(&self, number: u64) -> Option<u64> {
        let word = self.chunk(number / CHUNK_INODES)?;
        let is_inodes = word & KIND == ChunkKind::Inodes as u64 && word & !KIND != 0;
        is_inodes.then_some((word & !KIND) + number % CHUNK_INODES * INODE)
    }
}

#[cfg(test)]
mod tests;
