//! The one way to a pool: by its owner if it has one, else as its owner.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::Guard;
use ferrite_pool::{Claim, Holder, Lock, claim};

use crate::client::ServiceRequest;
use crate::{Error, OwnerClient, PoolMemory, PoolOwner, ProgressCall, Result, ServiceRegistry, ServiceReply};

/// Looks at a pool's holder before a library gives up: an owner that has just started is waited for.
const LOOKS: u32 = 1000;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// A pool at hand. Each call goes to the services of the owner, whichever process that is.
#[derive(Debug)]
pub enum PoolAccess {
    /// This process owns the pool.
    Owner(Arc<PoolOwner>),
    /// Another process owns the pool.
    Client(OwnerClient),
}

/// The process that has a pool.
#[derive(Debug)]
pub enum PoolHolder {
    /// This process, from now on.
    Ours(Lock),
    /// An owner that answers, and the holder of the lock.
    Theirs(OwnerClient, Holder),
}

/// How a program waits for a process that has a pool and does not answer yet.
pub trait AwaitOwner {
    /// The program's error.
    type Error: From<Error>;

    /// Returns the error for a path that cannot be claimed.
    fn claim_failed(&self, error: Error) -> Self::Error {
        error.into()
    }

    /// Called before each connection to the process that holds the pool. Returns true to look at the holder again first.
    ///
    /// # Errors
    /// Ends the search.
    fn found_holder(&mut self, holder: &Holder) -> std::result::Result<bool, Self::Error> {
        let _ = holder;
        Ok(false)
    }

    /// Pauses after `holder` has not answered; returns false to give up.
    fn pause(&mut self, holder: &Holder) -> bool;
}

/// Waits for five seconds.
#[derive(Debug, Default)]
pub struct FiveSeconds {
    looks: u32,
}

impl AwaitOwner for FiveSeconds {
    type Error = Error;

    fn pause(&mut self, _: &Holder) -> bool {
        std::thread::sleep(PAUSE);
        self.looks += 1;
        self.looks < LOOKS
    }
}

/// Claims the pool at `path`, or connects to its owner.
///
/// # Errors
/// [`Error::Lock`] if the path cannot be claimed; as [`OwnerClient::connect`] if the owner does not answer as long as `wait`
/// waits, or refuses; as `wait` says.
pub fn find<W: AwaitOwner>(path: &Path, wait: &mut W) -> std::result::Result<PoolHolder, W::Error> {
    loop {
        let holder = match claim(path).map_err(|error| wait.claim_failed(error.into()))? {
            Claim::Ours(lock) => return Ok(PoolHolder::Ours(lock)),
            Claim::Held(holder) => holder,
        };
        if wait.found_holder(&holder)? {
            continue;
        }
        match OwnerClient::connect(path) {
            Ok(client) => return Ok(PoolHolder::Theirs(client, holder)),
            Err(Error::NoOwner(_) | Error::Silent { .. } | Error::Died) if wait.pause(&holder) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl PoolAccess {
    /// Opens the pool at `path`: through its owner, or as its owner from now on, which then answers other processes with
    /// the services of `registry`. The memory is mapped with `guard`, or the best one of this machine.
    ///
    /// # Errors
    /// As [`find`], which waits for five seconds; as [`PoolMemory::map`], [`PoolOwner::open`] and [`PoolOwner::listen`].
    pub fn open(path: &Path, registry: &Arc<ServiceRegistry>, guard: Option<Guard>) -> Result<Self> {
        match find(path, &mut FiveSeconds::default())? {
            PoolHolder::Ours(lock) => {
                let memory = PoolMemory::map(&lock, guard)?;
                let owner = PoolOwner::open(lock, memory, registry)?;
                owner.listen()?;
                Ok(Self::Owner(Arc::new(owner)))
            }
            PoolHolder::Theirs(client, _) => Ok(Self::Client(client)),
        }
    }

    /// Asks a service for `request`. `progress` hears how far long work has come, and cancels it when it returns false.
    ///
    /// # Errors
    /// [`Error::Failed`] as the service says; as [`OwnerClient::call`] if another process owns the pool.
    pub fn call(&mut self, request: ServiceRequest<'_>, progress: ProgressCall<'_>) -> Result<ServiceReply> {
        match self {
            Self::Owner(owner) => Ok(owner.call(request, progress)?),
            Self::Client(client) => client.call(request, progress).map(|(value, fds)| ServiceReply { value, fds }),
        }
    }

    /// The pool's owner, if that is this process.
    pub fn owner(&self) -> Option<&Arc<PoolOwner>> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::Client(_) => None,
        }
    }

    /// The owner's process, if that is another one.
    pub fn owner_pid(&self) -> Option<u32> {
        match self {
            Self::Owner(_) => None,
            Self::Client(client) => Some(client.owner_pid()),
        }
    }
}
