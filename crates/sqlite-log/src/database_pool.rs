//! A pool in which this process keeps the logs of databases.
//!
//! The owner may end at any time. Its loans go on; the next process that needs the owner and finds none becomes the owner.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ferrite_memory::{Guard, MapOptions, Mapped, Memory};
use ferrite_owner::{self as owner, PoolAccess, ServiceRegistry, ServiceReply, ServiceRequest};
use ferrite_pool::Origin;
use ferrite_pool::holding::{LentCounters, SharedCounters};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::DatabaseEntry;
use super::counted::LogCounts;
use super::request::{DatabaseRequest, LogLease};
use crate::{Error, Result};

/// Attempts to ask an owner, each of which the owner may not outlive.
const TRIES: u32 = 1000;

/// The descriptor of the shared words in the answer to a request for a lease.
const WORDS_FD: usize = 2;

/// A pool, through its owner or as its owner, see [`PoolAccess`].
pub struct DatabasePool {
    path: PathBuf,
    /// The process that opened this (WF6).
    origin: Origin,
    registry: Arc<ServiceRegistry>,
    random: fn() -> u64,
    now_ns: fn() -> u64,
    /// `None` after the owner has ended.
    access: Mutex<Option<PoolAccess>>,
    /// The memory of the pool, mapped with the first loan.
    memory: OnceLock<Arc<dyn Memory>>,
}

impl DatabasePool {
    /// Opens the pool at `path`. If this process becomes the owner, it serves the services of `registry`, one of which is
    /// [`super::DatabaseService`]. `random` returns random numbers, and `now_ns` the nanoseconds of a clock.
    ///
    /// # Errors
    /// [`Error::Owner`] if the path cannot be opened or is not a place for a pool, if its owner refuses or does not answer
    /// within 5 seconds, and if this process becomes the owner and the pool cannot be opened.
    pub fn open(
        path: &Path,
        registry: Arc<ServiceRegistry>,
        random: fn() -> u64,
        now_ns: fn() -> u64,
    ) -> Result<Arc<Self>> {
        let access = Mutex::new(Some(PoolAccess::open(path, &registry, None)?));
        let (path, origin, memory) = (path.to_owned(), Origin::here(), OnceLock::new());
        Ok(Arc::new(Self { path, origin, registry, random, now_ns, access, memory }))
    }

    /// Returns the path of the pool.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a random number.
    pub(super) fn random(&self) -> u64 {
        (self.random)()
    }

    /// Returns the nonce of a new generation.
    pub(super) fn nonce(&self) -> u16 {
        self.random() as u16
    }

    /// Returns true if this process owns the pool.
    pub fn is_owner(&self) -> bool {
        self.origin.is_here() && matches!(&*self.access.lock(), Some(PoolAccess::Owner(_)))
    }

    /// Refuses a pool that the parent of this process opened (WF6). Called before any lock: a thread of the parent may hold
    /// the lock, and the child does not have that thread.
    pub(super) fn ensure_ours(&self) -> Result<()> {
        match self.origin.is_here() {
            true => Ok(()),
            false => Err(Error::Refused(
                "it was opened before this process was forked and is its parent's: open the database again here".into(),
            )),
        }
    }

    /// Asks the owner, which may be this process. If the owner has ended, asks the next owner, which may be this process,
    /// too. Returns no descriptors if they were lost on the way.
    ///
    /// # Errors
    /// [`Error::Refused`] with the owner's message, and in a child of fork; [`Error::Full`] for want of space. As
    /// [`DatabasePool::open`] if the owner has ended and there is no other.
    pub fn ask<T: DeserializeOwned>(&self, request: &DatabaseRequest) -> Result<(T, Vec<OwnedFd>)> {
        self.ensure_ours()?;
        let mut access = self.access.lock();
        for _ in 0..TRIES {
            let known = match &mut *access {
                Some(known) => known,
                none => none.insert(PoolAccess::open(&self.path, &self.registry, None)?),
            };
            let (value, fds) = match known.call(ServiceRequest::of(request), &mut |_| true) {
                Ok(ServiceReply { value, fds }) => (value, fds),
                Err(owner::Error::Lost { value }) => (*value, Vec::new()),
                Err(owner::Error::Failed(failure)) => return Err(failure.into()),
                Err(_) => {
                    *access = None;
                    continue;
                }
            };
            return Ok((serde_json::from_value(value).map_err(|_| strange())?, fds));
        }
        Err(owner::Error::Died.into())
    }

    /// Lists the databases with a log in the pool.
    ///
    /// # Errors
    /// As [`DatabasePool::ask`].
    pub fn databases(&self) -> Result<Vec<DatabaseEntry>> {
        Ok(self.ask(&DatabaseRequest::List)?.0)
    }

    /// Asks for a lease. Returns the lease, the memory of its pages, and its counters.
    pub(super) fn lease(&self, request: &DatabaseRequest) -> Result<(LogLease, Arc<dyn Memory>, LogCounts)> {
        let (lease, mut fds) = self.ask::<LogLease>(request)?;
        // A lease that this process cannot use does not keep others out.
        let close = || self.ask::<()>(&DatabaseRequest::Close { id: lease.id });
        let words = if fds.len() > WORDS_FD { Some(fds.swap_remove(WORDS_FD)) } else { None };
        let shared = words.zip(lease.slot).map(|(words, slot)| SharedCounters { words, slot });
        let memory = self.enter(fds).inspect_err(|_| _ = close())?;
        let counters = shared.and_then(LentCounters::of).map(Arc::new);
        Ok((lease, memory, LogCounts { counters, now_ns: self.now_ns }))
    }

    /// Returns the memory of the pool, mapped from the first descriptor of the first lease.
    fn enter(&self, fds: Vec<OwnedFd>) -> Result<Arc<dyn Memory>> {
        if let Some(memory) = self.memory.get() {
            return Ok(Arc::clone(memory));
        }
        let file = fds.into_iter().next().ok_or_else(|| {
            Error::Refused("the pool's memory did not come: this program may have too many files open".into())
        })?;
        let options =
            MapOptions { guard: Guard::best(), name: self.path.display().to_string(), ..MapOptions::default() };
        let mapped = Arc::new(Mapped::map(File::from(file), &options)?);
        Ok(Arc::clone(self.memory.get_or_init(|| mapped)))
    }
}

fn strange() -> Error {
    Error::Refused("the pool's owner answers what this program cannot use".into())
}

impl Drop for DatabasePool {
    fn drop(&mut self) {
        let access = self.access.get_mut().take();
        if !self.origin.is_here() {
            return std::mem::forget((access, self.memory.take()));
        }
        if let Some(PoolAccess::Owner(owner)) = access {
            // A connected process finds the owner gone, and becomes the owner. An error leaves the pool as a crash would.
            let _ = Arc::into_inner(owner).map(|owner| owner.close());
        }
    }
}
