//! What a read or an overwrite needs of an inode, word by word. Finding a page takes a dozen loads, or one if the
//! thread has cached the previous lookup (`hints`).
//!
//! Nothing is checked twice and nothing is copied: what a snapshot does not find at once is left to the lookup under a
//! lock.

use ferrite_memory::Memory;
use ferrite_pool::layout::CHUNK;

use crate::format::append_checksum::AppendChecksums;
use crate::format::attr::KIND_MASK;
use crate::format::inode::{ATIME, DIRECT, DIRECT_SIZE_AT, Inode, MTIME, SIZE, SIZE_AT, SIZE_BITS};
use crate::format::noted_times::NotedTimes;
use crate::view::hints::{self, FileBlock};
use crate::view::index_reader::{BlockPlace, FoundBytes, IndexReader};
use crate::view::superpage_cache::SuperpagePlace;
use crate::view::version::{ChunkPlaces, LockVersion};
use crate::{Attr, Ino};

/// Words of a [`InodeSnapshot`].
pub(crate) const SNAPSHOT_WORDS: usize = 6;

/// How often the direct words are read again during an append, which stores a page at most and whose words become
/// visible in any order.
const LOOKS: u32 = 64;

/// Words of an inode's head, up to its times.
const HEAD_WORDS: usize = (ATIME / 8 + 1) as usize;

/// The size, the times and 2 MiB of a regular file, as they were at one version of its lock.
#[derive(Clone, Copy, Debug)]
pub struct InodeSnapshot {
    /// The offset of its inode.
    pub at: u64,
    /// The word of the size that is stored directly, valid or not.
    direct_size: u64,
    /// Bytes of the file.
    pub size: u64,
    /// How many bytes the append checksum of the size covers; 0 without a checksum (FP3).
    checksum_bytes: u64,
    /// When its content changed, in nanoseconds since the start of 1970.
    pub mtime: i64,
    /// When it was read, likewise.
    pub atime: i64,
    block: BlockPlace,
}

/// The directly stored words of an inode.
struct DirectWords {
    /// The words replace the values of the head.
    counts: bool,
    /// The word of the size.
    word: u64,
    /// How many bytes its append checksum covers; 0 without a checksum.
    checksum_bytes: u64,
    /// The times of change and of access.
    times: [u64; 2],
}

/// Reads one file without its lock. A snapshot counts while the version of the lock is the same.
#[derive(Clone, Copy, Debug)]
pub struct InodeReader<'a, M: ?Sized, P: ?Sized> {
    /// The memory of the pool.
    pub memory: &'a M,
    /// The places of pages and inodes.
    pub shared_state: &'a P,
    /// The file.
    pub ino: Ino,
    /// The version of its lock.
    pub version: LockVersion,
}

impl InodeSnapshot {
    /// Nothing.
    pub(crate) const NONE: Self =
        Self { at: 0, direct_size: 0, size: 0, checksum_bytes: 0, mtime: 0, atime: 0, block: BlockPlace::HOLE };

    /// All of it, to be kept.
    pub(crate) fn words(&self) -> [u64; SNAPSHOT_WORDS] {
        let size = self.size | self.checksum_bytes << SIZE_BITS;
        [self.at, self.direct_size, size, self.mtime as u64, self.atime as u64, self.block.0]
    }

    /// Returns the snapshot from its cached words.
    #[inline(always)]
    pub(crate) fn of([at, direct_size, size, mtime, atime, block]: [u64; SNAPSHOT_WORDS]) -> Self {
        let (size, checksum_bytes) = (size & SIZE, size >> SIZE_BITS);
        Self {
            at,
            direct_size,
            size,
            checksum_bytes,
            mtime: mtime as i64,
            atime: atime as i64,
            block: BlockPlace(block),
        }
    }

    /// [`InodeSnapshot::super_place`] by the last of the words that were kept.
    #[inline(always)]
    pub(crate) fn guess(block: u64, at: u64) -> Option<u64> {
        BlockPlace(block).super_place(at)
    }

    /// Announces a store to `place`, where byte `at` lies, if that could not be guessed.
    #[inline(always)]
    pub fn expect_store(&self, memory: &(impl Memory + ?Sized), at: u64, place: u64) {
        if self.super_place(at).is_none() {
            memory.expect_store(place);
        }
    }

    /// Returns the snapshot after an append has stored the size word `direct_size`, with a checksum of
    /// `checksum_bytes` bytes.
    #[inline]
    pub fn grown(self, direct_size: u64, checksum_bytes: u64, now: i64) -> Self {
        Self { direct_size, size: direct_size & SIZE, checksum_bytes, mtime: now, ..self }
    }

    /// Returns how many bytes may be stored over: those before the bytes that the size rests on (FP3).
    #[inline(always)]
    pub fn overwritable_bytes(&self) -> u64 {
        self.size - self.checksum_bytes
    }

    /// Returns the place of byte `at`, which is in the 2 MiB of the snapshot, if that is a superpage.
    #[inline(always)]
    pub fn super_place(&self, at: u64) -> Option<u64> {
        self.block.super_place(at)
    }

    /// Returns the superpage around byte `at` of the snapshot, if it is one: its place, and how many of its bytes are
    /// before the end.
    pub fn superpage(&self, version: LockVersion, at: u64) -> Option<SuperpagePlace> {
        let (place, bytes) = (self.super_place(at - at % CHUNK)?, self.size.saturating_sub(at - at % CHUNK).min(CHUNK));
        let (size_at, direct_size) = (self.at + DIRECT_SIZE_AT, self.direct_size);
        Some(SuperpagePlace { version, place, bytes, size_at, direct_size })
    }

