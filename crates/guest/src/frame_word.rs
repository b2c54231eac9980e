//! The word of a frame: the page whose bytes the frame has, and whether they are newer than the disk's.
//!
//! ```text
//! bits 0..36 page   36..38 state (1 truth, 2 copy)   38..52 zeros   52..64 check (`pool::seal`)
//! ```
//!
//! A word of zeros is the word of a free frame.

use ferrite_pool::{seal, unseal};

/// The largest number of pages of a guest.
pub(crate) const PAGES_MAX: u64 = 1 << 36;
const STATE_SHIFT: u32 = 36;

/// The meaning of a frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameContent {
    /// The frame has no page's bytes.
    Free,
    /// The newest bytes of the page are here alone.
    Truth(u64),
    /// The frame and the disk have the same bytes of the page.
    Copy(u64),
}

impl FrameContent {
    /// Returns the page.
    pub fn page(self) -> Option<u64> {
        match self {
            Self::Free => None,
            Self::Truth(page) | Self::Copy(page) => Some(page),
        }
    }

    /// Returns the word.
    pub fn encode(self, salt: u32) -> u64 {
        match self {
            Self::Free => 0,
            Self::Truth(page) => seal(salt, page | 1 << STATE_SHIFT),
            Self::Copy(page) => seal(salt, page | 2 << STATE_SHIFT),
        }
    }

    /// Returns the content that `word` says, whose bits are not trusted, or `None` if no frame has such a word.
    pub fn decode(salt: u32, word: u64) -> Option<Self> {
        if word == 0 {
            return Some(Self::Free);
        }
        let number = unseal(salt, word)?;
        let page = number % PAGES_MAX;
        match number >> STATE_SHIFT {
            1 => Some(Self::Truth(page)),
            2 => Some(Self::Copy(page)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
