//! Descriptions of caches, for people and programs.

use ferrite_owner::SurvivalReport;
use serde::{Deserialize, Serialize};

use crate::StampPlace;
use crate::cache_members::SsdState;
use crate::cache_settings::{CacheMode, CacheSettings};
use crate::member_return::SsdReturn;
use crate::recover_cache::CacheRecovery;

/// The state of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Its members are not open.
    Closed,
    /// It works.
    Open,
    /// Its creation did not end: it can only be removed.
    Incomplete,
    /// It cannot be opened, or its background work has ended with an error.
    Failed,
}

/// A cache in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// The name.
    pub name: String,
    /// The state.
    pub state: CacheState,
    /// The reason why it failed.
    pub why: Option<String>,
    /// What it does with a write.
    pub mode: CacheMode,
    /// The number of its SSDs.
    pub ssds: u64,
    /// The number of SSDs that are read and written; `None` while it is closed.
    pub ssds_online: Option<u64>,
    /// Bytes that only the cache has; `None` while it is closed.
    pub dirty_bytes: Option<u64>,
    /// The names by which its disks are opened.
    pub disks: Vec<String>,
    /// Reasons why disks are not served.
    pub refused_disks: Vec<String>,
    /// Bytes of the pool that it takes.
    pub space_bytes: u64,
    /// What its opening found; `None` while it is closed.
    pub recovery: Option<CacheRecovery>,
}

/// A cache that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedCache {
    /// The cache.
    #[serde(flatten)]
    pub report: CacheReport,
    /// Which failures dirty data survives: what pool and SSDs both do.
    pub survives: SurvivalReport,
    /// Why a default was chosen, and what the choice means.
    pub notes: Vec<String>,
}

/// The result of emptying the clean part of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedContent {
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
}

/// An SSD that is used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedSsd {
    /// How it came back.
    pub content: SsdReturn,
    /// The SSD.
    #[serde(flatten)]
    pub ssd: SsdStats,
}

/// The result of forgetting the content of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenContent {
    /// The cache.
    #[serde(flatten)]
    pub report: CacheReport,
    /// The addresses of members that were not reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

/// What a cache is and has done since it was opened. Counts without a unit are of requests, blocks or events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheStats {
    /// The name.
    pub name: String,
    /// The state.
    pub state: CacheState,
    /// The reason why it failed.
    pub why: Option<String>,
    /// The settings.
    pub settings: CacheSettings,
    /// Bytes of a LEB.
    pub leb_bytes: u64,
    /// Which failures dirty data survives.
    pub survives: SurvivalReport,
    /// The requests of clients.
    pub requests: RequestReport,
    /// The blocks that were found in the cache.
    pub hits: HitReport,
    /// Blocks that were read from a disk.
    pub misses: u64,
    /// The part of the blocks read that was found; `None` before the first one.
    pub hit_ratio: Option<f64>,
    /// Blocks that entered the cache after a read.
    pub fills: u64,
    /// Blocks that did not enter because they changed while they were read.
    pub fills_overtaken: u64,
    /// Blocks that did not enter because of the policy.
    pub not_admitted: u64,
    /// Bytes that went around the cache, by reason.
    pub around: AroundReport,
    /// Bytes of blocks, by state.
    pub bytes: BytesReport,
    /// The age of the oldest LEB with dirty pages, in seconds; `None` without one.
    pub oldest_dirty_s: Option<u64>,
    /// Writes of dirty blocks to the disks.
    pub destage: DestageReport,
    /// Reclaimed LEBs.
    pub collect: CollectReport,
    /// Buffers that were written as LEBs.
    pub sealed_lebs: u64,
    /// Bytes written to the SSDs for each byte that clients wrote; `None` before the first one.
    pub ssd_bytes_per_app_byte: Option<f64>,
    /// Requests that waited for a free buffer.
    pub stalls: u64,
    /// What the opening found.
    pub recovery: CacheRecovery,
    /// The SSDs.
    pub ssds: Vec<SsdStats>,
    /// The disks.
    pub disks: Vec<DiskStats>,
}

/// Requests of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Zeroings.
    pub zeroings: u64,
}

/// Blocks that were found in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitReport {
    /// Read from a buffer in the pool.
    pub read_buffer: u64,
    /// Read from an SSD.
    pub read_ssd: u64,
    /// Written while the cache had an older version.
    pub write: u64,
}

/// Bytes that went around the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AroundReport {
    /// The requests were a long stream.
    pub sequential: u64,
    /// As much was dirty as may be.
    pub too_dirty: u64,
    /// No buffer was free.
    pub buffers_full: u64,
    /// The mode says so.
    pub mode: u64,
}

/// Bytes of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesReport {
    /// That fit on the SSDs that are read.
    pub capacity: u64,
    /// On SSDs, the same as on the disk.
    pub clean: u64,
    /// Newer than on the disk, on SSDs and in buffers.
    pub dirty: u64,
    /// Dirty with one copy although the settings ask for two.
    pub single: u64,
    /// Dirty, on SSDs that are missing.
    pub away: u64,
    /// Dirty, of which no copy can be read any more.
    pub lost: u64,
    /// In buffers.
    pub buffered: u64,
}

/// Writes of dirty blocks to the disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DestageReport {
    /// Blocks.
    pub pages: u64,
    /// Requests to the disks.
    pub runs: u64,
    /// Mean bytes of a request.
    pub run_bytes_mean: u64,
    /// The rate that the limit of the dirty part asks for now, or the user's; `None` while the background work is busy.
    pub pages_per_second: Option<f64>,
    /// Requests that failed; the blocks stay dirty.
    pub errors: u64,
}

/// Reclaimed LEBs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectReport {
    /// LEBs.
    pub lebs: u64,
    /// Blocks in them that were written again.
    pub moved: u64,
    /// Blocks that left the cache.
    pub evicted: u64,
    /// Blocks that were copied again because an SSD had failed.
    pub repaired: u64,
}

/// An SSD of a cache. Bytes written count from the creation, all else from the opening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdStats {
    /// The number, which `online` and `remove-ssd` name.
    pub id: u8,
    /// The address.
    pub address: String,
    /// The identity.
    pub uuid: String,
    /// The state.
    pub state: SsdState,
    /// The reason of the state.
    pub why: Option<String>,
    /// The number of LEBs.
    pub lebs: u32,
    /// Free ones among them; `None` while the background work is busy.
    pub free: Option<u64>,
    /// Bytes of the LEBs whose pages have to move before it leaves; `None` unless it is being removed.
    pub removal_left_bytes: Option<u64>,
    /// LEBs written.
    pub inserts: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes discarded.
    pub trimmed_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Blocks that did not match their sums.
    pub mismatches: u64,
}

/// A disk of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStats {
    /// The name by which users open it.
    pub export: String,
    /// The address.
    pub address: String,
    /// True if it is served.
    pub is_open: bool,
    /// The reason why it is not, or why its clients wait.
    pub why: Option<String>,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Where its stamp is.
    pub stamp: StampPlace,
    /// Where its data begin, in bytes from its first one.
    pub data_at: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Requests that failed.
    pub errors: u64,
}
