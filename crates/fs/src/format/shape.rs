//! The attributes of the tag of a file system.
//!
//! ```text
//! attributes   0 version u32   4 reserved u32   8 hash seed u64   16 super threshold u64 (0: never)
//!              24 flags u64: bit 0 has a tier   32 reserved [32]
//! ```
//!
//! The version is 3 only while there is a tier, so that programs that do not know tiers refuse it then and no longer.

use ferrite_pool::{Tag, TagKind};

use crate::Result;

/// In version 1 no size has an append checksum: a program that does not know them would believe a size that a crash
/// left (FP1).
const VERSION: u32 = 2;
/// The version of a file system with a tier.
const TIERED: u32 = 3;
const HAS_TIER: u64 = 1;

/// The attributes of the tag of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FsShape {
    version: u32,
    pub(crate) hash_seed: u64,
    pub(crate) super_threshold_bytes: Option<u64>,
    pub(crate) has_tier: bool,
}

impl FsShape {
    /// The shape that `tag` notes.
    pub(crate) fn read(tag: &Tag) -> Result<Self> {
        tag.ensure_kind(TagKind::FILES)?;
        let word = |at: usize| u64::from_le_bytes(tag.attributes[at..at + 8].try_into().expect("eight bytes"));
        let has_tier = word(24) == HAS_TIER;
        let is_known =
            if has_tier { word(0) == u64::from(TIERED) } else { (1..=u64::from(VERSION)).contains(&word(0)) };
        if !is_known || word(24) > HAS_TIER || tag.attributes[32..].iter().any(|byte| *byte != 0) {
            let text = format!("the file system {:?} was made by a newer ferrite: use that", tag.name);
            return Err(ferrite_pool::Error::Limit(text).into());
        }
        let super_threshold_bytes = Some(word(16)).filter(|bytes| *bytes > 0);
        Ok(Self { version: word(0) as u32, hash_seed: word(8), super_threshold_bytes, has_tier })
    }

    /// Returns the attributes for a new file system.
    pub(crate) fn new(hash_seed: u64, super_threshold_bytes: Option<u64>) -> Self {
        Self { version: VERSION, hash_seed, super_threshold_bytes, has_tier: false }
    }

    /// Returns the shape with a tier, or without.
    pub(crate) fn with_tier(self, has_tier: bool) -> Self {
        Self { version: if has_tier { TIERED } else { VERSION }, has_tier, ..self }
    }

    /// Returns true if no tag of a newer version can be written by this program.
    pub(crate) fn is_newest(&self) -> bool {
        self.version >= VERSION
    }

    pub(crate) fn attributes(&self) -> [u8; 64] {
        let mut attributes = [0; 64];
        attributes[..4].copy_from_slice(&self.version.to_le_bytes());
        attributes[8..16].copy_from_slice(&self.hash_seed.to_le_bytes());
        attributes[16..24].copy_from_slice(&self.super_threshold_bytes.unwrap_or(0).to_le_bytes());
        attributes[24..32].copy_from_slice(&u64::from(self.has_tier).to_le_bytes());
        attributes
    }
}
