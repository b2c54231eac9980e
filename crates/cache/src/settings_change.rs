//! Changes of settings, as a user asks for them.

use serde::{Deserialize, Serialize};

use crate::cache_settings::{CacheMode, CachePolicy, CacheSettings, CopyRule};
use crate::{CacheError, Result};

/// The shortest time after which an SSD has failed that does not answer, in nanoseconds.
const SSD_TIMEOUT_NS_MIN: u64 = 100_000_000;
/// The largest part of the SSDs that may be dirty, in thousandths: clean LEBs have to be left to reclaim.
const DIRTY_MAX_PERMILLE: u32 = 800;

/// How many pages a second are destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateChoice {
    /// As many as keep the dirty part below its limit.
    Auto,
    /// This many; 0: none.
    Pages(u32),
}

/// The settings that a user names; the others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SettingsChange {
    /// What the cache does with a write.
    pub mode: Option<CacheMode>,
    /// How many SSDs get a copy of a page.
    pub copies: Option<CopyRule>,
    /// Which blocks enter and stay.
    pub policy: Option<CachePolicy>,
    /// The length of a stream that goes around the cache, in bytes; 0: streams do not.
    pub bypass_bytes: Option<u64>,
    /// The largest part of the SSDs' pages that may be dirty, in thousandths.
    pub dirty_max_permille: Option<u32>,
    /// The age at which dirty pages are destaged, in nanoseconds; 0: never because of their age.
    pub dirty_age_ns: Option<u64>,
    /// Pages a second that are destaged.
    pub destage_rate: Option<RateChoice>,
    /// The time after which an SSD has failed that does not answer, in nanoseconds.
    pub ssd_timeout_ns: Option<u64>,
    /// The time for a missing SSD to come back, in nanoseconds.
    pub grace_ns: Option<u64>,
    /// Whether free LEBs are discarded.
    pub discard: Option<bool>,
}

impl SettingsChange {
    /// Returns `settings` with this change, for a cache with `ssds` SSDs.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if the changed settings are not possible.
    pub fn apply(&self, settings: CacheSettings, ssds: usize) -> Result<CacheSettings> {
        let changed = CacheSettings {
            mode: self.mode.unwrap_or(settings.mode),
            copies: self.copies.unwrap_or(settings.copies),
            policy: self.policy.unwrap_or(settings.policy),
            bypass_bytes: self.bypass_bytes.unwrap_or(settings.bypass_bytes),
            dirty_max_permille: self.dirty_max_permille.unwrap_or(settings.dirty_max_permille),
            dirty_age_ns: self.dirty_age_ns.unwrap_or(settings.dirty_age_ns),
            destage_rate: match self.destage_rate {
                Some(RateChoice::Auto) => None,
                Some(RateChoice::Pages(pages)) => Some(pages),
                None => settings.destage_rate,
            },
            ssd_timeout_ns: self.ssd_timeout_ns.unwrap_or(settings.ssd_timeout_ns),
            grace_ns: self.grace_ns.unwrap_or(settings.grace_ns),
            discard: self.discard.unwrap_or(settings.discard),
        };
        ensure_possible(&changed, ssds)?;
        Ok(changed)
    }
}

fn ensure_possible(settings: &CacheSettings, ssds: usize) -> Result<()> {
    let refused = |why: String| Err(CacheError::Refused(why));
    if !(1..=DIRTY_MAX_PERMILLE).contains(&settings.dirty_max_permille) {
        return refused(format!("the dirty part is from 0.1% to {}% of the SSDs", DIRTY_MAX_PERMILLE / 10));
    }
    if settings.ssd_timeout_ns < SSD_TIMEOUT_NS_MIN {
        return refused("an SSD gets at least 100 ms to answer".into());
    }
    if ssds < 2 && settings.copies == CopyRule::All {
        return refused("two copies of each page need two SSDs: add one, or choose the copies `one`".into());
    }
    if ssds < 2 && settings.mode == CacheMode::WriteBack && settings.copies != CopyRule::One {
        return refused(
            "write-back keeps dirty pages on two SSDs, and the cache has one: add one, or choose the copies `one`; then its \
             failure loses what the disk does not have yet"
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
