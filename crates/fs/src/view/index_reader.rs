//! A file's index, read without a lock: word by word, while any word may change. So damage looks like a change in
//! progress, and neither is reported. Code that holds the lock uses `file::index`.

use ferrite_memory::Memory;
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use crate::format::inode::ROOTS_AT;
use crate::format::layout::{NODE_WORDS, ROOTS};
use crate::format::word::{IndexWord, NamedBy};

/// The index of one file.
pub(crate) struct IndexReader<'a, M: ?Sized, P> {
    pub(crate) memory: &'a M,
    /// Returns the place of a page in the pool.
    pub(crate) place: P,
    /// The offset of the inode.
    pub(crate) at: u64,
}

/// The place of 2 MiB of a file: an offset in the pool, or 0, with the kind in its low bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlace(pub u64);

/// They are a superpage.
const SUPER: u64 = 0;
/// They are the pages that the words there name.
const WORDS: u64 = 1;
/// They are those that the words of the inode name, or nowhere.
const IN_ROOTS: u64 = 2;
/// They are nowhere: zeros.
const HOLE: u64 = 3;
const WHAT: u64 = 7;

/// Bytes of a file that are found together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBytes {
    /// So many from this place of the pool on, to the end of a page or superpage.
    At(u64, u64),
    /// So many zeros, at least.
    Hole(u64),
}

impl BlockPlace {
    pub(crate) const HOLE: Self = Self(HOLE);

    fn at(place: u64, what: u64) -> Self {
        debug_assert_eq!(place & WHAT, 0);
        Self(place | what)
    }

    #[inline(always)]
    fn what(self) -> (u64, u64) {
        (self.0 & WHAT, self.0 & !WHAT)
    }

    /// Returns the place of byte `at` of the file, if this is the superpage around it and not at 0.
    #[inline(always)]
    pub(crate) fn super_place(self, at: u64) -> Option<u64> {
        let (what, place) = self.what();
        if what == SUPER && place != 0 { Some(place + at % CHUNK) } else { None }
    }
}

impl<M: Memory + ?Sized, P: Fn(u64) -> Option<u64>> IndexReader<'_, M, P> {
    /// Returns the place of block `block` of the file: a hole if the index is too low. Returns `None` if a word is
    /// unknown or changing.
    pub(crate) fn block(&self, mut height: u32, block: u64) -> Option<BlockPlace> {
        if height == 0 {
            return Some(BlockPlace(if block == 0 { IN_ROOTS } else { HOLE }));
        }
        let page = block * CHUNK_PAGES;
        let root = page.checked_shr(9 * height)?;
        if height > 4 || root >= ROOTS {
            return (height <= 4).then_some(BlockPlace::HOLE);
        }
        let mut word_at = self.at + ROOTS_AT + root * 8;
        loop {
            match (IndexWord(self.memory.load_word(word_at)).named(), height) {
                (NamedBy::Super(first), 1) if first.is_multiple_of(CHUNK_PAGES) => {
                    return Some(BlockPlace::at((self.place)(first)?, SUPER));
                }
                (NamedBy::Node(node), 1) => return Some(BlockPlace::at((self.place)(node)?, WORDS)),
                (NamedBy::Node(node), 2..) => {
                    height -= 1;
                    word_at = (self.place)(node)? + (page >> (9 * height) & (NODE_WORDS - 1)) * 8;
                }
                (NamedBy::Nothing, _) => return Some(BlockPlace::HOLE),
                _ => return None,
            }
        }
    }

    /// Returns the place of the bytes from byte `at` on, which is in `block`, even behind the end.
    #[inline(always)]
    pub(crate) fn find(&self, block: BlockPlace, at: u64) -> Option<FoundBytes> {
        let (page, within) = (at / PAGE, at % PAGE);
        let word_at = match block.what() {
            (SUPER, place) => return Some(FoundBytes::At(place + at % CHUNK, CHUNK - at % CHUNK)),
            (WORDS, place) => place + page % NODE_WORDS * 8,
            (IN_ROOTS, _) if page < ROOTS => self.at + ROOTS_AT + page * 8,
            _ => return Some(FoundBytes::Hole(CHUNK - at % CHUNK)),
        };
        match IndexWord(self.memory.load_word(word_at)).named() {
            NamedBy::Page(page) => Some(FoundBytes::At((self.place)(page)? + within, PAGE - within)),
            NamedBy::Nothing => Some(FoundBytes::Hole(PAGE - within)),
            _ => None,
        }
    }
}
