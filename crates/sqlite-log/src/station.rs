//! How a process comes by a pool: through its owner where it has one, else by becoming that.
//!
//! The owner may end at any time. What it had lent stays lent; who needs it next and finds it gone takes its place.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory};
use ferrite_owner as owner;
use ferrite_owner::{Call, Client, Handler, Listening, Parted, Reply};
use ferrite_pool::{Caller, Claim, Lock, Origin, PidFd, Pool, claim};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::Entry;
use super::office::{Lease, Office, Request};
use crate::{Error, Result};

/// How often a pool that somebody has for a moment is looked at again.
const TRIES: u32 = 1000;
/// The pause between.
const PAUSE: Duration = Duration::from_millis(5);
/// What an answer begins with where the pool is full, or its host.
const FULL: [&str; 2] = ["the pool is full", "no space left"];

/// What only the program itself can say.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// This boot of the machine.
    pub boot_id: [u8; 16],
    /// A random number.
    pub random: fn() -> u64,
}

/// A pool, as this process reaches it.
pub struct Station {
    path: PathBuf,
    /// Who may use it (WF6).
    origin: Origin,
    machine: Machine,
    side: Mutex<Side>,
    /// Every byte that leases are about.
    memory: OnceLock<Arc<dyn Memory>>,
}

/// On which side of the control socket this process is.
enum Side {
    Nowhere,
    Tenant(Client),
    Owner { office: Arc<Office>, listening: Listening, _lock: Lock },
}

impl Station {
    /// Reaches the pool at `path`, by this `machine`.
    ///
    /// # Errors
    /// [`Error::Owner`] where the path cannot be opened or is no place for a pool, and where its owner refuses or is
    /// not reached in 5 seconds. [`Error::Pool`] where this process becomes the owner and the pool cannot be opened.
    pub fn reach(path: &Path, machine: Machine) -> Result<Arc<Self>> {
        let path = path.to_owned();
        let (side, memory) = (Mutex::new(Side::Nowhere), OnceLock::new());
        let station = Self { path, origin: Origin::here(), machine, side, memory };
        *station.side.lock() = station.find()?;
        Ok(Arc::new(station))
    }

    /// The path of the pool.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A random number.
    pub(super) fn random(&self) -> u64 {
        (self.machine.random)()
    }

    /// The nonce of a new generation.
    pub(super) fn nonce(&self) -> u16 {
        self.random() as u16
    }

    /// Whether this process owns the pool.
    pub fn is_owner(&self) -> bool {
        self.origin.is_here() && matches!(*self.side.lock(), Side::Owner { .. })
    }

    /// Refuses what is the parent's of this process (WF6). Before any lock: a thread may have it that is not here.
    pub(super) fn ensure_ours(&self) -> Result<()> {
        match self.origin.is_here() {
            true => Ok(()),
            false => Err(Error::Refused(
                "it was opened before this process was forked and is its parent's: open the database again here".into(),
            )),
        }
    }

