//! The file system: a tree of files in a tag of a pool, read and written in place (zonfs.txt; nvm-storage-hierarchy.txt
//! chapter 5).
//!
//! File pages and inodes lie in chunks of the pool only: there is no page cache. A read copies from the page itself,
//! and a write stores to it. Each change of names, sizes or space is one pool transaction.
//!
//! Calls of [`FileSystem`] take inode numbers, and any thread may make them. A front end translates its protocol and
//! the errors, and its kernel checks permissions. Each call that creates a file takes the owner of that file.
//!
//! Each part names only parts above it in this list, and clients are known below `share` by a trait alone:
//!
//! | part | contents |
//! |---|---|
//! | [`mod@format`] | layout, inodes, pages of names, index words, append checksums: bytes and values |
//! | [`view`] | readers without a lock: inode snapshots, index lookups, hints |
//! | [`share::layout`] | the words and the requests that owner and clients share |
//! | `store` | chunks, transactions, orphans, locks: the only part that allocates and commits |
//! | `file` | index, reads, writes, appends, sizes (`file/size.rs`), fsync, superpages |
//! | `tree` | directories, lookups, links, attributes, ACLs |
//! | [`share`] | sessions, leases, pins of clients, stopped appends; implements `store::clients::Clients` |
//! | `file_system` | [`FileSystem`], one line for each call |
//! | `check` | reads the medium by itself |
//!
//! ```
//! use std::sync::Arc;
//! # use ferrite_fs::{Credentials, FileKind, FileSystem, FsOptions, FsSpec, Ino, NewFile, Time};
//! use ferrite_memory::{MapOptions, Mapped};
//!
//! let memory = Arc::new(Mapped::anonymous(32 << 20, &MapOptions::default())?);
//! let now = Time(1_700_000_000_000_000_000);
//! let spec = FsSpec { super_threshold_bytes: None, uid: 0, gid: 0, mode: 0o755, hash_seed: 1, now };
//! let options = FsOptions { data: None, read_only: false, clock: Arc::new(move || now) };
//! // In a pool of other things: `FileSystem::create`, then `FileSystem::open`.
//! let fs = FileSystem::alone(memory, &spec, options)?;
//! let new = NewFile { kind: FileKind::File, mode: 0o644, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };
//! let file = fs.create_file(Ino::ROOT, b"greeting", &new)?;
//! fs.write(file.ino, 0, b"hello")?; // durable here, as far as the memory is
//! let mut bytes = [0; 5];
//! assert_eq!((fs.read(file.ino, 0, &mut bytes)?, &bytes), (5, b"hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
extern crate self as ferrite_fs;

mod arguments;
mod check;
#[cfg(test)]
#[path = "../../fs-client/src/lib.rs"]
pub mod client;
mod error;
mod file;
mod file_system;
pub mod format;
mod options;
mod reclaim;
pub mod share;
mod store;
#[cfg(test)]
mod tests;
mod tier;
mod tier_upkeep;
mod tree;
pub mod view;

pub use arguments::{
    Allocate, Credentials, DirEntry, ListedEntry, NewFile, Rename, Seek, SetAttr, SetTime, SetXattr, Statfs,
};
pub use check::FilesOwner;
pub use error::{Error, Result};
pub use file_system::FileSystem;
pub use file_system::held_tier::HeldTier;
pub use format::attr::{Attr, FileKind, FsClock, Ino, Time};
pub use format::leaf::NAME_BYTES_MAX;
pub use format::tier_policy::TierPolicy;
pub use options::{ATOMIC_BYTES_MAX, DataMode, FsOptions, FsSpec, SUPER_THRESHOLD_BYTES};
pub use store::tier_adoption::AdoptedSsds;
pub use store::tier_members::{OpenedSsd, TierDisk, TierOpening, away_bytes};
pub use tier::CleaningGoal;
pub use tier::lost_files::LostPages;
pub use tier::scrub::{DamagedPage, PagePlace, TierScrub};
pub use tier::tier_report::{TierReport, TierSsdReport};
pub use tier::tier_stats::{SegmentCounts, SsdRequests, TierPageCounts, TierSsdState, TierSsdStats, TierStats};
pub use tier_upkeep::{TierUpkeep, adopt_ssds};
