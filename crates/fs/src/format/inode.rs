//! An inode: 256 bytes, persistent from birth.
//!
//! ```text
//! head    0 mode u16   2 height u8   3 flags u8   4 links u32   8 uid u32   12 gid u32   16 size u64
//!         24 mtime i64   32 ctime i64   40 atime i64   48 generation u32   52 orphan u32   56 pages u64
//! roots   64 word[8]: the index of a file, the names of a directory, or a short symbolic link
//! rest    128 btime i64   136 parent u64   144 rdev u64   152 xattrs u64   160 reserved [32]
//! direct  192 mtime i64   200 ctime i64   208 atime i64   216 size u64   224 two append checksums
//! ```
//!
//! An inode is free if its mode is 0. A size has 48 bits and an epoch of 16 bits. The words of `direct` replace those
//! of `head` exactly while both sizes have the same epoch; the append checksums then decide which size counts.
//!
//! - FI1. Everything but `direct` is written by transactions alone, `direct` by single stores alone: a replay of an old
//!   record cannot undo an append (lane L6).
//! - FI2. A transaction that writes `head` copies the values of `direct` and starts an epoch that differs from that
//!   line.
//! - FI3. A new epoch is stored after its times and checksums, by a store of its own. A line keeps the order of its
//!   stores, so an epoch that is there has its times. On a file only a barrier orders two stores, so a crash within
//!   the first fsync of an epoch may leave earlier times. Within an epoch each word is valid alone, and one store
//!   writes all of them.
//! - FI4. A free inode keeps its generation, and the next file in it has the next one. A chunk of free inodes may be
//!   used for another kind, so the first generation of an inode comes from the clock.

mod file_end;

use std::mem::offset_of;
use std::ops::{Deref, DerefMut};

use ferrite_memory::{Memory, Scheme, planted};
use ferrite_pool::layout::PAGE;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::format::append_checksum::{AppendChecksum, AppendChecksums};
use crate::format::attr::KIND_MASK;
use crate::format::layout::{INODE, ROOTS};
use crate::format::word::IndexWord;
use crate::{Attr, FileKind, Ino, Time};

pub use file_end::{AppendTimes, FileEnd, KnownSize};

/// The first line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct InodeHead {
    pub(crate) mode: u16,
    pub(crate) height: u8,
    pub(crate) flags: u8,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// With its epoch on the medium, without in [`Inode`].
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) atime: i64,
    pub(crate) generation: u32,
    /// The number of its orphan word plus 1, or 0.
    pub(crate) orphan: u32,
    pub(crate) pages: u64,
}

/// The third line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct InodeRest {
    pub(crate) btime: i64,
    /// The directory that a directory is in.
    pub(crate) parent: u64,
    pub(crate) rdev: u64,
    pub(crate) xattrs: u64,
    pub(crate) reserved: [u64; 4],
}

/// The fourth line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DirectLine {
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) atime: i64,
    pub(crate) size: u64,
    pub(crate) checksums: AppendChecksums,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct InodeBytes {
    pub(crate) head: InodeHead,
    pub(crate) roots: [IndexWord; ROOTS as usize],
    pub(crate) rest: InodeRest,
    pub(crate) direct: DirectLine,
}

const _: () = assert!(offset_of!(DirectLine, atime) == (ATIME - MTIME) as usize && offset_of!(DirectLine, size) == 24);
const _: () = assert!(size_of::<InodeBytes>() == INODE as usize && size_of::<InodeHead>() == 64);

