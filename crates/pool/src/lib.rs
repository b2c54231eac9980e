//! One pool of persistent memory: its format, allocator, transactions, names and recovery.
//!
//! A pool is formatted [`Memory`](ferrite_memory::Memory). A [`Tag`] is a name for something in it: a disk, a log, a
//! file system. So there is one format, one allocator, one recovery, one check and one backup for all of them.
//!
//! ```
//! use std::sync::Arc;
//! use ferrite_memory::{MapOptions, Mapped};
//! use ferrite_pool::{Format, Pool, Put};
//!
//! let memory = Arc::new(Mapped::anonymous(32 << 20, &MapOptions::default())?);
//! // Random in earnest: who the pool is, and which boot of the machine this is.
//! let (uuid, boot_id) = ([1; 16], [2; 16]);
//! Pool::create(&*memory, &Format { uuid, boot_id })?;
//! let (pool, recovery) = Pool::open(memory, boot_id)?;
//! assert!(recovery.clean);
//! pool.put("greeting", &mut &b"hello"[..], &Put::default())?; // whole, or after a crash not there
//! let mut bytes = Vec::new();
//! pool.get("greeting", &mut bytes)?;
//! assert_eq!(bytes, b"hello");
//! pool.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod backup;
mod bounds;
mod caller;
pub mod check;
mod damage;
pub mod defrag;
mod error;
mod extent;
mod format;
mod freeze;
mod gate;
pub mod grant;
mod grow;
pub mod holding;
mod host;
mod lane;
pub mod layout;
mod lock;
mod log;
mod loss;
mod member;
mod operation;
mod overflow;
mod pages;
mod partial;
pub mod patience;
mod poison;
mod pool;
mod preview;
mod progress;
#[cfg(test)]
mod proof;
pub mod record;
mod redo;
mod reserved;
pub mod sealed;
mod space;
mod superblock;
mod tag;
mod tags;
pub mod tie;
mod transaction;
mod uuid;
mod value;

pub use bounds::{SEQUENCE_BOUND, beyond};
pub use caller::{Caller, PidFd};
pub use error::{Error, Result};
pub use extent::{Extent, Role, Stream, Zone};
pub use format::Format;
pub use freeze::{Freeze, Frozen};
pub use gate::Gate;
pub use grow::{Grown, grow};
pub use host::Watch;
pub use lane::PAYLOAD_BYTES_MAX;
pub use lock::{
    Claim, Holder, Kept, Lock, LockError, LockedFile, Origin, TRUST_OWNER, TRUST_WRITABLE, Trust, claim, ensure_trusted,
};
pub use log::{Log, Position, Records, Stranded, View, relocate_log};
pub use loss::{MayLose, ensure_may_be_lost};
pub use member::{Member, MemberKind, MemberTie};
pub use partial::{Output, Partial, ensure_no_pool, led_to};
pub use patience::{Way, ready_within};
pub use pool::opening::Recovery;
pub use pool::{NewTag, Pool, TagChange};
pub use progress::Progress;
pub use redo::Replay;
pub use reserved::Reserved;
pub use sealed::{NUMBER_MAX, seal, unseal};
pub use space::{Kind, Need, Space, Usage};
pub use superblock::{State, Superblock, VERSION};
pub use tag::{Tag, TagKind, check_name};
pub use transaction::Transaction;
pub use uuid::show_uuid;
pub use value::Put;

/// Decoders of what a hostile medium may hold, for the fuzz targets.
pub mod decode {
    pub use crate::lane::committed::committed;
    pub use crate::member::decode_slot as decode_member;
    pub use crate::operation::changes;
    pub use crate::tag::{SLOT_BYTES, decode_overflow, decode_slot};
}
