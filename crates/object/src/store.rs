//! A store: objects in a pool that this process owns, or that its owner lends.

mod medium;
mod objects;
mod place;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_memory::{Guard, Survival};
use ferrite_owner::lease::TagAccess;
use ferrite_owner::{EndedOwner, PoolMemory, PoolOwner, ServiceRegistry};
use ferrite_pool::backup::{self, RestoreOptions};
use ferrite_pool::check::TagOwners;
use ferrite_pool::defrag::{self, Defragmented};
use ferrite_pool::holding::Note;
use ferrite_pool::{Claim, Error as PoolError, Holder, Lock, Pool, Recovery, TagKind, claim};

use crate::service::ObjectService;
use crate::{Error, Result};

use place::Place;

/// A store to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewStore {
    /// Its size in bytes, where it is a file to be made.
    pub bytes: u64,
    /// The identity; random, from the caller.
    pub uuid: [u8; 16],
}

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct OpenStore {
    /// What keeps stray writes out; the best there is where `None`.
    pub guard: Option<Guard>,
    /// The services that this process serves to others if it becomes the pool's owner; objects alone where `None`.
    pub services: Option<Arc<ServiceRegistry>>,
}

/// How to end the use of a store.
#[derive(Clone, Debug, Default)]
pub struct Finish {
    /// Write a backup to this file; the image's uuid is random, from the caller.
    pub backup: Option<(PathBuf, [u8; 16])>,
    /// Then defragment it.
    pub defragment: bool,
}

/// What ending it did.
#[derive(Clone, Debug, Default)]
pub struct Finalized {
    /// What defragmenting did, where it was asked for, and what it left for want of room.
    pub defragmented: Option<Defragmented>,
}

/// A pool at hand. Dropped without [`Store::finalize`] it is as after a crash, which costs nothing but a replay.
///
/// Where another process owns the pool, whatever that one has to do may give [`ferrite_pool::Error::OwnerEnded`], or
/// [`ferrite_pool::Error::Owner`], which has the kind of the owner's failure.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    tags: TagAccess,
}

fn ours(path: &Path) -> Result<Lock> {
    match claim(path)? {
        Claim::Ours(lock) => Ok(lock),
        Claim::Held(holder) => Err(held(path, &holder)),
    }
}

fn held(path: &Path, holder: &Holder) -> Error {
    PoolError::Busy(format!("{} is {holder}: end that first", path.display())).into()
}

impl Store {
    /// Makes a new store in a new file at `path`, or on a device that is there, and opens it. A file that is there, and a
    /// device with a pool, are refused. A process that is killed here leaves no file that looks like a store.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Occupied`] for a file that is there and a device with a pool,
    /// [`ferrite_pool::Error::Busy`] for a device that a process has open, [`ferrite_pool::Error::Limit`] for a size that
    /// no pool has: see [`Pool::ensure_size`]. [`ferrite_pool::Error::Medium`] where it cannot be made. Else as [`Store::open`].
    pub fn initialize(path: &Path, new: &NewStore, open: &OpenStore) -> Result<Self> {
        if path.exists() && !path.is_file() {
            medium::format(&ours(path)?, new.uuid)?;
            return Self::open(path, open);
        }
        if path.exists() {
            return Err(medium::not_made(path, ErrorKind::AlreadyExists.into()));
        }
        Pool::ensure_size(new.bytes)?;
        let partial = medium::make(path, new)?;
        let placed = ours(&partial)
            .and_then(|lock| medium::format(&lock, new.uuid))
            .and_then(|()| fs::hard_link(&partial, path).map_err(|error| medium::not_made(path, error)));
        let _ = fs::remove_file(&partial);
        placed?;
        medium::persist_name(path)?;
        Self::open(path, open)
    }