    /// Returns true if it was changed since it was read.
    #[inline]
    pub fn is_unread(&self) -> bool {
        self.atime <= self.mtime
    }
}

impl<M: Memory + ?Sized, P: ChunkPlaces + ?Sized> InodeReader<'_, M, P> {
    /// The file, if it is a regular one, and the 2 MiB around byte `at`.
    // Always: what it finds stays in registers.
    #[inline(always)]
    pub fn look(&self, at: u64) -> Option<InodeSnapshot> {
        match self.recall(at) {
            Some(seen) => Some(seen),
            None => {
                self.read_snapshot(FileBlock { shared_state: self.shared_state.id(), ino: self.ino, block: at / CHUNK })
            }
        }
    }

    /// The same, by what this thread remembers alone.
    #[inline(always)]
    pub fn recall(&self, at: u64) -> Option<InodeSnapshot> {
        let seen = hints::find(
            FileBlock { shared_state: self.shared_state.id(), ino: self.ino, block: at / CHUNK },
            self.version,
        )?;
        if self.is_as_seen(&seen) { Some(seen) } else { None }
    }

    /// Returns the place of the `len` bytes from byte `at` on, in the 2 MiB of the snapshot, if they are before the
    /// end and adjacent in a page or superpage.
    #[inline(always)]
    pub fn place_of(&self, seen: &InodeSnapshot, at: u64, len: usize) -> Option<u64> {
        at.checked_add(len as u64).filter(|end| *end <= seen.size && *end > at)?;
        if let Some(place) = seen.super_place(at) {
            return (len as u64 <= CHUNK - at % CHUNK).then_some(place);
        }
        match self.find(seen, at)? {
            FoundBytes::At(place, together) if len as u64 <= together => Some(place),
            _ => None,
        }
    }

    /// Returns true if no size was stored since. The caller knows by the version that nothing else was changed.
    #[inline(always)]
    pub(crate) fn is_as_seen(&self, seen: &InodeSnapshot) -> bool {
        self.memory.load_word(seen.at + DIRECT_SIZE_AT) == seen.direct_size
    }

    /// Returns the attributes of the file that was `seen`, with the times that clients `noted`; `None` if it is no
    /// file.
    pub fn attr(&self, seen: &InodeSnapshot, noted: NotedTimes, now: i64) -> Option<Attr> {
        let mut inode = Inode::load(self.memory, self.ino, seen.at, |_, _| true);
        // Another thread may be at the end: of that, what was found before counts.
        inode.head.size = seen.size;
        noted.apply(&mut inode, now);
        inode.attr()
    }

    /// Keeps what is known of the file and the 2 MiB around byte `at`.
    pub fn keep(&self, at: u64, snapshot: InodeSnapshot) {
        hints::keep(
            FileBlock { shared_state: self.shared_state.id(), ino: self.ino, block: at / CHUNK },
            self.version,
            snapshot,
        );
    }

    #[inline(never)]
    fn read_snapshot(&self, piece: FileBlock) -> Option<InodeSnapshot> {
        let at = self.shared_state.inode_place(self.ino.0)?;
        let mut head = [0; HEAD_WORDS];
        self.memory.load_words(at, &mut head);
        if head[0] as u16 & KIND_MASK != 0o100000 {
            return None;
        }
        let (size, height) = (head[(SIZE_AT / 8) as usize], (head[0] >> 16) as u32 & 0xff);
        let direct = (0..LOOKS).find_map(|_| self.direct(at, size, height))?;
        let (size, checksum_bytes, [mtime, atime]) = match direct.counts {
            true => (direct.word, direct.checksum_bytes, direct.times),
            false => (size, 0, [MTIME, ATIME].map(|time| head[(time / 8) as usize])),
        };
        let block = self.index(at).block(height, piece.block)?;
        let (mtime, atime, direct_size) = (mtime as i64, atime as i64, direct.word);
        let snapshot = InodeSnapshot { at, direct_size, size: size & SIZE, checksum_bytes, mtime, atime, block };
        hints::keep(piece, self.version, snapshot);
        Some(snapshot)
    }

    /// Returns the direct words of an inode whose head has the size `head_size`; `None` during an append, or if they
    /// are remains of a crashed one (FP4).
    fn direct(&self, at: u64, head_size: u64, height: u32) -> Option<DirectWords> {
        let mut words = [0; 8];
        self.memory.load_words(at + DIRECT, &mut words);
        let [mtime, _, atime, word, checksums @ ..] = words;
        let epoch = (word >> SIZE_BITS) as u16;
        let counts = head_size >> SIZE_BITS == u64::from(epoch);
        let of = |checksum_bytes| Some(DirectWords { counts, word, checksum_bytes, times: [mtime, atime] });
        let checksum = if counts { AppendChecksums::of_words(checksums).whole(epoch).greatest() } else { None };
        let Some(checksum) = checksum else { return of(0) };
        let is_there = checksum.size() == word & SIZE && checksum.bytes() <= checksum.size();
        if is_there && (checksum.bytes() == 0 || self.index(at).holds(height, checksum)) {
            of(checksum.bytes())
        } else {
            None
        }
    }

    /// Returns the place of the bytes from byte `at` on, in the 2 MiB of the snapshot, even behind the end; `None` for
    /// damage.
    #[inline(always)]
    pub fn find(&self, seen: &InodeSnapshot, at: u64) -> Option<FoundBytes> {
        self.index(seen.at).find(seen.block, at)
    }

    #[inline(always)]
    fn index(&self, at: u64) -> IndexReader<'_, M, impl Fn(u64) -> Option<u64>> {
        IndexReader { memory: self.memory, place: |page| self.shared_state.place(page), at }
    }
}
