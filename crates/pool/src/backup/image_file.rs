//! Images in files.

use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ferrite_memory::{Error as MediumError, Memory};

use super::kept_file::{restore_image, verify_image};
use super::{GrantWriters, ImageSummary, RestoreOptions, ensure_may_replace, verify, write_image};
use crate::{AtomicFile, Error, Pool, Result};
use crate::{Progress, ProgressWatch, ensure_trusted};

/// Writes an image of `pool` to the file `path`, durable on return. The image is written as an [`AtomicFile`] and read
/// back, so an older image at `path` stays whole until the new one has its name (BK2).
///
/// # Errors
/// As [`super::backup`]; [`Error::Occupied`] if `path` holds a pool or an image that may not be replaced (BK7),
/// [`Error::Limit`] if `path` is not a plain file or lies in the pool itself, [`Error::BadImage`] if the image does not
/// read back. The previous file stays, unless only syncing the folder failed.
pub fn backup_to(
    pool: &Pool,
    path: &Path,
    image: [u8; 16],
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    backup_with(pool, path, image, watch, |_| Ok::<_, Error>(()))
}

/// Writes an image as [`backup_to`] does, and calls `beside` before the image gets its name: it copies what belongs to
/// the image and lies outside of the pool.
///
/// # Errors
/// As [`backup_to`]; the errors of `beside`. The previous image stays.
pub fn backup_with<E: From<Error>>(
    pool: &Pool,
    path: &Path,
    image: [u8; 16],
    watch: &mut dyn FnMut(Progress) -> bool,
    beside: impl FnOnce(ProgressWatch<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<ImageSummary, E> {
    let (part, summary) = write_part(pool, begin(pool, path)?, image, GrantWriters::Refused, watch)?;
    beside(watch)?;
    part.finish()?;
    Ok(summary)
}

/// Writes an image as [`backup_to`] does, for a power failure: clients that store through a grant are ignored, and
/// their pages are as the failure would leave them.
///
/// # Errors
/// As [`backup_to`], except [`Error::Busy`] for clients.
pub fn save_to(
    pool: &Pool,
    path: &Path,
    image: [u8; 16],
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    write_named(pool, begin(pool, path)?, image, GrantWriters::Ignored, watch)
}

/// Begins an image of `pool` with the name `path`.
fn begin(pool: &Pool, path: &Path) -> Result<AtomicFile> {
    let mut part = AtomicFile::begin(path)?;
    ensure_may_replace(pool, path)?;
    let device = part.file().metadata().map_err(|error| io_error("looking at", path, error))?.dev();
    pool.refuse_own_device(device, path)?;
    Ok(part)
}

/// A file for an image, which gets its name when the image is whole (BK2).
pub(super) trait ImagePart {
    /// The file without the name.
    type File: Read + Write + Seek;

    /// Returns the file to write to and to read back.
    fn file(&mut self) -> &mut Self::File;

    /// Gives the file its name. Content and name are durable on return.
    ///
    /// # Errors
    /// The errors of the storage. The previous image stays, unless only the last sync failed.
    fn finish(self) -> Result<()>;
}

impl ImagePart for AtomicFile {
    type File = File;

    fn file(&mut self) -> &mut File {
        self.file()
    }

    fn finish(self) -> Result<()> {
        self.finish()
    }
}

/// Writes an image of `pool` to `part`, reads it back, and gives it its name.
pub(super) fn write_named<P: ImagePart>(
    pool: &Pool,
    part: P,
    image: [u8; 16],
    writers: GrantWriters,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    let (part, summary) = write_part(pool, part, image, writers, watch)?;
    part.finish()?;
    Ok(summary)
}

/// Writes an image of `pool` to `part` and reads it back.
fn write_part<P: ImagePart>(
    pool: &Pool,
    mut part: P,
    image: [u8; 16],
    writers: GrantWriters,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(P, ImageSummary)> {
    let file = part.file();
    let summary = write_image(pool, file, image, writers, watch)?;
    file.rewind().map_err(|error| MediumError::io("reading back the backup image", error))?;
    let found = verify(&mut BufReader::new(file), watch)?;
    if found != summary {
        return Err(Error::BadImage { what: "the image that was read back, which differs,".into(), at: 0 });
    }
    Ok((part, summary))
}

/// Opens the file `path` to read an image from.
///
/// # Errors
/// [`Error::Limit`] if `path` is neither a file nor a block device; it is not opened, because a pipe would wait for its
/// writer and can be read only once. [`Error::Untrusted`] if another user owns the file or may write to it (O8).
/// [`Error::Medium`] if it cannot be opened.
pub fn open_image(path: &Path) -> Result<File> {
    let opening = |error| io_error("opening", path, error);
    let kind = std::fs::metadata(path).map_err(opening)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let path = path.display();
        return Err(Error::Limit(format!(
            "{path} is neither a file nor a block device, and an image is read twice: copy it to a file first"
        )));
    }
    let file = File::open(path).map_err(opening)?;
    ensure_trusted(path, &file.metadata().map_err(opening)?).map_err(Error::Untrusted)?;
    Ok(file)
}

/// Restores the image of any version in the file `path` into `memory`, after all of it has verified.
///
/// # Errors
/// As [`open_image`] and [`verify`], with `memory` unchanged; else as [`restore`].
pub fn restore_from(
    path: &Path,
    memory: &dyn Memory,
    options: RestoreOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    verify_image(path, watch)?;
    restore_image(path, memory, options, watch)
}

pub(super) fn io_error(what: &str, path: &Path, error: std::io::Error) -> Error {
    MediumError::io(format!("{what} {}", path.display()), error).into()
}
