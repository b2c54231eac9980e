//! The share of a guest: how much of the pool's memory it may have. Stored in the attributes of its tag.
//!
//! ```text
//! attributes  24 min u32   28 max u32   32 weight u32   36 budget u32   40 number of the budget u32   44 zeros
//! ```
//!
//! `min`, `max` and `budget` count chunks of 2 MiB. All guests of a pool store its budget; that with the greatest
//! number is in force. A guest of version 1 stores zeros: it has a fixed share, and no budget.

use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Role, Stream, Tag};
use serde::{Deserialize, Serialize};

use crate::guest_layout::{VERSION, VERSION_FIXED};
use crate::{GuestError, Result};

/// The weight of a guest, unless the user names another one.
pub const USUAL_WEIGHT: u32 = 100;
const WEIGHT_MAX: u32 = 10_000;
/// The chunks of a guest at most: the number of a frame is a `u32`.
pub(crate) const CHUNKS_MAX: u32 = u32::MAX / (CHUNK / PAGE) as u32;

pub(crate) const SHARE: std::ops::Range<usize> = 24..44;

/// The memory of the pool that a guest may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestShare {
    /// The chunks that a guest in use keeps whatever other guests do.
    pub min: u32,
    /// The chunks that it never exceeds.
    pub max: u32,
    /// Its part of what is left, beside the weights of the others.
    pub weight: u32,
}

impl GuestShare {
    /// Returns the share of a guest that always has `chunks`.
    pub fn fixed(chunks: u32) -> Self {
        Self { min: chunks, max: chunks, weight: USUAL_WEIGHT }
    }

    /// Returns true if the guest never has another number of chunks.
    pub fn is_fixed(self) -> bool {
        self.min == self.max
    }

    /// Refuses a share that no guest has.
    ///
    /// # Errors
    /// [`GuestError::Refused`], whose message names the possible values.
    pub fn ensure_possible(self) -> Result<()> {
        let why = match self {
            Self { min: 0, .. } => format!("a guest has at least {CHUNK} bytes of the pool"),
            Self { min, max, .. } if min > max => "the minimum is larger than the maximum".into(),
            Self { max, .. } if max > CHUNKS_MAX => {
                format!("a guest has at most {} bytes of the pool", u64::from(CHUNKS_MAX) * CHUNK)
            }
            Self { weight: 1..=WEIGHT_MAX, .. } => return Ok(()),
            _ => format!("a weight is a number from 1 to {WEIGHT_MAX}"),
        };
        Err(GuestError::Refused(why))
    }
}

/// Returns the chunks in `bytes`.
///
/// # Errors
/// [`GuestError::Refused`] if these are no whole chunks.
pub(crate) fn chunks_of(bytes: u64) -> Result<u32> {
    let chunks = bytes / CHUNK;
    match u32::try_from(chunks) {
        Ok(chunks) if bytes.is_multiple_of(CHUNK) && chunks > 0 => Ok(chunks),
        _ => {
            Err(GuestError::Refused(format!("{bytes} bytes of the pool are not possible: a multiple of {CHUNK} bytes")))
        }
    }
}

/// The budget that a user has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SetBudget {
    /// The later one of two is in force.
    pub number: u32,
    /// The chunks; 0: none is set.
    pub chunks: u32,
}

/// The share and the budget in the attributes of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareRecord {
    pub share: GuestShare,
    pub budget: SetBudget,
}

impl ShareRecord {
    /// Returns the record in `tag`, which is a guest's; `None` if it is damaged or of a newer version.
    pub fn read(tag: &Tag) -> Option<Self> {
        let bytes = &tag.attributes[SHARE];
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let budget = SetBudget { chunks: number(12), number: number(16) };
        let share = match u32::from_le_bytes(*tag.attributes.first_chunk().expect("four bytes")) {
            VERSION => GuestShare { min: number(0), max: number(4), weight: number(8) },
            VERSION_FIXED => GuestShare::fixed((Stream::new(&tag.extents, Role::DATA).len() / CHUNK) as u32),
            _ => return None,
        };
        share.ensure_possible().is_ok().then_some(Self { share, budget })
    }

    /// Writes the record to the attributes of a tag.
    pub fn write(&self, attributes: &mut [u8; 64]) {
        let Self { share, budget } = self;
        let numbers = [share.min, share.max, share.weight, budget.chunks, budget.number];
        for (to, number) in attributes[SHARE].chunks_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
