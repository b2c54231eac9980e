//! One pool of persistent memory: its format, allocator, transactions, names and recovery.
//!
//! A pool is formatted [`Memory`](ferrite_memory::Memory). A [`Tag`] is a name for something in it: a disk, a log, a
//! file system. So there is one format, one allocator, one recovery, one check and one backup for all of them.
//!
//! ```
//! use std::sync::Arc;
//! use ferrite_memory::{MapOptions, Mapped};
//! use ferrite_pool::{Format, Pool, PutOptions};
//!
//! let memory = Arc::new(Mapped::anonymous(32 << 20, &MapOptions::default())?);
//! // Real callers draw the UUID at random and read the boot id of the machine.
//! let (uuid, boot_id) = ([1; 16], [2; 16]);
//! Pool::create(&*memory, &Format { uuid, boot_id })?;
//! let (pool, recovery) = Pool::open(memory, boot_id)?;
//! assert!(recovery.clean);
//! pool.put("greeting", &mut &b"hello"[..], &PutOptions::default())?; // after a crash: whole, or absent
//! let mut bytes = Vec::new();
//! pool.get("greeting", &mut bytes)?;
//! assert_eq!(bytes, b"hello");
//! pool.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod atomic_file;
pub mod backup;
mod bounds;
mod caller;
mod change_gate;
pub mod check;
pub mod checked_record;
pub mod checked_word;
mod chunk_pages;
mod create_pool;
mod damage;
pub mod decode;
pub mod defrag;
pub mod disk_stamp;
mod error;
mod extent;
mod failure;
mod freeze;
pub mod grant;
mod grow;
pub mod holding;
mod host_space;
mod lane;
pub mod layout;
mod lock;
mod log;
mod may_lose;
mod member;
mod operation;
mod overflow;
mod overlay;
mod page_allocator;
mod poison;
mod pool;
mod progress;
mod redo;
mod reserved_space;
mod superblock;
mod tag;
mod tag_table;
mod tag_value;
#[cfg(test)]
mod tests;
pub mod tie;
pub mod time_limit;
mod transaction;
mod uuid;

pub use atomic_file::AtomicFile;
pub use atomic_file::OutputFile;
pub use atomic_file::ensure_no_member;
pub use atomic_file::ensure_no_pool;
pub use atomic_file::resolve_links;
pub use bounds::SEQUENCE_BOUND;
pub use bounds::out_of_bounds;
pub use caller::Caller;
pub use caller::PidFd;
pub use change_gate::ChangeGate;
pub use checked_word::NUMBER_MAX;
pub use checked_word::seal;
pub use checked_word::unseal;
pub use create_pool::Format;
pub use error::{Error, Result};
pub use extent::{Extent, Role, Stream, Zone};
pub use failure::Failure;
pub use failure::FailureKind;
pub use freeze::{Freeze, Frozen, StorePass};
pub use grow::{Grown, grow};
pub use host_space::ProgressWatch;
pub use lane::PAYLOAD_BYTES_MAX;
pub use lock::{
    Claim, Holder, Lock, LockError, LockedFile, Origin, ParentOnlyFd, TRUST_OWNER, TRUST_WRITABLE, Trust, claim,
    ensure_trusted,
};
pub use log::LogPosition;
pub use log::LogRecords;
pub use log::LogView;
pub use log::StrandedRecord;
pub use log::TagLog;
pub use log::relocate_log;
pub use may_lose::MayLose;
pub use may_lose::ensure_may_be_lost;
pub use member::MemberKind;
pub use member::MemberTie;
pub use member::PoolMember;
pub use page_allocator::ChunkUse;
pub use page_allocator::PageAllocator;
pub use page_allocator::SpaceNeed;
pub use page_allocator::SpaceUsage;
pub use pool::NewTag;
pub use pool::Pool;
pub use pool::TagChange;
pub use pool::open_pool::Recovery;
pub use progress::Progress;
pub use redo::ReplayCount;
pub use reserved_space::ReservedSpace;
pub use superblock::{PoolState, Superblock, VERSION};
pub use tag::{Tag, TagKind, check_name};
pub use tag_value::PutOptions;
pub use time_limit::Way;
pub use time_limit::ready_within;
pub use transaction::Transaction;
pub use uuid::show_uuid;
