//! Named objects that outlive crashes (scm-flash-backed-dram.txt, section 3.2).
//!
//! ```no_run
//! use ferrite_object::Store;
//!
//! let store = Store::open("/dev/shm/pool".as_ref(), &Default::default())?;
//! let map = store.map("people", Default::default())?;
//! map.put(b"ada", b"1815")?; // durable here
//! assert_eq!(map.get(b"ada"), Some(b"1815".to_vec()));
//! # Ok::<(), ferrite_object::Error>(())
//! ```
//!
//! Three ways to store an object, and the types built on them:
//!
//! - *direct update*: a value of up to 2032 bytes, updated in place, all or nothing: [`DirectValue`];
//! - *logging*: a structure in DRAM, each change a small record: [`ObjectLog`] is the plain log;
//! - *checkpointing* with logging, for structures of any size: [`Logged`], and on it [`Map`] and [`Queue`], and
//!   [`Bundle`] for several of them that change together.
//!
//! No returned value depends on an object's address, which changes from run to run. Every change is durable when its
//! call returns, as far as the store's medium is ([`Store::survival`]).
//!
//! Open objects belong to the process: a child of fork must neither use nor drop its parent's objects
//! ([`std::mem::forget`]), and opens the store for itself.

mod bundle;
mod change_steps;
mod checkpoint;
mod direct_value;
mod error;
mod logged;
mod object_counts;
mod object_label;
mod object_log;
mod object_map;
mod object_queue;
mod object_word;
mod service;
mod store;
#[cfg(test)]
mod tests;

pub use bundle::{Bundle, BundleChange, BundleMembers};
pub use direct_value::{DirectBytes, DirectValue, VALUE_BYTES_MAX};
pub use error::{Error, Result};
pub use ferrite_memory::Scheme;
pub use logged::Logged;
pub use logged::LoggedStructure;
pub use logged::Logging;
pub use logged::SalvageLoss;
pub use object_log::ObjectLog;
pub use object_map::Map;
pub use object_map::MapBatch;
pub use object_map::MapEntries;
pub use object_queue::Queue;
pub use object_queue::QueueBatch;
pub use object_queue::QueueEnd;
pub use object_queue::QueueEntries;
pub use service::ObjectService;
pub use store::{Finalized, Finish, NewStore, OpenStore, Store};

/// Returns the initial value of the checksums of the object of this generation.
fn salt(uuid: &[u8; 16], generation: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(b"object");
    hasher.update(uuid);
    hasher.update(&generation.to_le_bytes());
    hasher.finalize()
}
