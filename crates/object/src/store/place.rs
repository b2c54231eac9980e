//! Where a backup is restored to.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use ferrite_medium::{Error as MediumError, Memory, Span, make_pool_file};
use ferrite_pool::Error as PoolError;
use ferrite_pool::grant::ensure_no_clients;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::owner::Lock;

use super::{medium, ours, told};
use crate::{Error, Result};

/// A file or device, held for this process.
pub(super) struct Place {
    /// Its lock.
    pub lock: Lock,
    /// Whether the file was made now.
    pub is_new: bool,
}

impl Place {
    /// The place of `bytes` at `path`: a new file, or what is there where that is free or, with `force`, may be lost.
    pub fn find(path: &Path, image: &File, bytes: u64, force: bool) -> Result<Self> {
        match make_pool_file(path, bytes) {
            Ok(()) => return Ok(Self { lock: ours(path)?, is_new: true }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(medium::not_made(path, error)),
        }
        let lock = ours(path)?;
        let (there, source) = (lock.file().metadata().map_err(told(path))?, image.metadata().map_err(told(path))?);
        if (there.dev(), there.ino()) == (source.dev(), source.ino()) {
            let why = format!("{} is the image itself: name another file for the store", path.display());
            return Err(Error::Refused(why));
        }
        if force {
            ensure_unused(&lock, there.is_file().then_some(there.len()))?;
        }
        if there.is_file() && there.len() < bytes {
            if !force && there.len() > 0 {
                let (path, has) = (path.display(), there.len());
                return Err(PoolError::Occupied(format!(
                    "{path} exists already and has {has} of the {bytes} bytes needed: force makes it larger, and what it \
                     holds is lost"
                ))
                .into());
            }
            let sized = lock.file().set_len(bytes);
            sized.map_err(|error| MediumError::io(format!("sizing {}", path.display()), error))?;
        }
        Ok(Self { lock, is_new: false })
    }
}

/// Refuses to put something else in the place of a store whose owner has ended and whose clients have not: they would
/// store into it.
fn ensure_unused(lock: &Lock, file_bytes: Option<u64>) -> Result<()> {
    if file_bytes.is_some_and(|bytes| bytes < POOL_BYTES_MIN) {
        return Ok(());
    }
    let memory: Arc<dyn Memory> = medium::map(lock, None)?;
    // Also to read a page that is not there yet takes one of the host's.
    memory.reserve(Span::new(0, CHUNK))?;
    Ok(ensure_no_clients(&memory, medium::boot_id()?)?)
}
