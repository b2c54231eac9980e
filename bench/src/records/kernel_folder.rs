//! A folder of a file system of the kernel, or of a mount.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::{RecordFile, RecordFolder, io_error};
use crate::Result;

/// A folder that is reached by system calls.
pub struct KernelFolder {
    /// The path of the folder.
    pub path: PathBuf,
    /// Whether an fdatasync follows every write.
    pub syncs: bool,
}

/// An open file of a [`KernelFolder`].
pub struct KernelFile {
    file: File,
    path: PathBuf,
    syncs: bool,
}

impl KernelFolder {
    fn open_by(&self, name: &str, options: &mut OpenOptions) -> Result<KernelFile> {
        let path = self.path.join(name);
        let file = options.read(true).write(true).open(&path).map_err(io_error(&path, "opening"))?;
        Ok(KernelFile { file, path, syncs: self.syncs })
    }
}

impl RecordFolder for KernelFolder {
    type OpenFile = KernelFile;

    fn create(&self, name: &str) -> Result<KernelFile> {
        self.open_by(name, OpenOptions::new().create(true).truncate(true))
    }

    fn open(&self, name: &str) -> Result<KernelFile> {
        self.open_by(name, &mut OpenOptions::new())
    }

    fn stat(&self, name: &str) -> Result<u64> {
        let path = self.path.join(name);
        fs::symlink_metadata(&path).map(|known| known.len()).map_err(io_error(&path, "asking about"))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(io_error(&path, "removing"))
    }
}

impl RecordFile for KernelFile {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at).map_err(|why| io_error(&self.path, "reading")(why))
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(from, at);
        let written = if self.syncs { written.and_then(|()| self.file.sync_data()) } else { written };
        written.map_err(|why| io_error(&self.path, "writing")(why))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|why| io_error(&self.path, "syncing")(why))
    }
}
