//! The rules by which a tier moves pages.

use serde::{Deserialize, Serialize};

/// The rules by which a tier decides when pages are destaged and which segments are cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierPolicy {
    /// Pages are destaged as late as possible, and the sparsest segments are cleaned first.
    #[default]
    Ferrite = 0,
    /// The rules of nvm-storage-hierarchy.txt chapter 3: bounds of 80 and 50 percent, and the oldest segment first.
    Paper = 1,
}

impl TierPolicy {
    /// Returns the policy with this number in the header of a tier; `None` if there is no such policy.
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Ferrite, Self::Paper].get(number as usize).copied()
    }
}
