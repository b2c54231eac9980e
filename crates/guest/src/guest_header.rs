//! The header of a guest: the pool's side of the tie to its disk, and the address of the disk.
//!
//! ```text
//!    0 current generation   64 previous generation, 0: none       checked words, a line each
//!  512 len u32   516 crc u32 of the address   520 address
//! ```
//!
//! The address does not change. Creating the tag writes the whole header before the tag has a name.

use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::{Generation, Tie};
use ferrite_pool::{seal, unseal};

use crate::{GuestError, Result};

pub(crate) const CURRENT: u64 = 0;
pub(crate) const PREVIOUS: u64 = 64;
const ADDRESS: u64 = 512;
const ADDRESS_BYTES_MAX: usize = (PAGE - ADDRESS) as usize - 8;

/// The header page of a guest, at byte `at` of `memory`.
#[derive(Clone, Copy)]
pub(crate) struct GuestHeader<'a> {
    pub memory: &'a dyn Memory,
    pub at: u64,
    pub salt: u32,
}

/// Refuses an address that the header has no room for.
///
/// # Errors
/// [`GuestError::Refused`].
pub(crate) fn ensure_fits(address: &str) -> Result<()> {
    match address.len() {
        1..=ADDRESS_BYTES_MAX => Ok(()),
        len => Err(GuestError::Refused(format!("an address of {len} bytes is too long: use a shorter path"))),
    }
}

impl GuestHeader<'_> {
    /// Stores the header of a new guest in a page of zeros, without making it durable.
    pub fn store_new(&self, current: Generation, address: &str) {
        self.store(CURRENT, Some(current));
        let mut record = (address.len() as u32).to_le_bytes().to_vec();
        record.extend(crc32fast::hash(address.as_bytes()).to_le_bytes());
        record.extend(address.as_bytes());
        self.memory.store(self.at + ADDRESS, &record, Scheme::Nt);
    }

    /// Stores the generation at [`CURRENT`] or [`PREVIOUS`], and starts its write-back.
    pub fn store(&self, at: u64, generation: Option<Generation>) {
        let word = generation.map_or(0, |generation| seal(self.salt, generation.number()));
        self.memory.store_word(self.at + at, word);
        self.memory.flush(Span::new(self.at + at, 8));
    }

    fn generation(&self, at: u64) -> Option<Generation> {
        unseal(self.salt, self.memory.load_word(self.at + at)).and_then(Generation::of)
    }

    /// Returns the pool's side of the tie to the disk with `identity`, or `None` if it is damaged.
    pub fn tie(&self, identity: [u8; 16]) -> Option<Tie> {
        let previous = match self.memory.load_word(self.at + PREVIOUS) {
            0 => None,
            _ => Some(self.generation(PREVIOUS)?),
        };
        Some(Tie { identity, current: self.generation(CURRENT)?, previous })
    }

    /// Returns the address of the disk, or `None` if it is damaged.
    pub fn address(&self) -> Option<String> {
        let mut head = [0; 8];
        self.memory.load(self.at + ADDRESS, &mut head);
        let (len, crc) = head.split_first_chunk::<4>().expect("eight bytes");
        let len = u32::from_le_bytes(*len) as usize;
        if len > ADDRESS_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; len];
        self.memory.load(self.at + ADDRESS + 8, &mut bytes);
        String::from_utf8(bytes).ok().filter(|text| crc32fast::hash(text.as_bytes()).to_le_bytes() == *crc)
    }
}
