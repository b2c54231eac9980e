//! A service: SSDs as a cache before slow disks, with the cache's metadata in persistent memory.
//!
//! ```text
//!   client --- CachedDisk --- CacheQueue ---+--- slots in the pool (one fence makes a write durable)
//!                                           +--- SSDs: whole LEBs, written once; dirty ones on two SSDs
//!                                           +--- the disk
//!   worker: seal buffers to LEBs, destage dirty pages, reclaim LEBs, repair copies
//! ```
//!
//! - CA1. A block's content is its newest live slot, else its one live page in a valid table, else the disk's.
//! - CA2. An acknowledged write is a slot that counts (WB1); while fences are not durable, after the next flush.
//! - CA3. A dead mark is durable before a table with the successor becomes valid, before a table that held a successor
//!   becomes free, and before the mark of a successor that was dropped. Marks wait in a list: a thread that makes a table
//!   valid or free stores all of them first. No mark is stored from its look at the slots until the index names their
//!   pages: a version that dies within this time has the marks of its slot and of its page stored together.
//! - CA4. A buffer is free only when its table is valid or its slots are dead. A table is valid only when each copy that
//!   it names was written and a flush of its SSD, begun after that, succeeded.
//! - CA5. The copies of a LEB are on different SSDs.
//! - CA6. A page is clean only after a flush of the disk, begun after the page's write had completed, succeeded. No flush
//!   of the disk failed since that write began. A client writes its version through only while no newer one replaces it.
//! - CA7. A change goes around the cache only if the block is not dirty and not being destaged; over a clean version, also
//!   one that was dropped before, only after its dead mark is durable.
//! - CA8. What was read from the disk enters the cache only if the block did not change since the read began.
//! - CA9. A LEB is written only if no durable table names it and no request reads it. It is written once, whole.
//! - CA10. No byte of an SSD reaches a client before its sum verified. No byte of a disk reaches a client if a dirty
//!   version covers it.
//! - CA11. An SSD comes back with its content only with the stamp that the pool has of it, and only after it has ended
//!   each request; else empty: then no table names it before it is used.
//! - CA12. Nothing is written to a member whose stamp does not have the pool's current generation; behind a backup of the
//!   pool that is a new one. A backup that is taken while members move to a generation makes them move once more.
//! - CA13. A member whose stamp does not match is not used. A disk that was written without the cache is not served: its
//!   fingerprint shows that.
//! - CA14. After recovery exactly the blocks are dirty that were dirty, except one batch that the disks had and that was
//!   not noted. Clean pages and their noted hits are there. Recovery ends in the same state however often it is crashed.
//! - CA15. SSDs get LEBs in turn: a LEB goes to the next SSD of the ring that has a free one, and its copy to the next
//!   different SSD.
//! - CA16. No lock that a client's request takes is held over I/O to a member or a wait.
//! - CA17. Bytes that go around the cache are counted with their reason.
//! - CA18. The queue owns the buffer of an abandoned request until the SSD has ended it. No thread that works for clients
//!   drops a queue with requests in flight: a thread of its own waits for the SSD then.
//! - CA19. While the pool stands still nothing is stored into it. Members may finish requests.
//! - CA20. A dirty page none of whose copies can be read is an error to read, is reported by its block, and is nothing
//!   else until it is overwritten.
//! - CA21. A clean version is what the disk has after a crash. A version that was read while no flush covered all writes of
//!   the disk does not count after a crash, and becomes a page of a LEB only behind a flush. A slot is durable before its
//!   version is written to the disk.
//!
//! Sources: the Flash Cache of "A Storage Class Memory Architecture for Flash-Backed DRAM" (populate buffers, LEB array,
//! logging and checkpoint of the hash table; here the slots' headers are the log and the tables its checkpoint), and the
//! multi-SSD cache of "Hybrid Storage" (dirty pages on two SSDs, clean ones on one, in turn).

mod around_flights;
mod bad_copies;
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
mod check_cache;
mod collect;
mod dead_marks;
pub mod decode;
mod destage;
mod destage_rate;
mod disk_membership;
mod error;
mod fingerprint;
mod ghost_table;
mod late_queue;
mod leaving;
mod leb_space;
mod leb_table;
mod limited_opener;
mod member_pass;
mod member_queues;
mod member_return;
mod member_stamp;
mod membership;
mod new_version;
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
mod service_members;
mod settings_change;
mod write_buffer;

use ferrite_pool::TagKind;

pub use cache::{Cache, MemberOpener, OpenOptions};
pub use cache_config::{CacheConfig, DiskConfig, PendingMember, SsdConfig, StampPlace};
pub use cache_layout::{BLOCK, CacheLayout, DISKS_MAX, LEBS_MAX, LEBS_MIN, SSDS_MAX};
pub use cache_members::SsdState;
pub use cache_reports::{
    AroundReport, BytesReport, CacheReport, CacheState, CacheStats, CollectReport, CreatedCache, DestageReport,
    DiskStats, DroppedContent, ForgottenContent, HitReport, RequestReport, ReturnedSsd, SsdStats,
};
pub use cache_requests::{CACHE, CacheRequest, MemberAddress, NewCacheDisk};
pub use cache_service::CacheService;
pub use cache_settings::{CacheMode, CachePolicy, CacheSettings, CopyRule};
pub use cache_spec::{CacheSpec, NewDisk, NewSsd};
pub use cached_disk::CachedDisk;
pub use check_cache::{CacheCheckOptions, CacheCheckReport};
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