    /// Opens the store at `path` and recovers it: through the process that owns it, or as its owner from now on.
    ///
    /// # Errors
    /// [`Error::Owner`] where `path` cannot be opened or is no place for a pool, and where its owner refuses or is not
    /// reached in 5 seconds. [`ferrite_pool::Error::NotAPool`], [`ferrite_pool::Error::Version`],
    /// [`ferrite_pool::Error::Truncated`], [`ferrite_pool::Error::Corrupt`] and [`ferrite_pool::Error::Restoring`] say
    /// what is wrong with what is there, [`ferrite_memory::Error::Unsupported`] that this machine has no such guard.
    pub fn open(path: &Path, open: &OpenStore) -> Result<Self> {
        let registry =
            open.services.clone().unwrap_or_else(|| Arc::new(ServiceRegistry::default().with(ObjectService)));
        let tags = TagAccess::open(path, &registry, open.guard)?;
        let path = if let TagAccess::Own(owner) = &tags { owner.lock().path() } else { path };
        Ok(Self { path: path.into(), tags })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that owns it, where that is another one.
    pub fn owner_pid(&self) -> Option<u32> {
        self.tags.owner_pid()
    }

    /// The pool's owner, where this process is.
    fn own(&self) -> Option<&PoolOwner> {
        if let TagAccess::Own(owner) = &self.tags { Some(owner) } else { None }
    }

    /// What recovery found, where this process owns it.
    pub fn recovery(&self) -> Option<Recovery> {
        self.own().map(PoolOwner::recovery)
    }

    /// What it lies in, what that survives, and whether stray writes are held off, in one line.
    pub fn describe(&self) -> String {
        match &self.tags {
            TagAccess::Own(owner) => owner.memory().line(&owner.pool().survival()),
            TagAccess::Remote(tags) => format!("owned by process {}", tags.owner_pid()),
        }
    }

    /// Returns which failures it survives, if this process owns it: the owner knows.
    pub fn survival(&self) -> Option<Survival> {
        self.own().map(|owner| owner.pool().survival())
    }

    /// Everything in it that has a name, by name; of whatever kind.
    ///
    /// # Errors
    /// None where this process owns the pool; else as [`Store`] says.
    pub fn tags(&self) -> Result<Vec<Note>> {
        Ok(self.tags.list()?)
    }

    /// Whether something in it is called `name`.
    ///
    /// # Errors
    /// As [`Store::tags`].
    pub fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.tags()?.iter().any(|note| note.name == name))
    }

    /// Whether objects of it are open in this process.
    pub fn is_in_use(&self) -> bool {
        self.tags.is_in_use()
    }

    /// Frees the object called `name`: its content is gone, its space free. Refused while the object is open. Durable on return.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::NotFound`] if no tag has the name, [`ferrite_pool::FailureKind::Busy`] while the
    /// object is open; [`Error::Refused`] for a tag that is not an object. Else as [`Store`] says.
    pub fn free(&self, name: &str) -> Result<()> {
        let found = self.tags()?.into_iter().find(|tag| tag.name == name);
        let kind = TagKind(found.ok_or_else(|| PoolError::NotFound(name.into()))?.kind);
        if kind != TagKind::OBJECT {
            let kind = kind.name();
            return Err(Error::Refused(format!("{name:?} is no object but a tag of kind {kind}: use what serves it")));
        }
        Ok(self.tags.remove(name)?)
    }

    /// Writes a backup to the file `path`, durable on return; a good image there stays until then. `image` is its uuid,
    /// random, from the caller. Refused while a process that does not own the pool has objects open.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] beside such a process, [`ferrite_pool::Error::Medium`] where the file cannot be
    /// written, [`ferrite_pool::Error::BadImage`] where it does not read back. What was called `path` before is as it
    /// was.
    pub fn backup(&self, path: &Path, image: [u8; 16]) -> Result<()> {
        match &self.tags {
            TagAccess::Own(owner) => Ok(backup::backup_to(owner.pool(), path, image, &mut |_| true).map(drop)?),
            TagAccess::Remote(tags) => {
                Ok(tags.backup(&std::path::absolute(path).map_err(while_finding(path))?, image)?)
            }
        }
    }

    /// Restores the image `from` into a new file at `path`, or into the file or device there, which no process has
    /// open. Content there is lost only if `lose` is the size of the file or device in bytes, and never if clients of a
    /// pool there have outlived their owner. After a crash the same restore finishes the work.
    ///
    /// # Errors
    /// Before anything is changed: [`ferrite_pool::Error::BadImage`] for what is no whole image, [`Error::Refused`]
    /// where `path` is the image itself, [`ferrite_pool::Error::Occupied`] with the bytes for want of `lose`,
    /// [`ferrite_pool::Error::Limit`] for a device too small or an image in a pipe, [`ferrite_pool::Error::Busy`] if
    /// a process has `path` open or such clients use it.
    pub fn restore(from: &Path, path: &Path, lose: Option<u64>) -> Result<()> {
        // All of it, before anything is made.
        let image = backup::open_image(from)?;
        let found = backup::verify_image(from, &mut |_| true)?;
        let place = Place::find(path, &image, &found, lose)?;
        let overwrite = place.overwrite;
        let restored = PoolMemory::map(&place.lock, None).map_err(Error::from).and_then(|mapped| {
            Ok(backup::restore_from(from, &*mapped.memory, RestoreOptions { overwrite }, &mut |_| true).map(drop)?)
        });
        // Of a file that was there, a restore that did not finish stays.
        restored.inspect_err(|_| _ = place.is_new.then(|| fs::remove_file(path)))?;
        medium::persist_name(path)
    }

    /// Does the part of `finish` that leaves the store open, the backup, and refuses an impossible request. A caller that needs
    /// the store after a failed backup calls this first, and [`Store::finalize`] without a backup afterwards.
    ///
    /// # Errors
    /// [`Error::Refused`] where a tenant asks for what is the owner's to do. Else as [`Store::backup`].
    pub fn prepare(&self, finish: &Finish) -> Result<()> {
        match (&self.tags, finish) {
            (_, Finish { defragment: false, backup: None }) => Ok(()),
            (TagAccess::Remote(_), _) => {
                Err(Error::Refused("another process owns the store: defragment and back up there".into()))
            }
            (TagAccess::Own(_), Finish { backup: Some((path, image)), .. }) => self.backup(path, *image),
            (TagAccess::Own(_), _) => Ok(()),
        }
    }

    /// Ends the use of the store in order: everything durable, nothing to recover. Backs up and defragments when asked;
    /// that is the owner's to do, so a tenant that asks for it is refused. Every object is dropped before.
    ///
    /// # Errors
    /// [`Error::Refused`] where objects are open. Else as [`Store::prepare`], or as any change. After an error it is as if
    /// the store had been dropped.
    pub fn finalize(self, finish: &Finish) -> Result<Finalized> {
        self.prepare(finish)?;
        let TagAccess::Own(owner) = self.tags else { return Ok(Finalized::default()) };
        let open = || Error::Refused("objects of the store are open: drop them first".into());
        let EndedOwner { pool, lock: _lock, ended } = Arc::into_inner(owner).ok_or_else(open)?.end()?;
        let mut pool = pool.ok_or_else(open)?;
        ended.map_err(PoolError::Owner)?;
        let mut owners = TagOwners::default();
        owners.register(Box::new(ObjectService));
        let defragmented = match finish.defragment {
            true => Some(defrag::defrag(&mut pool, &owners, &mut |_| true)?),
            false => None,
        };
        pool.close()?;
        Ok(Finalized { defragmented })
    }
}

fn while_finding(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| ferrite_memory::Error::io(format!("finding {}", path.display()), error).into()
}

#[cfg(test)]
mod tests;
