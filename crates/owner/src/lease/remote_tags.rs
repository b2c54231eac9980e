//! The client's side of the service "lease": tags that the owner lends to this process.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, SharedWords, planted};
use ferrite_pool::grant::GrantId;
use ferrite_pool::holding::{Lease, LeaseWatch, LentTag, Loan, Note, RoleSpace, TagLease, TagSpec};
use ferrite_pool::{Error, Failure, FailureKind, Result, Tag};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::orphans::{self, OrphanFile};
use crate::pool_owner::read_answer;
use crate::services::{BackupOutside, LeaseRequest, PoolRequest};
use crate::{Error as OwnerError, OwnerClient, ProgressCall, ServiceRequest};

/// A connection to the owner of a pool, and the pool's memory in this process.
///
/// A request fails with [`Error::OwnerEnded`] if the owner has ended, so that it is not known whether the request took effect,
/// and with [`Error::Owner`] and one of the kinds below if the owner refused.
pub struct RemoteTags {
    client: Mutex<OwnerClient>,
    guard: Guard,
    path: PathBuf,
    place: Option<OrphanFile>,
    memory: OnceLock<Arc<Mapped>>,
    board: OnceLock<Arc<SharedWords>>,
}

impl fmt::Debug for RemoteTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTags").field("pool", &self.path).finish_non_exhaustive()
    }
}

impl RemoteTags {
    /// Returns the tags of the pool at `path`, whose owner `client` is connected to. The pool's memory is mapped with `guard`
    /// when a tag is held first.
    pub fn new(client: OwnerClient, guard: Guard, path: &Path) -> Self {
        let (path, place) = (path.to_owned(), OrphanFile::of(path));
        Self { client: Mutex::new(client), guard, path, place, memory: OnceLock::new(), board: OnceLock::new() }
    }

    /// The owner's process.
    pub fn owner_pid(&self) -> u32 {
        self.client.lock().owner_pid()
    }

    /// Returns the owner's answer to `request` and the descriptors that come with it; none if they were lost on the way.
    fn ask<T: DeserializeOwned>(&self, request: &LeaseRequest) -> Result<(T, Vec<OwnedFd>)> {
        self.call(ServiceRequest::of(request), &mut |_| true)
    }

    /// Asks the owner for `request` of any service.
    ///
    /// # Errors
    /// As [`RemoteTags`] says.
    pub fn call<T: DeserializeOwned>(
        &self,
        request: ServiceRequest<'_>,
        on_progress: ProgressCall<'_>,
    ) -> Result<(T, Vec<OwnedFd>)> {
        let (value, fds) = match self.client.lock().call(request, on_progress) {
            Err(OwnerError::Lost { value }) => (*value, Vec::new()),
            Err(OwnerError::Died) => return Err(Error::OwnerEnded),
            Err(OwnerError::Failed(failure)) => return Err(Error::Owner(failure)),
            answer => answer.map_err(|error| Error::Owner(Failure::failed(error)))?,
        };
        Ok((read_answer(value).map_err(Error::Owner)?, fds))
    }

    /// Lists the tags, by name.
    ///
    /// # Errors
    /// As [`RemoteTags`] says.
    pub fn tags(&self) -> Result<Vec<Note>> {
        Ok(self.ask(&LeaseRequest::List)?.0)
    }

    /// Creates a tag; durable on return.
    ///
    /// # Errors
    /// [`FailureKind::Exists`], [`FailureKind::BadName`], [`FailureKind::Full`], [`FailureKind::Busy`] for a kind that is not
    /// lent; else as [`RemoteTags`] says.
    pub fn create(&self, spec: &TagSpec) -> Result<Note> {
        Ok(self.ask(&LeaseRequest::Create(spec.clone()))?.0)
    }

