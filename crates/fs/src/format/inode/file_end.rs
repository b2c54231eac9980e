//! The end of a file, for appends: its size, the checksums behind that, and how another size is stored.

use ferrite_memory::{Memory, Scheme};

use super::{DIRECT_SIZE_AT, DirectLine, GENERATION, SIZE, SIZE_AT, SIZE_BITS};
use crate::format::append_checksum::{AppendChecksum, AppendChecksums};

/// What an append must know of an inode, and how it stores a size (FI3).
#[derive(Clone, Copy, Debug)]
pub struct FileEnd {
    at: u64,
    epoch: u16,
    /// Bytes of the file.
    pub size: u64,
    checksums: AppendChecksums,
    /// `direct` is of this epoch already.
    is_direct: bool,
    /// Pages behind its end are still to be freed.
    pub is_cut: bool,
}

/// The times that an append stores with a size, in nanoseconds since the start of 1970.
#[derive(Clone, Copy, Debug)]
pub struct AppendTimes {
    /// When the content changed.
    pub written: i64,
    /// When the file was read.
    pub accessed: i64,
}

/// A size that is stored directly, and counts.
#[derive(Clone, Copy, Debug)]
pub struct KnownSize {
    /// Bytes of the file.
    pub size: u64,
    /// The two append checksums of the inode.
    pub checksums: AppendChecksums,
}

impl FileEnd {
    /// Loads the end of the inode at `at`. Returns `None` if the direct words are not all of one append (FP4). If the
    /// caller knows them already, they are not loaded. The caller holds the end.
    #[inline]
    pub fn of<M: Memory + ?Sized>(memory: &M, at: u64, known: Option<KnownSize>) -> Option<Self> {
        let links = memory.load_word(at) >> 32;
        let orphan = memory.load_word(at + GENERATION) >> 32;
        let size = memory.load_word(at + SIZE_AT);
        let epoch = (size >> SIZE_BITS) as u16;
        let is_cut = orphan != 0 && links > 0;
        if let Some(KnownSize { size, checksums }) = known {
            return Some(Self { at, epoch, size, checksums, is_direct: true, is_cut });
        }
        let mut direct = [0; 5];
        memory.load_words(at + DIRECT_SIZE_AT, &mut direct);
        let [direct, checksums @ ..] = direct;
        let is_direct = (direct >> SIZE_BITS) as u16 == epoch;
        let (direct, checksums) = (direct & SIZE, AppendChecksums::of_words(checksums).whole(epoch));
        let (size, checksums) = if is_direct { (direct, checksums) } else { (size & SIZE, AppendChecksums::NONE) };
        let is_torn = checksums.greatest().is_some_and(|checksum| checksum.size() != size);
        if is_torn { None } else { Some(Self { at, epoch, size, checksums, is_direct, is_cut }) }
    }

    /// Returns the stored word of `size`.
    #[inline]
    pub fn word(&self, size: u64) -> u64 {
        size | u64::from(self.epoch) << SIZE_BITS
    }

    /// Returns true if the size rests on bytes before it (FP3).
    #[inline]
    pub fn rests_on_bytes(&self) -> bool {
        self.checksums.greatest().is_some_and(|checksum| checksum.bytes() > 0)
    }

    /// What proves `size`, once its last `bytes` bytes with this sum are stored.
    #[inline]
    pub fn checksum(&self, size: u64, bytes: u16, sum: u32) -> AppendChecksum {
        AppendChecksum::of(self.epoch, size, bytes, sum)
    }

    /// What proves `size` when what it covers is durable.
    #[inline]
    pub fn checksum_of_size(&self, size: u64) -> AppendChecksum {
        AppendChecksum::of_size(self.epoch, size)
    }

    /// Stores the size of `checksum`, and `times`, by `how`; durable after the caller's fence. Returns the stored
    /// size.
    #[inline]
    pub fn store<M: Memory + ?Sized>(
        &self,
        memory: &M,
        checksum: AppendChecksum,
        times: AppendTimes,
        how: Scheme,
    ) -> KnownSize {
        let checksums = self.checksums.with(checksum);
        let size = checksum.size();
        let direct = DirectLine {
            mtime: times.written,
            ctime: times.written,
            atime: times.accessed,
            size: self.word(size),
            checksums,
        };
        direct.store(memory, self.at, self.is_direct, how);
        KnownSize { size, checksums }
    }

    /// Returns the end after `known` is stored.
    #[inline]
    pub fn after(self, known: KnownSize) -> Self {
        Self { size: known.size, checksums: known.checksums, is_direct: true, ..self }
    }
}
