//! Properties of this machine and of this user.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, SeekFrom, flock, seek};
use rustix::io::Errno;

use crate::outcome::Outcome;

pub use ferrite_owner::machine::{boot_id, random, random_uuid, user};

/// Returns the pool in `FERRITE_POOL`, if it is set.
pub fn named_pool() -> Option<PathBuf> {
    std::env::var_os("FERRITE_POOL").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the default path of the pool of `ferrite up`.
pub fn default_pool() -> Result<PathBuf, String> {
    if let Some(named) = named_pool() {
        return Ok(named);
    }
    let home = || Some(named_folder("HOME")?.join(".local/share"));
    let data = named_folder("XDG_DATA_HOME").or_else(home);
    let data = data.ok_or("neither XDG_DATA_HOME nor HOME has an absolute path: name a pool with --pool")?;
    Ok(data.join("ferrite/pool"))
}

/// Returns the folder in which a user's programs keep their state.
pub fn state_folder() -> Result<PathBuf, String> {
    let home = || Some(named_folder("HOME")?.join(".local/state"));
    let found = named_folder("XDG_STATE_HOME").or_else(home);
    found.ok_or_else(|| "neither XDG_STATE_HOME nor HOME has an absolute path: there is no place for a log".into())
}

/// Returns the folder in the environment variable `name`. A relative or empty path counts as missing, as XDG's
/// specification requires.
fn named_folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the default mount folder of a user's file system.
pub fn default_mount() -> Result<PathBuf, String> {
    let home = named_folder("HOME").ok_or("HOME has no absolute path: name a folder with --mount")?;
    Ok(home.join("ferrite-files"))
}

/// Makes the name of the file at `path` durable. Otherwise a power failure may remove the file with all its flushed
/// data, because a pool flushes only its bytes.
pub fn persist_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| io::Error::new(error.kind(), format!("syncing {}: {error}", folder.display())))
}

/// Removes the new file of a disk at `path` after the work that needed it failed, if the file is one hole and no disk uses
/// it. A disk that is just being opened finds that the file is gone.
pub fn remove_unwritten(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    let is_idle = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_idle && seek(&file, SeekFrom::Data(0)) == Err(Errno::NXIO) {
        let _ = fs::remove_file(path);
    }
}

/// Returns the NBD socket beside the pool at `path`.
pub fn nbd_socket(path: &Path) -> PathBuf {
    beside(path, ".nbd")
}

/// Returns `path` with `ending` added to its file name.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns `path` in absolute form, because the owner has another working folder.
pub fn absolute(path: &Path) -> Outcome<PathBuf> {
    Ok(std::path::absolute(path)?)
}
