//! The places of all parts of a file system.
//!
//! ```text
//! MAP stream    0x00000  orphans        8192 words: inode numbers with work left to do; all bits of the last one are
//!                                       set where there may be inodes without a name that no word names
//!               0x10000  table pages    each: 30 chunk words, padding to 256, then 30 descriptors of 128 bytes
//! chunk word    bits 0..32 pool chunk + 1   32..64 pool chunk + 1 of a copy that may have taken its place; 0: none
//! descriptor    0 kind u64   8 reserved [56]   64 bitmap [64]: bit set = page in use (kinds data and index)
//! chunk         data: 512 pages of file content   index: 512 pages of words and names   inodes: 8192 of 256 bytes
//!               super: one page of 2 MiB of a file
//! ```
//!
//! A chunk is known by its number in the table, wherever in the pool it lies: pages and inodes are numbered through
//! it, so nothing that names them changes when the chunk moves.

use ferrite_memory::{Memory, Span};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

/// Orphan words, with the last one.
pub(crate) const ORPHANS: u64 = 8192;
/// The last orphan word, and its value if inodes without a name may have no word (FO3).
pub(crate) const LAST_ORPHAN: u64 = ORPHANS - 1;
pub(crate) const UNLISTED: u64 = u64::MAX;
const TABLE: u64 = ORPHANS * 8;
/// Chunks that a table page describes.
pub(crate) const TABLE_CHUNKS: u64 = 30;
/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u64 = 128;
/// The offset of the bitmap in a descriptor, in bytes.
pub(crate) const BITMAP: u64 = 64;
const DESCRIPTORS: u64 = 256;

/// Bytes of an inode.
pub(crate) const INODE: u64 = 256;
/// Inodes in a chunk.
pub(crate) const CHUNK_INODES: u64 = CHUNK / INODE;
/// Bytes of the largest file: 128 TiB.
pub const FILE_BYTES_MAX: u64 = 1 << 47;
/// Words in an inode, and in a page of an index.
pub(crate) const ROOTS: u64 = 8;
/// Words in a page of an index.
pub(crate) const NODE_WORDS: u64 = PAGE / 8;

const _: () = assert!(DESCRIPTORS + TABLE_CHUNKS * DESCRIPTOR == PAGE && TABLE_CHUNKS * 8 <= DESCRIPTORS);
const _: () = assert!(TABLE.is_multiple_of(PAGE));
const _: () = assert!(CHUNK_PAGES == NODE_WORDS);

/// The use of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ChunkKind {
    /// Nothing.
    Free = 0,
    /// Pages of file content.
    Data = 1,
    /// Pages of words and names.
    Index = 2,
    /// Inodes.
    Inodes = 3,
    /// A superpage of file content.
    Super = 4,
}

impl ChunkKind {
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        [Self::Free, Self::Data, Self::Index, Self::Inodes, Self::Super].into_iter().find(|kind| *kind as u64 == word)
    }
}

/// Returns true if the descriptor at `at` marks something as in use; chunks of inodes never do.
pub(crate) fn is_in_use(memory: &dyn Memory, at: u64) -> bool {
    match ChunkKind::from_word(memory.load_word(at)) {
        Some(ChunkKind::Data | ChunkKind::Index) => (0..8).any(|word| memory.load_word(at + BITMAP + word * 8) != 0),
        kind => kind == Some(ChunkKind::Super),
    }
}

/// Bytes of the MAP stream of a file system that may have `chunks` chunks.
pub(crate) fn map_bytes(chunks: u64) -> u64 {
    TABLE + chunks.div_ceil(TABLE_CHUNKS) * PAGE
}

/// The places of the pages of the MAP stream in the pool.
#[derive(Clone, Debug)]
pub(crate) struct MapPages(Vec<u64>);

impl MapPages {
    /// The MAP stream whose runs are `runs`.
    pub(crate) fn new(runs: impl Iterator<Item = Span>) -> Self {
        Self(runs.flat_map(|run| (0..run.len / PAGE).map(move |page| run.at + page * PAGE)).collect())
    }

    fn place(&self, at: u64) -> u64 {
        self.0[(at / PAGE) as usize] + at % PAGE
    }

    /// Chunks that it has room for.
    pub(crate) fn chunks(&self) -> u64 {
        (self.0.len() as u64).saturating_sub(TABLE / PAGE) * TABLE_CHUNKS
    }

    /// Returns the offset of orphan word `index` in the pool.
    pub(crate) fn orphan(&self, index: u64) -> u64 {
        self.place(index * 8)
    }

    /// Returns the offset of the word of `chunk` in the pool.
    pub(crate) fn chunk_word(&self, chunk: u64) -> u64 {
        self.place(TABLE + chunk / TABLE_CHUNKS * PAGE + chunk % TABLE_CHUNKS * 8)
    }

    /// Returns the offset of the descriptor of `chunk` in the pool.
    pub(crate) fn descriptor(&self, chunk: u64) -> u64 {
        self.place(TABLE + chunk / TABLE_CHUNKS * PAGE + DESCRIPTORS + chunk % TABLE_CHUNKS * DESCRIPTOR)
    }
}
