//! A word of an index: what lies at a place of a file, in one store.
//!
//! ```text
//! bits 0..52 number   52..60 zeros   60..64 kind: 0 nothing, 1 page, 2 superpage, 3 further words
//! bits 0..36 slot     36..60 check   60..64 kind: 4 away
//! ```
//!
//! The number is a page of the file system (chunk times 512 and the page in it); for a superpage, its first page. A page
//! that is away lies in a slot of the tier's SSDs; its check is the low 24 bits of the crc-32 of its bytes.

use crate::format::segment::Slot;
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
    /// This page, which is on an SSD.
    Away(AwayPage),
    /// Something that this program does not know.
    Unknown,
}

/// A page of content that is on an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AwayPage {
    pub slot: Slot,
    /// The low bits of the crc-32 of its bytes.
    check: u32,
}

impl AwayPage {
    /// The page with these bytes in `slot`.
    pub(crate) fn new(slot: Slot, bytes: &[u8]) -> Self {
        Self { slot, check: crc32fast::hash(bytes) & CHECK }
    }

    /// Returns true if the page has these bytes.
    pub(crate) fn has(self, bytes: &[u8]) -> bool {
        crc32fast::hash(bytes) & CHECK == self.check
    }
}

const KIND: u32 = 60;
const SLOT_BITS: u32 = 36;
const CHECK: u32 = (1 << 24) - 1;
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

    pub(crate) fn away(page: AwayPage) -> Self {
        Self(page.slot.0 | u64::from(page.check) << SLOT_BITS | 4 << KIND)
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
            kind if kind >> 8 == 4 => NamedBy::Away(AwayPage {
                slot: Slot(self.0 & ((1 << SLOT_BITS) - 1)),
                check: (self.0 >> SLOT_BITS) as u32 & CHECK,
            }),
            _ => NamedBy::Unknown,
        }
    }
}
