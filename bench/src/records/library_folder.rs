//! The root of a file system of ours that is open in this process.

use std::sync::Arc;

use ferrite_fs::{Credentials, Error as FsError, FileKind, FileSystem, Ino, NewFile, SetAttr};

use super::{RecordFile, RecordFolder};
use crate::pool_tree::finish_background;
use crate::{Error, Result};

/// The root of a file system that is open in this process.
pub struct LibraryFolder {
    /// The file system.
    pub fs: Arc<FileSystem>,
}

/// A file of a [`LibraryFolder`].
pub struct LibraryFile {
    fs: Arc<FileSystem>,
    ino: Ino,
}

const NEW: NewFile =
    NewFile { kind: FileKind::File, mode: 0o644, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };

impl LibraryFolder {
    /// Opens a file; front ends also hold an inode while it is open.
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

impl RecordFolder for LibraryFolder {
    type OpenFile = LibraryFile;

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

    /// Creates a file; inodes need no opening or closing.
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
    /// Finishes work of the background.
    pub fn finish_background(&self) -> Result<()> {
        finish_background(&self.fs)
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
    Error::server("the file system", format!("a {what} ended after {len} bytes"))
}
