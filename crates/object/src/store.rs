//! A pool at hand for objects: its own process's, or by the process that owns it.

mod desk;
mod medium;
mod objects;
mod place;

use std::fs;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::{Guard, Mapped, Survival};
use ferrite_owner::lease::{Tenant, end_orphans};
use ferrite_owner::{Client, Error as OwnerError, Listening};
use ferrite_pool::backup::{self, RestoreOptions};
use ferrite_pool::check::TagOwners;
use ferrite_pool::defrag::{self, Defragmented};
use ferrite_pool::holding::Note;
use ferrite_pool::{Claim, Error as PoolError, Holder, Lock, Pool, Recovery, TagKind, claim};

use crate::owner::ObjectOwner;
use crate::{Error, Result};

use desk::Desk;
use place::Place;

/// Looks at who has the pool, and the pause between two: an owner that has just started is waited for.
const LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// A store to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewStore {
    /// Its size in bytes, where it is a file to be made.
    pub bytes: u64,
    /// Who it is; random, from the caller.
    pub uuid: [u8; 16],
}

/// How to open a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenStore {
    /// What keeps stray writes out; the best there is where `None`.
    pub guard: Option<Guard>,
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
/// [`ferrite_pool::Error::Tenancy`] where it could not do it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    reach: Reach,
}

/// By what way.
#[derive(Debug)]
enum Reach {
    /// This process owns it.
    Own { pool: Arc<Pool>, recovery: Recovery, line: String, lock: Lock, listening: Option<Listening> },
    /// Another one does.
    Tenant(Arc<Tenant>),
}

enum Found {
    Ours(Lock),
    Theirs(Client),
}

