//! Opening a file, a block device or an NBD export as a disk.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use ferrite_disk::{Disk, FileDisk, FileDiskOptions};
use ferrite_memory::set_len;
use ferrite_nbd::client::{ConnectOptions, NbdDisk};

use crate::error::{AddressError, Result};

/// Connects to the NBD export at `uri`.
///
/// # Errors
/// [`AddressError::Nbd`].
pub fn open_nbd(uri: &str, read_only: bool) -> Result<Arc<dyn Disk>> {
    let options = ConnectOptions { read_only, ..ConnectOptions::default() };
    Ok(Arc::new(NbdDisk::connect(uri, &options)?))
}

/// Opens the file or block device at `path`. Unless it is opened read-only, a file that holds a pool, or is an SSD or a
/// disk of a pool, is refused.
///
/// # Errors
/// [`AddressError`] if the file is missing, holds a pool, belongs to one or ends within a sector, or if the system
/// refuses.
pub fn open_file(path: &Path, read_only: bool) -> Result<Arc<dyn Disk>> {
    if !read_only {
        ferrite_pool::ensure_no_member(path)?;
    }
    open_member_file(path, read_only)
}

/// Opens the file or block device at `path` as [`open_file`] does, also if it is an SSD or a disk of a pool. The caller
/// compares its tie with the pool.
///
/// # Errors
/// As [`open_file`].
pub fn open_member_file(path: &Path, read_only: bool) -> Result<Arc<dyn Disk>> {
    let file_bytes = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(AddressError::Folder(path.into())),
        Ok(found) => found.is_file().then_some(found.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(AddressError::Missing(path.into())),
        // The opening reports every other error.
        Err(_) => None,
    };
    if !read_only {
        ferrite_pool::ensure_no_pool(path)?;
    }
    let disk = FileDisk::open(path, &FileDiskOptions { read_only, ..FileDiskOptions::default() })?;
    let whole_bytes = disk.geometry().size;
    match file_bytes.filter(|bytes| *bytes != whole_bytes) {
        Some(bytes) => Err(AddressError::PartSector { path: path.into(), bytes, whole_bytes }),
        None => Ok(Arc::new(disk)),
    }
}

/// Makes a file of `bytes` for a disk, which only its user may read. A failed call leaves no file.
///
/// # Errors
/// [`AddressError::Make`].
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    let sized = made.and_then(|file| set_len(&file, bytes).inspect_err(|_| _ = fs::remove_file(path)));
    sized.map_err(|source| AddressError::Make { path: path.into(), source })
}

#[cfg(test)]
mod tests;