pub(crate) const SIZE_BITS: u32 = 48;
pub(crate) const SIZE: u64 = (1 << SIZE_BITS) - 1;
/// Offsets of fields that are read one by one, in bytes; in `direct` the times have the same order as in `head`.
pub(crate) const SIZE_AT: u64 = offset_of!(InodeHead, size) as u64;
pub(crate) const MTIME: u64 = offset_of!(InodeHead, mtime) as u64;
const GENERATION: u64 = offset_of!(InodeHead, generation) as u64;
const _: () = assert!(offset_of!(InodeHead, orphan) as u64 == GENERATION + 4 && offset_of!(InodeHead, links) == 4);
pub(crate) const ATIME: u64 = offset_of!(InodeHead, atime) as u64;
pub(crate) const ROOTS_AT: u64 = offset_of!(InodeBytes, roots) as u64;
/// Bytes of a symbolic link that fit the roots.
pub(crate) const TARGET_INLINE: usize = 64;
pub(crate) const DIRECT: u64 = 192;
pub(crate) const DIRECT_SIZE_AT: u64 = DIRECT + offset_of!(DirectLine, size) as u64;

/// Times of overwrites are no finer than this.
pub const TIME_GRAIN_NS: u64 = 1_000_000;

/// Pages behind the end were asked for and are kept when the file is closed.
pub(crate) const KEEPS_PAGES: u8 = 1;
/// A repair found that it has no name; the file system gives it one when it is opened.
pub(crate) const LOST: u8 = 2;

/// An inode, read; its effective values are in `head`, and `direct` is what it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inode {
    media: InodeBytes,
    pub(crate) ino: Ino,
    /// The offset in the pool.
    pub(crate) at: u64,
    /// The epoch of `head`, and the epoch of `direct`.
    epoch: u16,
    direct_epoch: u16,
    /// The values of `direct` are not all of one append (FP4).
    is_torn: bool,
    /// The size that a crash leaves, if the size in `head` waits for an fsync. Transactions write this size until
    /// then.
    durable_size: Option<u64>,
    /// The caller sets the times itself, so changes of the content leave them alone.
    keeps_times: bool,
}

impl Deref for Inode {
    type Target = InodeBytes;

    #[inline]
    fn deref(&self) -> &InodeBytes {
        &self.media
    }
}

impl DerefMut for Inode {
    fn deref_mut(&mut self) -> &mut InodeBytes {
        &mut self.media
    }
}

impl Inode {
    /// Loads the inode at `at`. Its size is the greatest whose checksum `holds`, if it has checksums (FP1).
    #[inline]
    pub(crate) fn load<M: Memory + ?Sized>(
        memory: &M,
        ino: Ino,
        at: u64,
        holds: impl Fn(&Self, AppendChecksum) -> bool,
    ) -> Self {
        let media = InodeBytes::new_zeroed();
        let mut inode =
            Self { media, ino, at, epoch: 0, direct_epoch: 0, is_torn: false, durable_size: None, keeps_times: false };
        memory.load(at, inode.media.as_mut_bytes());
        let InodeBytes { head, direct, .. } = &mut inode.media;
        (inode.epoch, inode.direct_epoch) = ((head.size >> SIZE_BITS) as u16, (direct.size >> SIZE_BITS) as u16);
        head.size &= SIZE;
        if inode.epoch == inode.direct_epoch {
            (head.size, head.mtime, head.ctime) = (direct.size & SIZE, direct.mtime, direct.ctime);
            head.atime = direct.atime;
            direct.checksums = direct.checksums.whole(inode.epoch);
            inode.prove(holds);
        }
        inode
    }

    fn prove(&mut self, holds: impl Fn(&Self, AppendChecksum) -> bool) {
        let Some(greatest) = self.direct.checksums.greatest() else { return };
        let found = self.direct.checksums.in_turn().find(|checksum| checksum.bytes() == 0 || holds(self, *checksum));
        self.is_torn = found != Some(greatest) || greatest.size() != self.head.size;
        // If no checksum holds, another program changed the bytes: no size is certain.
        let least =
            || self.direct.checksums.in_turn().map(|checksum| checksum.size().saturating_sub(checksum.bytes())).min();
        self.head.size = found.map(AppendChecksum::size).or_else(least).unwrap_or(0);
    }