/// Claims the pool at `path`, or reaches its owner.
fn find(path: &Path) -> Result<Found> {
    let mut looks = 0;
    loop {
        match claim(path)? {
            Claim::Ours(lock) => return Ok(Found::Ours(lock)),
            Claim::Held(_) => {}
        }
        match Client::connect(path) {
            Ok(client) => return Ok(Found::Theirs(client)),
            Err(OwnerError::NoOwner(_) | OwnerError::Silent { .. } | OwnerError::Died) if looks < LOOKS => {
                looks += 1;
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
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
    /// device with a pool, are refused. Whoever is killed here leaves nothing that is taken for a store.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Occupied`] for a file that is there and a device with a pool,
    /// [`ferrite_pool::Error::Busy`] for a device that somebody has open, [`ferrite_pool::Error::Limit`] for a size that
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
        medium::settle_name(path)?;
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
        match find(path)? {
            Found::Ours(lock) => {
                let memory = medium::map(&lock, open.guard)?;
                Self::own(lock, memory)
            }
            Found::Theirs(client) => {
                let guard = open.guard.unwrap_or_else(Guard::best);
                let reach = Reach::Tenant(Arc::new(Tenant::new(client, guard, path)));
                Ok(Self { path: path.into(), reach })
            }
        }
    }

    fn own(lock: Lock, memory: Arc<Mapped>) -> Result<Self> {
        let boot_id = medium::boot_id()?;
        let (pool, recovery) = Pool::open(Arc::clone(&memory) as _, boot_id)?;
        let line = memory.describe(&pool.survival());
        end_orphans(&pool, lock.path())?;
        let pool = Arc::new(pool);
        let listening = Some(Listening::start(&lock, Arc::new(Desk::new(&pool, boot_id)))?);
        Ok(Self { path: lock.path().into(), reach: Reach::Own { pool, recovery, line, lock, listening } })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that owns it, where that is another one.
    pub fn owner_pid(&self) -> Option<u32> {
        match &self.reach {
            Reach::Own { .. } => None,
            Reach::Tenant(tenant) => Some(tenant.owner_pid()),
        }
    }

    /// What recovery found, where this process owns it.
    pub fn recovery(&self) -> Option<Recovery> {
        match &self.reach {
            Reach::Own { recovery, .. } => Some(*recovery),
            Reach::Tenant(_) => None,
        }
    }

    /// What it lies in, what that survives, and whether stray writes are held off, in one line.
    pub fn describe(&self) -> String {
        match &self.reach {
            Reach::Own { line, .. } => line.clone(),
            Reach::Tenant(tenant) => format!("owned by process {}", tenant.owner_pid()),
        }
    }

    /// Returns which failures it survives, if this process owns it: the owner knows.
    pub fn survival(&self) -> Option<Survival> {
        match &self.reach {
            Reach::Own { pool, .. } => Some(pool.survival()),
            Reach::Tenant(_) => None,
        }
    }

    /// Everything in it that has a name, by name; of whatever kind.
    ///
    /// # Errors
    /// None where this process owns the pool; else as [`Store`] says.
    pub fn tags(&self) -> Result<Vec<Note>> {
        match &self.reach {
            Reach::Own { pool, .. } => Ok(pool.tags().iter().map(|tag| Note::of(tag)).collect()),
            Reach::Tenant(tenant) => Ok(tenant.tags()?),
        }
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
        match &self.reach {
            // Its desk has the pool in hand too while it answers other processes, but only objects keep the lock.
            Reach::Own { lock, listening, .. } => lock.keepers() > 1 + listening.iter().count(),
            Reach::Tenant(tenant) => Arc::strong_count(tenant) > 1,
        }
    }

    /// Frees the object called `name`, which nobody has open: its content is gone, its space free. Durable on return.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`] where nothing has the name, [`ferrite_pool::Error::Busy`] where somebody has
    /// it open, [`Error::Refused`] where what has it is no object. Else as [`Store`] says.
    pub fn free(&self, name: &str) -> Result<()> {
        let found = self.tags()?.into_iter().find(|tag| tag.name == name);
        let kind = TagKind(found.ok_or_else(|| PoolError::NotFound(name.into()))?.kind);
        if kind != TagKind::OBJECT {
            let kind = kind.name();
            return Err(Error::Refused(format!("{name:?} is no object but a tag of kind {kind}: use what serves it")));
        }
        match &self.reach {
            Reach::Own { pool, .. } => Ok(pool.remove_unheld(name)?),
            Reach::Tenant(tenant) => Ok(tenant.remove(name)?),
        }
    }

    /// Writes a backup to the file `path`, durable on return; a good image there stays until then. `image` is its uuid,
    /// random, from the caller. Refused while a process that does not own the pool has objects open.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Busy`] beside such a process, [`ferrite_pool::Error::Medium`] where the file cannot be
    /// written, [`ferrite_pool::Error::BadImage`] where it does not read back. What was called `path` before is as it
    /// was.
    pub fn backup(&self, path: &Path, image: [u8; 16]) -> Result<()> {
        match &self.reach {
            Reach::Own { pool, .. } => Ok(backup::backup_to(pool, path, image, &mut |_| true).map(drop)?),
            Reach::Tenant(tenant) => Ok(tenant.backup(&std::path::absolute(path).map_err(told(path))?, image)?),
        }
    }

    /// Restores the image `from` into a new file at `path`, or into the file or device there, which no process has
    /// open. Content there is lost only if `lose` is the size of the file or device in bytes, and never if clients of a
    /// pool there have outlived their owner. After a crash the same restore finishes the work.
    ///
    /// # Errors
    /// Before anything is changed: [`ferrite_pool::Error::BadImage`] for what is no whole image, [`Error::Refused`]
    /// where `path` is the image itself, [`ferrite_pool::Error::Occupied`] with the bytes for want of `lose`,
    /// [`ferrite_pool::Error::Limit`] for a device too small or an image in a pipe, [`ferrite_pool::Error::Busy`] where
    /// somebody has `path` open or such clients use it.
    pub fn restore(from: &Path, path: &Path, lose: Option<u64>) -> Result<()> {
        // All of it, before anything is made.
        let image = backup::open_image(from)?;
        let found = backup::verify(&mut BufReader::new(&image), &mut |_| true)?;
        let place = Place::find(path, &image, &found, lose)?;
        let overwrite = place.overwrite;
        let restored = medium::map(&place.lock, None).and_then(|memory| {
            Ok(backup::restore_from(from, &*memory, RestoreOptions { overwrite }, &mut |_| true).map(drop)?)
        });
        // Of a file that was there, a restore that did not finish stays.
        restored.inspect_err(|_| _ = place.is_new.then(|| fs::remove_file(path)))?;
        medium::settle_name(path)
    }

    /// Does what of `finish` leaves the store open, its backup, and refuses what cannot be. Who is to have the store still
    /// where the backup fails calls this before [`Store::finalize`], and that without a backup.
    ///
    /// # Errors
    /// [`Error::Refused`] where a tenant asks for what is the owner's to do. Else as [`Store::backup`].
    pub fn prepare(&self, finish: &Finish) -> Result<()> {
        match (&self.reach, finish) {
            (_, Finish { defragment: false, backup: None }) => Ok(()),
            (Reach::Tenant(_), _) => {
                Err(Error::Refused("another process owns the store: defragment and back up there".into()))
            }
            (Reach::Own { .. }, Finish { backup: Some((path, image)), .. }) => self.backup(path, *image),
            (Reach::Own { .. }, _) => Ok(()),
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
        let Reach::Own { pool, lock, listening, .. } = self.reach else { return Ok(Finalized::default()) };
        listening.map_or(Ok(()), Listening::stop)?;
        let pool = Arc::into_inner(pool);
        let mut pool = pool.ok_or_else(|| Error::Refused("objects of the store are open: drop them first".into()))?;
        let mut owners = TagOwners::default();
        owners.register(Box::new(ObjectOwner));
        let defragmented = match finish.defragment {
            true => Some(defrag::defrag(&mut pool, &owners, &mut |_| true)?),
            false => None,
        };
        pool.close()?;
        drop(lock);
        Ok(Finalized { defragmented })
    }
}

fn told(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| ferrite_memory::Error::io(format!("finding {}", path.display()), error).into()
}

#[cfg(test)]
mod tests;
