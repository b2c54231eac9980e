//! Where a backup is restored to.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ferrite_memory::{Error as MediumError, make_pool_file};
use ferrite_pool::backup::ImageSummary;
use ferrite_pool::{Lock, MayLose, ensure_may_be_lost};

use super::{medium, ours, while_finding};
use crate::{Error, Result};

/// A file or device, held for this process.
pub(super) struct Place {
    /// Its lock.
    pub lock: Lock,
    /// Whether the file was made now.
    pub is_new: bool,
    /// Whether something is lost, as the caller agreed to.
    pub overwrite: bool,
}

impl Place {
    /// Makes or finds the place of the pool of an image at `path`: a new file, or what is there, if `lose` names the bytes
    /// of that or it has nothing to lose.
    pub fn find(path: &Path, image: &File, found: &ImageSummary, lose: Option<u64>) -> Result<Self> {
        let bytes = found.pool_bytes;
        match make_pool_file(path, bytes) {
            Ok(()) => return Ok(Self { lock: ours(path)?, is_new: true, overwrite: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(medium::not_made(path, error)),
        }
        let lock = ours(path)?;
        let (there, source) =
            (lock.file().metadata().map_err(while_finding(path))?, image.metadata().map_err(while_finding(path))?);
        if (there.dev(), there.ino()) == (source.dev(), source.ino()) {
            let why = format!("{} is the image itself: name another file for the store", path.display());
            return Err(Error::Refused(why));
        }
        let may = MayLose { lose, image: Some(found.image), boot_id: medium::boot_id()? };
        let overwrite = ensure_may_be_lost(&lock, &may, &mut |_| true)?;
        if there.is_file() && there.len() < bytes {
            let sized = lock.file().set_len(bytes);
            sized.map_err(|error| MediumError::io(format!("sizing {}", path.display()), error))?;
        }
        Ok(Self { lock, is_new: false, overwrite })
    }
}
