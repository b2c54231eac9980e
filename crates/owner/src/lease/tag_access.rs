//! Tags that this process stores into by itself, whichever process owns the pool.

use std::path::Path;
use std::sync::Arc;

use ferrite_memory::{Guard, monotonic_ns};
use ferrite_pool::Result as PoolResult;
use ferrite_pool::holding::{Note, TagLease, TagSpec};

use super::RemoteTags;
use crate::{PoolAccess, PoolOwner, Result, ServiceRegistry};

/// The tags of a pool, as this process holds them.
#[derive(Debug)]
pub enum TagAccess {
    /// This process owns the pool.
    Own(Arc<PoolOwner>),
    /// The owner lends tags to this process.
    Remote(Arc<RemoteTags>),
}

impl TagAccess {
    /// Opens the pool at `path`, as [`PoolAccess::open`].
    ///
    /// # Errors
    /// As [`PoolAccess::open`].
    pub fn open(path: &Path, registry: &Arc<ServiceRegistry>, guard: Option<Guard>) -> Result<Self> {
        Ok(match PoolAccess::open(path, registry, guard)? {
            PoolAccess::Owner(owner) => Self::Own(owner),
            PoolAccess::Client(client) => {
                Self::Remote(Arc::new(RemoteTags::new(client, guard.unwrap_or_else(Guard::best), path)))
            }
        })
    }

    /// The owner's process, if that is another one.
    pub fn owner_pid(&self) -> Option<u32> {
        match self {
            Self::Own(_) => None,
            Self::Remote(tags) => Some(tags.owner_pid()),
        }
    }

    /// Lists the tags, by name.
    ///
    /// # Errors
    /// None if this process owns the pool; else as [`RemoteTags`] says.
    pub fn list(&self) -> PoolResult<Vec<Note>> {
        match self {
            Self::Own(owner) => Ok(owner.pool().tags().iter().map(|tag| Note::of(tag)).collect()),
            Self::Remote(tags) => tags.tags(),
        }
    }

    /// Creates a tag; durable on return.
    ///
    /// # Errors
    /// As [`TagSpec::create`] and as [`RemoteTags::create`].
    pub fn create(&self, spec: &TagSpec) -> PoolResult<()> {
        match self {
            Self::Own(owner) => spec.create(owner.pool()).map(drop),
            Self::Remote(tags) => tags.create(spec).map(drop),
        }
    }

    /// Holds the tag called `name`. The holding keeps the lock of a pool that this process owns.
    ///
    /// # Errors
    /// As [`ferrite_pool::Pool::hold`] and as [`RemoteTags::hold`].
    pub fn hold(&self, name: &str) -> PoolResult<TagLease> {
        let lease = match self {
            Self::Own(owner) => owner.pool().hold(name)?.keeping(owner.lock()),
            Self::Remote(tags) => tags.hold(name)?,
        };
        Ok(lease.timed(monotonic_ns))
    }

    /// Removes a tag that no process holds; durable on return.
    ///
    /// # Errors
    /// As [`ferrite_pool::Pool::remove_unheld`] and as [`RemoteTags::remove`].
    pub fn remove(&self, name: &str) -> PoolResult<()> {
        match self {
            Self::Own(owner) => owner.pool().remove_unheld(name),
            Self::Remote(tags) => tags.remove(name),
        }
    }

    /// Returns true if this process holds a tag.
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Own(owner) => owner.is_held(),
            Self::Remote(tags) => Arc::strong_count(tags) > 1,
        }
    }
}