    /// Takes the pool, or reaches who has it.
    fn find(&self) -> Result<Side> {
        for _ in 0..TRIES {
            if let Claim::Ours(lock) = claim(&self.path)? {
                return self.take(lock);
            }
            match Client::connect(&self.path) {
                Ok(client) => return Ok(Side::Tenant(client)),
                Err(owner::Error::NoOwner(_) | owner::Error::Silent { .. } | owner::Error::Died) => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Side::Tenant(Client::connect(&self.path)?))
    }

    /// Opens the pool that `lock` holds, and serves it.
    fn take(&self, lock: Lock) -> Result<Side> {
        lock.ensure_room()?;
        let mapped = Arc::new(lock.map(&self.map_options())?);
        let (pool, _) = Pool::open(mapped.clone(), self.machine.boot_id)?;
        let office = Arc::new(Office::new(Arc::new(pool), self.machine.boot_id));
        let listening = Listening::start(&lock, Arc::new(Counter(Arc::clone(&office))))?;
        let _ = self.memory.set(mapped);
        Ok(Side::Owner { office, listening, _lock: lock })
    }

    fn map_options(&self) -> MapOptions {
        MapOptions { guard: Guard::best(), name: self.path.display().to_string(), ..MapOptions::default() }
    }

    /// Asks the owner, be it this process; where it has ended, the next one, which may be this process too. No descriptors
    /// come with the answer where they were lost on the way.
    ///
    /// # Errors
    /// [`Error::Refused`] with what the owner says, and in a child of fork; [`Error::Full`] where that is want of space;
    /// where this process is the owner as [`Office::answer`]. As [`Station::reach`] where it had ended and there is no
    /// other.
    pub fn ask(&self, request: &Request) -> Result<(Value, Vec<OwnedFd>)> {
        self.ensure_ours()?;
        let mut side = self.side.lock();
        for _ in 0..TRIES {
            let answer = match &mut *side {
                Side::Owner { office, .. } => {
                    let Reply { value, fds } = office.answer(&this_process()?, request.clone())?;
                    return Ok((value, fds));
                }
                Side::Tenant(client) => client.call(serde_json::json!(request), &[], &mut |_| true),
                Side::Nowhere => Err(owner::Error::Died),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(owner::Error::Lost { value }) => return Ok((*value, Vec::new())),
                Err(owner::Error::Failed(why)) if FULL.iter().any(|full| why.starts_with(full)) => {
                    return Err(Error::Full(why));
                }
                Err(owner::Error::Failed(why)) => return Err(Error::Refused(why)),
                Err(_) => *side = Side::Nowhere,
            }
            *side = self.find()?;
        }
        Err(owner::Error::Died.into())
    }

    /// The databases with a log in the pool.
    ///
    /// # Errors
    /// As [`Station::ask`].
    pub fn databases(&self) -> Result<Vec<Entry>> {
        let (value, _) = self.ask(&Request::DatabaseList)?;
        serde_json::from_value(value)
            .map_err(|_| Error::Refused("the pool's owner answers what this program cannot use".into()))
    }

    /// A lease, and the memory it is about.
    pub(super) fn lease(&self, request: &Request) -> Result<(Lease, Arc<dyn Memory>)> {
        let (value, fds) = self.ask(request)?;
        let strange = || Error::Refused("the pool's owner answers what this program cannot use".into());
        let lease: Lease = serde_json::from_value(value).map_err(|_| strange())?;
        // What cannot be used is not kept from others.
        let memory = self.enter(fds).inspect_err(|_| _ = self.ask(&Request::DatabaseClose { id: lease.id }))?;
        Ok((lease, memory))
    }

    /// The memory that leases are about; the first descriptor of the first lease is its.
    fn enter(&self, fds: Vec<OwnedFd>) -> Result<Arc<dyn Memory>> {
        if let Some(memory) = self.memory.get() {
            return Ok(Arc::clone(memory));
        }
        let file = fds.into_iter().next().ok_or_else(|| {
            Error::Refused("the pool's memory did not come: this program may have too many files open".into())
        })?;
        let mapped = Arc::new(Mapped::map(File::from(file), &self.map_options())?);
        Ok(Arc::clone(self.memory.get_or_init(|| mapped)))
    }
}

/// This process, as it would be seen over the socket.
fn this_process() -> Result<Caller> {
    let pid = std::process::id();
    let process = PidFd::open(pid).map_err(|error| Error::io("opening this process", error))?;
    Ok(Caller { pid, uid: 0, process, connection: 0 })
}

impl Drop for Station {
    fn drop(&mut self) {
        let side = std::mem::replace(self.side.get_mut(), Side::Nowhere);
        if !self.origin.is_here() {
            return std::mem::forget((side, self.memory.take()));
        }
        if let Side::Owner { office, listening, _lock } = side {
            // Whoever is connected finds us gone, and takes the pool over. An error leaves the pool as a crash would.
            let _ = listening.stop();
            if let Some(pool) = Arc::into_inner(office).and_then(|office| office.into_pool()) {
                let _ = pool.close();
            }
        }
    }
}

/// What a process that uses a database does for others while it owns the pool.
struct Counter(Arc<Office>);

impl Handler for Counter {
    fn call(&self, call: Call<'_>) -> std::result::Result<Reply, String> {
        let request = Request::deserialize(&call.request).map_err(|_| {
            let pid = std::process::id();
            format!("the pool is in use by a database's process, {pid}, which serves databases only: end that first, or start `ferrite up` before it")
        })?;
        self.0.answer(call.caller, request).map_err(|error| error.to_string())
    }

    fn gone(&self, parted: &Parted<'_>) {
        // What cannot be ended now is found by the next one, and at the next opening.
        let _ = parted.reap(self.0.pool());
    }
}