    /// Returns true if the values of `direct` are not all of one append (FP4).
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn && self.epoch == self.direct_epoch
    }

    /// Returns true if its size rests on its last bytes (FP3), or on remains of a crash (FP4): a transaction must
    /// write its head before anything else is stored.
    pub(crate) fn needs_commit(&self) -> bool {
        let rests = || self.direct.checksums.greatest().is_some_and(|checksum| checksum.bytes() > 0);
        self.epoch == self.direct_epoch && (self.is_torn || rests())
    }

    /// Returns the state before a new file is made in the inode: free, with the next generation. The first generation
    /// follows the clock, because earlier files with this number may be unknown.
    pub(crate) fn with_next_generation(&self, now: i64) -> Self {
        let before = if self.head.generation == 0 { (now / 1_000_000) as u32 } else { self.head.generation };
        let head = InodeHead { generation: before.wrapping_add(1).max(1), ..InodeHead::new_zeroed() };
        Self { media: InodeBytes { head, ..InodeBytes::new_zeroed() }, ..*self }
    }

    /// Returns the inode after its end (FI4).
    pub(crate) fn freed(&self) -> Self {
        let head = InodeHead { generation: self.head.generation, ..InodeHead::new_zeroed() };
        // A late store to `direct`, by a client of an owner that was killed, has an earlier epoch.
        Self { media: InodeBytes { head, ..InodeBytes::new_zeroed() }, epoch: self.epoch.wrapping_add(1), ..*self }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.head.mode == 0
    }

    /// Returns true if pages behind its end are still to be freed, because its end was cut off. One that is lost has
    /// its orphan word until it has a name.
    pub(crate) fn is_cut(&self) -> bool {
        self.head.orphan != 0 && self.head.links > 0 && self.head.flags & LOST == 0
    }

    pub(crate) fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.head.mode.into())
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    /// Returns true if it is a symbolic link that has its target in a page.
    pub(crate) fn is_long_link(&self) -> bool {
        self.kind() == Some(FileKind::Symlink) && self.size() > TARGET_INLINE as u64
    }

    /// Sets all its times, of a file that is made.
    pub(crate) fn set_times(&mut self, now: i64) {
        (self.head.mtime, self.head.ctime, self.head.atime, self.rest.btime) = (now, now, now, now);
    }

    /// Sets the times after a change of the content or the entries.
    pub(crate) fn touch(&mut self, now: i64) {
        if !self.keeps_times {
            (self.head.mtime, self.head.ctime) = (now, now);
        }
    }

    /// Keeps the times of the inode, whatever changes its content.
    pub(crate) fn keep_times(&mut self) {
        self.keeps_times = true;
    }

    /// Returns true if the times need no update for a change at `now`: they are kept, or at most `grain` nanoseconds
    /// old.
    pub(crate) fn shows_change_at(&self, now: i64, grain: u64) -> bool {
        self.keeps_times || now.abs_diff(self.head.mtime) < grain
    }

    /// Adds `count` pages. Saturates, because a damaged medium may hold any count of pages and links.
    pub(crate) fn add_pages(&mut self, count: u64) {
        self.head.pages = self.head.pages.saturating_add(count);
    }

    /// Adds `more` links and removes `less`.
    pub(crate) fn count_links(&mut self, more: u32, less: u32) {
        self.head.links = self.head.links.saturating_add(more).saturating_sub(less);
    }

    pub(crate) fn size(&self) -> u64 {
        self.head.size
    }

    /// The size that a crash leaves.
    pub(crate) fn durable_size(&self) -> u64 {
        self.durable_size.unwrap_or(self.head.size)
    }

    /// Keeps the size until an fsync: until [`Inode::mark_size_durable`] a crash leaves `durable_size`.
    pub(crate) fn hold_size(&mut self, durable_size: u64) {
        self.durable_size = Some(durable_size);
    }

    /// What its size covers is durable.
    pub(crate) fn mark_size_durable(&mut self) {
        self.durable_size = None;
    }

    /// Has the next transaction start an epoch that differs from the epochs of `head` and `direct`.
    pub(crate) fn leave_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The bytes of its head for a transaction (FI2).
    fn encode_head(&mut self) -> [u8; 64] {
        planted!("fs: same epoch" => self.direct_epoch = self.epoch.wrapping_add(1));
        if self.epoch == self.direct_epoch {
            self.epoch = self.epoch.wrapping_add(1);
        }
        let size = self.durable_size();
        let head = InodeHead { size: size | u64::from(self.epoch) << SIZE_BITS, ..self.head };
        zerocopy::transmute!(head)
    }

    /// Returns the offset and the bytes of the head for a transaction.
    pub(crate) fn head_bytes(&mut self) -> (u64, [u8; 64]) {
        (self.at, self.encode_head())
    }

    /// Returns the offset and the bytes of the head and the roots.
    pub(crate) fn roots_bytes(&mut self) -> (u64, [u8; 128]) {
        let mut bytes = [0; 128];
        bytes[..64].copy_from_slice(&self.encode_head());
        bytes[64..].copy_from_slice(self.roots.as_bytes());
        (self.at, bytes)
    }

    /// Returns the offset and all bytes that transactions write.
    pub(crate) fn all_bytes(&mut self) -> (u64, [u8; 192]) {
        let mut bytes = [0; 192];
        bytes[..128].copy_from_slice(&self.roots_bytes().1);
        bytes[128..].copy_from_slice(self.rest.as_bytes());
        (self.at, bytes)
    }

    /// Takes over `word`, which a change writes at `at`, if that is one of its roots.
    pub(crate) fn note_word(&mut self, at: u64, word: IndexWord) {
        let index = at.wrapping_sub(self.root_at(0)) / 8;
        if index < ROOTS {
            self.roots[index as usize] = word;
        }
    }

    /// Returns the offset of root `index` in the pool.
    pub(crate) fn root_at(&self, index: u64) -> u64 {
        self.at + 64 + index * 8
    }

    /// Stores size and times directly (FI1, FI3); durable when the caller has drained. The bytes that the size covers
    /// must be durable already.
    pub(crate) fn store_direct(&mut self, memory: &dyn Memory) {
        let InodeHead { mtime, ctime, atime, size, .. } = self.head;
        let (epoch, is_of_this_epoch) = (self.epoch, self.direct_epoch == self.epoch);
        let before = if is_of_this_epoch { self.direct.checksums } else { AppendChecksums::NONE };
        let checksums = before.with(AppendChecksum::of_size(epoch, size));
        let size = size | u64::from(epoch) << SIZE_BITS;
        self.direct = DirectLine { mtime, ctime, atime, size, checksums };
        self.direct.store(memory, self.at, is_of_this_epoch, Scheme::Flush);
        self.direct_epoch = epoch;
    }

    /// Returns the attributes of the file; `None` if the mode has no known kind.
    pub(crate) fn attr(&self) -> Option<Attr> {
        let kind = self.kind()?;
        let size = if kind == FileKind::Directory { self.head.size * 32 } else { self.head.size };
        Some(Attr {
            ino: self.ino,
            generation: self.head.generation,
            kind,
            mode: self.head.mode & !KIND_MASK,
            links: self.head.links,
            uid: self.head.uid,
            gid: self.head.gid,
            rdev: self.rest.rdev,
            size,
            allocated_bytes: self.head.pages.saturating_mul(PAGE),
            is_shrinking: self.is_cut(),
            atime: Time(self.head.atime),
            mtime: Time(self.head.mtime),
            ctime: Time(self.head.ctime),
            btime: Time(self.rest.btime),
        })
    }
}

impl DirectLine {
    /// Stores it to the inode at `at`, where its epoch is there already or not (FI3); there already, as `how` has it.
    #[inline]
    fn store<M: Memory + ?Sized>(&self, memory: &M, at: u64, is_of_this_epoch: bool, how: Scheme) {
        let at = at + DIRECT;
        if is_of_this_epoch {
            return memory.store(at, self.as_bytes(), how);
        }
        let (times, checksums) = (offset_of!(Self, size), offset_of!(Self, checksums));
        for part in [0..times, checksums..size_of::<Self>(), times..checksums] {
            memory.store(at + part.start as u64, &self.as_bytes()[part], Scheme::Flush);
        }
    }
}

#[cfg(test)]
mod tests;
