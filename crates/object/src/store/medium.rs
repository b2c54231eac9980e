//! What a store lies in.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ferrite_memory::{Error as MediumError, Guard, make_pool_file};
use ferrite_owner::{PoolMemory, machine};
use ferrite_pool::{Error as PoolError, Format, Lock, Pool, Superblock, show_uuid};

use super::NewStore;
use crate::{Error, Result};

/// Makes the file of the `new` store beside `path`, whose name it will have; nobody but its user may look into it. It is
/// nobody else's, also where others of this process make a store there, or may write to the folder.
pub(super) fn make(path: &Path, new: &NewStore) -> Result<PathBuf> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.new", show_uuid(&new.uuid)));
    let partial = PathBuf::from(partial);
    make_pool_file(&partial, new.bytes).map_err(|error| not_made(&partial, error))?;
    Ok(partial)
}

/// Why the file at `path` was not made.
pub(super) fn not_made(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            PoolError::Occupied(format!("{path} exists already: open it, or make the store in a new file")).into()
        }
        _ => MediumError::io(format!("making {path}"), error).into(),
    }
}

/// Makes what `lock` holds a pool. One that is there stays: who opens a device and makes a store where that fails does not
/// lose what could not be opened.
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
pub(super) fn settle_name(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let settled = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(settled.map_err(|error| MediumError::io(format!("syncing {}", folder.display()), error))?)
}
