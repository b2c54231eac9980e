//! The configuration of a cache: its settings, SSDs and disks, and counters that outlive a restart.
//!
//! ```text
//! two slots of 256 KiB, each:
//!   0 magic "FCAC"   4 crc u32 of the rest   8 version u32   12 length u32   16 sequence u64   24 JSON [length]
//! ```
//!
//! - CC1. A change writes the slot that does not have the current configuration, and is durable on return. So a crash
//!   leaves the old configuration or the new one.

use ferrite_memory::{Memory, Scheme, Span, planted};
use ferrite_pool::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::cache_layout::CONFIG_SLOT;
use crate::cache_memory::CacheMemory;
use crate::cache_settings::CacheSettings;
use crate::member_stamp::STAMP_BYTES;

const MAGIC: [u8; 4] = *b"FCAC";
const VERSION: u32 = 1;
const CONFIG_HEAD: usize = 24;

/// The configuration of a cache, as the pool has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheConfig {
    /// False until every member of a new cache has its stamp.
    pub is_complete: bool,
    /// The settings.
    pub settings: CacheSettings,
    /// The SSDs, also those that failed or are missing.
    pub ssds: Vec<SsdConfig>,
    /// The disks.
    pub disks: Vec<DiskConfig>,
    /// The number of the next SSD: a number is used once.
    pub next_ssd: u8,
    /// The number of tables. It grows when an SSD joins, and never shrinks.
    pub tables: u32,
    /// Members that are joining or leaving.
    pub pending: Vec<PendingMember>,
}

/// A member on its way into the cache or out of it. The pool may list it, and it may have a stamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMember {
    /// The identity.
    pub uuid: [u8; 16],
    /// The address of the member.
    pub address: String,
    /// Where its stamp begins, in bytes; `None` without a stamp.
    pub stamp_at: Option<u64>,
}

/// An SSD of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SsdConfig {
    /// The number, which places in tables name.
    pub id: u8,
    /// The identity, which its stamp has too.
    pub uuid: [u8; 16],
    /// The address by which it was found last.
    pub address: String,
    /// The number of its LEBs, with the one of its stamp.
    pub lebs: u32,
    /// The reason why it failed; `None` while it is used.
    pub failed: Option<String>,
    /// True while the user removes it: its pages move to other SSDs.
    pub leaves: bool,
    /// Bytes written to it.
    pub written_bytes: u64,
}

/// Where a disk has its stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StampPlace {
    /// In its first MiB; its data begin behind it.
    #[default]
    Head,
    /// In its last MiB.
    Tail,
    /// Nowhere.
    None,
}

/// A disk of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskConfig {
    /// The number, which words name.
    pub number: u8,
    /// The name by which users open it.
    pub export: String,
    /// The identity, which its stamp has too.
    pub uuid: [u8; 16],
    /// The address by which it was found last.
    pub address: String,
    /// Bytes of data, a multiple of 4 KiB.
    pub size: u64,
    /// Where its stamp is.
    pub stamp: StampPlace,
}

impl DiskConfig {
    /// Returns the bytes that the data and the stamp need.
    pub(crate) fn bytes(&self) -> u64 {
        self.size + if self.stamp == StampPlace::None { 0 } else { STAMP_BYTES }
    }

    /// Returns where the data begin, in bytes.
    pub(crate) fn data_at(&self) -> u64 {
        if self.stamp == StampPlace::Head { STAMP_BYTES } else { 0 }
    }

    /// Returns where the stamp begins, in bytes; `None` without a stamp.
    pub(crate) fn stamp_at(&self) -> Option<u64> {
        match self.stamp {
            StampPlace::Head => Some(0),
            StampPlace::Tail => Some(self.size),
            StampPlace::None => None,
        }
    }
}

/// A configuration and its sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NumberedConfig {
    pub sequence: u64,
    pub config: CacheConfig,
}

/// Returns the configuration in the slot `bytes`, which are not trusted, or `None` if the slot has no configuration of this version.
pub(crate) fn decode_config(salt: u32, bytes: &[u8]) -> Option<NumberedConfig> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = number(12)? as usize;
    let end = CONFIG_HEAD.checked_add(length).filter(|end| *end <= bytes.len())?;
    if bytes[..4] != MAGIC || number(8)? != VERSION || number(4)? != crc(salt, &bytes[8..end]) {
        return None;
    }
    let sequence = u64::from_le_bytes(bytes[16..24].try_into().ok()?);
    Some(NumberedConfig { sequence, config: serde_json::from_slice(&bytes[CONFIG_HEAD..end]).ok()? })
}

/// Returns the bytes of a slot with `numbered`.
///
/// # Errors
/// [`Error::Limit`] if it does not fit.
pub(crate) fn encode_config(salt: u32, numbered: &NumberedConfig) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(&numbered.config).expect("a configuration is JSON");
    if CONFIG_HEAD + json.len() > CONFIG_SLOT as usize {
        return Err(Error::Limit("the configuration of the cache is too long: use shorter addresses".into()));
    }
    let mut bytes = Vec::with_capacity(CONFIG_HEAD + json.len());
    bytes.extend(MAGIC);
    bytes.extend([0; 4]);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(numbered.sequence.to_le_bytes());
    bytes.extend(json);
    let crc = crc(salt, &bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

fn crc(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns the newer one of the configurations in two `slots` of `memory` that verifies.
pub(crate) fn newest_config(memory: &dyn Memory, salt: u32, slots: [u64; 2]) -> Option<NumberedConfig> {
    let read = |at: u64| {
        let mut bytes = vec![0; CONFIG_HEAD];
        memory.load(at, &mut bytes);
        let length = u32::from_le_bytes(*bytes[12..].first_chunk().expect("four bytes")) as usize;
        bytes.resize((CONFIG_HEAD + length).min(CONFIG_SLOT as usize), 0);
        memory.load(at, &mut bytes);
        decode_config(salt, &bytes)
    };
    slots.into_iter().filter_map(read).max_by_key(|numbered| numbered.sequence)
}

impl CacheMemory {
    /// Returns the newer configuration that verifies.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if neither slot has one.
    pub fn load_config(&self) -> Result<NumberedConfig> {
        let slots = self.config_slots();
        newest_config(self.memory(), self.salt, slots)
            .ok_or_else(|| Error::Corrupt { what: "the configuration of the cache".into(), at: slots[0] })
    }

    /// Stores `numbered` (CC1). Durable on return.
    ///
    /// # Errors
    /// [`Error::Limit`] if it does not fit, and the errors of a drain.
    pub fn store_config(&self, numbered: &NumberedConfig) -> Result<()> {
        let bytes = encode_config(self.salt, numbered)?;
        let is_current = planted!("cache: a change overwrites the current configuration");
        let at = self.config_slots()[((numbered.sequence + u64::from(is_current)) % 2) as usize];
        self.memory().store(at, &bytes, Scheme::Nt);
        self.memory().flush(Span::new(at, bytes.len() as u64));
        self.lease().drain()
    }
}

#[cfg(test)]
mod tests;
