//! A service: SSDs as a cache before slow disks, with the cache's metadata in persistent memory.
//!
//! ```text
//!   client --- CachedDisk --- CacheQueue ---+--- slots in the pool (one fence makes a write durable)
//!                                           +--- SSDs: whole LEBs, written once; dirty ones on two SSDs
//!                                           +--- the disk
//!   worker: seal buffers to LEBs, destage dirty pages, reclaim LEBs, repair copies
//! ```
//!
//! Sources: the Flash Cache of "A Storage Class Memory Architecture for Flash-Backed DRAM" (populate buffers, LEB array,
//! logging and checkpoint of the hash table; here the slots' headers are the log and the tables its checkpoint), and the
//! multi-SSD cache of "Hybrid Storage" (dirty pages on two SSDs, clean ones on one, in turn).

mod buffer_set;
mod cache;
mod cache_config;
mod cache_core;
mod cache_counters;
mod cache_index;
mod cache_layout;
mod cache_members;
mod cache_memory;
mod cache_queue;
mod cache_reports;
mod cache_requests;
mod cache_service;
mod cache_settings;
mod cache_spec;
mod cache_stats;
mod cache_walk;
mod cache_worker;
mod cached_disk;
mod collect;
mod destage;
mod destage_rate;
mod disk_membership;
mod error;
mod fingerprint;
mod ghost_table;
mod leaving;
mod leb_space;
mod leb_table;
mod member_queues;
mod member_return;
mod member_stamp;
mod membership;
mod open_caches;
mod open_members;
mod page_copy;
mod page_word;
mod pending_members;
mod queue_read;
mod queue_write;
mod recover_cache;
mod remove_cache;
mod request_streams;
mod seal;
mod settings_change;
mod write_buffer;

use ferrite_pool::TagKind;

pub use cache::{Cache, MemberOpener, OpenOptions};
pub use cache_config::{CacheConfig, DiskConfig, PendingMember, SsdConfig, StampPlace};
pub use cache_layout::{BLOCK, CacheLayout, DISKS_MAX, LEBS_MAX, LEBS_MIN, SSDS_MAX};
pub use cache_members::SsdState;
pub use cache_reports::{
    AroundReport, BytesReport, CacheReport, CacheState, CacheStats, CollectReport, CreatedCache, DestageReport,
    DiskStats, HitReport, RequestReport, SsdStats,
};
pub use cache_requests::{CACHE, CacheRequest, MemberAddress, NewCacheDisk};
pub use cache_service::CacheService;
pub use cache_settings::{CacheMode, CachePolicy, CacheSettings, CopyRule};
pub use cache_spec::{CacheSpec, NewDisk, NewSsd};
pub use cached_disk::CachedDisk;
pub use error::{CacheError, Result};
pub use member_return::SsdReturn;
pub use member_stamp::{MemberStamp, STAMP_BYTES, read_stamp};
pub use open_caches::OpenCaches;
pub use recover_cache::CacheRecovery;
pub use remove_cache::{ForgetScope, forget_cache, remove_cache};
pub use settings_change::{RateChoice, SettingsChange};

/// The kind of tags of caches.
pub const CACHE_KIND: TagKind = TagKind::CACHE;

#[cfg(test)]
mod tests;
