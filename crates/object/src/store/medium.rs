//! The file or device of a store.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ferrite_memory::{Error as MediumError, Guard, make_pool_file};
use ferrite_owner::{PoolMemory, machine};
use ferrite_pool::{Error as PoolError, Format, Lock, Pool, Superblock, show_uuid};

use super::NewStore;
use crate::{Error, Result};

/// Makes the file of the `new` store beside `path`, the name that it gets later; only its user may read it. The name is unique,
/// so that no other thread or user writes to the file.
pub(super) fn make(path: &Path, new: &NewStore) -> Result<PathBuf> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.new", show_uuid(&new.uuid)));
    let partial = PathBuf::from(partial);
    make_pool_file(&partial, new.bytes).map_err(|error| not_made(&partial, error))?;
    Ok(partial)
}

/// Returns the error about the file at `path`, which was not made.
pub(super) fn not_made(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            PoolError::Occupied(format!("{path} exists already: open it, or make the store in a new file")).into()
        }
        _ => MediumError::io(format!("making {path}"), error).into(),
    }
}

/// Makes a pool in the file or device of `lock`. A pool there stays: a caller that makes a store after a failed opening does
/// not lose the pool that could not be opened.
pub(super) fn format(lock: &Lock, uuid: [u8; 16]) -> Result<()> {
    let memory = PoolMemory::map(lock, Some(Guard::None))?.memory;
    if !matches!(Superblock::read(&*memory), Err(PoolError::NotAPool(_))) {
        let path = lock.path().display();
        let why = format!("{path} holds a pool: open it, or make a new one in its place by `ferrite pool create`");
        return Err(PoolError::Occupied(why).into());
    }
    Pool::create(&*memory, &Format { uuid, boot_id: boot_id()? })?;
    Ok(memory.barrier()?)
}

/// This boot of the machine.
pub(super) fn boot_id() -> Result<[u8; 16]> {
    Ok(machine::boot_id().map_err(|error| MediumError::io("asking for the boot of the machine", error))?)
}

/// Makes the name of the file at `path` durable: without it a power failure may take the file with all that is in it.
pub(super) fn persist_name(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let settled = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(settled.map_err(|error| MediumError::io(format!("syncing {}", folder.display()), error))?)
}