    /// Removes a tag that no process holds.
    ///
    /// # Errors
    /// [`FailureKind::NotFound`], [`FailureKind::Busy`] if a process holds it or its kind is not lent; else as
    /// [`RemoteTags`] says.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.ask::<()>(&LeaseRequest::Remove { name: name.into() }).map(drop)
    }

    /// Asks the owner for a backup in the file at the absolute path `to`, durable on return; `image` is its uuid.
    ///
    /// # Errors
    /// [`FailureKind::Busy`] if any process, this one included, holds a tag by a grant; else as [`RemoteTags`] says.
    pub fn backup(&self, to: &Path, image: [u8; 16]) -> Result<()> {
        let outside = BackupOutside::Refuse;
        let request = PoolRequest::Backup { to: to.into(), now: false, image: Some(image), outside };
        self.call::<Value>(ServiceRequest::of(&request), &mut |_| true).map(drop)
    }

    /// Holds the tag called `name`.
    ///
    /// # Errors
    /// As [`RemoteTags::remove`]; [`FailureKind::Limit`] if all grants of the pool are in use, [`Error::Medium`] if its memory
    /// cannot be mapped here.
    pub fn hold(self: &Arc<Self>, name: &str) -> Result<TagLease> {
        self.hold_by(ServiceRequest::of(&LeaseRequest::Hold { name: name.into() }))
    }

    /// Holds the tag that the service lends by `request`: its answer is a [`Loan`], with the pool's memory and the shared
    /// words.
    ///
    /// # Errors
    /// As [`RemoteTags::hold`], and as the service says.
    pub fn hold_by(self: &Arc<Self>, request: ServiceRequest<'_>) -> Result<TagLease> {
        // Grants of an earlier owner would keep the tag busy.
        self.place.map(orphans::take).into_iter().flatten().for_each(|id| self.give_back(id));
        let (loan, fds) = self.call::<Loan>(request, &mut |_| true)?;
        let id = loan.id;
        let (memory, lent) = self.enter(loan, fds).inspect_err(|_| self.give_back(id))?;
        let lease = GrantLease { tenant: Arc::clone(self), grant: Mutex::new(id) };
        Ok(TagLease::lent(memory, lent, Box::new(lease)))
    }

    /// Releases a grant. If the owner has ended, the present owner of the same pool releases it, or else the next one.
    fn give_back(&self, id: GrantId) {
        let mut message = self.ask::<()>(&LeaseRequest::Release { id });
        let is_same_pool = || {
            let has_place = self.place.is_some() && self.place == OrphanFile::of(&self.path);
            has_place && !planted!("owner: only the lender ends a grant")
        };
        if matches!(message, Err(Error::OwnerEnded))
            && is_same_pool()
            && let Ok(client) = OwnerClient::connect(&self.path)
        {
            *self.client.lock() = client;
            message = self.ask::<()>(&LeaseRequest::Release { id });
        }
        // The owner has no such grant any more, or another thread ends it.
        let is_over = |error: &Error| matches!(error.kind(), FailureKind::NotFound | FailureKind::Busy);
        if let (Err(error), Some(place)) = (message, self.place)
            && !is_over(&error)
        {
            orphans::leave(place, id);
        }
    }

    /// Returns the pool's memory, mapped on the first call, and the lent tag with the words that the owner shares.
    fn enter(&self, loan: Loan, fds: Vec<OwnedFd>) -> Result<(Arc<dyn Memory>, LentTag)> {
        let strange = || Error::Owner(Failure::failed("the pool's owner answers what this program cannot use"));
        let mut fds = fds.into_iter();
        let (file, board) = (fds.next(), fds.next());
        let lost = || {
            Error::Owner(Failure::failed("the pool's memory did not come: this program may have too many files open"))
        };
        let memory = match self.memory.get() {
            Some(memory) => Arc::clone(memory),
            None => {
                let options =
                    MapOptions { guard: self.guard, name: self.path.display().to_string(), ..MapOptions::default() };
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
        let watch = LeaseWatch::new(board, loan.word).ok_or_else(strange)?;
        let tag = loan.tag(memory.size()).filter(|_| loan.offset == 0).ok_or_else(strange)?;
        Ok((memory, LentTag { tag: Arc::new(tag), uuid: loan.uuid, session: loan.session, watch }))
    }
}

/// The grant of a held tag, released on drop.
struct GrantLease {
    tenant: Arc<RemoteTags>,
    grant: Mutex<GrantId>,
}

impl GrantLease {
    /// Replaces the grant by that which the owner gives for the request about it.
    fn replace(&self, request: impl FnOnce(GrantId) -> LeaseRequest) -> Result<LentTag> {
        let mut grant = self.grant.lock();
        let (loan, fds) = self.tenant.ask::<Loan>(&request(*grant))?;
        let id = loan.id;
        let (_, lent) = self.tenant.enter(loan, fds).inspect_err(|_| self.tenant.give_back(id))?;
        *grant = id;
        Ok(lent)
    }
}

impl Lease for GrantLease {
    fn widen(&self, tag: &Tag, parts: &[RoleSpace]) -> Result<LentTag> {
        self.replace(|id| LeaseRequest::Widen { name: tag.name.clone(), id, parts: parts.to_vec() })
    }

    fn narrow(&self, tag: &Tag, part: RoleSpace) -> Result<LentTag> {
        self.replace(|id| LeaseRequest::Narrow { name: tag.name.clone(), id, part })
    }
}

impl Drop for GrantLease {
    fn drop(&mut self) {
        self.tenant.give_back(*self.grant.lock());
    }
}
