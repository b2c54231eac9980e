//! Kept images in files, and images of any format version.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use ferrite_disk::{Disk, FileDisk, FileDiskOptions};
use ferrite_memory::{Error as MediumError, Memory};

use super::image_file::{io_error, open_image};
use super::image_format::HEADER_MAGIC;
use super::kept_format::{HEADER_BLOCKS, KEPT_VERSION, KeptHeader};
use super::kept_image::{KeptImage, KeptSave, SaveOptions, SaveReport};
use super::kept_reader::KeptReader;
use super::kept_restore::{RestorePlan, restore_by_threads};
use super::restore::verify_frames;
use super::{ImageSummary, RestoreOptions, restore, verify};
use crate::layout::PAGE;
use crate::{AtomicFile, Error, Pool, Progress, Result, ensure_trusted};

/// A kept image in a file.
pub struct KeptFile {
    path: PathBuf,
    /// The device and the inode of the file.
    identity: (u64, u64),
    image: KeptImage,
}

impl KeptFile {
    /// Opens the kept image at `path` for saves of `pool`. Makes one without a save if there is no file; `image` is its
    /// UUID, which the caller draws at random. Other processes cannot open the image until this is dropped.
    ///
    /// # Errors
    /// [`Error::Occupied`] if `path` holds anything but a kept image, or an image that a save of `pool` may not replace
    /// (KI6); [`Error::Untrusted`] if another user may write to the file; [`Error::BadImage`] if it is damaged;
    /// [`Error::Medium`] if the file cannot be opened.
    pub fn open(pool: &Pool, path: &Path, image: [u8; 16]) -> Result<Self> {
        // An image without a save may be of a pool that is gone.
        if kept_save(path)?.is_none() {
            let (start, bytes) = KeptImage::blank(pool, image);
            let mut part = AtomicFile::begin(path)?;
            let made = part.file().write_all(&start).and_then(|()| part.file().set_len(bytes));
            made.map_err(|error| io_error("making", path, error))?;
            part.finish()?;
        }
        ensure_kept(path)?;
        let file = File::open(path).map_err(|error| io_error("opening", path, error))?;
        let found = file.metadata().map_err(|error| io_error("looking at", path, error))?;
        ensure_trusted(path, &found).map_err(Error::Untrusted)?;
        pool.refuse_own_device(found.dev(), path)?;
        let identity = (found.dev(), found.ino());
        let kept = Self { path: path.into(), identity, image: KeptImage::open(Box::new(disk(path, false)?))? };
        kept.ensure_named()?;
        kept.image.ensure_of(pool, &path.display().to_string())?;
        Ok(kept)
    }

    /// Returns the path of the image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the newest save, or `None` before the first one and after a failed one.
    pub fn last(&self) -> Option<KeptSave> {
        self.image.last()
    }

    /// Saves `pool`: see [`KeptImage::save`]. If the pool has grown, the file grows first.
    ///
    /// # Errors
    /// [`Error::Occupied`] if another file has the name of the image now; else as [`KeptImage::save`].
    pub fn save(
        &mut self,
        pool: &Pool,
        options: &SaveOptions<'_>,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<SaveReport> {
        self.ensure_named()?;
        if !self.image.has_room(pool) {
            let (_, bytes) = KeptImage::blank(pool, [0; 16]);
            let file = OpenOptions::new().write(true).open(&self.path);
            let grown = file.and_then(|file| file.set_len(bytes));
            grown.map_err(|error| io_error("making larger", &self.path, error))?;
            self.image.reopen(|| Ok(Box::new(disk(&self.path, false)?)))?;
        }
        self.image.save(pool, options, watch)
    }

    /// Refuses to go on if the image was renamed, removed or replaced.
    fn ensure_named(&self) -> Result<()> {
        let named = std::fs::metadata(&self.path).map_err(|error| io_error("looking at", &self.path, error))?;
        if (named.dev(), named.ino()) == self.identity {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Occupied(format!(
            "{path} is no longer the image that was opened: put that one back, or start again"
        )))
    }
}

