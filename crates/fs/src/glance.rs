//! What a read or an overwrite needs to know of an inode, word by word: a page is found with a dozen loads.
//!
//! Nothing is checked twice and nothing is copied: what a glance does not find right away is left to the lookup under a
//! lock.

use ferrite_medium::Memory;
use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::attr::KIND_MASK;
use crate::direct::board::Board;
use crate::fs::FileSystem;
use crate::inode::{ATIME, DIRECT, MTIME, ROOTS_AT, SIZE, SIZE_AT, SIZE_BITS};
use crate::layout::{NODE_WORDS, ROOTS};
use crate::word::{Named, Word};

/// A regular file at a glance.
pub(crate) struct Glance {
    /// Where its inode lies.
    pub at: u64,
    height: u32,
    pub size: u64,
    pub mtime: i64,
    pub atime: i64,
}

impl Glance {
    /// The inode at `at`, if it is a regular file.
    #[inline]
    pub fn of<M: Memory + ?Sized>(memory: &M, at: u64) -> Option<Self> {
        let head = memory.load_word(at);
        if head as u16 & KIND_MASK != 0o100000 {
            return None;
        }
        let height = (head >> 16) as u32 & 0xff;
        let (size, direct) = (memory.load_word(at + SIZE_AT), memory.load_word(at + DIRECT + 24));
        let is_direct = size >> SIZE_BITS == direct >> SIZE_BITS;
        let (size, times) = if is_direct { (direct, at + DIRECT) } else { (size, at + MTIME) };
        let time = |offset| memory.load_word(times + offset) as i64;
        Some(Self { at, height, size: size & SIZE, mtime: time(0), atime: time(ATIME - MTIME) })
    }
}

/// Bytes of a file that are found together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// So many from this place of the pool on, to the end of a page or superpage.
    At(u64, u64),
    /// So many zeros, at least.
    Hole(u64),
}

/// Where the bytes from byte `at` of a file on lie, wherever it ends; nothing is said of damage.
// Always: what it finds stays in registers.
#[inline(always)]
pub(crate) fn find_at_a_glance<M: Memory + ?Sized>(memory: &M, board: &Board, file: &Glance, at: u64) -> Option<Found> {
    let (page, mut height) = (at / PAGE, file.height);
    if height > 4 {
        return None;
    }
    let root = page >> (9 * height);
    if root >= ROOTS {
        return Some(Found::Hole(u64::MAX - at));
    }
    let mut word_at = file.at + ROOTS_AT + root * 8;
    let (first, left) = loop {
        match (Word(memory.load_word(word_at)).named(), height) {
            (Named::Page(page), 0) => break (page, 1),
            (Named::Super(first), 1) => break (first + page % CHUNK_PAGES, CHUNK_PAGES - page % CHUNK_PAGES),
            (Named::Node(node), 1..) => {
                height -= 1;
                word_at = board.place(node)? + (page >> (9 * height) & (NODE_WORDS - 1)) * 8;
            }
            (Named::Nothing, _) => {
                let span = 1 << (9 * height);
                return Some(Found::Hole((span - page % span) * PAGE - at % PAGE));
            }
            _ => return None,
        }
    };
    Some(Found::At(board.place(first)? + at % PAGE, left * PAGE - at % PAGE))
}

impl FileSystem {
    /// A regular file at a glance.
    #[inline]
    pub(crate) fn glance(&self, number: u64) -> Option<Glance> {
        Glance::of(self.memory(), self.space.inode_place(number)?)
    }

    /// Where the `len` bytes from byte `at` on lie, if they are before the end and together in a page or superpage.
    #[inline]
    pub(crate) fn place_at_a_glance(&self, file: &Glance, at: u64, len: usize) -> Option<u64> {
        at.checked_add(len as u64).filter(|end| *end <= file.size && *end > at)?;
        match find_at_a_glance(self.memory(), &self.space.board, file, at)? {
            Found::At(place, together) if len as u64 <= together => Some(place),
            _ => None,
        }
    }
}
