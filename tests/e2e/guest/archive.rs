//! The guest's first file system: a cpio archive in the kernel's `newc` format, uncompressed.
//!
//! ```text
//! entry    "070701"  inode mode uid gid nlink mtime size major minor rmajor rminor namesize check (8 hex digits each)
//!          name, zero byte, zeros to a multiple of 4   content, zeros to a multiple of 4
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::programs::client;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive under construction.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<PathBuf>,
}

impl Archive {
    /// Adds an executable file of `content`.
    pub fn file(&mut self, at: &str, content: &[u8]) {
        self.entry(Path::new(at), PROGRAM, content);
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, at: &str) {
        self.entry(&Path::new(at).join("."), FOLDER, &[]);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, at: &str, to: &str) {
        self.entry(Path::new(at), LINK, to.as_bytes());
    }

    /// Adds the program at `from` and the libraries that it loads, under the same names as on this machine.
    pub fn program(&mut self, at: &str, from: &Path) {
        self.file(at, &fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())));
        // A static program has no libraries, and ldd fails on it.
        let message = client("ldd").arg(from).output().expect("ldd runs");
        for word in String::from_utf8_lossy(&message.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
            self.file(word, &fs::read(word).unwrap_or_else(|error| panic!("{word}: {error}")));
        }
    }

    /// Adds the client called `name`, which the tests find by the same search.
    pub fn client(&mut self, name: &str) {
        let real = fs::canonicalize(client(name).get_program()).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.program(&format!("/usr/sbin/{name}"), &real);
    }

    /// Returns the complete archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.names.clear();
        self.raw("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// Adds an entry after the folders that contain it. A name that the archive already has is not added again.
    fn entry(&mut self, at: &Path, mode: u32, content: &[u8]) {
        let at = at.strip_prefix("/").unwrap_or(at);
        let above: Vec<PathBuf> = at.ancestors().skip(1).map(Path::to_owned).collect();
        for folder in above.into_iter().rev().filter(|folder| folder != Path::new("")) {
            if self.names.insert(folder.clone()) {
                self.raw(folder.to_str().expect("text"), FOLDER, &[]);
            }
        }
        if !at.ends_with(".") && self.names.insert(at.to_owned()) {
            self.raw(at.to_str().expect("text"), mode, content);
        }
    }

    fn raw(&mut self, name: &str, mode: u32, content: &[u8]) {
        let fields = [self.names.len() as u32, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0];
        self.bytes.extend(b"070701");
        for field in fields.into_iter().chain([name.len() as u32 + 1, 0]) {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend([name.as_bytes(), &[0]].concat());
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
