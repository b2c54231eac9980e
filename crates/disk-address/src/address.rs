//! The address of a disk, as text.

use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_disk::Disk;

use crate::drive_model::{DriveModel, ModeledDisk};
use crate::error::{AddressError, Result};

/// The forms of addresses, for help texts.
pub const ADDRESS_FORMS: &str = "POOL:NAME (a disk in a pool), nbd+unix:///NAME?socket=PATH, nbd://HOST/NAME, a file or \
    block device, or one of these behind hdd-7200:, hdd-15000:, hdd-5400:, ssd-x25e:, ssd-sata:, ssd-nvme: or \
    ssd-nvme-plp:, which serves it at the speed of such a disk, or behind ssd-NAME@SETTINGS:, the speed of such an SSD that \
    was in use, or behind ftl-page: or ftl-fast:, which reports at the end what a flash drive of its size would have copied \
    and erased, or behind fault:PLAN:, which fails as PLAN says";

/// The address of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskAddress {
    text: String,
    /// The drives to simulate over the disk, the outermost first.
    pub models: Vec<DriveModel>,
    /// The place of the disk.
    pub place: DiskPlace,
}

/// The place of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskPlace {
    /// The export of an NBD server, by its URI.
    Nbd(String),
    /// A file or a block device.
    File(PathBuf),
    /// A disk in a pool.
    InPool {
        /// The path of the pool.
        pool: PathBuf,
        /// The name of the disk.
        name: String,
    },
}

impl DiskAddress {
    /// Parses `text`, one of [`ADDRESS_FORMS`]. A path may contain a colon, so this function looks which files exist and
    /// which of them hold a pool. An existing file wins over a pool.
    ///
    /// # Errors
    /// [`AddressError`] if the text names no disk. The disk itself is not looked for.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut models, mut rest) = (Vec::new(), text);
        while let Some((model, behind)) = DriveModel::first_in(rest)? {
            models.push(model);
            rest = behind;
        }
        Ok(Self { text: text.into(), models, place: DiskPlace::parse(rest)? })
    }

    /// Returns the address with absolute paths, so that it names the same disk in every folder.
    ///
    /// # Errors
    /// [`AddressError::Empty`] without a current folder; otherwise those of [`DiskAddress::parse`].
    pub fn absolute(self) -> Result<Self> {
        let whole = |path: &Path| std::path::absolute(path).map_err(|_| AddressError::Empty);
        let place = match self.place {
            DiskPlace::Nbd(uri) => DiskPlace::Nbd(uri),
            DiskPlace::File(path) => DiskPlace::File(whole(&path)?),
            DiskPlace::InPool { pool, name } => DiskPlace::InPool { pool: whole(&pool)?, name },
        };
        let mut drives = self.text.as_str();
        while let Some((_, behind)) = DriveModel::first_in(drives)? {
            drives = behind;
        }
        let drives = &self.text[..self.text.len() - drives.len()];
        Self::parse(&format!("{drives}{}", place.text()))
    }

    /// Returns `disk` behind the drives of this address.
    ///
    /// # Errors
    /// [`AddressError::Flash`] if there is no flash drive of the disk's size.
    pub fn with_models(&self, disk: Arc<dyn Disk>) -> Result<ModeledDisk> {
        self.models.iter().rev().try_fold(ModeledDisk { disk, flash: Vec::new() }, ModeledDisk::behind)
    }
}

impl fmt::Display for DiskAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl DiskPlace {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "" => return Err(AddressError::Empty),
            "-" => return Err(AddressError::Stream),
            _ if text.contains("://") => return Ok(Self::Nbd(text.into())),
            _ => {}
        }
        let Some((pool, name)) = pool_and_name(text).filter(|_| !Path::new(text).exists()) else {
            return Ok(Self::File(text.into()));
        };
        match text.split_once(':') {
            Some(("", _)) => Err(AddressError::NoPool(text.into())),
            Some((first, _)) if DriveModel::resembles(first) && !Path::new(pool).exists() => {
                Err(AddressError::UnknownModel(first.into()))
            }
            _ if name.is_empty() => Err(AddressError::NoName { pool: pool.into() }),
            _ => Ok(Self::InPool { pool: pool.into(), name: name.into() }),
        }
    }

    /// Returns the place as an address has it.
    fn text(&self) -> String {
        match self {
            Self::Nbd(uri) => uri.clone(),
            Self::File(path) => path.display().to_string(),
            Self::InPool { pool, name } => format!("{}:{name}", pool.display()),
        }
    }

    /// Returns true if both places are one disk, under whatever path, as far as this is known before the opening.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same_file = || self.inode().is_some_and(|inode| other.inode() == Some(inode));
        self == other || is_same_file()
    }

    /// Returns the file or device that the disk lies in, and the name of the disk there. Returns `None` for an NBD
    /// export, and for a path that cannot be looked at.
    fn inode(&self) -> Option<([u64; 2], &str)> {
        let (path, name) = match self {
            Self::Nbd(_) => return None,
            Self::File(path) => (path, ""),
            Self::InPool { pool, name } => (pool, name.as_str()),
        };
        let found = std::fs::metadata(path).ok()?;
        let is_device = found.file_type().is_block_device();
        Some((if is_device { [0, found.rdev()] } else { [found.dev(), found.ino()] }, name))
    }
}

/// Splits POOL:NAME. Both may contain a `:`, so the first part that is the path of a pool counts.
fn pool_and_name(text: &str) -> Option<(&str, &str)> {
    let holds_pool = |path: &str| {
        let looked_at = ferrite_pool::ensure_no_pool(Path::new(path));
        matches!(looked_at, Err(ferrite_pool::Error::Occupied(_)))
    };
    let mut ways = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    ways.find(|(pool, _)| holds_pool(pool)).or_else(|| text.rsplit_once(':'))
}

#[cfg(test)]
mod tests;
