//! A process beside the owner that holds tags of its pool.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, SharedWords};
use ferrite_pool::grant::GrantId;
use ferrite_pool::holding::{Holding, Lease, LentTag, Loan, Note, Part, Spec, Watch};
use ferrite_pool::{Error, Result, Tag};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::office::{Answer, Request};
use super::orphans::{self, Place};
use crate::{Client, Error as OwnerError};

/// A connection to the owner of a pool, and the pool's memory in this process.
///
/// What the owner is asked gives [`Error::OwnerEnded`] where it has ended, so that nobody knows whether it was done, and
/// [`Error::Tenancy`] where it could not do it for a reason that is not named below.
pub struct Tenant {
    client: Mutex<Client>,
    guard: Guard,
    name: String,
    place: Option<Place>,
    memory: OnceLock<Arc<Mapped>>,
    board: OnceLock<Arc<SharedWords>>,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("pool", &self.name).finish_non_exhaustive()
    }
}

impl Tenant {
    /// Of the owner that `client` reaches. The memory is mapped with `guard` once a tag is held; `path` is what messages
    /// call it.
    pub fn new(client: Client, guard: Guard, path: &Path) -> Self {
        let (name, place) = (path.display().to_string(), Place::of(path));
        Self { client: Mutex::new(client), guard, name, place, memory: OnceLock::new(), board: OnceLock::new() }
    }

    /// The owner's process.
    pub fn owner_pid(&self) -> u32 {
        self.client.lock().owner_pid()
    }

    /// What the owner answers to `request`, and the descriptors with it; none where they were lost on the way.
    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<(T, Vec<OwnedFd>)> {
        let request = serde_json::to_value(request).map_err(|error| Error::Tenancy(error.to_string()))?;
        let (value, fds) = match self.client.lock().call(request, &[], &mut |_| true) {
            Err(OwnerError::Lost { value }) => (*value, Vec::new()),
            Err(OwnerError::Died) => return Err(Error::OwnerEnded),
            answer => answer.map_err(|error| Error::Tenancy(error.to_string()))?,
        };
        match serde_json::from_value(value) {
            Ok(Answer::Done(value)) => Ok((value, fds)),
            Ok(Answer::Refused(refusal)) => Err(refusal.into()),
            Err(error) => Err(Error::Tenancy(format!("the pool's owner answers {error}"))),
        }
    }

    /// Every tag, by name.
    ///
    /// # Errors
    /// As [`Tenant`] says.
    pub fn tags(&self) -> Result<Vec<Note>> {
        Ok(self.ask(&Request::TenantTags)?.0)
    }

    /// Makes a tag; durable on return.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::BadName`], [`Error::Full`] (or want of space on its host), [`Error::Busy`] for a
    /// kind that is not lent; else as [`Tenant`] says.
    pub fn create(&self, spec: &Spec) -> Result<Note> {
        Ok(self.ask(&Request::TenantCreate(spec.clone()))?.0)
    }

    /// Removes a tag that nobody holds.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Busy`] where somebody holds it or its kind is not lent; else as [`Tenant`] says.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.ask::<()>(&Request::TenantRemove { name: name.into() }).map(drop)
    }

    /// Lets the owner write a backup to the file at the absolute path `to`, durable on return; `image` is its uuid.
    ///
    /// # Errors
    /// [`Error::Busy`] where a process holds a tag by a grant, this one too; else as [`Tenant`] says.
    pub fn backup(&self, to: &Path, image: [u8; 16]) -> Result<()> {
        self.ask::<()>(&Request::TenantBackup { to: to.into(), image }).map(drop)
    }

    /// Takes the tag called `name` in hand.
    ///
    /// # Errors
    /// As [`Tenant::remove`]; [`Error::Limit`] where the pool has no more grants to give, [`Error::Medium`] where its
    /// memory cannot be mapped here.
    pub fn hold(self: &Arc<Self>, name: &str) -> Result<Holding> {
        // What an earlier owner lent would stand in the way.
        self.place.map(orphans::take).into_iter().flatten().for_each(|id| self.give_back(id));
        let (loan, fds) = self.ask::<Loan>(&Request::TenantHold { name: name.into() })?;
        let id = loan.id;
        let (memory, lent) = self.enter(loan, fds).inspect_err(|_| self.give_back(id))?;
        let lease = Granted { tenant: Arc::clone(self), grant: Mutex::new(id) };
        Ok(Holding::lent(memory, lent, Box::new(lease)))
    }

    /// Gives a grant back. Where the owner cannot be told, the next one is.
    fn give_back(&self, id: GrantId) {
        let told = self.ask::<()>(&Request::TenantRelease { id });
        if let (Err(Error::Tenancy(_) | Error::OwnerEnded), Some(place)) = (told, self.place) {
            orphans::leave(place, id);
        }
    }

    /// The pool's memory, mapped when it is needed first, and the lent tag with the owner's words.
    fn enter(&self, loan: Loan, fds: Vec<OwnedFd>) -> Result<(Arc<dyn Memory>, LentTag)> {
        let strange = || Error::Tenancy("the pool's owner answers what this program cannot use".into());
        let mut fds = fds.into_iter();
        let (file, board) = (fds.next(), fds.next());
        let lost =
            || Error::Tenancy("the pool's memory did not come: this program may have too many files open".into());
        let memory = match self.memory.get() {
            Some(memory) => Arc::clone(memory),
            None => {
                let options = MapOptions { guard: self.guard, name: self.name.clone(), ..MapOptions::default() };
                let mapped = Arc::new(Mapped::map(File::from(file.ok_or_else(lost)?), &options)?);
                Arc::clone(self.memory.get_or_init(|| mapped))
            }
        };
        let board = match self.board.get() {
            Some(board) => Arc::clone(board),
            None => {
                let board = Arc::new(SharedWords::of(board.ok_or_else(lost)?)?);
                Arc::clone(self.board.get_or_init(|| board))
            }
        };
        let watch = Watch::new(board, loan.word).ok_or_else(strange)?;
        let tag = loan.tag(memory.size()).filter(|_| loan.offset == 0).ok_or_else(strange)?;
        Ok((memory, LentTag { tag: Arc::new(tag), uuid: loan.uuid, session: loan.session, watch }))
    }
}

/// The grant that a held tag stands on. Dropped, it is given back.
struct Granted {
    tenant: Arc<Tenant>,
    grant: Mutex<GrantId>,
}

impl Lease for Granted {
    fn widen(&self, tag: &Tag, parts: &[Part]) -> Result<LentTag> {
        let mut grant = self.grant.lock();
        let request = Request::TenantWiden { name: tag.name.clone(), id: *grant, parts: parts.to_vec() };
        let (loan, fds) = self.tenant.ask::<Loan>(&request)?;
        let id = loan.id;
        let (_, lent) = self.tenant.enter(loan, fds).inspect_err(|_| self.tenant.give_back(id))?;
        *grant = id;
        Ok(lent)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.tenant.give_back(*self.grant.lock());
    }
}
