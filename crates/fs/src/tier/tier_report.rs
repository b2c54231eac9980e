//! What a tier holds, for people and scripts.

use ferrite_pool::layout::PAGE;
use serde::{Deserialize, Serialize};

use crate::format::segment::SEGMENT_BYTES;
use crate::format::tier_policy::TierPolicy;
use crate::store::slots::SlotStore;
use crate::store::tier_set::TierMember;

/// An SSD of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierSsdReport {
    /// Its address.
    pub address: String,
    /// Bytes of its segments.
    pub bytes: u64,
    /// False if it was not found, and the file system is only read.
    pub is_there: bool,
}

/// A tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierReport {
    /// Its SSDs.
    pub ssds: Vec<TierSsdReport>,
    /// Segments of 512 KiB.
    pub segments: u64,
    /// Segments in which nothing is needed.
    pub free_segments: u64,
    /// Bytes of pages that are on SSDs only.
    pub away_bytes: u64,
    /// Bytes of pages that are in the pool, and have a copy on an SSD.
    pub clean_bytes: u64,
    /// The rules by which pages move.
    #[serde(default)]
    pub policy: TierPolicy,
    /// Why nothing is written to the SSDs any more, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Returns the report on `slots`.
pub(crate) fn report(slots: &SlotStore) -> TierReport {
    let (segments, free_segments) = slots.segments();
    let ssd = |member: &TierMember| TierSsdReport {
        address: member.ssd.address.clone(),
        bytes: member.ssd.segments * SEGMENT_BYTES,
        is_there: member.disk.is_some(),
    };
    TierReport {
        ssds: slots.set().members().iter().map(|member| ssd(member)).collect(),
        segments,
        free_segments,
        away_bytes: slots.named() * PAGE,
        clean_bytes: slots.clean_pages() * PAGE,
        policy: slots.policy(),
        failed: slots.failures.why(),
    }
}