fn disk(path: &Path, read_only: bool) -> Result<FileDisk> {
    Ok(FileDisk::open(path, &FileDiskOptions { read_only, buffered: read_only, ..FileDiskOptions::default() })?)
}

/// Returns true if the file at `path` is a kept image. One of its headers may be damaged.
///
/// # Errors
/// [`Error::Medium`] if the file cannot be read.
pub(super) fn is_kept(path: &Path) -> Result<bool> {
    let file = File::open(path).map_err(|error| io_error("opening", path, error))?;
    for slot in 0..HEADER_BLOCKS {
        let mut start = [0; 12];
        match file.read_exact_at(&mut start, slot * PAGE) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read.map_err(|error| io_error("reading", path, error))?,
        }
        if start[..8] == HEADER_MAGIC && start[8..] == KEPT_VERSION.to_le_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a file that is not a kept image, before anything writes to it.
fn ensure_kept(path: &Path) -> Result<()> {
    // Opening a FIFO would wait.
    let is_file = std::fs::metadata(path).map_err(|error| io_error("looking at", path, error))?.is_file();
    if is_file && is_kept(path)? {
        return Ok(());
    }
    let path = path.display();
    Err(Error::Occupied(format!(
        "{path} is not a kept image, and would be lost: name a new file; if it is a backup image, make the pool from it with \
         `ferrite pool restore` first"
    )))
}

/// Returns the newest save of the kept image at `path`, or `None` if there is no file or no save.
///
/// # Errors
/// [`Error::Occupied`] if the file is not a kept image, [`Error::BadImage`] if it is damaged, [`Error::Medium`] if it
/// cannot be read or another process saves to it.
pub fn kept_save(path: &Path) -> Result<Option<KeptSave>> {
    match path.try_exists() {
        Ok(false) => return Ok(None),
        found => found.map_err(|error| MediumError::io(format!("looking at {}", path.display()), error))?,
    };
    ensure_kept(path)?;
    let save = KeptHeader::newest(&disk(path, true)?)?.save();
    Ok(save.generation.map(|_| save))
}

/// Reads and verifies the newest save of the kept image on `disk`. Writes nothing.
///
/// # Errors
/// [`Error::BadImage`] if it is damaged, [`Error::Limit`] if it holds no save, [`Error::Medium`] if the disk fails.
pub fn verify_kept(disk: &dyn Disk, watch: &mut dyn FnMut(Progress) -> bool) -> Result<ImageSummary> {
    verify_frames(&mut KeptReader::open(disk)?, watch)
}

/// Restores the newest save of the kept image on `disk` into `memory`: see [`restore`].
///
/// # Errors
/// As [`verify_kept`] and [`restore`].
pub fn restore_kept(
    disk: &dyn Disk,
    memory: &dyn Memory,
    options: RestoreOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    restore_by_threads(&KeptReader::open(disk)?, memory, options, RestorePlan::usual(), watch)
}

/// Reads and verifies the image of any version at `path`.
///
/// # Errors
/// As [`open_image`] and [`verify`].
pub fn verify_image(path: &Path, watch: &mut dyn FnMut(Progress) -> bool) -> Result<ImageSummary> {
    let file = open_image(path)?;
    if is_kept(path)? {
        return verify_kept(&disk(path, true)?, watch);
    }
    verify(&mut BufReader::new(file), watch)
}

/// Restores the image of any version at `path` into `memory`, without verifying it before. If a part of the image is
/// damaged, `memory` is left as an unfinished restore (BK3).
///
/// # Errors
/// As [`open_image`] and [`restore`].
pub fn restore_image(
    path: &Path,
    memory: &dyn Memory,
    options: RestoreOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    let mut file = open_image(path)?;
    if is_kept(path)? {
        // The image is read once, so the host's page cache would only cost a copy.
        let direct = FileDisk::open(path, &FileDiskOptions { read_only: true, ..FileDiskOptions::default() })?;
        return restore_kept(&direct, memory, options, watch);
    }
    file.rewind().map_err(|error| io_error("reading", path, error))?;
    restore(&mut BufReader::new(file), memory, options, watch)
}
