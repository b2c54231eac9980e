//! A folder that the kernel has.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::{Folder, RecordFile, told};
use crate::Result;

/// A folder that the kernel has.
pub struct KernelFolder {
    /// Where.
    pub path: PathBuf,
    /// Every write is followed by an fdatasync.
    pub syncs: bool,
}

/// An open file of one.
pub struct KernelFile {
    file: File,
    path: PathBuf,
    syncs: bool,
}

impl KernelFolder {
    fn open_by(&self, name: &str, options: &mut OpenOptions) -> Result<KernelFile> {
        let path = self.path.join(name);
        let file = options.read(true).write(true).open(&path).map_err(told(&path, "opening"))?;
        Ok(KernelFile { file, path, syncs: self.syncs })
    }
}

impl Folder for KernelFolder {
    type File = KernelFile;

    fn create(&self, name: &str) -> Result<KernelFile> {
        self.open_by(name, OpenOptions::new().create(true).truncate(true))
    }

    fn open(&self, name: &str) -> Result<KernelFile> {
        self.open_by(name, &mut OpenOptions::new())
    }

    fn stat(&self, name: &str) -> Result<u64> {
        let path = self.path.join(name);
        fs::symlink_metadata(&path).map(|known| known.len()).map_err(told(&path, "asking about"))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(told(&path, "removing"))
    }
}

impl RecordFile for KernelFile {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at).map_err(|why| told(&self.path, "reading")(why))
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(from, at);
        let written = if self.syncs { written.and_then(|()| self.file.sync_data()) } else { written };
        written.map_err(|why| told(&self.path, "writing")(why))
    }
}
