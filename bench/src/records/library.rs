//! A file system of ours, in process: its root is the folder.

use std::sync::Arc;

use ferrite_fs::{Credentials, Error as FsError, FileKind, FileSystem, Ino, NewFile, SetAttr};

use super::{Folder, RecordFile};
use crate::tree::settle;
use crate::{Error, Result};

/// The root of a file system that is open in this process.
pub struct LibraryFolder {
    /// The file system.
    pub fs: Arc<FileSystem>,
}

/// A file of it.
pub struct LibraryFile {
    fs: Arc<FileSystem>,
    ino: Ino,
}

const NEW: NewFile =
    NewFile { kind: FileKind::File, mode: 0o644, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };

impl LibraryFolder {
    /// Held while it is open, as a front end holds it.
    fn file(&self, ino: Ino) -> Result<LibraryFile> {
        self.fs.hold(ino)?;
        Ok(LibraryFile { fs: Arc::clone(&self.fs), ino })
    }
}

impl Drop for LibraryFile {
    fn drop(&mut self) {
        self.fs.release(self.ino, 1);
    }
}

impl Folder for LibraryFolder {
    type File = LibraryFile;

    fn create(&self, name: &str) -> Result<LibraryFile> {
        match self.fs.create_file(Ino::ROOT, name.as_bytes(), &NEW) {
            Ok(attr) => self.file(attr.ino),
            Err(FsError::Exists) => {
                let ino = self.fs.lookup(Ino::ROOT, name.as_bytes())?.ino;
                self.fs.setattr(ino, &SetAttr { size: Some(0), ..SetAttr::default() })?;
                self.file(ino)
            }
            Err(why) => Err(why.into()),
        }
    }

    /// A file is by its number: there is nothing to open or to close.
    fn make(&self, name: &str) -> Result<()> {
        self.fs.create_file(Ino::ROOT, name.as_bytes(), &NEW)?;
        Ok(())
    }

    fn open(&self, name: &str) -> Result<LibraryFile> {
        self.file(self.fs.lookup(Ino::ROOT, name.as_bytes())?.ino)
    }

    fn stat(&self, name: &str) -> Result<u64> {
        Ok(self.fs.lookup(Ino::ROOT, name.as_bytes())?.size)
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(self.fs.unlink(Ino::ROOT, name.as_bytes())?)
    }
}

impl LibraryFolder {
    /// Does what waits in the background.
    pub fn settle(&self) -> Result<()> {
        settle(&self.fs)
    }
}

impl RecordFile for LibraryFile {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let len = self.fs.read(self.ino, at, into)?;
        if len == into.len() { Ok(()) } else { Err(short("read", len)) }
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let len = self.fs.write(self.ino, at, from)?;
        if len == from.len() { Ok(()) } else { Err(short("write", len)) }
    }
}

#[cold]
fn short(what: &str, len: usize) -> Error {
    Error::Server { who: "the file system".into(), what: format!("a {what} ended after {len} bytes") }
}
