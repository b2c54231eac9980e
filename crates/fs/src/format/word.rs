//! A word of an index: what lies at a place of a file, in one store.
//!
//! ```text
//! bits 0..52 number   52..60 zeros   60..64 kind: 0 nothing, 1 page, 2 superpage, 3 further words, 4 on a disk
//! ```
//!
//! The number is a page of the file system (chunk times 512 and the page in it); for a superpage, its first page. Kind
//! 4 is reserved for content on a slower disk: nothing writes it yet, and a reader reports it.

use ferrite_pool::layout::CHUNK_PAGES;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A word of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct IndexWord(pub u64);

/// The target of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// Nothing: zeros.
    Nothing,
    /// This page.
    Page(u64),
    /// The superpage that starts with this page.
    Super(u64),
    /// The words in this page.
    Node(u64),
    /// Something that this program does not know.
    Unknown,
}

const KIND: u32 = 60;
const NUMBER: u64 = (1 << 52) - 1;

impl IndexWord {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn page(page: u64) -> Self {
        Self(page | 1 << KIND)
    }

    pub(crate) fn superpage(page: u64) -> Self {
        Self(page | 2 << KIND)
    }

    pub(crate) fn node(page: u64) -> Self {
        Self(page | 3 << KIND)
    }

    /// The superpage that it names: it begins a chunk.
    pub(crate) fn superpage_named(self) -> Option<u64> {
        match self.named() {
            NamedBy::Super(first) if first.is_multiple_of(CHUNK_PAGES) => Some(first),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn named(self) -> NamedBy {
        let number = self.0 & NUMBER;
        match self.0 >> 52 {
            0 if number == 0 => NamedBy::Nothing,
            0x100 => NamedBy::Page(number),
            0x200 => NamedBy::Super(number),
            0x300 => NamedBy::Node(number),
            _ => NamedBy::Unknown,
        }
    }
}
