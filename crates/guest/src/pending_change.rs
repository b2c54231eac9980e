//! The change of a guest that a crash may have interrupted, in the attributes of its tag.
//!
//! ```text
//! attributes  44 pending change u32: 0 none, 1 import, 2 size   48 size before u64, 0 unless that changes
//! ```
//!
//! A program that knows no pending change refuses the guest, because these bytes are zeros for it.

use std::ops::Range;

use ferrite_pool::layout::PAGE;

use crate::{GuestError, Result};

pub(crate) const PENDING: Range<usize> = 44..56;

/// A change of a guest that has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PendingChange {
    /// None: the guest is whole.
    #[default]
    None,
    /// An import replaces the bytes of the disk, which are of no one time (VC1).
    Import,
    /// The size has changed, and the stamp may still lie behind `before` bytes of the disk (VS1).
    Size {
        /// The size before, in bytes.
        before: u64,
    },
}

impl PendingChange {
    /// Returns the change in `attributes`, or `None` if this version writes no such bytes.
    pub fn read(attributes: &[u8; 64]) -> Option<Self> {
        let (kind, before) = attributes[PENDING].split_first_chunk::<4>()?;
        let before = u64::from_le_bytes(before.try_into().ok()?);
        match (u32::from_le_bytes(*kind), before) {
            (0, 0) => Some(Self::None),
            (1, 0) => Some(Self::Import),
            (2, before) if before > 0 && before.is_multiple_of(PAGE) => Some(Self::Size { before }),
            _ => None,
        }
    }

    /// Returns the name of the change for users.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Import => Some("import"),
            Self::Size { .. } => Some("size"),
        }
    }

    /// Writes the change to `attributes`.
    pub fn write(self, attributes: &mut [u8; 64]) {
        let (kind, before): (u32, u64) = match self {
            Self::None => (0, 0),
            Self::Import => (1, 0),
            Self::Size { before } => (2, before),
        };
        attributes[PENDING.start..PENDING.start + 4].copy_from_slice(&kind.to_le_bytes());
        attributes[PENDING.start + 4..PENDING.end].copy_from_slice(&before.to_le_bytes());
    }

    /// Refuses the guest called `name` if it has no content (VC1).
    ///
    /// # Errors
    /// [`GuestError::Refused`].
    pub fn ensure_content(self, name: &str) -> Result<()> {
        match self {
            Self::Import => Err(GuestError::Refused(format!(
                "an import into the guest {name:?} did not end, so its bytes are of no one time: run `ferrite guest import` \
                 again, or `ferrite guest remove`"
            ))),
            Self::None | Self::Size { .. } => Ok(()),
        }
    }
}
