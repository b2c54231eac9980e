//! The settings of a cache, all of which can be changed while it is in use.

use serde::{Deserialize, Serialize};

/// What a cache does with a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// A write is complete when it is in the cache; the disk gets it later.
    WriteBack,
    /// A write goes to the cache and to the disk.
    #[default]
    WriteThrough,
    /// A write goes to the disk, and what the cache had of the block is dropped.
    WriteAround,
    /// Writes are refused.
    ReadOnly,
}

/// How many SSDs get a copy of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyRule {
    /// Dirty pages lie on two SSDs, clean pages on one.
    #[default]
    Dirty,
    /// All pages lie on two SSDs, as on RAID-1.
    All,
    /// All pages lie on one SSD, as on RAID-0.
    One,
}

/// Which blocks enter the cache, and which stay when a LEB is reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// A block enters at its second miss, and stays while it has hits, which are counted up to three.
    #[default]
    Ferrite,
    /// A block enters at its first miss, and stays once if it was hit: the rule of the multi-SSD cache's paper.
    Paper,
    /// A block enters at its first miss, and no block stays.
    Fifo,
}

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSettings {
    /// What the cache does with a write.
    pub mode: CacheMode,
    /// How many SSDs get a copy of a page.
    pub copies: CopyRule,
    /// Which blocks enter and stay.
    pub policy: CachePolicy,
    /// A stream of requests that is longer than this goes around the cache, in bytes; 0: streams do not.
    pub bypass_bytes: u64,
    /// The largest part of the SSDs' pages that may be dirty, in thousandths.
    pub dirty_max_permille: u32,
    /// Dirty pages that are older than this are written to the disk, in nanoseconds; 0: never because of their age.
    pub dirty_age_ns: u64,
    /// Pages a second that go to the disk; `None`: as many as keep the dirty part below its limit. 0: none.
    pub destage_rate: Option<u32>,
    /// An SSD that does not answer for this long has failed, in nanoseconds.
    pub ssd_timeout_ns: u64,
    /// A missing SSD may come back for this long before its pages are copied, in nanoseconds.
    pub grace_ns: u64,
    /// Tell an SSD that a LEB is free before it is written again.
    pub discard: bool,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            mode: CacheMode::default(),
            copies: CopyRule::default(),
            policy: CachePolicy::default(),
            bypass_bytes: 4 << 20,
            dirty_max_permille: 100,
            dirty_age_ns: 300_000_000_000,
            destage_rate: None,
            ssd_timeout_ns: 10_000_000_000,
            grace_ns: 60_000_000_000,
            discard: true,
        }
    }
}

impl CacheSettings {
    /// Returns the number of SSDs that get a copy of a LEB with dirty pages, or of one without.
    pub(crate) fn copies_of(&self, has_dirty: bool) -> usize {
        match self.copies {
            CopyRule::All => 2,
            CopyRule::Dirty if has_dirty => 2,
            CopyRule::Dirty | CopyRule::One => 1,
        }
    }
}
